"""Which runs a bench makes, and in which order: pure functions.

Runs are interleaved. Each round has every run once, in another order, so that a change of the machine affects all
alike.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

from vscaf.bench.samples import ALONE, RunKey


def all_groups(workloads: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """All groups of so many of these workloads, each with itself too."""
    return list(itertools.combinations_with_replacement(workloads, size))


def splits(cpus: int, members: int) -> list[tuple[int, ...]]:
    """All ways to give every member at least one CPU, without a CPU that nobody has."""
    return [split for split in itertools.product(range(1, cpus + 1), repeat=members) if sum(split) == cpus]


def equal_split(cpus: int, members: int) -> tuple[int, ...]:
    """CPUs of each member, as equal as possible. The first members have the remainder."""
    base, more = divmod(cpus, members)
    return tuple(base + (index < more) for index in range(members))


def round_of_runs(
    number: int,
    groups: Sequence[tuple[str, ...]],
    arrangements: Sequence[str],
    allocations: Callable[[int], Sequence[tuple[int, ...]]],
) -> list[RunKey]:
    """The runs of one round: first each workload alone, on one thread and on all CPUs, then each group of workloads in
    each arrangement. `static` is run with each of the *allocations* of so many members. The order of groups and
    arrangements depends on the round alone, so that an interrupted bench goes on in the same order."""
    order = random.Random(number)
    workloads = sorted({name for group in groups for name in group})
    alone = [RunKey(number, (name,), ALONE, threads) for name in workloads for threads in (1, 0)]
    order.shuffle(alone)
    shuffled = list(groups)
    order.shuffle(shuffled)
    together = []
    for group in shuffled:
        keys = [
            RunKey(number, group, name, allocations=split)
            for name in arrangements
            for split in (allocations(len(group)) if name == "static" else ((),))
        ]
        order.shuffle(keys)
        together += keys
    return alone + together
