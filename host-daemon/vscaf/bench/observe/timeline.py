"""Timelines: which domain ran on which pCPU over time, from the kernel's accounting of vCPU threads."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vscaf.bench.observe.sampler import Sample


@dataclass(frozen=True)
class Track:
    """Shares of pCPU time: `shares[pcpu][domain]` is a value in 0..1 for each bin of *bin_s* seconds from `start_s`."""

    start_s: float
    bin_s: float
    shares: Mapping[int, Mapping[str, list[float]]]


def track(samples: Sequence[Sample], bin_s: float) -> Track:
    """Bins the CPU time that each thread used between two samples, on the pCPU where it last ran.

    Programs may be too short to be sampled, so there may be no samples: then there are no shares.
    """
    if not samples:
        return Track(0.0, bin_s, {})
    start_s = min(sample.monotonic_s for sample in samples)
    bins = int((max(sample.monotonic_s for sample in samples) - start_s) / bin_s) + 1
    domains = sorted({sample.domain for sample in samples})
    used: dict[int, dict[str, list[float]]] = defaultdict(lambda: {name: [0.0] * bins for name in domains})
    by_thread: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_thread[sample.thread].append(sample)
    for rows in by_thread.values():
        for before, after in itertools.pairwise(rows):
            if after.domain != before.domain or after.run_ns < before.run_ns:
                continue  # another thread with the number of one that has ended
            middle_s = (before.monotonic_s + after.monotonic_s) / 2 - start_s
            used[after.last_cpu][after.domain][int(middle_s / bin_s)] += (after.run_ns - before.run_ns) / 1e9 / bin_s
    return Track(start_s, bin_s, {pcpu: used[pcpu] for pcpu in sorted(used)})
