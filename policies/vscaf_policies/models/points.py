"""From measured points to data for a fit: leaves out, clamps, ages and combines points."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.state import SpeedupPoint

Array = NDArray[np.float64]

LEAST_RELATIVE_ERROR = 0.01
"""Of the speedup. No measurement is better. It also keeps a reported error of zero from outweighing all others."""

MOST_EFFICIENCY = 2.0
"""Largest E = S/p that is believed, as in SCAF's code. Caches make super-linear speedup possible."""

LEAST_SPEEDUP = 0.01
"""Least speedup that is believed, because ln S must exist: a program 100 times slower than on one CPU, or worse."""

MOST_RELATIVE_ERROR = 10.0
"""Of the speedup. A point with a larger error is not used."""

DRIFT_PER_S = 0.001
"""Relative error that each second of age adds: after 100 s the error of a point is at least 10%. Programs change their
phases within tens of seconds to minutes. A point that is an hour old tells nothing (360%)."""

MOST_CPUS = 1 << 20
"""A point above this many CPUs cannot be true."""

TABLED = 128
"""What depends on sizes only, and not on measurements, is computed once for all sizes up to this many CPUs."""

_NO_WEIGHT = 1e9
"""Standard error of a point that only fills a row."""

MOST_SIZES = 96
"""If there are more distinct sizes, neighbours are combined: the time of a fit grows with the cube of their number."""


class UsablePoint(NamedTuple):
    """A point above one CPU whose figures can be used. The error includes the age."""

    cpus: int
    speedup: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Data:
    """Points of one program in the space of the fit, by increasing size: x = ln p, y = ln S, and the error of y.

    error: a standard error. columns: p - 1 of each point, its column in a table of all sizes up to TABLED; None: not
    all of them are there.
    """

    x: Array
    y: Array
    error: Array
    columns: NDArray[np.intp] | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The points of several programs, a row for each. Shorter rows end with the point S(1) = 1.

    All models explain that point exactly, and its error is so large that it has no weight. So it changes no fit.
    columns: as in Data; None if one of the programs has none.
    """

    x: Array
    y: Array
    error: Array
    columns: NDArray[np.intp] | None

    @classmethod
    def of(cls, programs: Sequence[Data]) -> "Batch":
        """The batch of these programs, at least one."""
        shape = len(programs), max(len(one.x) for one in programs)
        x, y, error, columns = np.zeros(shape), np.zeros(shape), np.full(shape, _NO_WEIGHT), np.zeros(shape, np.intp)
        tabled = True
        for row, one in enumerate(programs):
            count = len(one.x)
            x[row, :count], y[row, :count], error[row, :count] = one.x, one.y, one.error
            if one.columns is None:
                tabled = False
            else:
                columns[row, :count] = one.columns
        return cls(x, y, error, columns if tabled else None)

    def rows(self, chosen: NDArray[np.intp]) -> "Batch":
        """The batch of some of the programs."""
        columns = None if self.columns is None else self.columns[chosen]
        return Batch(self.x[chosen], self.y[chosen], self.error[chosen], columns)


def usable_points(points: Iterable[SpeedupPoint], drift_per_s: float = DRIFT_PER_S) -> tuple[UsablePoint, ...]:
    """The usable points, sorted, so that their order does not matter.

    Left out: p <= 1 (S(1) = 1 is exact), p above MOST_CPUS, no samples, a speedup, error or age that is not finite.
    Clamped: the speedup to LEAST_SPEEDUP ... MOST_EFFICIENCY p; an age below zero to zero. A point above the estimated
    sizes stays: it still shapes the curve. The error is at least LEAST_RELATIVE_ERROR of s = max(S, 1), then its square
    grows by (drift_per_s age_s s)^2. The age is rounded to two digits, so that not every second needs a new fit.
    """
    usable = []
    for point in points:
        figures = (point.speedup, point.standard_error, point.age_s)
        if not 1 < point.cpus <= MOST_CPUS or point.samples < 1 or not all(map(math.isfinite, figures)):
            continue
        speedup = min(max(point.speedup, LEAST_SPEEDUP), MOST_EFFICIENCY * point.cpus)
        scale = max(speedup, 1.0)
        age_s = float(f"{point.age_s:.2g}") if point.age_s > 0 else 0.0
        error = max(abs(point.standard_error), LEAST_RELATIVE_ERROR * scale)
        error = math.hypot(error, drift_per_s * age_s * scale)
        if math.isfinite(error):
            usable.append(UsablePoint(point.cpus, speedup, error))
    return tuple(sorted(usable))


def as_data(points: Iterable[UsablePoint]) -> Data | None:
    """The points as ln S over ln p, one for each size; None if no error is at most MOST_RELATIVE_ERROR.

    In ln S a relative error is constant, and an error in proportion to S does not bias the fit. Points of one size are
    combined with weights 1 / error^2. If they differ by more than their errors allow, the error of the combination
    grows by the square root of chi^2 per degree of freedom, so that contradicting points do not count as precise.
    """
    listed = list(points)
    cpus = np.array([point.cpus for point in listed], dtype=np.float64)
    errors = np.array([point.standard_error for point in listed], dtype=np.float64)
    # 0 +- 0.4 tells that S is hardly above 0.4. It counts as 0.2 +- 0.4, because ln 0 would mean far below.
    speedups = np.maximum([point.speedup for point in listed], np.clip(errors / 2.0, LEAST_SPEEDUP, 0.5))
    y = np.log(speedups)
    weights = np.square(speedups / errors)
    counted = speedups * MOST_RELATIVE_ERROR >= errors
    cpus, y, weights = cpus[counted], y[counted], weights[counted]
    if not len(cpus):
        return None
    x = np.log(cpus)
    bins = cpus
    if len(cpus) > MOST_SIZES and len(np.unique(cpus)) > MOST_SIZES:
        bins = np.floor(x * ((MOST_SIZES - 1) / x[-1]))
    starts = np.flatnonzero(np.diff(bins, prepend=-1.0))
    if len(starts) == len(cpus):
        return Data(x, y, 1.0 / np.sqrt(weights), cpus.astype(np.intp) - 1 if cpus[-1] <= TABLED else None)
    total = np.add.reduceat(weights, starts)
    members = np.diff(starts, append=len(cpus))
    middle_x, middle_y = (np.add.reduceat(weights * values, starts) / total for values in (x, y))
    chi_squared = np.add.reduceat(weights * (y - np.repeat(middle_y, members)) ** 2, starts)
    inflation = np.maximum(1.0, chi_squared / np.maximum(members - 1, 1))
    return Data(middle_x, middle_y, np.sqrt(inflation / total))
