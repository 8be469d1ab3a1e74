"""Real guests while parts of vscaf die, are missing or send garbage: programs stay right, and partitions hold."""

from __future__ import annotations

import contextlib
import json
from itertools import takewhile

import libvirt
import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import until
from vscaf.occupancy.sampler import Sample, Sampler
from vscaf_lab.separation import affinities, cpu_seconds, rounds

from .conftest import POOL, POOL_LIST, Pair, enough, over_and_over, verified

pytestmark = pytest.mark.guest

WIDTH = max(POOL) + 1


def all_cpus_usable(guest: Guest) -> bool:
    """Whether no CPU of the guest is offline or parked."""
    return guest.run("cat /sys/fs/cgroup/cpuset.cpus.effective").text.strip() == "0-1"


def pins(domain: libvirt.virDomain) -> tuple[object, ...]:
    live = libvirt.VIR_DOMAIN_AFFECT_LIVE
    return (
        domain.vcpusFlags(live),
        [tuple(mask) for mask in domain.vcpuPinInfo(live)],
        tuple(domain.emulatorPinInfo(live)),
    )


def mask(*cpus: int) -> tuple[bool, ...]:
    return tuple(cpu in cpus for cpu in range(WIDTH))


def agents_connected(domains: dict[str, dict[str, object]]) -> bool:
    return all(one["agent"] == "connected" for one in domains.values())


def kill_agent(guest: Guest) -> None:
    """Kills the agent with kill -9. There is no new one until start_agent."""
    gone = "while pidof vscaf-agent > /dev/null; do usleep 10000; done"  # then its port is free
    done = guest.run(f"touch /run/vscaf/agent.off; kill -9 $(pidof vscaf-agent) && {gone}")
    assert done.status == 0, done.text


def start_agent(guest: Guest) -> None:
    assert guest.run("rm /run/vscaf/agent.off").status == 0


def allowed(samples: list[Sample], name: str) -> list[frozenset[int]]:
    return [where[name] for taken in rounds(samples) if name in (where := affinities(taken))]


def used_apart_s(sampler: Sampler, pair: Pair) -> float:
    """The CPU time (s) that each of the two guests, at least, has used up to now on one pCPU of its own.

    Only as long as the pins are as now: a guest rests, and has other pins, also between two of its programs.
    """
    complete = rounds(sampler.samples)[:-1]
    pins = affinities(complete[-1]) if complete else {}
    if sorted(map(sorted, pins.values())) != [[cpu] for cpu in POOL]:
        return 0.0
    same = takewhile(lambda taken: affinities(taken) == pins, reversed(complete))
    used = cpu_seconds([sample for taken in reversed(list(same)) for sample in taken])
    return min(sum(s for (domain, _), s in used.items() if domain == guest.name) for guest in pair)


def used_s(sampler: Sampler, name: str) -> float:
    """The CPU time (s) that the guest's vCPUs have used since the sampler began."""
    return sum(seconds for (domain, _), seconds in cpu_seconds(sampler.samples).items() if domain == name)


def test_daemon_killed_in_a_transition(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """The daemon is killed once the journal has the next partitions. A new daemon goes on, and SIGTERM restores all."""
    a, b = pair
    # A special setting to put back, for each lever.
    a.domain.pinVcpu(1, mask(POOL[1]))
    b.domain.pinEmulator(mask(POOL[0]), libvirt.VIR_DOMAIN_AFFECT_LIVE)
    found = {guest.name: pins(guest.domain) for guest in (a, b)}
    daemon = DaemonProcess(shared_lab, POOL_LIST, {a.name: {}, b.name: {}}, name="killed")
    journal = daemon.directory / "state" / "journal.json"
    daemon.start()
    try:
        daemon.wait(agents_connected)
        one = a.start(over_and_over("vscaf-run cg.W"))
        daemon.wait(lambda domains: domains[a.name]["allocation"] == 2)
        two = b.start(over_and_over("vscaf-run cg.W"))

        def separation_is_meant() -> bool:
            meant = {one["name"]: one["partition"] for one in json.loads(journal.read_text())["domains"]}
            return len(meant[a.name]) == 1 and len(meant[b.name]) == 1

        until(separation_is_meant)
        daemon.kill()
        with Sampler({guest.name: guest.qemu_pid for guest in (a, b)}) as alone:
            until(
                lambda: used_s(alone, a.name) > 0.2
            )  # without a daemon the guests compute on, with the pins that they have
        left = {name: allowed(alone.samples, name)[-1] for name in (a.name, b.name)}
        # A guest that rested between two of its programs would be given more.
        daemon = DaemonProcess(shared_lab, POOL_LIST, {one.name: {"rest": "keep"} for one in pair}, name="killed")
        with Sampler({guest.name: guest.qemu_pid for guest in (a, b)}) as taken_over:
            daemon.start()
            daemon.wait(lambda domains: all(one["allocation"] == 1 for one in domains.values()))
            until(lambda: not (affinities(rounds(taken_over.samples)[-1])[a.name] & _last(taken_over, b.name)))
        for guest in (a, b):
            assert all(where <= left[guest.name] for where in allowed(taken_over.samples, guest.name)), guest.name
        for guest in (a, b):
            enough(guest)
        assert verified(one)
        assert verified(two)
        assert daemon.stop() == 0
    finally:
        with contextlib.suppress(AssertionError):  # raised if it was stopped already
            daemon.kill()
    assert {guest.name: pins(guest.domain) for guest in (a, b)} == found
    assert not journal.exists()
    for guest in (a, b):
        until(lambda guest=guest: all_cpus_usable(guest))  # the daemon waits for it only until its deadline


def _last(sampler: Sampler, name: str) -> frozenset[int]:
    return affinities(rounds(sampler.samples)[-1])[name]


def test_agent_killed_and_back(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    a, b = pair
    with DaemonProcess(shared_lab, POOL_LIST, {a.name: {}, b.name: {}}, name="agents") as daemon:
        daemon.wait(agents_connected)
        one, two = (guest.start(over_and_over("vscaf-run cg.W")) for guest in (a, b))
        daemon.wait(lambda domains: all(one["state"] == "cooperating" for one in domains.values()))
        kill_agent(a)
        daemon.wait(lambda domains: domains[a.name]["state"] == "contained")
        with Sampler({guest.name: guest.qemu_pid for guest in (a, b)}) as sampler:
            until(lambda: used_apart_s(sampler, pair) > 0.2, daemon.status)
        start_agent(a)
        daemon.wait(lambda domains: domains[a.name]["state"] == "cooperating")
        # Its program joins the new agent by itself.
        daemon.wait(lambda domains: [one["name"] for one in domains[a.name]["processes"]] == ["cg.W"])
        for guest in (a, b):
            enough(guest)
        assert verified(one)
        assert verified(two)


def test_guest_without_an_agent_is_contained_and_served(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    mute, vocal = pair
    kill_agent(mute)
    with DaemonProcess(shared_lab, POOL_LIST, {mute.name: {}, vocal.name: {}}, name="no-agent") as daemon:
        daemon.wait(lambda domains: domains[vocal.name]["agent"] == "connected")
        one, two = mute.start(over_and_over("ep.S")), vocal.start(over_and_over("vscaf-run ep.S"))
        daemon.wait(lambda domains: all(domain["allocation"] == 1 for domain in domains.values()))
        daemon.wait(
            lambda domains: (domains[mute.name]["state"], domains[vocal.name]["state"]) == ("contained", "cooperating")
        )
        with Sampler({guest.name: guest.qemu_pid for guest in pair}) as sampler:
            until(lambda: used_apart_s(sampler, pair) > 0.5, daemon.status)
        for guest in pair:
            enough(guest)
        assert verified(one)
        assert verified(two)
        daemon.wait(lambda domains: all(domain["state"] == "resting" for domain in domains.values()))


def test_garbage_from_a_guest(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    port = "/dev/virtio-ports/org.vscaf.agent.0"
    rude, polite = pair
    with DaemonProcess(shared_lab, POOL_LIST, {rude.name: {}, polite.name: {}}, name="garbage") as daemon:
        daemon.wait(agents_connected)
        program = polite.start(over_and_over("vscaf-run cg.W"))
        kill_agent(rude)
        lines = ["garbage", '{"v":1,"type":"report"}', '{"v":9,"type":"hello"}', "{" * 200]
        for line in lines:
            sent = rude.run(f"printf '%s\\n' '{line}' > {port}")
            assert sent.status == 0, sent.text
        assert rude.run(f"{{ head -c 70000 /dev/zero | tr '\\0' x; echo; }} > {port}").status == 0
        assert rude.run(f"head -c 300000 /dev/urandom > {port}").status == 0
        daemon.wait(lambda domains: domains[rude.name]["bad_lines"] >= len(lines) + 1)
        start_agent(rude)
        daemon.wait(agents_connected)
        enough(polite)
        assert verified(program)
        log = daemon.log.read_text(encoding="utf-8")
        assert log.count("sent an invalid message") == 1, log
