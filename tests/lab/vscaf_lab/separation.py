"""Checks that computing domains were separated, from samples of the kernel's accounting of vCPU threads. Pure.

A domain computes from the start of its program to its end, by the test's own clock. Two domains overlap if a pCPU is in
the affinity of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle, pairwise, permutations
from math import inf

from vscaf.occupancy.sampler import INTERVAL_S, Sample

Window = tuple[float, float]
_NOTHING: frozenset[int] = frozenset()
RAN_SHARE = 0.1  # of the time between two samples: less is an idle CPU's ticks, or the tail of a move


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two domains that shared pCPUs, which pCPUs, and in how many rounds of samples.

    floating: one of their vCPUs was not pinned to one pCPU, so that domain rests, or rested until now.
    """

    first: str
    second: str
    pcpus: frozenset[int]
    rounds: int
    floating: bool


def rounds(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Samples grouped by round: a round ends before a thread that it already has."""
    grouped: list[list[Sample]] = []
    seen: set[int] = set()
    for sample in samples:
        if not grouped or sample.thread in seen:
            grouped.append([])
            seen = set()
        seen.add(sample.thread)
        grouped[-1].append(sample)
    return grouped


def affinities(taken: Sequence[Sample]) -> dict[str, frozenset[int]]:
    """The pCPUs that each domain's vCPUs may run on, in one round."""
    union: dict[str, frozenset[int]] = defaultdict(frozenset)
    for sample in taken:
        union[sample.domain] |= sample.affinity
    return dict(union)


def ran_on(before: Sequence[Sample], after: Sequence[Sample]) -> dict[str, frozenset[int]]:
    """The pCPUs on which each domain's vCPUs last ran, only for vCPUs that really ran between two rounds."""
    earlier = {sample.thread: sample for sample in before}
    union: dict[str, frozenset[int]] = defaultdict(frozenset)
    for sample in after:
        one = earlier.get(sample.thread)
        if one is not None:
            share = (sample.run_ns - one.run_ns) / 1e9 / max(1e-9, sample.monotonic_s - one.monotonic_s)
            if share > RAN_SHARE:
                union[sample.domain] |= {sample.last_cpu}
    return dict(union)


def overlaps(samples: Sequence[Sample], computing: Mapping[str, Sequence[Window]]) -> list[Overlap]:
    """Every series of rounds in which two computing domains were allowed on the same pCPU, in order of time.

    A single round does not count: its threads are read one after the other, and a pCPU may change its domain between
    two of them, however late the sampler is. This cannot happen in two rounds in a row.
    """
    found: list[Overlap] = []
    since: dict[tuple[str, str], Overlap] = {}
    for taken in rounds(samples):
        now_s = taken[0].monotonic_s
        active = {
            name for name, windows in computing.items() if any(start_s <= now_s <= end_s for start_s, end_s in windows)
        }
        allowed = affinities(taken)
        for pair in combinations(sorted(computing), 2):
            shared = allowed.get(pair[0], _NOTHING) & allowed.get(pair[1], _NOTHING)
            floating = any(len(one.affinity) > 1 for one in taken if one.domain in pair)
            before = since.pop(pair, None)
            if not (shared and active.issuperset(pair)):
                continue
            if before is None or before.floating != floating:
                since[pair] = Overlap(*pair, shared, 1, floating)
                continue
            since[pair] = Overlap(*pair, shared | before.pcpus, before.rounds + 1, floating)
            if before.rounds > 1:
                found.remove(before)
            found.append(since[pair])
    return found


def least_turns(samples: Sequence[Sample], pcpu: int) -> int:
    """The fewest turns on *pcpu*, one domain at a time, that explain the samples of two domains.

    A sample only tells that its domain ran at some time since the request for the sample before. Two domains that share
    the pCPU need a turn for almost every sample. A domain that is seen before and after the other's end, because the
    sampler was late, needs no extra turn.
    """
    ran: list[tuple[float, float, str]] = []
    earlier: dict[int, Sample] = {}
    for sample in samples:
        before = earlier.get(sample.thread)
        earlier[sample.thread] = sample
        if before is not None and sample.last_cpu == pcpu:
            seconds = max(INTERVAL_S, sample.monotonic_s - before.monotonic_s)
            if (sample.run_ns - before.run_ns) / 1e9 > RAN_SHARE * seconds:
                ran.append((before.asked_s, sample.monotonic_s, sample.domain))
    domains = sorted({domain for _start_s, _end_s, domain in ran})
    if len(domains) > 2:
        raise ValueError(f"turns of two domains are counted, not of {', '.join(domains)}")
    return min(_turns(ran, order) for order in permutations(domains))


def _turns(ran: Sequence[tuple[float, float, str]], order: Sequence[str]) -> int:
    """The number of turns in *order*, each as long as the times of the others allow. ran: start, end, domain."""
    left, turns = list(ran), 0
    for owner in cycle(order):
        if not left:
            break
        turns += 1
        turn_ends_s = min((end_s for _start_s, end_s, domain in left if domain != owner), default=inf)
        left = [one for one in left if one[2] != owner or one[0] > turn_ends_s]
    return turns


def partition_changes(samples: Sequence[Sample]) -> dict[str, int]:
    """How often each domain's set of allowed pCPUs changed."""
    changes: dict[str, int] = defaultdict(int)
    for before, after in pairwise(rounds(samples)):
        was, now = affinities(before), affinities(after)
        for name in was.keys() & now.keys():
            changes[name] += was[name] != now[name]
    return dict(changes)


def affinity_changes(samples: Sequence[Sample]) -> list[tuple[float, dict[str, list[str]]]]:
    """When the affinity of a vCPU changed, and each domain's affinities since then, by vCPU. To explain a failure."""
    changes: list[tuple[float, dict[str, list[str]]]] = []
    for taken in rounds(samples):
        present: dict[str, list[str]] = defaultdict(list)
        for sample in sorted(taken, key=lambda sample: (sample.domain, sample.vcpu)):
            present[sample.domain].append(",".join(map(str, sorted(sample.affinity))))
        if not changes or changes[-1][1] != present:
            changes.append((taken[0].monotonic_s, dict(present)))
    return changes


def cpu_seconds(samples: Sequence[Sample]) -> dict[tuple[str, int], float]:
    """CPU time that each vCPU used between its first and last sample, by domain and vCPU."""
    first: dict[tuple[str, int], int] = {}
    used: dict[tuple[str, int], float] = {}
    for sample in samples:
        key = (sample.domain, sample.vcpu)
        first.setdefault(key, sample.run_ns)
        used[key] = (sample.run_ns - first[key]) / 1e9
    return used
