"""The speed of a program in a run: pure arithmetic on samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from vscaf.bench.samples import Execution, ProgramSample, Sample


def work_between(executions: Iterable[Execution], start_s: float, end_s: float) -> float:
    """How much work a program did between two times: how often it ran, or the progress that it printed.

    Work is spread evenly over an execution, or over the time between two marks. After the last mark there is none. An
    execution that was wrong did no work.
    """
    return sum(_work_until(one, end_s) - _work_until(one, start_s) for one in executions if one.verified)


def _work_until(execution: Execution, time_s: float) -> float:
    marks = execution.marks or ((execution.start_s, 0.0), (execution.end_s, 1.0))
    return float(np.interp(time_s, [at_s for at_s, _ in marks], [amount for _, amount in marks]))


def window(programs: Sequence[Sequence[Execution]]) -> tuple[float, float] | None:
    """Start and end of the time in which all programs compute; None if there is no such time."""
    start_s = max(executions[0].start_s for executions in programs)
    end_s = min(executions[-1].end_s for executions in programs)
    return (start_s, end_s) if start_s < end_s else None


def span(programs: Sequence[Sequence[Execution]]) -> tuple[float, float]:
    """From the start of the first execution of all programs to the end of the last."""
    return (
        min(executions[0].start_s for executions in programs),
        max(executions[-1].end_s for executions in programs),
    )


def rate(sample: Sample, program: ProgramSample, *, steady: bool) -> float:
    """How much work a second a program does in the window of its run; in a steady second if `steady`."""
    start_s, end_s = sample.window
    seconds = program.steady_s if steady and program.steady_s is not None else end_s - start_s
    return work_between(program.executions, start_s, end_s) / seconds


def alone_rate(samples: Iterable[Sample], workload: str, threads: int, *, steady: bool) -> float:
    """The median rate of a workload that runs alone on so many threads. ValueError if it was not measured."""
    rates = [
        rate(sample, sample.programs[0], steady=steady)
        for sample in samples
        if sample.key.workloads == (workload,) and sample.key.threads == threads
    ]
    if not rates:
        raise ValueError(f"{workload} was not measured alone on {threads} threads")
    return statistics.median(rates)


def speedups(sample: Sample, alone: Sequence[float], *, steady: bool) -> list[float]:
    """Each program's speedup in a run. alone: the rates of the programs alone on one thread, in their order."""
    return [
        rate(sample, program, steady=steady) / reference
        for program, reference in zip(sample.programs, alone, strict=True)
    ]
