"""Converts sets of pCPUs to and from libvirt's masks, which have one truth value for each pCPU."""

from collections.abc import Iterable


def mask_cpus(mask: Iterable[bool]) -> frozenset[int]:
    """The pCPUs that *mask* allows."""
    return frozenset(cpu for cpu, allowed in enumerate(mask) if allowed)


def cpus_mask(cpus: frozenset[int], width: int) -> tuple[bool, ...]:
    """The mask of *cpus* on a host with *width* pCPUs. ValueError if *cpus* is empty or has a CPU outside the host."""
    if not cpus or min(cpus) < 0 or max(cpus) >= width:
        raise ValueError(f"no such pin: CPUs {sorted(cpus)} on a host with {width}")
    return tuple(cpu in cpus for cpu in range(width))
