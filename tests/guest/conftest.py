"""Shared by the tests with real guests: a private libvirtd, and two guests that have booted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.runner import Command
from vscaf_lab.chaos_run import retry_until

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGE = Path(os.environ.get("VSCAF_IMAGE", REPOSITORY / "build" / "image" / "current"))
CACHE = REPOSITORY / "build" / "lab" / "cache"
POOL = sorted(os.sched_getaffinity(0))[:2]
POOL_LIST = ",".join(map(str, POOL))
HANGS_S = 1800
ENOUGH = "/tmp/enough"  # if this file exists in a guest, commands that repeat end


Pair = tuple[Guest, Guest]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sets the time-out. Guests may boot and compute under emulation, so only a test of half an hour counts as hung.

    A module that sets its own keeps it: a marker that is added here would count more.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(HANGS_S))


def needs_plugged_vcpus(guest: Guest) -> None:
    """Skips the test if the guest's kernel ignores vCPUs that are plugged.

    Newer ones do so if they know no hypervisor, and QEMU's emulation is none that they know.
    """
    last = guest.run("cat /sys/devices/system/cpu/possible").text.strip().rpartition("-")[2]
    if int(last) + 1 < guest.domain.maxVcpus():
        pytest.skip("the guest's kernel ignores plugged vCPUs, because it knows no hypervisor")


def over_and_over(command: str) -> str:
    """The shell command that repeats *command*, at least once, until `enough`. So it lasts on any machine."""
    return f"while {command} || exit 1; [ ! -e {ENOUGH} ]; do :; done"


def enough(guest: Guest) -> None:
    """Commands that repeat in the guest end after their present round."""
    assert guest.run(f"touch {ENOUGH}").status == 0


def again(guest: Guest) -> None:
    """Commands that are started from now on may repeat again."""
    assert guest.run(f"rm -f {ENOUGH}").status == 0


def verified(command: Command) -> bool:
    """Waits until a program has ended, which began a round before `enough`, and says whether it was right."""
    # In a round two vCPUs wait for each other thousands of times, and each may have to wait for a pCPU.
    status, output = command.wait(5 * HANG_S)
    print(f"{command.text}: {status}, {output.decode(errors='replace')}")  # shown if a test fails
    return status == 0 and b"SUCCESSFUL" in output and b"UNSUCCESSFUL" not in output


def unique(name: str) -> str:
    """The name for a domain that several processes of tests may run at the same time. No line is broken within it.

    Without systemd libvirt names a domain's cgroups only by its name and its number, which each libvirtd counts from 1.
    Domains of two labs with the same name and number would overwrite each other's pins.
    """
    return f"{name}{os.getpid()}"


@pytest.fixture(scope="session")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateLibvirt]:
    """One private libvirtd for all tests, except those of the lab itself."""
    if len(POOL) < 2:
        pytest.fail("these tests need two CPUs: run them on a machine with two or more")
    with PrivateLibvirt(logs=tmp_path_factory.mktemp("logs"), cache=CACHE) as lab:
        yield lab


@pytest.fixture(scope="session")
def booted_pair(shared_lab: PrivateLibvirt) -> Iterator[Pair]:
    """Two guests of two vCPUs, shared by all these tests, because a boot takes longer than most tests."""
    guests = (
        Guest(shared_lab, unique("left"), IMAGE, vcpus=2, cpuset=POOL_LIST),
        Guest(shared_lab, unique("right"), IMAGE, vcpus=2, cpuset=POOL_LIST),
    )
    try:
        for guest in guests:
            guest.launch()
        for guest in guests:
            guest.wait_ready()
        yield guests
    finally:
        for guest in guests:
            guest.stop()


def has_agent(guest: Guest) -> bool:
    """Whether an agent runs and has opened its port."""
    return guest.run("ls -l /proc/$(pidof vscaf-agent)/fd | grep -q port").status == 0


@pytest.fixture
def pair(booted_pair: Pair) -> Pair:
    """The two guests, reset to their state after the boot."""
    everywhere = tuple(cpu in POOL for cpu in range(max(POOL) + 1))
    for guest in booted_pair:
        guest.run(
            f"touch {ENOUGH}; killall -q -9 cg.W cg.S ep.S; rm -f /run/vscaf/agent.off;"
            "echo 1 > /sys/devices/system/cpu/cpu1/online; while pidof cg.W cg.S ep.S; do usleep 10000; done;"
            f"rm -f {ENOUGH};"
            "parked=/sys/fs/cgroup/vscaf.parked/cpuset.cpus.partition; [ ! -e $parked ] || echo member > $parked"
        )
        until(lambda guest=guest: has_agent(guest), "an agent that has its port")
        for vcpu in range(2):
            guest.domain.pinVcpu(vcpu, everywhere)
        guest.domain.pinEmulator(everywhere, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    return booted_pair


def move(guest: Guest, target: PrivateLibvirt) -> Guest:
    """Moves the running guest to another libvirtd, as if to another machine. QEMU, sockets and logs are new.

    Not live, so the guest stands still while its memory is copied: in a live move QEMU without KVM now and then loses
    what a computing guest writes meanwhile, and its kernel crashes on corrupted lists later.
    """
    there = Guest(
        target,
        guest.name,
        IMAGE,
        vcpus=guest.vcpus,
        max_vcpus=guest.max_vcpus,
        memory_mib=guest.memory_mib,
        cpuset=guest.cpuset,
    )
    xml = guest.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE)
    xml = xml.replace(str(guest.lab.directory), str(target.directory)).replace(str(guest.lab.logs), str(target.logs))
    parameters = {
        libvirt.VIR_MIGRATE_PARAM_URI: f"unix://{target.directory}/move.sock",
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: xml,
    }
    guest.domain.migrate3(target.connection, parameters, 0)
    guest.runner.close()
    retry_until(f"the socket of {guest.name} on its new host", lambda: there.reconnect() is None)
    return there
