"""Against equal shares: wins, even pairs and losses, as in Table 7.1 of Creech 2015.

The thesis's protocol (section 7.1): one program starts, 10 s later another; each has some work to do, and its speedup
is that work (its time alone on one CPU) by its time from start to end. All pairs of the nine shipped curves, on
machines of several sizes, with 10% noise. A win: the sum of speedups is above 1.05 times that under equal shares; a
loss: below 0.95.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from vscaf.simulate.curves import load_curve
from vscaf.simulate.scenario import Guest, Host, Noise, Scenario

from .policies_oracle import NINE, NOISE
from .policies_runs import EQUAL, FITTED, SCAF, Bench, Case, mean_result, run_all, share_result
from .report import Report

SIZES, QUICK_SIZES = (16, 36, 64), (36,)
WIN, LOSS = 1.05, 0.95
ALONE_S = 60.0  # how long each program takes alone on the whole machine; the thesis: one to three minutes
APART_S = 10.0
PATIENCE_S = 200.0  # one after the other takes 130
LOSSES_BAR = 2.0  # %

PUBLISHED = {
    "tilegx": {"wins": 64, "even": 25, "losses": 11, "win": 1.18},
    "openlab08": {"wins": 47, "even": 36, "losses": 17, "win": 1.18},
    "tempo-mic0": {"wins": 14, "even": 40, "losses": 46, "win": 1.11},
    "triad": {"wins": 56, "even": 25, "losses": 19, "win": 1.22},
    "bhindi": {"wins": 39, "even": 47, "losses": 14, "win": 1.11},
}
"""Table 7.1, SCAF against equal shares: % of pairs, and the mean factor of the wins."""


def scenario_of(pair: Sequence[str], pcpus: int) -> Scenario:
    """Two programs, 10 s apart, until both are done."""
    guests = []
    for number, name in enumerate(pair):
        curve = load_curve(name)
        most = max(curve.speedup(cpus) for cpus in range(1, pcpus + 1))
        guests.append(Guest(name=name, curve=name, start_s=APART_S * number, work_s=ALONE_S * most))
    return Scenario(
        name="+".join(pair),
        seconds=PATIENCE_S,
        host=Host(pcpus=pcpus),
        noise=Noise(speedup=NOISE),
        guests=tuple(guests),
    )


def measure(bench: Bench, report: Report) -> None:
    """Adds equipartition.losses, .wins and .win (the mean factor of the wins), the same for SCAF's policy."""
    pairs = list(itertools.combinations(NINE, 2))
    pairs = pairs[::9] if bench.quick else pairs
    sizes = QUICK_SIZES if bench.quick else SIZES
    cases = [
        Case((policy, pair, pcpus), scenario_of(pair, pcpus), policy, 1 + number)
        for pcpus in sizes
        for number, pair in enumerate(pairs)
        for policy in (FITTED, SCAF, EQUAL)
    ]
    runs = run_all(bench, cases, "equipartition")
    late = [key for key, run in runs.items() if any(guest.end_s is None for guest in run.guests)]
    if late:
        raise SystemExit(f"{late[0]}: not done after {PATIENCE_S:g} s: raise PATIENCE_S, or see what holds it up")
    sums = {key: sum(guest.speedup for guest in run.guests) for key, run in runs.items()}
    losses: dict[str, int] = {}
    for policy in (SCAF, FITTED):
        suffix = "" if policy == FITTED else f".{policy}"
        factors = {
            (pair, pcpus): sums[policy, pair, pcpus] / sums[EQUAL, pair, pcpus] for pair in pairs for pcpus in sizes
        }
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
            "by_pcpus": {pcpus: _shares([factors[pair, pcpus] for pair in pairs]) for pcpus in sizes},
            "losses": _named({key: one for key, one in factors.items() if one < LOSS}),
            "least": _named(dict(sorted(factors.items(), key=lambda item: item[1])[:5])),
        }
    report.details["equipartition.published"] = PUBLISHED


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
