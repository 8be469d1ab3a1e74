"""What a barrier costs in guests that share CPUs: pure functions on samples of the barrier loop."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from vscaf.bench.intervals import Figure, figure
from vscaf.bench.samples import ALONE, Sample, counted
from vscaf.bench.speed import rate

# Barriers in one execution of each shipped loop (images/npb/barrier.c).
BARRIERS = {"barrier.S": 20_000, "barrier.W": 50_000, "barrier.A": 4_000_000, "barrier.B": 16_000_000}


class BarrierFigures(msgspec.Struct, frozen=True):
    """A barrier loop in so many guests at once. threads: of each loop; 0: as many as its guest has CPUs. ns: wall-clock
    nanoseconds a barrier; the mean of a run's loops, in all runs that count."""

    workload: str
    guests: int
    arrangement: str
    threads: int
    ns: Figure


def barrier_figures(samples: Sequence[Sample]) -> list[BarrierFigures]:
    """The figures of all barrier loops in these samples that ran alone or beside others of their kind."""
    values: dict[tuple[str, int, str, int], list[float]] = {}
    for sample in counted(samples):
        names = set(sample.key.workloads)
        if len(names) != 1 or not names <= BARRIERS.keys() or sample.disturbed:
            continue
        (name,) = names
        key = (name, len(sample.programs), sample.key.arrangement, sample.key.threads)
        rates = [rate(sample, program, steady=False) for program in sample.programs]
        if min(rates) > 0:
            values.setdefault(key, []).append(statistics.mean(1e9 / one / BARRIERS[name] for one in rates))
    order = sorted(values, key=lambda key: (key[0], key[1], key[2] != ALONE, key))
    return [BarrierFigures(*key, figure(values[key])) for key in order]
