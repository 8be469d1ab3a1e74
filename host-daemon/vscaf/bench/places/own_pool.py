"""The pool of a bench that brings its own members: some of the CPUs of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from vscaf.bench.places.options import MOST_CPUS
from vscaf.bench.places.place import PlaceError
from vscaf.top.host_cpus import read_host_cpus


def default_cpus() -> int:
    """How many CPUs a pool has unless the user says it: all that this process may use, at most MOST_CPUS."""
    return min(len(os.sched_getaffinity(0)), MOST_CPUS)


def own_pool(count: int) -> list[int]:
    """So many CPUs of this process. PlaceError if it has fewer, or only one: members and bench need two."""
    cpus = sorted(os.sched_getaffinity(0))
    needed = max(2, count)
    if len(cpus) < needed:
        raise PlaceError(
            f"there are {len(cpus)} CPUs, and {needed} are needed: give this machine more, or fewer --cpus"
        )
    return pool_among(cpus, count, read_host_cpus().cores)


def pool_among(cpus: Sequence[int], count: int, cores: Sequence[frozenset[int]]) -> list[int]:
    """So many of these CPUs, on different cores as far as possible, because members on one core slow each other down.

    cores: the CPUs that share a core.
    """
    siblings = {cpu for core in cores for cpu in sorted(core.intersection(cpus))[1:]}
    return sorted(sorted(cpus, key=lambda cpu: (cpu in siblings, cpu))[:count])
