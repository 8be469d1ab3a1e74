"""The host as the parts of the acceptance need it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from vscaf.cpulist import parse_cpu_list

SYSFS_CPUS = Path("/sys/devices/system/cpu")


class Host(msgspec.Struct, frozen=True):
    """accelerated: guests run under KVM. cores: the CPUs that this process may use, by core, whole cores only; cores
    with most threads first. cpu_flags: as in /proc/cpuinfo."""

    accelerated: bool
    cores: tuple[tuple[int, ...], ...]
    cpu_flags: frozenset[str] = frozenset()

    @property
    def threads(self) -> int:
        """Threads of a core with most threads."""
        return max((len(core) for core in self.cores), default=0)

    def equal_cores(self, most: int) -> list[tuple[int, ...]]:
        """At most so many cores, all with as many threads."""
        return [core for core in self.cores if len(core) == self.threads][:most]

    def pool(self, most: int) -> list[int]:
        """The CPUs of `equal_cores`, core by core."""
        return [cpu for core in self.equal_cores(most) for cpu in core]


def read_host(accelerated: bool, sysfs: Path = SYSFS_CPUS) -> Host:
    """Reads the host from the kernel."""
    usable = os.sched_getaffinity(0)
    cores = {
        tuple(sorted(parse_cpu_list((sysfs / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text())))
        for cpu in usable
    }
    whole = [core for core in cores if usable.issuperset(core)]
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = next((line.partition(":")[2].split() for line in cpuinfo if line.startswith("flags")), [])
    return Host(accelerated, tuple(sorted(whole, key=lambda core: (-len(core), core))), frozenset(flags))
