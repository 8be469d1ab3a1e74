"""The demo's report.json, from the samples of its bench: pure functions. Other programs read it, so its form stays."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from vscaf.bench.figures import GroupFigures
from vscaf.bench.samples import ALONE, Sample, counted
from vscaf.bench.speed import alone_rate, speedups

REFERENCES = ("passive", "static", "unmanaged", "pinned")
SUM = "sum_of_speedups"
BY_THE_CLOCK = "_by_the_clock"


def pair_reports(groups: Sequence[GroupFigures], samples: Sequence[Sample], *, no_vm: bool) -> list[dict[str, Any]]:
    """An object for each pair of a program with itself. no_vm: the programs ran without guests."""
    return [_pair(group, samples, no_vm=no_vm) for group in groups]


def _pair(group: GroupFigures, samples: Sequence[Sample], *, no_vm: bool) -> dict[str, Any]:
    chosen = list(counted(samples))
    program = group.workloads[0]
    alone = [one for one in chosen if one.key.arrangement == ALONE and one.key.threads == 1]
    alone = [one for one in alone if one.key.workloads == (program,)]
    rates = {steady: alone_rate(_undisturbed(alone), program, 1, steady=steady) for steady in (True, False)}
    policies = {}
    for name in dict.fromkeys(one.arrangement for one in group.arrangements):
        every = [one for one in samples if (one.key.workloads, one.key.arrangement) == (group.workloads, name)]
        rows = sorted(counted(every), key=lambda one: one.key.round)
        policies[name] = {
            **_policy(every, _undisturbed(rows), rates, no_vm=no_vm),
            "rounds": [_round(row, every, alone, rates) for row in rows],
        }
    for policy in policies.values():
        for reference in REFERENCES:
            if reference in policies:
                rounds = (policy["rounds"], policies[reference]["rounds"])
                for ending in ("", BY_THE_CLOCK):
                    policy[f"ratio_to_{reference}{ending}"], judged = ratio(*rounds, SUM + ending)
                    policy[f"ratio_to_{reference}_disturbed"] = not judged
    return {
        "name": "+".join(group.workloads),
        "repeat": 1,
        "alone_one_thread_s": 1 / rates[False],
        "alone_one_thread_steady_s": 1 / rates[True],
        "policies": policies,
    }


def _policy(
    every: Sequence[Sample], rows: Sequence[Sample], rates: Mapping[bool, float], *, no_vm: bool
) -> dict[str, Any]:
    """The medians of an arrangement. rows: the runs that count; every: with their other attempts."""
    steady, by_the_clock = ([_speedups(row, rates, steady=one) for row in rows] for one in (True, False))
    return {
        "programs" if no_vm else "guests": [
            {
                "name" if no_vm else "domain": program.member,
                "program": program.workload,
                "seconds": statistics.median(
                    execution.end_s - execution.start_s for row in rows for execution in row.programs[place].executions
                ),
                "speedup": statistics.median(row[place] for row in steady),
                f"speedup{BY_THE_CLOCK}": statistics.median(row[place] for row in by_the_clock),
                "verified": all(execution.verified for row in every for execution in row.programs[place].executions),
            }
            for place, program in enumerate(rows[0].programs)
        ],
        SUM: statistics.median(map(sum, steady)),
        SUM + BY_THE_CLOCK: statistics.median(map(sum, by_the_clock)),
    }


def _round(
    row: Sample, every: Sequence[Sample], alone: Sequence[Sample], rates: Mapping[bool, float]
) -> dict[str, Any]:
    (reference,) = [one for one in alone if one.key.round == row.key.round]
    return {
        SUM: sum(_speedups(row, rates, steady=True)),
        SUM + BY_THE_CLOCK: sum(_speedups(row, rates, steady=False)),
        "both_compute_s": row.window[1] - row.window[0],
        "transitions": row.transitions,
        "disturbed": row.disturbed or reference.disturbed,
        "lost_to_others": row.lost,
        "alone_lost_to_others": reference.lost,
        "repeated": [
            {SUM: sum(_speedups(one, rates, steady=True)), "lost_to_others": one.lost}
            for one in every
            if one.key == row.key and one is not row
        ],
    }


def ratio(rounds: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], key: str) -> tuple[float, bool]:
    """The median of the ratios of each round, so that changes of the machine affect both sides. It is over the
    undisturbed rounds. If there are none, it is over all rounds, and the second value is False: do not judge by it.
    """
    pairs = list(zip(rounds, others, strict=True))
    judged = [(one, other) for one, other in pairs if not (one["disturbed"] or other["disturbed"])]
    return statistics.median(one[key] / other[key] for one, other in judged or pairs), bool(judged)


def _speedups(row: Sample, rates: Mapping[bool, float], *, steady: bool) -> list[float]:
    return speedups(row, [rates[steady]] * len(row.programs), steady=steady)


def _undisturbed(samples: Sequence[Sample]) -> list[Sample]:
    return [one for one in samples if not one.disturbed] or list(samples)
