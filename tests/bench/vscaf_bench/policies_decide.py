"""How long a decision takes and how much memory it needs, for numbers of domains and pCPUs.

A decision is the policy, the bounds on its answer, and the damping; the choice of pCPUs does not count. Each size and
policy has a process of its own, so that its memory can be measured.

decide.DOMAINSxPCPUS is a period in which a dozen domains change and another dozen have new measurements. With
.most_fits, as many domains have new measurements as the daemon passes on in one period. On a large host, where all
domains measure all the time, every period is like that.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import random
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from vscaf.bench.intervals import median_interval
from vscaf.core.decide.decision import DecideMemory, decide
from vscaf.daemon.decider import MOST_FITS
from vscaf_policies import DomainState, PoolState, SpeedupPoint
from vscaf_policies.registry import load_policy

from .daemon_decide import DOZEN, dozen_change, first_state, nothing_changes
from .policies_runs import EQUAL, FITTED, SCAF, Bench
from .report import Report, Result

SIZES = ((10, 64), (100, 512), (1000, 4096), (10_000, 65_536))
"""Domains and pCPUs."""

BARS = {(1000, 4096): "<= 15 ms", (10_000, 65_536): "<= 150 ms"}
"""Of the fitted policy."""

POLICIES = (FITTED, SCAF, EQUAL)
POINTS = 6  # measured sizes of each domain
STUDENT = 4.303  # 97.5% of Student's t with two degrees of freedom: four sizes, two parameters


@dataclass(frozen=True)
class Measured:
    """Milliseconds of each decision by case, by the clock and in CPU time; those of the first decision; and its memory.

    memory_mb: by how much the first decision made the process grow, including what the policy keeps.
    """

    times_ms: dict[str, list[float]]
    cpu_ms: dict[str, list[float]]
    first_ms: float
    memory_mb: float


def measured_points(domain: DomainState, chance: random.Random) -> tuple[SpeedupPoint, ...]:
    """The measured points of a domain: some sizes around its possible allocation, with noise."""
    if domain.scaf_weight is None:
        return ()
    most = max(4, min(domain.maximum, 2 * max(domain.demand, 2)))
    sizes = sorted({chance.randrange(2, most + 1) for _ in range(POINTS)})
    return tuple(
        SpeedupPoint(cpus, speedup, 0.1 * speedup, 4)
        for cpus in sizes
        for speedup in (min(cpus, (1.0 + domain.scaf_weight * math.log(cpus)) * chance.gauss(1.0, 0.1)),)
    )


def state(domains: int, cpus: int, chance: random.Random) -> PoolState:
    """The pool of bench-daemon's `decide`, with measured points."""
    pool = first_state(domains, cpus, chance)
    return replace(pool, domains=tuple(replace(one, points=measured_points(one, chance)) for one in pool.domains))


def learned(pool: PoolState, chance: random.Random, domains: int) -> PoolState:
    """Gives *domains* domains new measurements."""
    chosen = set(chance.sample(range(len(pool.domains)), min(domains, len(pool.domains))))
    return replace(
        pool,
        domains=tuple(
            replace(one, points=measured_points(one, chance)) if index in chosen else one
            for index, one in enumerate(pool.domains)
        ),
    )


def dozen_learned(pool: PoolState, chance: random.Random) -> PoolState:
    """A dozen domains start, stop or change their demand, and another dozen have new measurements."""
    return learned(dozen_change(pool, chance), chance, DOZEN)


def most_learned(pool: PoolState, chance: random.Random) -> PoolState:
    """A dozen domains change, and as many have new measurements as the daemon passes on in one period."""
    return learned(dozen_change(pool, chance), chance, MOST_FITS)


CASES = {"steady": nothing_changes, "dozen_change": dozen_learned, "most_fits": most_learned}


def measure_one(domains: int, cpus: int, policy_name: str, periods: int) -> Measured:
    """Measures one size and policy, in a process of its own."""
    policy = load_policy(policy_name)
    chance = random.Random(f"{domains} {cpus}")
    pool, memory = state(domains, cpus, chance), DecideMemory()
    times: dict[str, list[float]] = {case: [] for case in CASES}
    cpu_times: dict[str, list[float]] = {case: [] for case in CASES}
    gc.collect()
    before, begun_s = resident_mb(), time.perf_counter()
    memory = decide(pool, policy, {}, memory).memory
    first_ms, memory_mb = 1e3 * (time.perf_counter() - begun_s), resident_mb() - before
    for case, change in CASES.items():
        for number in range(periods + 1):
            pool = replace(
                pool,
                time_s=pool.time_s + 0.25,
                domains=tuple(replace(one, allocation=memory.target.get(one.name, 0)) for one in pool.domains),
            )
            if number:  # the first decision of a case only settles it and is not measured
                pool = change(pool, chance)
            begun_cpu_s, begun_s = time.thread_time(), time.perf_counter()
            decision = decide(pool, policy, {}, memory)
            if number:
                times[case].append(1e3 * (time.perf_counter() - begun_s))
                cpu_times[case].append(1e3 * (time.thread_time() - begun_cpu_s))
            memory = decision.memory
    return Measured(times, cpu_times, first_ms, memory_mb)


def resident_mb() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def measure(bench: Bench, report: Report) -> None:
    """Adds decide.DOMAINSxPCPUS for the recommended policy and for the others, and the growth exponents.

    Baseline: equal shares at the same size.
    """
    context = multiprocessing.get_context("spawn")
    times: dict[str, list[Result]] = {policy: [] for policy in POLICIES}
    memory: dict[str, list[Result]] = {policy: [] for policy in POLICIES}
    for domains, cpus in SIZES:
        results: dict[str, Measured] = {}
        for policy in POLICIES:
            periods = max(5, (10 if bench.quick else 100) // max(1, domains // 500))
            with ProcessPoolExecutor(1, mp_context=context) as alone:
                results[policy] = alone.submit(measure_one, domains, cpus, policy, periods).result()
            took = results[policy]
            median = median_interval(took.times_ms["dozen_change"])[0]
            print(f"   decide {domains}x{cpus} {policy}: {median:.3g} ms, {took.memory_mb:.0f} MB", flush=True)
        equal_ms = median_interval(results[EQUAL].times_ms["dozen_change"])[0]
        for policy, took in results.items():
            suffix = "" if policy == FITTED else f".{policy}"
            name = f"decide.{domains}x{cpus}{suffix}"
            found = took.times_ms["dozen_change"]
            value, low, high = median_interval(found)
            bar = BARS.get((domains, cpus), "") if policy == FITTED else ""
            measured = Result(name, "ms", value, low, high, len(found), EQUAL, equal_ms, value / equal_ms, bar)
            times[policy].append(measured)
            megabytes = took.memory_mb
            memory[policy].append(Result(f"{name}.memory", "MB", megabytes, megabytes, megabytes, 1))
            report.add(times[policy][-1])
            if policy == FITTED:
                found = took.times_ms["most_fits"]
                report.add(Result(f"{name}.most_fits", "ms", *median_interval(found), len(found)))
            report.add(memory[policy][-1])
            report.details[name] = {
                "first_ms": took.first_ms,
                "cpu_ms": median_interval(took.cpu_ms["dozen_change"])[0],
                "steady_ms": median_interval(took.times_ms["steady"])[0],
            }
    for policy in POLICIES:
        _add_growth(report, f"decide.growth.{policy}", times[policy])
        # Growth by less than a page is not measurable, and 0 has no logarithm.
        if min(one.value for one in memory[policy]) > 0.0:
            _add_growth(report, f"decide.growth.{policy}.memory", memory[policy])


def _add_growth(report: Report, name: str, by_size: Sequence[Result]) -> None:
    """Over all sizes, and between the two largest, where constant costs no longer hide the growth."""
    sizes = [domains for domains, _cpus in SIZES]
    slope, error = growth(sizes, [one.value for one in by_size])
    report.add(Result(name, "exponent", slope, slope - STUDENT * error, slope + STUDENT * error, len(by_size)))
    before, last = by_size[-2:]
    factors = (last.value / before.value, last.low / before.high, last.high / before.low)
    value, low, high = (math.log(factor) / math.log(sizes[-1] / sizes[-2]) for factor in factors)
    report.add(Result(f"{name}.largest", "exponent", value, low, high, 2))


def growth(domains: list[int], values: list[float]) -> tuple[float, float]:
    """The exponent b of value = a domains^b by least squares of the logarithms, and its standard error.

    The pCPUs grow with the domains, a little more slowly: see SIZES.
    """
    x, y = np.log(domains), np.log(values)
    slope, intercept = np.polyfit(x, y, 1)
    residual = float(np.sum((y - slope * x - intercept) ** 2))
    return float(slope), math.sqrt(residual / (len(x) - 2) / float(np.sum((x - x.mean()) ** 2)))
