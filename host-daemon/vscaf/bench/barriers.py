"""What a barrier costs in guests that share CPUs: pure functions on samples of the barrier loop."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec
import numpy as np

from vscaf.bench.intervals import Figure, figure
from vscaf.bench.samples import ALONE, ProgramSample, Sample, counted

# Barriers in one execution of each shipped loop (images/npb/barrier.c).
BARRIERS = {"barrier.S": 20_000, "barrier.W": 50_000, "barrier.A": 4_000_000, "barrier.B": 16_000_000}


class BarrierFigures(msgspec.Struct, frozen=True):
    """A barrier loop in so many guests at once. threads: of each loop; 0: as many as its guest has CPUs. ns: wall-clock
    nanoseconds a barrier, without the start of the program where its marks are known; the mean of a run's loops, in all
    runs that count."""

    workload: str
    guests: int
    arrangement: str
    threads: int
    ns: Figure


def nanoseconds(program: ProgramSample, window: tuple[float, float]) -> float | None:
    """Wall-clock nanoseconds a barrier of a loop's executions in a window of time; None if it had none there.

    Where a loop's marks are known, time counts from the first mark on: what comes before it is the program's start.
    """
    seconds = work = 0.0
    for one in program.executions:
        marks = one.marks[1:] or ((one.start_s, 0.0), (one.end_s, 1.0))
        start_s, end_s = max(window[0], marks[0][0]), min(window[1], marks[-1][0])
        if one.verified and start_s < end_s:
            first, last = np.interp((start_s, end_s), [at_s for at_s, _ in marks], [amount for _, amount in marks])
            seconds += end_s - start_s
            work += float(last - first)
    return 1e9 * seconds / (work * BARRIERS[program.workload]) if work > 0 else None


def barrier_figures(samples: Sequence[Sample]) -> list[BarrierFigures]:
    """The figures of all barrier loops in these samples that ran alone or beside others of their kind."""
    values: dict[tuple[str, int, str, int], list[float]] = {}
    for sample in counted(samples):
        names = set(sample.key.workloads)
        if len(names) != 1 or not names <= BARRIERS.keys() or sample.disturbed:
            continue
        (name,) = names
        key = (name, len(sample.programs), sample.key.arrangement, sample.key.threads)
        found = [nanoseconds(program, sample.window) for program in sample.programs]
        if None not in found:
            values.setdefault(key, []).append(statistics.mean(one for one in found if one is not None))
    order = sorted(values, key=lambda key: (key[0], key[1], key[2] != ALONE, key))
    return [BarrierFigures(*key, figure(values[key])) for key in order]
