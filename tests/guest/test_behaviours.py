"""The checks of libvirt's own test suite for vCPU hot-plug and pinning, with real guests under a real daemon.

The numbers are those of tests/behaviours.md. If QEMU emulates (TCG), an unplug never completes. Then the tests show
that vscaf begins none, and that an operator's unplug does no harm.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.guest import AGENT_CHANNEL
from vscaf.lab.polling import HANG_S, until
from vscaf.occupancy.sampler import Sampler
from vscaf_lab.chaos_run import stopped
from vscaf_lab.separation import affinities, rounds

from .conftest import CACHE, IMAGE, POOL, POOL_LIST, Pair, enough, move, needs_plugged_vcpus, over_and_over, verified

pytestmark = pytest.mark.guest

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
PROGRAM = over_and_over("vscaf-run cg.W")
EVERYWHERE = frozenset(POOL)


def mask(*cpus: int) -> tuple[bool, ...]:
    return tuple(cpu in cpus for cpu in range(max(POOL) + 1))


def affinity(guest: Guest) -> dict[int, frozenset[int]]:
    """The CPUs on which each vCPU thread may run, by the kernel."""
    found = {}
    for vcpu, thread in guest.vcpu_threads.items():
        with contextlib.suppress(ProcessLookupError):  # it has ended since it was listed
            found[vcpu] = frozenset(os.sched_getaffinity(thread))
    return found


def where(guest: Guest) -> frozenset[int]:
    return frozenset[int]().union(*affinity(guest).values())


def apart(one: Guest, other: Guest) -> bool:
    return not where(one) & where(other)


def pinned_to_one(guest: Guest) -> bool:
    """Whether libvirt has the same single pCPU for all its vCPUs and for QEMU's other threads."""
    masks = {*map(tuple, guest.domain.vcpuPinInfo(LIVE)), tuple(guest.domain.emulatorPinInfo(LIVE))}
    return len(masks) == 1 and sum(masks.pop()) == 1


def run_s(guest: Guest) -> float:
    """The CPU time (s) of the guest's vCPUs so far."""
    pid, ran_ns = guest.qemu_pid, 0
    for thread in guest.vcpu_threads.values():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
            ran_ns += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    return ran_ns / 1e9


def counts(guest: Guest) -> dict[str, int]:
    """The number of vCPUs by each of libvirt's calls, by QEMU's threads and by the guest."""
    domain = guest.domain
    described = ElementTree.fromstring(domain.XMLDesc())
    vcpu = described.find("vcpu")
    assert vcpu is not None
    present = guest.run("cat /sys/devices/system/cpu/present").text.strip()
    return {
        "count": domain.vcpusFlags(LIVE),
        "vcpuinfo": len(domain.vcpus()[0]),
        "pins": len(domain.vcpuPinInfo(LIVE)),
        "xml": int(vcpu.get("current", vcpu.text or "")),
        "threads": len(guest.vcpu_threads),
        "guest": int(present.rpartition("-")[2]) + 1,
    }


def all_say(guest: Guest, number: int) -> bool:
    return set(counts(guest).values()) == {number}


def online(guest: Guest) -> str:
    return guest.run("cat /sys/devices/system/cpu/online").text.strip()


def order(guest: Guest) -> list[tuple[str | None, ...]]:
    """For each vCPU of the domain: number, enabled, hotpluggable, order."""
    rows = ElementTree.fromstring(guest.domain.XMLDesc()).iterfind("./vcpus/vcpu")
    return [tuple(row.get(key) for key in ("id", "enabled", "hotpluggable", "order")) for row in rows]


# Each of two guests has one pCPU, whether it computes or not: no demand changes a pin.
KEPT = {"rest": "keep"}


def daemon_for(
    lab: PrivateLibvirt, name: str, *guests: Guest, rules: Mapping[str, Any] | None = None, **options: Any
) -> DaemonProcess:
    return DaemonProcess(lab, POOL_LIST, {guest.name: rules or {} for guest in guests}, name=name, **options)


def connected(*guests: Guest) -> Callable[[dict[str, dict[str, Any]]], bool]:
    return lambda domains: all(domains[guest.name].get("agent") == "connected" for guest in guests)


def cooperating(guest: Guest, cpus: int) -> Callable[[dict[str, dict[str, Any]]], bool]:
    return lambda domains: (
        domains[guest.name].get("state") == "cooperating" and domains[guest.name].get("allocation") == cpus
    )


def computes(domain: dict[str, Any]) -> bool:
    """Whether its agent reports a program that runs."""
    return any(process["running"] for process in domain.get("processes", []))


def serves(guest: Guest) -> Callable[[dict[str, dict[str, Any]]], bool]:
    return lambda domains: bool(domains[guest.name].get("allocation"))


def reported(daemon: DaemonProcess, guest: Guest, number: int) -> None:
    """Waits until its agent has reported *number* more times: once a period, or with news."""
    ages_s = [daemon.domain(guest.name)["report_age_s"]]

    def heard() -> bool:
        ages_s.append(daemon.domain(guest.name)["report_age_s"])
        return sum(after < before for before, after in pairwise(ages_s)) >= number

    until(heard, f"{number} reports")


def said(daemon: DaemonProcess) -> str:
    return daemon.log.read_text(encoding="utf-8")


@contextlib.contextmanager
def grown(lab: PrivateLibvirt, name: str, max_vcpus: int = 4, **options: Any) -> Iterator[tuple[Guest, DaemonProcess]]:
    """A guest of one vCPU whose program wants more. vscaf has plugged the second vCPU."""
    with (
        Guest(lab, name, IMAGE, vcpus=1, max_vcpus=max_vcpus, memory_mib=256, cpuset=POOL_LIST, **options) as guest,
        daemon_for(lab, name, guest) as daemon,
    ):
        needs_plugged_vcpus(guest)
        daemon.wait(connected(guest))
        guest.start(PROGRAM)
        daemon.wait(lambda domains: domains[name]["vcpus"] == 2 and domains[name]["online"] == [0, 1])
        daemon.wait(cooperating(guest, 2))
        yield guest, daemon


def test_behaviour_01_05_12_plugged_one_after_the_other(shared_lab: PrivateLibvirt) -> None:
    """vscaf plugs the 2nd vCPU, an operator the 3rd and 4th. After each all counts agree, and it is in the partition
    at once. Only the agent onlines plugged CPUs. At the end nothing is unplugged if an unplug never completes."""
    with grown(shared_lab, "plugged") as (guest, daemon):
        assert guest.run("pidof udevd systemd-udevd mdev").status != 0
        assert all_say(guest, 2), counts(guest)
        assert daemon.stop() == 0
        if guest.domain_type == "qemu":
            assert "without KVM an unplug never completes" in said(daemon)
            assert all_say(guest, 2), counts(guest)
        daemon.start()
        daemon.wait(cooperating(guest, 2))
        for number in (3, 4):
            guest.domain.setVcpusFlags(number, LIVE)
            until(lambda number=number: all_say(guest, number), f"{number} vCPUs: {counts(guest)}")
            daemon.wait(lambda domains, number=number: domains[guest.name]["vcpus"] == number)
            until(lambda: where(guest) <= EVERYWHERE, "all vCPUs in the pool")
            # vscaf gives it two pCPUs, so the agent leaves the rest offline.
            until(lambda: online(guest) == "0-1", "two of them online")
        daemon.wait(cooperating(guest, 2))
        assert daemon.stop() == 0
        assert all_say(guest, 4), counts(guest)
        assert where(guest) == EVERYWHERE


@pytest.mark.long
def test_behaviour_02_vcpus_of_the_boot_stay(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """libvirt refuses to unplug them. vscaf takes pCPUs away without trying an unplug."""
    one, other = pair
    with pytest.raises(libvirt.libvirtError):
        one.domain.setVcpusFlags(1, LIVE)
    with daemon_for(shared_lab, "boot-vcpus", one, other) as daemon:
        daemon.wait(connected(one, other))
        commands = [guest.start(PROGRAM) for guest in pair]
        for guest in pair:
            daemon.wait(
                lambda domains, name=guest.name: domains[name]["allocation"] == 1 and domains[name]["online"] == [0],
            )
            assert all_say(guest, 2), counts(guest)
        for guest in pair:
            enough(guest)
        assert all(verified(command) for command in commands)
        assert "unplug" not in said(daemon)


def test_behaviour_03_04_an_unplug_that_does_not_come_about(shared_lab: PrivateLibvirt) -> None:
    """An operator's unplug hangs for seconds and fails, and until libvirt's restart its count may contain a vCPU whose
    thread is gone. The daemon reads the count again, and the guest computes on within its partition."""
    with grown(shared_lab, "refused", unpluggable=True) as (guest, daemon):
        if guest.domain_type == "kvm":
            pytest.skip("under KVM an unplug completes")
        with pytest.raises(libvirt.libvirtError):
            guest.domain.setVcpusFlags(1, LIVE)
        said_by_libvirt = guest.domain.vcpusFlags(LIVE)
        daemon.wait(lambda domains: domains[guest.name]["vcpus"] == said_by_libvirt)
        until(lambda: not daemon.status()["unknown"], "libvirt answers the daemon")
        assert where(guest) <= EVERYWHERE
        now_s = run_s(guest)
        until(lambda: run_s(guest) - now_s > 0.2, "the guest computes on")
        enough(guest)  # QEMU 7.2 crashes if a vCPU comes again, so no program may want one
        daemon.wait(lambda domains: domains[guest.name]["demand"] == 0)
        shared_lab.restart_libvirtd()
        # Now libvirt counts the threads that exist. Or QEMU has crashed, as version 7.2 does some time after an
        # emulated vCPU has left. Then the domain has simply ended.
        daemon.wait(
            lambda domains: (
                domains[guest.name]["state"] == "not running"
                or (domains[guest.name]["state"] == "resting" and domains[guest.name]["vcpus"] == 1)
            ),
        )
        assert daemon.stop() == 0


@pytest.mark.long
def test_behaviour_09_many_in_one_go_under_load(shared_lab: PrivateLibvirt) -> None:
    """From 2 to 16 at once, while the guest computes. None is ever outside the pool, and the count is right."""
    with grown(shared_lab, "many", 16) as (guest, daemon), Sampler({guest.name: guest.qemu_pid}) as sampler:
        guest.domain.setVcpusFlags(16, LIVE)
        until(lambda: all_say(guest, 16), "16 vCPUs")
        daemon.wait(lambda domains: domains[guest.name]["vcpus"] == 16)
        daemon.wait(cooperating(guest, 2))
        until(lambda: online(guest) == "0-1", "two of them online")
        until(lambda: len({one.vcpu for one in sampler.samples}) == 16, "a look at all of them")
        assert all(one.affinity <= EVERYWHERE for one in sampler.samples)
        until(lambda: affinities(rounds(sampler.samples[-200:])[-1])[guest.name] == EVERYWHERE, "both pCPUs in use")


@pytest.mark.long
def test_behaviour_10_11_18_what_was_plugged_outlives_all(shared_lab: PrivateLibvirt) -> None:
    """After a plug, counts, order and pins survive a suspend, kills of libvirtd and daemon, a managed save and a
    reboot."""
    with grown(shared_lab, "outlives", persistent=True) as (guest, daemon):
        plugged = order(guest)
        domain = guest.domain
        domain.suspend()
        daemon.wait(lambda domains: domains[guest.name]["vcpus"] == 2)
        domain.resume()
        daemon.wait(cooperating(guest, 2))
        assert all_say(guest, 2), counts(guest)
        with stopped(daemon.pid):  # so that the daemon does not change pins meanwhile
            shared_lab.kill_libvirtd()  # first, because a pin that the daemon has asked for may still be under way
            pins = affinity(guest)
            shared_lab.start_libvirtd()
            assert all_say(guest, 2), counts(guest)
            assert (affinity(guest), order(guest)) == (pins, plugged)
        until(lambda: not daemon.status()["unknown"], "libvirt answers the daemon again")

        daemon.kill()
        assert all_say(guest, 2), counts(guest)
        daemon.start()
        daemon.wait(cooperating(guest, 2))
        assert order(guest) == plugged

        guest.domain.managedSave()
        daemon.wait(lambda domains: domains[guest.name]["state"] == "not running")
        guest.domain.create()
        guest.reconnect()
        daemon.wait(cooperating(guest, 2))
        assert all_say(guest, 2), counts(guest)
        assert order(guest) == plugged

        guest.domain.reset()
        until(lambda: answers(guest), "the guest boots again")
        daemon.wait(connected(guest))
        assert all_say(guest, 2), counts(guest)
        command = guest.start(PROGRAM)
        daemon.wait(lambda domains: computes(domains[guest.name]))  # reports from before the reset do not count
        daemon.wait(cooperating(guest, 2))
        enough(guest)
        assert verified(command)


def answers(guest: Guest) -> bool:
    try:
        guest.runner.clock(2.0)
    except TimeoutError:
        return False
    return True


@pytest.mark.long
def test_behaviour_22_a_pin_set_before_the_plug(shared_lab: PrivateLibvirt) -> None:
    """It is in force when the vCPU comes. Then the daemon decides, and at the end puts back the operator's pin."""
    pin = f"<cputune><vcpupin vcpu='2' cpuset='{POOL[1]}'/></cputune>"
    with Guest(
        shared_lab, "pinned", IMAGE, vcpus=2, max_vcpus=3, memory_mib=256, cpuset=POOL_LIST, elements=pin
    ) as guest:
        needs_plugged_vcpus(guest)
        with daemon_for(shared_lab, "pinned", guest) as daemon:
            daemon.wait(connected(guest))
            guest.domain.setVcpusFlags(3, LIVE)
            daemon.wait(lambda domains: domains[guest.name]["vcpus"] == 3)
            command = guest.start(PROGRAM)
            daemon.wait(cooperating(guest, 2))
            until(lambda: where(guest) == EVERYWHERE, "both pCPUs in use")
            enough(guest)
            assert verified(command)
        assert {vcpu: cpus for vcpu, cpus in affinity(guest).items() if vcpu < 2} == {0: EVERYWHERE, 1: EVERYWHERE}
        assert affinity(guest)[2] == frozenset({POOL[1]})


@pytest.mark.long
def test_behaviour_19_a_guest_that_misses_a_vcpu(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """The host has two vCPUs, but the guest's kernel uses one. The domain gets one pCPU, and CPU 0 never goes."""
    other = pair[0]
    with (
        Guest(
            shared_lab, "misses", IMAGE, vcpus=2, memory_mib=256, cpuset=POOL_LIST, kernel_arguments="nr_cpus=1"
        ) as guest,
        daemon_for(shared_lab, "misses", guest, other) as daemon,
    ):
        daemon.wait(connected(guest, other))
        commands = [one.start(PROGRAM) for one in (guest, other)]
        until(lambda: apart(guest, other), "both have a pCPU")
        daemon.wait(cooperating(other, 1))
        assert daemon.domain(guest.name)["online"] == [0]
        assert daemon.domain(guest.name)["vcpus"] == 2
        before_s = [run_s(one) for one in (guest, other)]
        until(lambda: all(run_s(one) - s > 0.2 for one, s in zip((guest, other), before_s, strict=True)), "both go on")
        until(lambda: apart(guest, other), "both still have a pCPU")
        assert online(guest) == "0"
        for one in (guest, other):
            enough(one)
        assert all(verified(command) for command in commands)


def channel(guest: Guest) -> str:
    found = re.findall(r"<channel .*?</channel>", guest.domain.XMLDesc(), re.DOTALL)
    return next((one for one in found if AGENT_CHANNEL in one), "")


def test_behaviour_28_channel_away_and_back_under_the_daemon(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """The guest is suspended and resumed. Then its channel is unplugged, and comes back with another socket path. It is
    contained meanwhile, then cooperating."""
    one, other = pair
    with daemon_for(shared_lab, "channel", one, other) as daemon:
        daemon.wait(connected(one, other))
        commands = [guest.start(PROGRAM) for guest in pair]
        daemon.wait(cooperating(one, 1))
        one.domain.suspend()
        daemon.wait(cooperating(other, 2))
        one.domain.resume()
        until(lambda: apart(one, other), "both have a pCPU")
        daemon.wait(cooperating(one, 1))

        xml = channel(one)
        moved = shared_lab.socket_path(f"{one.name}.moved")
        try:
            one.domain.detachDeviceFlags(xml, LIVE)
            until(lambda: not channel(one), "the channel is gone")
            daemon.wait(lambda domains: domains[one.name]["agent"] != "connected")
            daemon.wait(lambda domains: domains[one.name]["state"] == "contained")
            until(lambda: apart(one, other), "both have a pCPU")
            one.domain.attachDeviceFlags(xml.replace(str(one.agent_socket), str(moved)), LIVE)
            daemon.wait(connected(one))
            daemon.wait(cooperating(one, 1))
            until(lambda: apart(one, other), "both have a pCPU")
        finally:
            # Puts the channel back where the other tests expect it.
            if there := channel(one):
                one.domain.detachDeviceFlags(there, LIVE)
                until(lambda: not channel(one), "the channel is gone")
            one.domain.attachDeviceFlags(xml, LIVE)
        for guest in pair:
            enough(guest)
        assert all(verified(command) for command in commands)


REPORT = '{"v":1,"type":"report","sequence":%s,"online":%s,"demand":%s,"busy":%s,"processes":[]}'
NONSENSE = [
    REPORT % ("99999999999999999999", "[0,1]", "2", "1"),  # beyond 64 bits
    REPORT % ("9223372036854775808", "[0,1]", "2", "1"),  # beyond 63 bits
    REPORT % ("1", "[0,1]", "1e400", "1"),
    REPORT % ("1", "[0,1]", "2", "1e400"),
    REPORT % ("1", "[0,1]", "2", "-1"),
    REPORT % ("1", "[0,1]", "2.5", "1"),  # a part of a CPU
    REPORT % ("1.5", "[0,1]", "2", "1"),
    REPORT % ("1", "[0,0]", "2", "1"),
    REPORT % ("1", "[-1]", "2", "1"),
    REPORT % ("1", "[99999999999999999999]", "2", "1"),
    REPORT % ("1", '"all"', "2", "1"),
    REPORT % ("NaN", "[0,1]", "2", "1"),
    '{"v":1,"type":"report","sequence":1}',
    '{"v":1,"type":"ack","sequence":99999999999999999999,"online":[0],"sections_ended":true}',
    '{"v":1,"type":"hello"}',
]


def test_behaviour_29_numbers_that_are_none_from_a_guest(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """Each is refused and counted. A well-formed claim of thousands of CPUs counts as the CPUs that the guest has."""
    rude, polite = pair
    port = "/dev/virtio-ports/org.vscaf.agent.0"
    with daemon_for(shared_lab, "nonsense", rude, polite) as daemon:
        daemon.wait(connected(rude, polite))
        command = polite.start(PROGRAM)
        daemon.wait(serves(polite))
        gone = "while pidof vscaf-agent > /dev/null; do usleep 10000; done"
        assert rude.run(f"touch /run/vscaf/agent.off; kill -9 $(pidof vscaf-agent) && {gone}").status == 0
        before = daemon.domain(rude.name)["bad_lines"]
        for line in NONSENSE:
            assert rude.run(f"printf '%s\\n' '{line}' > {port}").status == 0
        daemon.wait(lambda domains: domains[rude.name]["bad_lines"] == before + len(NONSENSE))
        greedy = REPORT % ("0", "[0,1]", "4096", "4096")
        assert rude.run(f"printf '%s\\n' '{greedy}' > {port}").status == 0
        reported(daemon, polite, 4)  # periods in which the claim could have been believed
        domains = {one["name"]: one for one in daemon.status()["domains"]}
        assert domains[rude.name]["bad_lines"] == before + len(NONSENSE)
        assert sum(domain["allocation"] or 0 for domain in domains.values()) <= len(POOL)
        daemon.wait(serves(polite))
        assert rude.run("rm /run/vscaf/agent.off").status == 0
        daemon.wait(serves(polite))
        enough(polite)
        assert verified(command)


def test_behaviour_30_qemu_stopped(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """After SIGSTOP libvirt still calls it running, and calls on it hang. The daemon answers, and the other guest
    computes on, away from the pCPUs of the stopped one. After SIGCONT all is as before. Its pCPU is lent meanwhile only
    if libvirt still accepts a pin for it."""
    one, other = pair
    with daemon_for(shared_lab, "stopped", one, other) as daemon:
        daemon.wait(connected(one, other))
        commands = [guest.start(PROGRAM) for guest in pair]
        for guest in pair:
            daemon.wait(cooperating(guest, 1))
        os.kill(one.qemu_pid, signal.SIGSTOP)
        try:
            daemon.wait(lambda domains: domains[one.name]["state"] != "cooperating")
            before_s = run_s(other)
            for _ in range(3):
                daemon.status()
            until(lambda: run_s(other) - before_s > 0.2, "the other computes on")
            until(lambda: not daemon.status()["unknown"], "libvirt answers the daemon")
        finally:
            os.kill(one.qemu_pid, signal.SIGCONT)
        until(lambda: apart(one, other), "apart again")
        for guest in pair:
            daemon.wait(cooperating(guest, 1))
        for guest in pair:
            enough(guest)
        assert all(verified(command) for command in commands)


def test_behaviour_30_qemu_ended_by_a_signal(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """However QEMU ends, its pCPUs go to a domain that can use them. When the domain is back, it is managed again."""
    other = pair[0]
    guest = Guest(shared_lab, "ends", IMAGE, vcpus=2, memory_mib=256, cpuset=POOL_LIST, persistent=True)
    try:
        shared_lab.connection.defineXML(guest.xml)
        # Its boot may be over before it is separated, and then it would rest.
        with daemon_for(shared_lab, "ends", guest, other, rules=KEPT) as daemon:
            daemon.wait(connected(other))
            command = other.start(PROGRAM)
            daemon.wait(serves(other))
            for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGKILL):
                guest.domain.create()  # the test does not wait for its agent
                until(lambda: apart(guest, other), "the guest that boots has its own pCPU")
                os.kill(guest.qemu_pid, number)
                daemon.wait(lambda domains: domains[guest.name]["state"] == "not running")
                daemon.wait(cooperating(other, 2))
                until(lambda: where(other) == EVERYWHERE, "the other has all pCPUs")
                until(lambda: not guest.domain.isActive(), "libvirt knows")
            enough(other)
            assert verified(command)
    finally:
        guest.stop()


def test_behaviour_30_libvirtd_ended_by_a_signal(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """By any signal: the guests compute on where they were, their state stays, and the daemon reconnects."""
    shared_lab.restart_libvirtd()  # the first restart in the life of a guest drops an alias from its description
    with daemon_for(shared_lab, "libvirtd", *pair, rules=KEPT) as daemon:
        daemon.wait(connected(*pair))
        commands = [guest.start(PROGRAM) for guest in pair]
        for guest in pair:
            daemon.wait(cooperating(guest, 1))
        # A domain counts as cooperating before the last call that pins it has ended.
        until(lambda: all(pinned_to_one(guest) for guest in pair), "all pins are set")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL):
            with stopped(daemon.pid):  # so that the daemon does not change pins meanwhile
                before = [(affinity(guest), guest.qemu_pid, guest.domain.XMLDesc()) for guest in pair]
                shared_lab.kill_libvirtd(number)
            until(lambda: daemon.status()["unknown"], f"the daemon misses libvirtd after {number.name}")
            with stopped(daemon.pid):
                shared_lab.start_libvirtd()
                after = [(affinity(guest), guest.qemu_pid, guest.domain.XMLDesc()) for guest in pair]
                assert after == before, number.name
            until(lambda: not daemon.status()["unknown"], f"the daemon has libvirtd again after {number.name}")
        until(lambda: apart(*pair), "both have a pCPU")
        for guest in pair:
            enough(guest)
        assert all(verified(command) for command in commands)


OVER = "/tmp/over"


@pytest.mark.long
def test_behaviour_31_moved_out_and_in_while_managed(tmp_path: Path, shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """It has a plugged vCPU. While it is away, the other has its pCPUs. When it is back, it is managed and apart
    again."""
    other = pair[0]
    with (
        PrivateLibvirt(logs=tmp_path / "logs", cache=CACHE, hostname="elsewhere") as elsewhere,
        Guest(
            shared_lab, "moves", IMAGE, vcpus=1, max_vcpus=2, memory_mib=256, cpuset=POOL_LIST, persistent=True
        ) as guest,
        daemon_for(shared_lab, "moves", guest, other) as daemon,
    ):
        needs_plugged_vcpus(guest)
        daemon.wait(connected(guest, other))
        # The loop runs in the background, because the connection to the guest is lost during the move.
        loop = f"{PROGRAM} > /tmp/output; touch {OVER}"
        assert guest.run(f"setsid sh -c '{loop}' > /dev/null 2>&1 &").status == 0
        daemon.wait(lambda domains: domains[guest.name]["vcpus"] == 2)
        steady = other.start(PROGRAM)
        for one in (guest, other):
            daemon.wait(cooperating(one, 1))
        there = move(guest, elsewhere)
        daemon.wait(lambda domains: domains[guest.name]["state"] == "not running")
        daemon.wait(cooperating(other, 2))
        until(lambda: all_say(there, 2), "all counts of vCPUs are 2")
        back = move(there, shared_lab)
        daemon.wait(cooperating(guest, 1))
        until(lambda: all_say(back, 2), "all counts of vCPUs are 2")
        until(lambda: apart(back, other), "both have a pCPU")
        enough(back)
        until(lambda: back.run(f"ls {OVER}").status == 0, "the last run", 5 * HANG_S)  # as in `verified`
        output = back.run("cat /tmp/output").text
        assert output.count("Verification") == output.count(" SUCCESSFUL") > 0, output
        back.runner.close()
        enough(other)
        assert verified(steady)


def qcow2(path: Path, size: int = 1 << 30) -> Path:
    """An empty image in which QEMU can keep a snapshot. It is made here, because qemu-img may be missing."""
    cluster = 1 << 16
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII", b"QFI\xfb", 3, 0, 0, 16, size, 0, 2, 3 * cluster, cluster, 1, 0, 0, 0, 0, 0, 4, 104
    )
    table = struct.pack(">Q", 2 * cluster)
    counted = struct.pack(">HHHH", 1, 1, 1, 1)
    path.write_bytes(b"".join(part.ljust(cluster, b"\0") for part in (header, table, counted, b"")))
    return path


@pytest.mark.long
def test_behaviour_34_a_snapshot_from_before_the_plug(shared_lab: PrivateLibvirt) -> None:
    """The revert brings the earlier count back. The daemon sees this and goes on from there."""
    with (
        Guest(
            shared_lab,
            "reverts",
            IMAGE,
            vcpus=1,
            max_vcpus=2,
            memory_mib=256,
            cpuset=POOL_LIST,
            persistent=True,
            disk=qcow2(shared_lab.directory / "snapshot.qcow2"),
        ) as guest,
    ):
        needs_plugged_vcpus(guest)
        flags = order(guest)
        snapshot = guest.domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
        with daemon_for(shared_lab, "reverts", guest) as daemon:
            daemon.wait(connected(guest))
            guest.start(PROGRAM)
            daemon.wait(lambda domains: domains[guest.name]["vcpus"] == 2)
            known = daemon.events()[-1]["number"]
            with stopped(daemon.pid):  # so that it does not plug a vCPU again before the test has looked
                guest.domain.revertToSnapshot(snapshot)
                guest.reconnect()
                until(lambda: answers(guest), "the guest is as it was")
                assert guest.domain.vcpusFlags(LIVE) == 1
                assert order(guest) == flags

            def seen_with_one_vcpu(event: dict[str, Any]) -> bool:
                number = {"vcpus": event.get("to"), "appeared": event.get("fields", {}).get("vcpus")}.get(event["kind"])
                return event["number"] > known and event.get("domain") == guest.name and number == 1

            until(lambda: any(map(seen_with_one_vcpu, daemon.events())), lambda: f"one vCPU: {daemon.events()}")
            daemon.wait(connected(guest))
            # It computes again, and gets its second vCPU again.
            guest.start(PROGRAM)
            daemon.wait(lambda domains: domains[guest.name]["vcpus"] == 2)
            daemon.wait(cooperating(guest, 2))
            # libvirt counts a vCPU as soon as QEMU has it. The guest learns of it later, by an interrupt.
            until(lambda: all_say(guest, 2), "all counts of vCPUs are 2")


@pytest.mark.long
def test_behaviour_35_quota_and_period_stay(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """vscaf neither uses nor changes the operator's quota and period, whatever else changes."""
    one, other = pair
    names = ("vcpu_quota", "vcpu_period", "emulator_quota", "emulator_period", "global_quota", "global_period")

    def bandwidth() -> dict[str, int]:
        found = one.domain.schedulerParametersFlags(LIVE)
        return {name: found[name] for name in names}

    found = bandwidth()
    meant = {"vcpu_quota": 90_000, "vcpu_period": 100_000, "emulator_quota": 80_000, "emulator_period": 90_000}
    one.domain.setSchedulerParametersFlags(meant, LIVE)
    try:
        set_by_hand = bandwidth()
        assert set_by_hand == {**found, **meant}
        with daemon_for(shared_lab, "quota", one, other, settings={"rest_weight_percent": 50}) as daemon:
            daemon.wait(connected(one, other))
            commands = [guest.start(PROGRAM) for guest in pair]
            for guest in pair:
                daemon.wait(cooperating(guest, 1))
            assert bandwidth() == set_by_hand
            for guest in pair:
                enough(guest)
            assert all(verified(command) for command in commands)
            daemon.wait(lambda domains: all(domain["state"] == "resting" for domain in domains.values()))
            assert bandwidth() == set_by_hand
        assert bandwidth() == set_by_hand
    finally:
        one.domain.setSchedulerParametersFlags({name: found[name] for name in meant}, LIVE)
