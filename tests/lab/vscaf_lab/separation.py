"""Whether domains that compute kept apart: pure checks of samples from the kernel's accounting of vCPU threads.

A domain computes from when its program was started to when it ended, by the test's own clock. Two domains overlap at a
sample where some pCPU is in the affinity of both, or where both ran on it since the sample before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle, pairwise, permutations
from math import inf

from vscaf_lab.sampler import INTERVAL_S, Sample

Window = tuple[float, float]
RAN_SHARE = 0.1  # of the time between two samples: less is an idle CPU's ticks, or the tail of a move


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two domains that were not apart from *start_s* for *seconds*, and on which pCPUs."""

    first: str
    second: str
    pcpus: frozenset[int]
    start_s: float
    seconds: float


def rounds(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Samples grouped by round: a round ends where a thread comes again."""
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
    """Where each domain's vCPUs may run, in one round."""
    union: dict[str, frozenset[int]] = defaultdict(frozenset)
    for sample in taken:
        union[sample.domain] |= sample.affinity
    return dict(union)


def ran_on(before: Sequence[Sample], after: Sequence[Sample]) -> dict[str, frozenset[int]]:
    """Where each domain's vCPUs last ran, of those that really ran between two rounds."""
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
    """Every stretch in which two computing domains were not apart, however short."""
    found: list[Overlap] = []
    open_since: dict[tuple[str, str], tuple[float, frozenset[int]]] = {}
    last_s = 0.0
    for before, after in pairwise(rounds(samples)):
        now_s = after[0].monotonic_s
        active = {
            name for name, windows in computing.items() if any(start_s <= now_s <= end_s for start_s, end_s in windows)
        }
        allowed, ran = affinities(after), ran_on(before, after)
        nothing: frozenset[int] = frozenset()
        for pair in combinations(sorted(computing), 2):
            shared = (allowed.get(pair[0], nothing) & allowed.get(pair[1], nothing)) | (
                ran.get(pair[0], nothing) & ran.get(pair[1], nothing)
            )
            if shared and active.issuperset(pair):
                start_s, pcpus = open_since.get(pair, (now_s, nothing))
                open_since[pair] = (start_s, pcpus | shared)
            elif pair in open_since:
                start_s, pcpus = open_since.pop(pair)
                found.append(Overlap(*pair, pcpus, start_s, now_s - start_s))
        last_s = now_s
    found += [Overlap(*pair, pcpus, start, last_s - start) for pair, (start, pcpus) in open_since.items()]
    return sorted(found, key=lambda one: one.start_s)


def least_turns(samples: Sequence[Sample], pcpu: int) -> int:
    """The fewest turns on *pcpu*, one domain's at a time, by which two domains can have run as the samples say.

    Each sample is taken for no more than it says: that its domain ran at some moment since the sample before was asked
    for. Two that share the pCPU need a turn for nearly every sample; one that is seen on both sides of the other's end,
    however late the sampler was, needs none more.
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
    """How many turns in *order* it takes, each as long as the others' stretches allow. ran: start, end, domain."""
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


def cpu_seconds(samples: Sequence[Sample]) -> dict[tuple[str, int], float]:
    """CPU time that each vCPU used between its first and last sample, by domain and vCPU."""
    first: dict[tuple[str, int], int] = {}
    used: dict[tuple[str, int], float] = {}
    for sample in samples:
        key = (sample.domain, sample.vcpu)
        first.setdefault(key, sample.run_ns)
        used[key] = (sample.run_ns - first[key]) / 1e9
    return used


def pcpu_shares(samples: Sequence[Sample], start_s: float, end_s: float) -> dict[int, dict[str, float]]:
    """CPU seconds by pCPU and domain within a stretch of time, by where each thread last ran."""
    used: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for before, after in pairwise(rounds([one for one in samples if start_s <= one.monotonic_s <= end_s])):
        earlier = {sample.thread: sample for sample in before}
        for sample in after:
            if sample.thread in earlier:
                used[sample.last_cpu][sample.domain] += (sample.run_ns - earlier[sample.thread].run_ns) / 1e9
    return {pcpu: dict(domains) for pcpu, domains in used.items()}
