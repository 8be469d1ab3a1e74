"""The JSON document of `vscaf simulate`: plain values with stable keys. The simulator's README.md describes it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vscaf import __version__
from vscaf.simulate.engine.result import GuestResult, Moment, Run
from vscaf.simulate.report.summary import Oracle, Ratios, Together, finished_s, guest_speedups, ratios, together
from vscaf.simulate.scenarios.scenario import Scenario
from vscaf.simulate.sweep import Failure, Outcome

DIGITS = 6
"""Digits after the point. Smaller differences have no meaning and may differ between machines."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The results of one scenario. oracles: by seed, those that are known."""

    scenario: Scenario
    oracles: Mapping[int, Oracle]
    outcomes: tuple[Outcome, ...]

    @property
    def runs(self) -> list[Run]:
        """The completed runs, in the order of the jobs."""
        return [one for one in self.outcomes if isinstance(one, Run)]

    @property
    def failures(self) -> list[Failure]:
        """The runs that failed."""
        return [one for one in self.outcomes if isinstance(one, Failure)]


def document(all_of_them: Sequence[Outcomes]) -> dict[str, Any]:
    """The document of some scenarios and their runs."""
    return {
        "vscaf": __version__,
        "scenarios": [_scenario(one) for one in all_of_them],
        "together": [_together(one) for one in together(every_ratio(all_of_them))],
    }


def every_ratio(all_of_them: Iterable[Outcomes]) -> list[tuple[str, Ratios]]:
    """The policy and the ratios of every run of some scenarios."""
    return [
        (run.policy, ratio)
        for one in all_of_them
        for run, ratio in zip(one.runs, ratios(one.scenario, one.runs, one.oracles), strict=True)
    ]


def _together(comparison: Together) -> dict[str, Any]:
    return {
        "policy": comparison.policy,
        "runs": comparison.runs,
        "wins": comparison.wins,
        "even": comparison.even,
        "losses": comparison.losses,
        "to_equipartition": _rounded(comparison.to_equipartition),
        "to_oracle": _rounded(comparison.to_oracle),
        "least_to_oracle": _rounded(comparison.least_to_oracle),
    }


def _scenario(one: Outcomes) -> dict[str, Any]:
    scenario, runs = one.scenario, one.runs
    return {
        "name": scenario.name,
        "title": scenario.title,
        "source": scenario.source,
        "seconds": scenario.seconds,
        "pcpus": scenario.host.pcpus,
        "oracles": [
            {
                "seed": seed,
                "sum_of_speedups": _rounded(oracle.sum_of_speedups),
                "split": None if oracle.split is None else dict(oracle.split),
            }
            for seed, oracle in sorted(one.oracles.items())
        ],
        "runs": [_run(run, ratio) for run, ratio in zip(runs, ratios(scenario, runs, one.oracles), strict=True)],
        "failures": [{"policy": bad.policy, "seed": bad.seed, "why": bad.why} for bad in one.failures],
    }


def _run(run: Run, ratio: Ratios) -> dict[str, Any]:
    return {
        "policy": run.policy,
        "seed": run.seed,
        "sum_of_speedups": _rounded(run.sum_of_speedups),
        "sum_of_guest_speedups": _rounded(guest_speedups(run)),
        "efficiency": _rounded(run.efficiency),
        "to_equipartition": _rounded(ratio.to_equipartition),
        "to_oracle": _rounded(ratio.to_oracle),
        "finished_s": _rounded(finished_s(run)),
        "converged_periods": run.converged_periods,
        "decisions": run.decisions,
        "transitions": run.transitions,
        "moved_cpus": run.moved_cpus,
        "exploration_cost": _rounded(run.exploration_cost),
        "violations": list(run.violations),
        "wall_s": _rounded(run.wall_s),
        "guests": [_guest(guest) for guest in run.guests],
        "moments": _changes(run.moments),
    }


def _guest(guest: GuestResult) -> dict[str, Any]:
    return {
        "name": guest.name,
        "curve": guest.curve,
        "start_s": _rounded(guest.start_s),
        "end_s": _rounded(guest.end_s),
        "work_s": _rounded(guest.work_s),
        "speedup": _rounded(guest.speedup),
        "claimed": _rounded(guest.claimed),
    }


def _changes(moments: Sequence[Moment]) -> list[dict[str, Any]]:
    """Only what differs from the moment before; 0: no CPUs any more. All allocations would be guests x changes."""
    changes: list[dict[str, Any]] = []
    before: Mapping[str, int] = {}
    for moment in moments:
        after = {name: cpus for name, cpus in moment.allocations.items() if cpus > 0}
        changed = {
            name: after.get(name, 0) for name in sorted({*before, *after}) if before.get(name) != after.get(name)
        }
        if changed:
            changes.append({"time_s": _rounded(moment.time_s), "allocations": changed})
        before = after
    return changes


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
