"""How far each policy stays below the best static split by the true curves.

It runs all pairs and triples of the nine shipped NPB-like curves on 64 pCPUs in the real loop, with 10% noise on every
measurement. The result is the sum of true speedups after a time to settle, including the cost of exploration. Equal
shares need no run. It also runs the four pairs of Creech 2015, section 7.3, and compares with SCAF's gaps there.
The fitted policy runs under each limit of policies_bound.LIMITS that can change the split.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
from vscaf.bench.intervals import median_interval
from vscaf.simulate.engine.result import Run
from vscaf.simulate.report.oracle import best_static
from vscaf.simulate.scenarios.curves import load_curve
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.files import load_scenario
from vscaf.simulate.scenarios.scenario import Guest, Host, Noise, Scenario
from vscaf_policies.intpart import integer_partition
from vscaf_policies.max_speedup_fitted import MOST

from .policies_bound import LIMITS, effective, limit_name
from .policies_runs import EQUAL, FITTED, SCAF, Bench, Case, mean_result, run_all, worst_result
from .report import Report, Result

NINE = tuple(f"{name}-t2" for name in ("bt", "cg", "ep", "ft", "is", "lu", "mg", "sp", "ua"))
PCPUS = 64
NOISE = 0.1
SETTLE_S, SECONDS = 90.0, 150.0
MEAN_BAR, WORST_BAR = 2.0, 5.0  # %

PUBLISHED = {"oracle-sp-lu": 6.0, "oracle-cg-ft": 9.0, "oracle-lu-bt": 0.0, "oracle-ft-lu": 3.0}
"""SCAF's gaps in %, section 7.3."""


def combinations(quick: bool) -> list[tuple[str, ...]]:
    """36 pairs and 84 triples; if quick, every twentieth of them."""
    every = [*itertools.combinations(NINE, 2), *itertools.combinations(NINE, 3)]
    return every[::20] if quick else every


def scenario_of(curves: Sequence[str], pcpus: int = PCPUS, limit: float = MOST) -> Scenario:
    """Guests that start at once and stay. limit: the option `most_of_equal` of the fitted policy."""
    return Scenario(
        name="+".join(curves),
        seconds=SECONDS,
        settle_s=SETTLE_S,
        host=Host(pcpus=pcpus),
        noise=Noise(speedup=NOISE),
        policy_options={FITTED: {"most_of_equal": limit}},
        guests=tuple(Guest(name=curve, curve=curve) for curve in curves),
    )


def gap(run_sum: float, best: float) -> float:
    """How far *run_sum* is below *best*, in %."""
    return 100.0 * (1.0 - run_sum / best)


def name_of_run(limit: float, curves: Sequence[str]) -> str:
    """The name under which the fitted policy's run with that limit is kept: limits that change nothing share a run."""
    applies, default = (effective(one, len(curves), PCPUS) for one in (limit, MOST))
    return FITTED if applies == default else limit_name(applies)


def measure(bench: Bench, report: Report) -> None:
    """Adds oracle.gap.mean and .worst, those of the other policies, oracle.converged_periods and the thesis's pairs."""
    chosen = combinations(bench.quick)
    cases = [Case((SCAF, curves), scenario_of(curves), SCAF, 1 + number) for number, curves in enumerate(chosen)]
    cases += [
        Case((name, curves), scenario_of(curves, limit=limit), FITTED, 1 + number)
        for number, curves in enumerate(chosen)
        for name, limit in {name_of_run(limit, curves): limit for limit in (*LIMITS, MOST)}.items()
    ]
    thesis = {name: msgspec.structs.replace(load_scenario(name), noise=Noise(speedup=NOISE)) for name in PUBLISHED}
    if bench.quick:
        thesis = {}
    cases += [Case((policy, name), one, policy, 1) for name, one in thesis.items() for policy in (FITTED, SCAF)]
    runs = run_all(bench, cases, "oracle")

    limits = {limit_name(limit): limit for limit in (MOST, *LIMITS)}
    gaps: dict[str, list[float]] = {name: [] for name in (*limits, SCAF, EQUAL)}
    table = []
    for curves in chosen:
        loaded = [load_curve(name) for name in curves]
        split, best = best_static(loaded, PCPUS)
        equal = integer_partition(dict.fromkeys(curves, 1.0), PCPUS)
        sums = {name: runs[name_of_run(limit, curves), curves].sum_of_speedups for name, limit in limits.items()}
        sums[SCAF] = runs[SCAF, curves].sum_of_speedups
        sums[EQUAL] = sum(one.speedup(equal[name]) for name, one in zip(curves, loaded, strict=True))
        for policy, total in sums.items():
            gaps[policy].append(gap(total, best))
        table.append(_row(curves, split, best, sums, runs[FITTED, curves]))
    for policy, found in gaps.items():
        suffix = "" if policy == FITTED else f".{policy}"
        bars = (f"<= {MEAN_BAR:g}", f"<= {WORST_BAR:g}") if policy == FITTED else ("", "")
        scaf = gaps[SCAF]
        report.add(
            mean_result(
                f"oracle.gap.mean{suffix}",
                "%",
                found,
                baseline_name=SCAF,
                baseline_value=sum(scaf) / len(scaf),
                bar=bars[0],
            )
        )
        report.add(
            worst_result(
                f"oracle.gap.worst{suffix}",
                "%",
                found,
                baseline_name=SCAF,
                baseline_value=max(scaf),
                bar=bars[1],
            )
        )
    _converged(report, runs, chosen)
    costs = [100.0 * runs[FITTED, curves].exploration_cost for curves in chosen]
    report.add(mean_result("oracle.exploration_cost", "%", costs))
    report.details["oracle"] = sorted(table, key=lambda row: -float(str(row["gap"])))
    for name, scenario in thesis.items():
        _thesis_pair(report, name, scenario, runs)


def _row(
    curves: Sequence[str], split: Sequence[int], best: float, sums: dict[str, float], run: Run
) -> dict[str, object]:
    return {
        "curves": " ".join(curve.removesuffix("-t2") for curve in curves),
        "best_split": list(split),
        "best": round(best, 2),
        "gap": round(gap(sums[FITTED], best), 2),
        "gap_scaf": round(gap(sums[SCAF], best), 2),
        "gap_equal": round(gap(sums[EQUAL], best), 2),
        "ends_at": list(run.moments[-1].allocations.values()),
        "converged_periods": run.converged_periods,
        "exploration_cost": round(100 * run.exploration_cost, 2),
        "transitions": run.transitions,
    }


def _converged(report: Report, runs: dict[tuple[object, ...], Run], chosen: Sequence[tuple[str, ...]]) -> None:
    """Periods until the allocations stay; a run in which they do not counts with its length."""
    whole = math.ceil(1000.0 * SECONDS / scenario_of(chosen[0]).period_ms)
    for policy in (FITTED, SCAF):
        found = [runs[policy, curves].converged_periods for curves in chosen]
        periods = [float(whole if one is None else one) for one in found]
        value, low, high = median_interval(periods)
        suffix = "" if policy == FITTED else f".{policy}"
        report.add(Result(f"oracle.converged_periods{suffix}", "periods", value, low, high, len(periods)))
        report.details[f"oracle.never_converged{suffix}"] = found.count(None)


def _thesis_pair(report: Report, name: str, scenario: Scenario, runs: dict[tuple[object, ...], Run]) -> None:
    chunk = scenario.host.threads_per_core
    curves = [plan.curve for plan in expanded(scenario)]
    best = best_static(curves, scenario.host.pcpus // chunk, chunk)[1]
    finest = best_static(curves, scenario.host.pcpus)[1]
    sums = {policy: runs[policy, name].sum_of_speedups for policy in (FITTED, SCAF)}
    for policy, total in sums.items():
        suffix = "" if policy == FITTED else f".{policy}"
        missing = gap(total, finest)
        report.add(
            Result(
                f"{name.replace('-', '.', 1)}.gap{suffix}",
                "%",
                missing,
                missing,
                missing,
                1,
                "SCAF, section 7.3",
                PUBLISHED[name],
            )
        )
    report.details[name] = {"best": finest, "best_in_chunks": best, **sums}
