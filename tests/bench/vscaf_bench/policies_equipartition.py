"""Policies against equal shares: wins, even pairs and losses, as in Table 7.1 of Creech 2015.

The thesis's protocol (section 7.1): one program starts, and 10 s later another one. Each has a fixed work. Its speedup
is that work (its time alone on one CPU) divided by its time from start to end. The benchmark runs all pairs of the nine
shipped curves, on machines of several sizes, with 10% noise (the scenario `nine-pairs`). A win is a sum of speedups
above 1.05 times that under equal shares, a loss one below 0.95 times.

unmanaged.* compares with an unmanaged host in the same way, but only on as many pCPUs as the machine of the scenario
has, because what unmanaged programs lose is calibrated for that machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from vscaf.simulate.report.summary import LOSS, WIN
from vscaf.simulate.scenarios.expansion import scenarios_of
from vscaf.simulate.scenarios.files import load_scenario
from vscaf.simulate.scenarios.scenario import Host, Scenario

from .policies_runs import EQUAL, FITTED, SCAF, Bench, Case, mean_result, run_all, share_result
from .report import Report

SIZES, QUICK_SIZES = (16, 36, 64), (36,)
LOSSES_BAR = 2.0  # %
UNMANAGED, UNMANAGED_PCPUS = "unmanaged", 64

PUBLISHED = {
    "tilegx": {"wins": 64, "even": 25, "losses": 11, "win": 1.18},
    "openlab08": {"wins": 47, "even": 36, "losses": 17, "win": 1.18},
    "tempo-mic0": {"wins": 14, "even": 40, "losses": 46, "win": 1.11},
    "triad": {"wins": 56, "even": 25, "losses": 19, "win": 1.22},
    "bhindi": {"wins": 39, "even": 47, "losses": 14, "win": 1.11},
}
"""Table 7.1, SCAF against equal shares: % of pairs, and the mean factor of the wins."""

PUBLISHED_UNMANAGED = {"wins": 39, "even": 33, "losses": 28, "win": 1.27, "loss": 0.91}
"""The same on "triad", the machine with 64 contexts, against an unmodified system."""


def scenarios(pcpus: int) -> tuple[Scenario, ...]:
    """Each pair of programs, 10 s apart, until both are done: the shipped `nine-pairs` on *pcpus* pCPUs."""
    return scenarios_of(msgspec.structs.replace(load_scenario("nine-pairs"), host=Host(pcpus=pcpus)))


def measure(bench: Bench, report: Report) -> None:
    """Adds equipartition.losses, .wins and .win (the mean factor of the wins), the same for SCAF's policy."""
    sizes = QUICK_SIZES if bench.quick else SIZES
    chosen = {
        (tuple(guest.name for guest in one.guests), pcpus): (1 + number, one)
        for pcpus in sizes
        for number, one in enumerate(scenarios(pcpus)[:: 9 if bench.quick else 1])
    }
    cases = [
        Case((policy, *key), scenario, policy, seed)
        for key, (seed, scenario) in chosen.items()
        for policy in (FITTED, SCAF, EQUAL, *((UNMANAGED,) if key[1] == UNMANAGED_PCPUS else ()))
    ]
    runs = run_all(bench, cases, "equipartition")
    late = [key for key, run in runs.items() if any(guest.end_s is None for guest in run.guests)]
    if late:
        raise SystemExit(f"{late[0]}: not done in time: raise `seconds` of the scenario, or find out what delays it")
    sums = {key: sum(guest.speedup for guest in run.guests) for key, run in runs.items()}
    losses: dict[str, int] = {}
    for policy in (SCAF, FITTED):
        suffix = "" if policy == FITTED else f".{policy}"
        factors = {key: sums[policy, *key] / sums[EQUAL, *key] for key in chosen}
        values = list(factors.values())
        wins = [one for one in values if one > WIN]
        losses[policy] = sum(one < LOSS for one in values)
        report.add(
            share_result(
                f"equipartition.losses{suffix}",
                losses[policy],
                len(values),
                baseline_name=SCAF,
                baseline_value=100.0 * losses[SCAF] / len(values),
                bar=f"<= {LOSSES_BAR:g}" if policy == FITTED else "",
            )
        )
        report.add(share_result(f"equipartition.wins{suffix}", len(wins), len(values)))
        if wins:
            report.add(mean_result(f"equipartition.win{suffix}", "x", wins))
        report.add(mean_result(f"equipartition.factor{suffix}", "x", values))
        report.details[f"equipartition{suffix}"] = {
            "by_pcpus": {
                pcpus: _shares([one for (_pair, size), one in factors.items() if size == pcpus]) for pcpus in sizes
            },
            "losses": _named({key: one for key, one in factors.items() if one < LOSS}),
            "least": _named(dict(sorted(factors.items(), key=lambda item: item[1])[:5])),
        }
    report.details["equipartition.published"] = PUBLISHED
    if UNMANAGED_PCPUS in sizes:
        _against_unmanaged(report, sums, [key for key in chosen if key[1] == UNMANAGED_PCPUS])


def _against_unmanaged(
    report: Report, sums: dict[tuple[object, ...], float], pairs: Sequence[tuple[tuple[str, ...], int]]
) -> None:
    for policy in (SCAF, FITTED, EQUAL):
        factors = [sums[policy, *key] / sums[UNMANAGED, *key] for key in pairs]
        suffix = "" if policy == FITTED else f".{policy}"
        report.add(share_result(f"unmanaged.wins{suffix}", sum(one > WIN for one in factors), len(factors)))
        report.add(share_result(f"unmanaged.losses{suffix}", sum(one < LOSS for one in factors), len(factors)))
        report.add(mean_result(f"unmanaged.factor{suffix}", "x", factors))
        report.details[f"unmanaged{suffix}"] = _shares(factors)
    report.details["unmanaged.published"] = PUBLISHED_UNMANAGED


def _shares(factors: Sequence[float]) -> dict[str, float]:
    wins, losses = [one for one in factors if one > WIN], [one for one in factors if one < LOSS]
    even = len(factors) - len(wins) - len(losses)
    return {
        "wins": 100 * len(wins) / len(factors),
        "even": 100 * even / len(factors),
        "losses": 100 * len(losses) / len(factors),
        "win": sum(wins) / len(wins) if wins else 0.0,
        "loss": sum(losses) / len(losses) if losses else 0.0,
    }


def _named(factors: dict[tuple[tuple[str, ...], int], float]) -> dict[str, float]:
    return {f"{' '.join(pair)} on {pcpus}": round(one, 3) for (pair, pcpus), one in factors.items()}
