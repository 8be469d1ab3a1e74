"""The price of the option `most_of_equal`: what it costs honest guests, and what a liar still gains under it.

The figures come from the runs of the parts `oracle` and `liar`, which also run each limit of LIMITS. In addition, the
best split under each limit is compared with the best split without one, by the true curves and without a run. That
shows the price for more guests than the two or three of `oracle`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from vscaf.simulate.report.oracle import best_static
from vscaf.simulate.scenarios.curves import load_curve
from vscaf_policies.intpart import integer_partition
from vscaf_policies.max_speedup_fitted import MOST

from .policies_runs import FITTED, SCAF
from .report import Report

LIMITS = (1.1, 1.5, 2.0, 3.0, 0.0)
"""0: no limit."""

GUESTS = (2, 3, 4, 6, 8)
"""Numbers of guests for which the price is computed by the true curves."""


def limit_name(limit: float) -> str:
    """The name of the fitted policy under that limit, in results."""
    if limit == MOST:
        return FITTED
    return f"{FITTED}.bounded" if limit == LIMITS[0] else f"{FITTED}.most_of_equal_{limit:g}"


def effective(limit: float, guests: int, pcpus: int) -> float:
    """The limit, or 0 if it changes no split among so many guests that could all use the whole pool."""
    return limit if int(limit * (pcpus // guests)) < pcpus - (guests - 1) else 0.0


def price(curves: Sequence[str], pcpus: int, limit: float) -> float:
    """How far the best split under the limit is below the best split, in % of its sum of true speedups."""
    equal = integer_partition(dict.fromkeys(curves, 1.0), pcpus)
    loaded = [load_curve(name) for name in curves]
    bounds = [(1, min(pcpus, int(limit * equal[name]))) for name in curves]
    return 100.0 * (1.0 - best_static(loaded, pcpus, bounds=bounds)[1] / best_static(loaded, pcpus)[1])


def table(report: Report, curves: Sequence[str], pcpus: int) -> None:
    """Adds details["most_of_equal"], a row for each limit, and prints it. curves: those of the part `oracle`."""
    values = {result.name: result.value for result in report.results}
    rows = [dict(_row(limit, values, curves, pcpus)) for limit in LIMITS]
    rows.append({"most_of_equal": f"{SCAF}, 0", **_measured(SCAF, values)})
    report.details["most_of_equal"] = {"default": MOST, "unit": "%", "rows": rows}
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print(" | ".join(columns))
    for row in rows:
        print(" | ".join(f"{cell:.2f}" if isinstance(cell := row.get(key, ""), float) else cell for key in columns))


def _row(
    limit: float, values: Mapping[str, float], curves: Sequence[str], pcpus: int
) -> Iterator[tuple[str, str | float]]:
    yield "most_of_equal", f"{limit:g}"
    yield from _measured(limit_name(limit), values).items()
    worst = 0.0
    for guests in (number for number in GUESTS if number <= len(curves)):
        prices = [price(chosen, pcpus, limit) for chosen in itertools.combinations(curves, guests)] if limit else [0.0]
        yield f"price_for_{guests}", sum(prices) / len(prices)
        worst = max(worst, *prices)
    yield "price_worst", worst


def _measured(name: str, values: Mapping[str, float]) -> dict[str, float]:
    """The measured figures of a policy, as far as their parts have run."""
    suffix = "" if name == FITTED else f".{name}"
    figures = {
        "gap_mean": f"oracle.gap.mean{suffix}",
        "gap_worst": f"oracle.gap.worst{suffix}",
        "liar_over_equal_share": f"liar.gain.{name}.over_equal_share",
    }
    return {key: values[result] for key, result in figures.items() if result in values}
