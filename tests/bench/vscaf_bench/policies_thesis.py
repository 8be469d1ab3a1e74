"""Compares SCAF's published choices (Creech 2015) with those of `max-speedup` from the same information.

There are two ways. thesis.SCENARIO is SCAF's own loop on the shipped curves: every report goes into eq. 4.2, every
answer of `max-speedup` is carried out, and nothing is damped. thesis.SCENARIO.loop is the daemon in the simulator, with
noise and damping. The details have the results of eq. 4.9 for single published speedups, by the functions that the
daemon uses. If a published split does not follow from published speedups, they show the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec
from vscaf.bench.intervals import median_interval
from vscaf.core.model.scaf import scaf_weight
from vscaf.simulate.scenarios.curves import load_curve
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.files import load_scenario
from vscaf.simulate.scenarios.scenario import Noise, Scenario
from vscaf_policies import DomainState, PoolState, SpeedupPoint
from vscaf_policies.max_speedup import max_speedup

from .policies_runs import SCAF, Bench, Case, allocations_between, run_all
from .report import Report, Result

Speedup = Callable[[int], float]

CLOSE = 2  # CPUs within which a choice is the same
ROUNDS = 200

SIMULATED = (
    # scenario, guest, its CPUs with SCAF, the source of that, start and end of the averaging time in seconds
    ("cg-lu", "cg", 25, "eq. 4.9 with Table 4.3's speedups", 60.0, 100.0),
    ("three-way", "cg", 52, "section 7.2", 60.0, 160.0),
    ("three-way-measured", "cg", 52, "section 7.2", 60.0, 160.0),
    ("oracle-sp-lu", "sp", 18, "section 7.3.1", 60.0, 100.0),
    ("oracle-cg-ft", "cg", 30, "section 7.3.1", 60.0, 100.0),
    ("oracle-lu-bt", "lu", 10, "section 7.3.2", 60.0, 100.0),
    ("oracle-ft-lu", "ft", 6, "section 7.3.2", 60.0, 100.0),
)
MEASURED = {"cg": 1.0, "sp": 0.6, "lu": 0.6}
"""Efficiencies that SCAF must have measured in section 7.2 so that eq. 4.9 stays at 52, if none depends on the number
of threads. Those of SP and LU are about those of Table 7.2; that of CG is far above its 0.68."""

SEEDS, QUICK_SEEDS = 3, 1
NOISE = 0.05  # relative, of a measurement


def weight(speedup: float, cpus: int) -> float:
    """C by eq. 4.2 from one speedup, as in the daemon."""
    found = scaf_weight((SpeedupPoint(cpus, speedup, 0.0, 1),))
    if found is None:
        raise ValueError(f"a speedup on {cpus} CPUs gives no weight: give one on two CPUs or more")
    return found


def split(weights: Mapping[str, float], cpus: int, chunk: int = 1) -> dict[str, int]:
    """Eq. 4.9 in whole chunks: what `max-speedup` answers."""
    domains = tuple(
        DomainState(name, 1, cpus, 1.0, cpus, 0, True, scaf, False, ()) for name, scaf in sorted(weights.items())
    )
    return dict(max_speedup(PoolState(cpus, chunk, 0.0, domains), {}))


def exact_share(weights: Mapping[str, float], name: str, cpus: int) -> float:
    """Eq. 4.9 before it is rounded."""
    return cpus * weights[name] / math.fsum(weights.values())


def settled(speedups: Mapping[str, Speedup], cpus: int, chunk: int = 1) -> list[dict[str, int]]:
    """Where SCAF's loop ends if it starts with equal shares: the split that stays, or those that it then repeats."""
    parts = split(dict.fromkeys(speedups, 1.0), cpus, chunk)
    seen: list[dict[str, int]] = []
    while parts not in seen and len(seen) < ROUNDS:
        seen.append(parts)
        weights = {name: weight(speedup(parts[name]), max(2, parts[name])) for name, speedup in speedups.items()}
        parts = split(weights, cpus, chunk)
    return seen[seen.index(parts) :] if parts in seen else seen[-1:]


def linear(efficiency: float) -> Speedup:
    """S(1) = 1, and S(p) = E p for more CPUs: an efficiency that does not fall."""
    return lambda cpus: max(1.0, efficiency * cpus)


def measure(bench: Bench, report: Report) -> None:
    """Adds thesis.SCENARIO.GUEST and the same with .loop for each scenario, and the arithmetic to details."""
    worked_example(report)
    on_paper(report)
    undamped(report)
    in_the_simulator(bench, report)


def worked_example(report: Report) -> None:
    """Section 4.3.5 and Figure 4.2: E = 2/3 on 12 and 3/8 on 4 of 16 give 14.18 and 1.82, so 14 and 2."""
    weights = {"foo": weight(12 * 2 / 3, 12), "baz": weight(4 * 3 / 8, 4)}
    exact = exact_share(weights, "foo", 16)
    given = float(split(weights, 16)["foo"])
    report.add(Result("thesis.worked-example", "CPUs", given, given, given, 1, "published", 14.0, bar="14"))
    report.details["thesis.worked-example"] = {"exact_share": exact, "published": 14.18}


def on_paper(report: Report) -> None:
    """The results of eq. 4.9 for each published figure."""
    ratios = {"cg": weight(17.4, 18), "lu": weight(13.7, 18)}
    table = {"cg": weight(17.0, 18), "lu": weight(12.0, 18)}
    consistent = {
        f"{cg}:{36 - cg}": exact_share({"cg": weight(23.2, cg), "lu": weight(8.0, 36 - cg)}, "cg", 36)
        for cg in range(23, 29)
    }
    report.details["thesis.cg-lu.arithmetic"] = {
        "what": "CPUs of 36 that eq. 4.9 gives CG. The text gives no number of threads for SCAF's row of Table 4.3.",
        "from_the_ipc_ratios_of_table_4.2_on_18_each": exact_share(ratios, "cg", 36),
        "from_the_speedups_of_table_4.1_on_18_each": exact_share(table, "cg", 36),
        "if_the_23.2_and_8.0_of_table_4.3_were_had_at": consistent,
        "settles_at_with_the_shipped_curves": settled(
            {name: load_curve(f"{name}-tilegx36").speedup for name in ("cg", "lu")}, 36
        ),
    }
    curves: dict[str, Speedup] = {name: load_curve(f"{name}-t2-three-way").speedup for name in ("cg", "sp", "lu")}
    at_52 = {"cg": weight(curves["cg"](52), 52), "sp": weight(curves["sp"](6), 6), "lu": weight(curves["lu"](6), 6)}
    measured = {name: linear(efficiency) for name, efficiency in MEASURED.items()}
    report.details["thesis.three-way.arithmetic"] = {
        "what": "CPUs of 64 that eq. 4.9 gives CG. Published: 52.",
        "from_the_speedups_of_table_7.2_on_22_21_21": exact_share(
            {"cg": weight(15.5, 22), "sp": weight(12.2, 21), "lu": weight(13.0, 21)}, "cg", 64
        ),
        "from_the_speedups_that_table_7.2_implies_at_52_6_6": exact_share(at_52, "cg", 64),
        "settles_at_with_the_curves_that_table_7.2_implies": settled(curves, 64),
        "settles_at_if_measured_efficiencies_were_1.0_0.6_0.6": settled(measured, 64),
        "sum_of_the_others_weights_at_52_that_it_takes": at_52["cg"] * 12 / 52,
        "sum_of_the_others_weights_that_table_7.2_implies": at_52["sp"] + at_52["lu"],
        "why_it_may_be": "SCAF's serial run of a section shares its core with seven threads of the parallel one "
        "(section 5.2.1). So the serial run is slowed down, too, and the measured E is too high.",
    }


def undamped(report: Report) -> None:
    """Where SCAF's loop settles with exact measurements; if it repeats several splits, their mean."""
    for name, guest, published, where, _from_s, _to_s in SIMULATED:
        scenario = scenario_named(name)
        speedups: dict[str, Speedup] = {
            plan.name: linear(plan.claims) if plan.behaviour == "lies" else plan.curve.speedup
            for plan in expanded(scenario)
        }
        ends = settled(speedups, scenario.host.pcpus, scenario.host.threads_per_core)
        given = [float(one[guest]) for one in ends]
        value = sum(given) / len(given)
        report.add(
            Result(
                f"thesis.{name}.{guest}",
                "CPUs",
                value,
                min(given),
                max(given),
                len(given),
                f"SCAF ({where})",
                float(published),
                value / published,
                f"{published} +- {CLOSE}",
            )
        )


def scenario_named(name: str) -> Scenario:
    """The shipped scenario, or the three-way one in which guests report what SCAF must have measured."""
    if name != "three-way-measured":
        return load_scenario(name)
    scenario = load_scenario("three-way")
    guests = tuple(
        msgspec.structs.replace(guest, behaviour="lies", claims=MEASURED[guest.name]) for guest in scenario.guests
    )
    return msgspec.structs.replace(scenario, name=name, guests=guests)


def in_the_simulator(bench: Bench, report: Report) -> None:
    """The real loop under `max-speedup`. Each guest measures its true speedup, with noise."""
    seeds = range(1, 1 + (QUICK_SEEDS if bench.quick else SEEDS))
    cases = []
    for name, _guest, _published, _where, from_s, to_s in SIMULATED:
        scenario = msgspec.structs.replace(
            scenario_named(name), noise=Noise(speedup=NOISE), settle_s=from_s, seconds=to_s
        )
        cases += [Case((name, seed), scenario, SCAF, seed) for seed in seeds]
    runs = run_all(bench, cases, "thesis")
    for name, guest, published, where, from_s, to_s in SIMULATED:
        given = [allocations_between(runs[name, seed], guest, from_s, to_s)[0] for seed in seeds]
        value, low, high = median_interval(given)
        report.add(
            Result(
                f"thesis.{name}.{guest}.loop",
                "CPUs",
                value,
                low,
                high,
                len(given),
                f"SCAF ({where})",
                float(published),
                value / published,
                f"{published} +- {CLOSE}",
            )
        )
        report.details[f"thesis.{name}"] = {
            "sum_of_speedups": [runs[name, seed].sum_of_speedups for seed in seeds],
            "moments_of_the_first": [
                {"time_s": round(one.time_s, 2), **one.allocations} for one in runs[name, seeds[0]].moments[-12:]
            ],
        }
