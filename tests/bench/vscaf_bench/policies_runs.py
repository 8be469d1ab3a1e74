"""Many simulated runs in parallel, and the statistics of their results."""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from vscaf.simulate.engine.result import Run
from vscaf.simulate.engine.run import simulate
from vscaf.simulate.scenarios.scenario import Scenario

from .report import Result

FITTED, SCAF, EQUAL = "max-speedup-fitted", "max-speedup", "equipartition"
RESAMPLES = 2000


@dataclass(frozen=True)
class Bench:
    """What all parts share: whether to make fewer repetitions, and the workers."""

    quick: bool
    pool: ProcessPoolExecutor


@dataclass(frozen=True)
class Case:
    """One run to make. key: unique for each run."""

    key: tuple[object, ...]
    scenario: Scenario
    policy: str
    seed: int


@contextmanager
def worker_pool() -> Iterator[ProcessPoolExecutor]:
    """As many worker processes as CPUs. They are new interpreters, so that no run depends on earlier ones."""
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def run_case(case: Case) -> Run:
    """Makes a run, in a worker. A run that breaks a law fails the benchmark."""
    run = simulate(case.scenario, case.policy, seed=case.seed)
    if run.violations:
        raise RuntimeError(f"{case.scenario.name} under {case.policy}, seed {case.seed}: {run.violations[0]}")
    return run


def run_all(bench: Bench, cases: Sequence[Case], what: str) -> dict[tuple[object, ...], Run]:
    """The run of each case by its key, with the progress on one line."""
    runs: dict[tuple[object, ...], Run] = {}
    begun_s = time.monotonic()
    waiting = {bench.pool.submit(run_case, case): case for case in cases}
    try:
        for future in as_completed(waiting):
            runs[waiting[future].key] = future.result()
            _print_progress(
                f"   {what}: {len(runs)} of {len(cases)} runs, {time.monotonic() - begun_s:.0f} s",
                len(runs),
                len(cases),
            )
    finally:
        for future in waiting:
            future.cancel()
        if sys.stdout.isatty():
            print(flush=True)
    print(f"   {what}: {len(runs)} runs in {time.monotonic() - begun_s:.0f} s", flush=True)
    return runs


def _print_progress(line: str, done: int, of: int) -> None:
    """Prints progress on one line of a terminal, or else a line for each fifth."""
    if sys.stdout.isatty():
        print(f"\r{line}", end="", flush=True)
    elif 5 * done // of > 5 * (done - 1) // of and done < of:
        print(line, flush=True)


def mean_result(name: str, unit: str, values: Sequence[float], **more: Any) -> Result:
    """The mean of *values* and its 95% interval by bootstrap."""
    array = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(1).choice(array, (RESAMPLES, len(array)))
    low, high = np.quantile(np.mean(drawn, axis=1), (0.025, 0.975))
    return Result(name, unit, float(np.mean(array)), float(low), float(high), len(array), **more)


def worst_result(name: str, unit: str, values: Sequence[float], **more: Any) -> Result:
    """The largest of *values*. It has no interval: samples drawn from these values never exceed them."""
    worst = float(max(values))
    return Result(name, unit, worst, worst, worst, len(values), **more)


def share_result(name: str, hits: int, n: int, **more: Any) -> Result:
    """*hits* of *n* in percent, with Wilson's 95% interval (1927)."""
    z, share = 1.96, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Result(name, "%", 100 * share, 100 * low, 100 * high, n, **more)


def allocations_between(run: Run, name: str, from_s: float, to_s: float) -> tuple[float, int, int]:
    """CPUs of the guest of that name from from_s to to_s: the time-weighted mean, the least and the most."""
    spans = []
    for moment, end_s in zip(run.moments, [*(one.time_s for one in run.moments[1:]), run.seconds], strict=True):
        length = min(end_s, to_s) - max(moment.time_s, from_s)
        if length > 0.0:
            spans.append((length, moment.allocations.get(name, 0)))
    total = math.fsum(length for length, _cpus in spans)
    if total <= 0.0:
        raise ValueError(f"{run.scenario}: no allocation is known from {from_s:g} s to {to_s:g} s")
    cpus = [cpus for _length, cpus in spans]
    return math.fsum(length * one for length, one in spans) / total, min(cpus), max(cpus)
