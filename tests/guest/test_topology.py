"""The guest's CPU numbers agree with those from the domain's description, and the pins follow them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import libvirt
import pytest
from vscaf.cpulist import parse_cpu_list
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf_lab.chaos_run import retry_until

from .conftest import IMAGE, POOL, POOL_LIST, needs_plugged_vcpus, unique

pytestmark = pytest.mark.guest

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
SYSFS = "/sys/devices/system/cpu"
# Linux shows no threads on AMD's model without TOPOEXT, which TCG does not offer.
INTEL = "<cpu mode='custom' match='exact' check='none'><model fallback='allow'>Nehalem</model>{topology}</cpu>"


def siblings(guest: Guest, number: int) -> frozenset[int]:
    """The CPUs on the core of CPU *number*, by the guest's sysfs."""
    return parse_cpu_list(guest.run(f"cat {SYSFS}/cpu{number}/topology/thread_siblings_list").text.strip())


def allowed(guest: Guest) -> dict[int, frozenset[int]]:
    """The CPUs on which the thread of each vCPU may run, by the kernel."""
    return {vcpu: frozenset(os.sched_getaffinity(thread)) for vcpu, thread in guest.vcpu_threads.items()}


def listed(guest: Guest) -> dict[int, frozenset[int]]:
    """The same by `virsh vcpuinfo`."""
    each, masks = guest.domain.vcpus()
    return {
        one[0]: frozenset(cpu for cpu, there in enumerate(mask) if there) & frozenset(POOL)
        for one, mask in zip(each, masks, strict=True)
    }


def managed(lab: PrivateLibvirt, guest: Guest) -> DaemonProcess:
    """A daemon that always gives the guest both pCPUs, and plugs nothing."""
    rules = {"minimum": 2, "maximum": 2, "rest": "keep"}
    return DaemonProcess(lab, POOL_LIST, {guest.name: rules}, name=f"topology-{guest.name}", policy="equipartition")


def cooperates_with_two(domain: Mapping[str, Any]) -> bool:
    """Whether the guest cooperates and uses only its CPUs 0 and 1."""
    return domain["state"] == "cooperating" and domain["online"] == [0, 1]


def test_threads_of_a_core(shared_lab: PrivateLibvirt) -> None:
    """Two cores of two threads: vCPU i is on core i // 2. With two CPUs the agent keeps one whole core."""
    shown = "<topology sockets='1' dies='1' cores='2' threads='2'/>"
    with Guest(
        shared_lab, unique("threads"), IMAGE, vcpus=4, memory_mib=256, cpu=INTEL.format(topology=shown)
    ) as guest:
        threads = parse_description(guest.domain.XMLDesc()).topology.threads
        assert threads == 2
        for number in range(4):
            core = frozenset(other for other in range(4) if other // threads == number // threads)
            assert siblings(guest, number) == core
        with managed(shared_lab, guest) as daemon:
            daemon.wait(lambda domains: cooperates_with_two(domains[guest.name]))
            own = {0: frozenset({POOL[0]}), 1: frozenset({POOL[1]})}
            expected = {**own, 2: frozenset(POOL), 3: frozenset(POOL)}
            retry_until("vCPUs 0 and 1 have a pCPU each", lambda: allowed(guest) == expected)
            assert listed(guest) == expected


def test_a_vcpu_enabled_alone_is_the_guests_next_cpu(shared_lab: PrivateLibvirt) -> None:
    """vCPU 3 without 1 and 2 is the guest's CPU 1, or 3 since Linux 6.9. Both vCPUs have their own pCPU."""
    # With 8 or less possible CPUs, Linux addresses interrupts between CPUs logically. QEMU 7.2's emulated APIC drops
    # these for all vCPUs after the first that is missing, and the guest hangs now and then.
    with Guest(shared_lab, unique("alone"), IMAGE, vcpus=1, max_vcpus=9, memory_mib=256) as guest:
        needs_plugged_vcpus(guest)
        guest.domain.setVcpu("3", 1, LIVE)
        present = ("0-1", "0,3")
        retry_until("the guest has it", lambda: guest.run(f"cat {SYSFS}/present").text.strip() in present)
        paths = guest.run(f"cat {SYSFS}/cpu[13]/firmware_node/path").text.split()
        assert len(paths) == 1 and paths[0].endswith("C003")
        with managed(shared_lab, guest) as daemon:
            daemon.wait(lambda domains: cooperates_with_two(domains[guest.name]))
            expected = {0: frozenset({POOL[0]}), 3: frozenset({POOL[1]})}
            retry_until("each of them has a pCPU", lambda: allowed(guest) == expected)
            assert listed(guest) == expected
