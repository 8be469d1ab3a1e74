"""What a guest gains if it always reports a perfect speedup (E = 1).

The same guest runs honestly and lying, with the same other guests. Its gain is in CPUs, relative to the honest run, and
in true speedup, which is the only real use of a lie. `spinning` is serial, too, but its threads use all CPU time that
they get, which the host cannot distinguish from work. The option `most_of_equal` limits what a report can bring, at a
cost for honest guests. `bounded` is the narrowest limit; the table at the end has all of them (policies_bound.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from vscaf.bench.intervals import median_interval
from vscaf.simulate.scenarios.curves import Amdahl
from vscaf.simulate.scenarios.scenario import Guest, Host, Noise, Scenario
from vscaf_policies.max_speedup_fitted import MOST

from . import policies_bound, policies_oracle
from .policies_bound import LIMITS, limit_name
from .policies_runs import FITTED, SCAF, Bench, Case, allocations_between, run_all
from .report import Report, Result

PCPUS = 64
SETTLE_S, SECONDS = 40.0, 80.0
NOISE = 0.05
SEEDS, QUICK_SEEDS = 3, 1
BAR = 10.0  # %

LIARS: dict[str, Guest] = {
    "serial": Guest(name="liar", curve=Amdahl(serial=1.0), granularity="coarse"),
    "half-serial": Guest(name="liar", curve=Amdahl(serial=0.5), granularity="coarse"),
    "saturating": Guest(name="liar", curve="mg-t2"),
    "falling": Guest(name="liar", curve="is-t2"),
    "spinning": Guest(name="liar", curve=Amdahl(serial=1.0), spins=True),
}
POLICIES: dict[str, tuple[str, dict[str, object]]] = {
    FITTED: (FITTED, {}),
    SCAF: (SCAF, {}),
    **{limit_name(limit): (FITTED, {"most_of_equal": limit}) for limit in LIMITS if limit != MOST},
}
"""The policy and its options, by the name in results."""

PARTNERS: tuple[tuple[str, ...], ...] = (("cg-t2", "lu-t2", "mg-t2"), ("ep-t2", "sp-t2", "ua-t2"))


def scenario_of(liar: Guest, partners: Sequence[str], name: str, *, lies: bool) -> Scenario:
    """The guest among honest ones, all from the start. `name`: a key of POLICIES."""
    policy, options = POLICIES[name]
    return Scenario(
        name="liar",
        seconds=SECONDS,
        settle_s=SETTLE_S,
        host=Host(pcpus=PCPUS),
        noise=Noise(speedup=NOISE),
        policy_options={policy: options},
        guests=(
            msgspec.structs.replace(liar, behaviour="lies" if lies else "honest", claims=1.0),
            *(Guest(name=curve, curve=curve) for curve in partners),
        ),
    )


def measure(bench: Bench, report: Report) -> None:
    """Adds liar.gain, the worst of all policies that use speedups, and the worst of each policy."""
    seeds = range(1, 1 + (QUICK_SEEDS if bench.quick else SEEDS))
    kinds = ("serial", "spinning") if bench.quick else tuple(LIARS)
    companies = PARTNERS[:1] if bench.quick else PARTNERS
    cases = [
        Case((name, kind, partners, lies, seed), scenario_of(LIARS[kind], partners, name, lies=lies), policy, seed)
        for name, (policy, _options) in POLICIES.items()
        for kind in kinds
        for partners in companies
        for lies in (False, True)
        for seed in seeds
    ]
    runs = run_all(bench, cases, "liar")
    in_cpus: dict[tuple[str, str, tuple[str, ...]], Result] = {}
    over_equal: dict[tuple[str, str, tuple[str, ...]], Result] = {}
    in_speedup: dict[tuple[str, str, tuple[str, ...]], float] = {}
    equal = PCPUS / (1 + len(PARTNERS[0]))
    table = []
    for policy in POLICIES:
        for kind in kinds:
            for partners in companies:
                cpus, speeds = {}, {}
                for lies in (False, True):
                    chosen = [runs[policy, kind, partners, lies, seed] for seed in seeds]
                    cpus[lies] = [allocations_between(run, "liar", SETTLE_S, SECONDS)[0] for run in chosen]
                    speeds[lies] = [
                        next(guest.speedup for guest in run.guests if guest.name == "liar") for run in chosen
                    ]
                gains = [100.0 * (after / before - 1.0) for before, after in zip(cpus[False], cpus[True], strict=True)]
                key = (policy, kind, partners)
                honest = median_interval(cpus[False])[0]
                in_cpus[key] = Result(
                    "liar.gain", "%", *median_interval(gains), len(gains), "honest (CPUs)", honest, bar=f"<= {BAR:g}"
                )
                over = [100.0 * (lying / equal - 1.0) for lying in cpus[True]]
                over_equal[key] = Result("", "%", *median_interval(over), len(over), "equal share (CPUs)", equal)
                in_speedup[key] = 100.0 * (sum(speeds[True]) / sum(speeds[False]) - 1.0)
                table.append(
                    {
                        "policy": policy,
                        "liar": kind,
                        "partners": " ".join(partners),
                        "cpus_honest": round(honest, 2),
                        "cpus_lying": round(median_interval(cpus[True])[0], 2),
                        "gain_cpus": round(in_cpus[key].value, 1),
                        "gain_speedup": round(in_speedup[key], 1),
                    }
                )
    free = {key: one for key, one in in_cpus.items() if key[0] in {FITTED, SCAF}}
    report.add(max(free.values(), key=lambda one: one.value))
    for policy in POLICIES:
        own = {key: one for key, one in in_cpus.items() if key[0] == policy}
        _add_worst(report, own, f"liar.gain.{policy}")
        unseen = {key: one for key, one in own.items() if key[1] != "spinning"}
        _add_worst(report, unseen, f"liar.gain.{policy}.not_spinning")
        _add_worst(
            report,
            {key: one for key, one in over_equal.items() if key[0] == policy},
            f"liar.gain.{policy}.over_equal_share",
        )
        speedup = max(gain for key, gain in in_speedup.items() if key[0] == policy)
        report.add(Result(f"liar.gain.{policy}.speedup", "%", speedup, speedup, speedup, len(own)))
    report.details["liar"] = table
    policies_bound.table(report, policies_oracle.NINE, policies_oracle.PCPUS)


def _add_worst(report: Report, gains: dict[tuple[str, str, tuple[str, ...]], Result], name: str) -> None:
    report.add(replace(max(gains.values(), key=lambda one: one.value), name=name))
