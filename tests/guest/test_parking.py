"""Surplus CPUs in a real guest: parked by cpusets, offlined and brought back. And CPUs that are plugged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import libvirt
import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.polling import until
from vscaf_lab.agent_host import AgentHost

from .conftest import IMAGE, POOL_LIST, needs_plugged_vcpus, unique

VCPUS = 4
GROUP = "/sys/fs/cgroup/vscaf.parked"
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in the flags of /proc/PID/stat: the kernel's threads of a CPU stay on it


@pytest.fixture(scope="module")
def booted(shared_lab: PrivateLibvirt) -> Iterator[Guest]:
    with Guest(
        shared_lab,
        unique("parking"),
        IMAGE,
        vcpus=VCPUS,
        max_vcpus=6,
        cpuset=POOL_LIST,
        kernel_arguments="vscaf.agent=off",
    ) as guest:
        # Programs are in their own group, as under a service manager, and the agent is in the root group.
        guest.run("mkdir /sys/fs/cgroup/work")
        yield guest


@pytest.fixture
def guest(booted: Guest) -> Iterator[Guest]:
    yield booted
    booted.run(
        "killall -q -9 vscaf-agent team-pulse; umount /proc/sys/kernel/osrelease 2>/dev/null;"
        f"while pidof vscaf-agent; do usleep 10000; done; echo member > {GROUP}/cpuset.cpus.partition; rmdir {GROUP};"
        "for cpu in /sys/devices/system/cpu/cpu[1-9]/online; do echo 1 > $cpu; done"
    )


@contextmanager
def agent(guest: Guest, options: str) -> Iterator[AgentHost]:
    command = guest.start(f"exec vscaf-agent {options} > /dev/console 2>&1")
    with AgentHost(guest.agent_socket) as host:
        yield host
    command.kill()


def powered(guest: Guest) -> str:
    return guest.run("cat /sys/devices/system/cpu/online").text.strip()


def effective(guest: Guest) -> str:
    return guest.run("cat /sys/fs/cgroup/cpuset.cpus.effective").text.strip()


def allowed(guest: Guest) -> str:
    """The CPUs of process 1, which is always in the root group."""
    return guest.run("grep Cpus_allowed_list /proc/1/status").text.split()[1]


def pulse(guest: Guest, threads: int, seconds: float, where: str = "work") -> list[int]:
    """The CPUs on which a team was seen."""
    enter = f"echo $$ > /sys/fs/cgroup/{where}/cgroup.procs && exec " if where else "exec "
    fields = guest.run(f"sh -c '{enter}team-pulse {threads} {seconds}'", 120).text.split()
    return [int(field) for field in fields[4:]]


def check_spread(guest: Guest, threads: int, cpus: set[int], where: str = "work") -> None:
    """Teams run only on *cpus*, and in the end on each of them. One team alone may not reach all in a second."""
    seen: set[int] = set()

    def reached() -> bool:
        seen.update(pulse(guest, threads, 1.0, where))
        assert seen <= cpus
        return seen == cpus

    until(reached, lambda: f"a team was seen on {sorted(seen)} alone")


@pytest.mark.parametrize("where", ["work", ""])
def test_nothing_runs_on_a_parked_cpu(guest: Guest, where: str) -> None:
    with agent(guest, "--park cpuset") as host:
        check_spread(guest, 4, {0, 1, 2, 3}, where)  # otherwise the checks below prove nothing
        running = guest.start("team-pulse 6 600")  # it has started before the CPUs are parked
        assert host.allocate(2, 4)[0] == [0, 1]
        assert host.wait("report")["online"] == [0, 1]
        assert (powered(guest), effective(guest)) == ("0-3", "0-1")
        check_spread(guest, 4, {0, 1}, where)
        # Checks the threads that are runnable, and the CPUs' user time.
        for _ in range(20):
            stats = guest.run("cat /proc/[0-9]*/task/*/stat").text.splitlines()
            fields = [line.rpartition(")")[2].split() for line in stats]
            on = {int(one[36]) for one in fields if one[0] == "R" and not int(one[6]) & KERNEL_THREAD}
            assert on <= {0, 1}, stats
        before = user_ticks(guest)
        until(lambda: sum(user_ticks(guest)) >= sum(before) + 50, "half a second of user time")
        assert user_ticks(guest)[2:4] == before[2:4]
        assert host.allocate(4, 4)[0] == [0, 1, 2, 3]
        assert (effective(guest), allowed(guest)) == ("0-3", "0-3")
        check_spread(guest, 8, {0, 1, 2, 3}, where)
        running.kill()


@pytest.mark.parametrize("way", ["cpuset", "offline"])
def test_vscaf_run_tells_parked_cpus_from_a_choice_of_cpus(guest: Guest, way: str) -> None:
    # A script: vscaf-run steps aside for a program that is linked statically, as the guest's shell is.
    guest.run("printf '#!/bin/sh\\necho ${KMP_AFFINITY-none}\\n' > /tmp/affinity && chmod +x /tmp/affinity")

    def affinity(before: str = "") -> str:
        return guest.run(f"{before} vscaf-run /tmp/affinity").text.strip()

    with agent(guest, f"--park {way}") as host:
        for cpus in (4, 2, 4):
            host.allocate(cpus, 4)
            assert affinity() == "disabled"
            assert affinity("taskset 1") == "none"


def user_ticks(guest: Guest) -> list[int]:
    lines = [line.split() for line in guest.run("cat /proc/stat").text.splitlines()]
    return [int(fields[1]) + int(fields[2]) for fields in lines if fields[0].startswith("cpu") and fields[0] != "cpu"]


def uptime_s(guest: Guest) -> float:
    return float(guest.run("cat /proc/uptime").text.split()[0])


def test_parked_for_long_is_offlined_and_returns(guest: Guest) -> None:
    # --park auto must act as on a kernel that keeps affinity, whatever this kernel does.
    guest.run("echo 6.8.0-test > /tmp/osrelease; mount --bind /tmp/osrelease /proc/sys/kernel/osrelease")
    with agent(guest, "--park auto") as host:
        began_s = uptime_s(guest)  # the agent measures by this clock
        assert host.allocate(2, 4)[0] == [0, 1]
        until(lambda: powered(guest) == "0-1", "offline after it was parked for long")
        assert uptime_s(guest) - began_s >= 9.99  # it has two decimals
        assert host.allocate(3, 4)[0] == [0, 1, 2]
        assert (powered(guest), effective(guest)) == ("0-2", "0-2")
        assert host.allocate(4, 4)[0] == [0, 1, 2, 3]
        assert (powered(guest), effective(guest)) == ("0-3", "0-3")
        assert allowed(guest) == "0-3", "a thread was kept off a CPU that came back"
        check_spread(guest, 8, {0, 1, 2, 3}, "")


def test_agent_killed_while_cpus_are_parked(guest: Guest) -> None:
    with agent(guest, "--park cpuset") as host:
        assert host.allocate(2, 4)[0] == [0, 1]
    guest.run("killall -9 vscaf-agent; while pidof vscaf-agent; do usleep 10000; done")
    assert effective(guest) == "0-1", "there is nothing to take over"
    with agent(guest, "--park cpuset") as host:
        assert host.wait("report")["online"] == [0, 1]
        assert host.allocate(4, 4)[0] == [0, 1, 2, 3]
        assert effective(guest) == "0-3"


def test_sigterm_leaves_no_partition(guest: Guest) -> None:
    with agent(guest, "--park cpuset") as host:
        assert host.allocate(2, 4)[0] == [0, 1]
        guest.run("killall vscaf-agent; while pidof vscaf-agent; do usleep 10000; done")
        assert effective(guest) == "0-3"
        assert guest.run(f"test -e {GROUP}").status == 1


def test_group_in_the_way(guest: Guest) -> None:
    """Another cpuset contains the surplus CPUs. So the kernel refuses the partition, and the CPUs are offlined."""
    guest.run("echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control; echo 2-3 > /sys/fs/cgroup/work/cpuset.cpus")
    with agent(guest, "--park cpuset") as host:
        assert host.allocate(2, 4)[0] == [0, 1]
        assert powered(guest) == "0-1"
        assert guest.run(f"test -e {GROUP}").status == 1
    until(lambda: "cannot be parked by cpuset" in Path(guest.console_log).read_text(errors="replace"))
    guest.run("echo > /sys/fs/cgroup/work/cpuset.cpus")


def test_group_that_comes_in_the_way_later(guest: Guest) -> None:
    with agent(guest, "--park cpuset") as host:
        assert host.allocate(2, 4)[0] == [0, 1]
        assert powered(guest) == "0-3"
        guest.run("echo 1-3 > /sys/fs/cgroup/work/cpuset.cpus")
        until(lambda: powered(guest) == "0-1", "the CPUs that the partition lost are offline")
        guest.run("echo > /sys/fs/cgroup/work/cpuset.cpus")
        assert host.allocate(4, 4)[0] == [0, 1, 2, 3]


def test_plugged_cpu_is_onlined_at_once_and_can_be_parked(guest: Guest) -> None:
    """The last test, because a CPU cannot be unplugged under TCG. The period is so long that only the kernel's event
    can tell the agent of the plug."""
    needs_plugged_vcpus(guest)
    with agent(guest, "--park cpuset --period-ms 60000") as host:
        assert host.allocate(2, 5)[0] == [0, 1]
        sequence = host.order(5, 5)
        assert host.wait("ack", lambda message: message["sequence"] == sequence)["online"] == [0, 1, 2, 3]
        guest.domain.setVcpusFlags(5, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        host.wait("report", lambda message: message["online"] == [0, 1, 2, 3, 4])
        assert (powered(guest), effective(guest), allowed(guest)) == ("0-4", "0-4", "0-4")
        assert host.allocate(2, 5)[0] == [0, 1]
        assert effective(guest) == "0-1"
