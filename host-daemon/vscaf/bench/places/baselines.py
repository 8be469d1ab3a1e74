"""What an operator can do without vscaf: the arrangements of a pool that need no daemon, as plain values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vscaf.cpulist import format_cpu_list

QUOTA_PERIOD_US = 100_000
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
"""With it, the threads of an OpenMP runtime sleep while they wait; without it, they spin first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is set for one member. pins: the pCPUs of each vCPU, in order. online: how many vCPUs are online in the
    guest. quota_us: CPU time that each vCPU may use in QUOTA_PERIOD_US; None: as much as it wants. steal_governor:
    whether that of the guest's kernel is on. environment: variables of the programs."""

    pins: tuple[frozenset[int], ...]
    online: int
    quota_us: int | None = None
    steal_governor: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    _pool: frozenset[int] = field(default=frozenset(), repr=False)

    def commands(self, domain: str, vcpus: Sequence[int]) -> list[str]:
        """The commands with which an operator sets it. None for what a guest has anyway. vcpus: their numbers."""
        lines = []
        if self.online < len(self.pins):
            lines.append(f"virsh setvcpus {domain} {self.online} --guest")
        lines += [
            f"virsh vcpupin {domain} {vcpu} {format_cpu_list(cpus)}"
            for vcpu, cpus in zip(vcpus, self.pins, strict=True)
            if cpus != self._pool
        ]
        if self.quota_us is not None:
            lines.append(
                f"virsh schedinfo {domain} --set vcpu_period={QUOTA_PERIOD_US} --set vcpu_quota={self.quota_us}"
            )
        if self.steal_governor:
            lines.append(f"modprobe steal_governor  # in {domain}")
        if self.environment:
            lines.append(f"{assignments(self.environment)}PROGRAM  # in {domain}")
        return lines


def assignments(environment: Mapping[str, str]) -> str:
    """Variables as they stand before a command in a shell: "A=1 B=2 "."""
    return "".join(f"{name}={shlex.quote(value)} " for name, value in environment.items())


def setting(
    arrangement: str, pool: Sequence[int], vcpus: int, allocations: Sequence[int], member: int
) -> Setting | None:
    """The setting of a member, by its number, under a baseline; None if the arrangement is a policy of vscaf.

    allocations: CPUs of each member that computes, under `static`. Their partitions are consecutive parts of the pool.
    Members without an allocation do not compute, so they are left to float.
    """
    everywhere = frozenset(pool)
    floating = (everywhere,) * vcpus
    match arrangement:
        case "static" if member >= len(allocations):
            return Setting(floating, vcpus, _pool=everywhere)
        case "unmanaged":
            return Setting(floating, vcpus, _pool=everywhere)
        case "passive":
            return Setting(floating, vcpus, environment=PASSIVE, _pool=everywhere)
        case "steal-governor":
            return Setting(floating, vcpus, steal_governor=True, _pool=everywhere)
        case "pinned":
            pins = tuple(frozenset({pool[vcpu % len(pool)]}) for vcpu in range(vcpus))
            return Setting(pins, vcpus, _pool=everywhere)
        case "static":
            first = sum(allocations[:member])
            partition = pool[first : first + allocations[member]]
            online = min(vcpus, len(partition))
            pins = tuple(frozenset({partition[vcpu % len(partition)]}) for vcpu in range(vcpus))
            return Setting(pins, online, _pool=everywhere)
        case "quota":
            share = len(pool) / len(allocations) / vcpus
            return Setting(floating, vcpus, int(QUOTA_PERIOD_US * min(1.0, share)), _pool=everywhere)
        case _:
            return None
