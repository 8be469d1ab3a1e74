"""The figures of the scaled machine from its raw data: pure functions.

The speedup of a program is its rate relative to itself alone on one slow CPU with one thread. The result of a pair is
the sum of both in steady state: under a policy, in the last part of the time in which both compute, because an agent
learns at first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from vscaf.bench.figures import Figures, figures
from vscaf.bench.intervals import Figure, figure
from vscaf.bench.places.no_vm import AGENT_POLICIES
from vscaf.bench.samples import ALONE, RunKey, Sample, counted
from vscaf.bench.speed import alone_rate, work_between

EQUAL = "equal"
BASELINES = ("oracle", EQUAL, "passive")
"""`oracle`: the best split by hand. `equal`: the split in equal shares, by hand."""
STEADY_PART = 0.5  # the last part of a run under a policy
SETTLED = 0.9  # of the final sum of speedups
SETTLED_OVER_S = 10.0  # the sum is the mean over so long: marks and runs may be seconds apart

Status = tuple[float, dict[str, Any]]
"""What an agent said: CLOCK_MONOTONIC of the host, in seconds, and its JSON."""


class Cell(msgspec.Struct, frozen=True):
    """What was watched in one run. clock: (CLOCK_MONOTONIC, steady seconds since the begin), in seconds. status: what
    the agent said, if there was one."""

    key: RunKey
    attempt: int
    clock: tuple[tuple[float, float], ...]
    status: tuple[Status, ...] = ()

    def steady_s(self, start_s: float, end_s: float) -> float:
        """Steady seconds from start to end."""
        start, end = np.interp((start_s, end_s), [at_s for at_s, _ in self.clock], [s for _, s in self.clock])
        return float(end - start)


Cells = Mapping[tuple[RunKey, int], Cell]


def scaled_figures(samples: Sequence[Sample], cells: Cells) -> Figures:
    """Speedups and ratios to BASELINES in steady state. Runs without a cell do not count."""
    steady = [steady_part(sample, cells[sample.key, sample.attempt]) for sample in samples if _known(sample, cells)]
    return figures([named for sample in steady for named in _named(sample)], BASELINES)


def _known(sample: Sample, cells: Cells) -> bool:
    return (sample.key, sample.attempt) in cells


def steady_part(sample: Sample, cell: Cell) -> Sample:
    """A run whose window is only its steady part, with the steady seconds in it."""
    start_s, end_s = sample.window
    if sample.key.arrangement in AGENT_POLICIES:
        start_s = end_s - STEADY_PART * (end_s - start_s)
    steady_s = cell.steady_s(start_s, end_s)
    programs = tuple(msgspec.structs.replace(program, steady_s=steady_s) for program in sample.programs)
    return msgspec.structs.replace(sample, window=(start_s, end_s), programs=programs)


def _named(sample: Sample) -> list[Sample]:
    """A run by the names of BASELINES. A split in equal shares is one of the splits, and a baseline of its own."""
    if sample.key.arrangement != "static":
        return [sample]
    found = [msgspec.structs.replace(sample, key=msgspec.structs.replace(sample.key, arrangement="oracle"))]
    if len(set(sample.key.allocations)) == 1:
        equal = msgspec.structs.replace(sample.key, arrangement=EQUAL, allocations=())
        found.append(msgspec.structs.replace(sample, key=equal))
    return found


def settled_times(samples: Sequence[Sample], cells: Cells, policy: str) -> dict[tuple[str, ...], Figure]:
    """For each pair under a policy: seconds from the start of the second program to SETTLED of the final sum.

    Disturbed runs do not count, nor those of a program that was not right alone.
    """
    chosen = [one for one in counted(samples) if _known(one, cells)]
    alone = [
        steady_part(one, cells[one.key, one.attempt])
        for one in chosen
        if one.key.arrangement == ALONE and all(run.verified for run in one.programs[0].executions)
    ]
    known = {one.key.workloads[0] for one in alone}
    found: dict[tuple[str, ...], list[float]] = {}
    for sample in chosen:
        if sample.key.arrangement == policy and not sample.disturbed and known.issuperset(sample.key.workloads):
            rates = [alone_rate(alone, name, 1, steady=True) for name in sample.key.workloads]
            found.setdefault(sample.key.workloads, []).append(
                settled_s(sample, cells[sample.key, sample.attempt], rates)
            )
    return {pair: figure(values) for pair, values in found.items()}


def settled_s(sample: Sample, cell: Cell, alone: Sequence[float]) -> float:
    """Seconds from the time at which both compute until the sum of speedups over SETTLED_OVER_S has reached SETTLED of
    that in the steady part.

    It is the end of the first such time, but never later than the begin of the steady part. alone: the rates of the
    programs alone, in their order.
    """

    def total(start_s: float, end_s: float) -> float:
        seconds = cell.steady_s(start_s, end_s)
        return sum(
            work_between(program.executions, start_s, end_s) / seconds / rate
            for program, rate in zip(sample.programs, alone, strict=True)
        )

    begin_s = sample.window[0]
    start_s, end_s = steady_part(sample, cell).window
    final = total(start_s, end_s)
    for at_s in np.arange(begin_s + SETTLED_OVER_S, start_s, 0.5):
        if total(at_s - SETTLED_OVER_S, at_s) >= SETTLED * final:
            return float(at_s - begin_s)
    return start_s - begin_s
