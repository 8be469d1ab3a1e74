"""Medians with their intervals: pure arithmetic."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """A median, its 95% interval, and how many values it is from. Of a single value there is no interval: then low and
    high are the value."""

    value: float
    low: float
    high: float
    n: int

    def interval(self, digits: int) -> str:
        """The 95% interval with so many decimals, "0.90 to 1.10"; empty if there is none."""
        return "" if self.n == 1 else f"{self.low:.{digits}f} to {self.high:.{digits}f}"


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and its 95% interval by order statistics (sign test); the extremes if there are too few values.

    ValueError if there are none.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n == 0:
        raise ValueError("there are no values for a median: run at least one repetition")
    # The median is below value k, counted from 0, if at most k values are below the median: P(X <= k) of
    # Binomial(n, 1/2). The interval begins at the last value for which that is at most 2.5%. The sums are integers,
    # because 0.5**n is 0 for a large n.
    rank, below, subsets, all_subsets = 0, 0, 1, 2**n
    for k in range(n):
        below += subsets
        if 40 * below > all_subsets:
            break
        rank = k
        subsets = subsets * (n - k) // (k + 1)
    return statistics.median(ordered), ordered[rank], ordered[n - 1 - rank]


def figure(values: Sequence[float]) -> Figure:
    """The figure of some values. ValueError if there are none."""
    return Figure(*median_interval(values), len(values))
