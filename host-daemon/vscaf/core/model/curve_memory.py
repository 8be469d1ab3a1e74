"""The memory of a domain's speedup curve: a point for each size at which it was measured.

An agent reports only the sizes that its programs have now. This module keeps the earlier reports of other sizes, which
grow older, until the program behaves like another one.

Trust. A point is remembered only if it is believed (core/model/trust.believed_points), and only for a size that the
domain really had. A report about a size that it never had is dropped, so a lie about other sizes has no effect. A liar
can still lie about the sizes that it has had. If its programs wait without spinning, S is at most the CPU time that
they used, so the report is cut to what work without overhead would show. For Amdahl's law that is the truth, and the
lie gains nothing. If they spin, or do useless work, CPU time proves nothing, and a report of S(p) = p is believed. The
gain is then no larger than that of an honest program with S(p) = p. No host can tell these two apart from the outside.
Bounds (`maximum`) and weights are the remedy.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vscaf_policies import SpeedupPoint
from vscaf_policies.models.points import LEAST_RELATIVE_ERROR

MOST_SIZES = 64
"""The most remembered sizes of one curve. The one measured longest ago is dropped first."""

MEMORY_S = 60.0
"""A measurement of a size has 1/e of the weight of a measurement of that size this much later."""

INDEPENDENT_S = 1.5
"""Reports of a guest overlap: the shim's averages reach back some seconds, with more weight on the present. A report
that comes sooner after the last one counts only as the fraction of this time that has passed."""

MOST_REPORTS = 25.0
"""The most reports that the mean of one size is effectively made of. So its standard error stays above a fifth of one
report's. The reason: errors that all reports of a program share (its input, its neighbours, its measuring) do not
average out."""

CONTRADICTION = 3.0
"""A report contradicts if it differs by more standard errors than this from the known value of its size."""

CONTRADICTIONS = 3
"""After so many contradicting reports in a row, all upwards or all downwards, the program counts as another one."""

ERROR_SHARE = 0.25
"""The weight of a new report in the mean error of reports."""

_SAME_ERRORS, _SAME_RATIO, _SAME_AGE_S = 0.33, 1.2, 10.0


@dataclass(frozen=True, slots=True)
class KnownSize:
    """The knowledge of one size. information: 1 / variance of speedup at the time measured_at_s, in seconds.

    report_error: the standard error of one report at this size. samples: the samples of all reports. reported: speedup
    and samples of the last report. doubts: how many reports in a row contradicted; above zero upwards, below zero
    downwards. doubt_sum: the sum of the speedups in these reports.
    """

    cpus: int
    speedup: float
    information: float
    report_error: float
    samples: int
    measured_at_s: float
    reported: tuple[float, int] = (0.0, 0)
    doubts: int = 0
    doubt_sum: float = 0.0

    @property
    def standard_error(self) -> float:
        """The standard error of the speedup when it was measured. It does not account for age."""
        return 1.0 / math.sqrt(self.information)


@dataclass(frozen=True, slots=True)
class CurveMemory:
    """What remember passes to its next call for the same programs. sizes: sorted, at most MOST_SIZES.

    largest: the largest allocation that the domain ever had while they ran, in CPUs. phases: how often their curve was
    found to have changed.
    """

    sizes: tuple[KnownSize, ...] = ()
    largest: int = 0
    phases: int = 0


MOST_PROGRAMS = 4
"""The most sets of programs whose curves are remembered for one domain. The one that ran longest ago is dropped."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The curve memories of a domain, by the names of the programs that ran together. The present one is the last."""

    known: tuple[tuple[tuple[str, ...], CurveMemory], ...] = ()

    def of(self, programs: tuple[str, ...]) -> tuple[CurveMemory, "Curves"]:
        """The memory of these programs, and the curves with these as the present ones."""
        if self.known and self.known[-1][0] == programs:
            return self.known[-1][1], self
        memory = next((memory for names, memory in self.known if names == programs), CurveMemory())
        others = [one for one in self.known if one[0] != programs][-(MOST_PROGRAMS - 1) :]
        return memory, Curves((*others, (programs, memory)))

    def holding(self, memory: CurveMemory) -> "Curves":
        """The same with another memory of the present programs."""
        programs, before = self.known[-1]
        return self if memory is before else Curves((*self.known[:-1], (programs, memory)))


def domain_points(processes: Sequence[tuple[int, Sequence[SpeedupPoint]]]) -> tuple[SpeedupPoint, ...]:
    """The points of a domain, from (team size, points) of each running process.

    One process: its points unchanged. Several processes: one point at the size that they have together now, S = sum of
    S_i(team_i) at sum of team_i CPUs, with errors added as independent ones. A process of one thread has S = 1. If one
    of them has no point at its team size, the sum is not known, and there are no points.
    """
    if len(processes) == 1:
        return tuple(processes[0][1])
    cpus, speedup, variance, samples = 0, 0.0, 0.0, 0
    for team, points in processes:
        cpus += max(1, team)
        if team <= 1:
            speedup += 1.0
            continue
        point = next((one for one in points if one.cpus == team), None)
        if point is None or not _usable(point):
            return ()
        speedup += point.speedup
        variance += point.standard_error**2
        samples = min(samples, point.samples) if samples else point.samples
    return (SpeedupPoint(cpus, speedup, math.sqrt(variance), max(1, samples)),) if processes else ()


def remember(memory: CurveMemory, points: Iterable[SpeedupPoint], now_s: float, allocation: int) -> CurveMemory:
    """*memory* with the points reported at the time now_s, while the domain had *allocation* CPUs (0: it rests).

    points: the believed points of the domain. Left out are points above the largest allocation that it ever had, at one
    CPU (S(1) = 1 by definition), without samples, and equal to the last report of their size. While a size has
    contradicting reports, equal reports count too. A known size gets the mean of both values by their information; the
    old information decays with MEMORY_S. Contradicting reports are counted separately. CONTRADICTIONS of them in a row
    at one size make everything else forgotten at once.
    """
    largest = max(memory.largest, allocation)
    known = {one.cpus: one for one in memory.sizes}
    phases, changed = memory.phases, largest != memory.largest
    for point in points:
        if not 1 < point.cpus <= largest or not _usable(point):
            continue
        before = known.get(point.cpus)
        if before is not None and not before.doubts and before.reported == (point.speedup, point.samples):
            continue  # the same measurement, reported again
        now = _first(point, now_s) if before is None else _again(before, point, now_s)
        if abs(now.doubts) >= CONTRADICTIONS:
            known, phases, now = {}, phases + 1, _anew(now, now_s)
        known[point.cpus], changed = now, True
    if not changed:
        return memory
    kept = sorted(known.values(), key=lambda one: -one.measured_at_s)[:MOST_SIZES]
    return CurveMemory(tuple(sorted(kept, key=lambda one: one.cpus)), largest, phases)


class Points(tuple[SpeedupPoint, ...]):
    """Points whose hash is computed once, because they are the key of a look-up of fits several times a period."""

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("hash")
        if known is None:
            known = self.__dict__["hash"] = super().__hash__()
        return known

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)


def recall(memory: CurveMemory, now_s: float) -> tuple[SpeedupPoint, ...]:
    """The known points at the time now_s, sorted by size. Their errors do not depend on their age."""
    return Points(
        [
            SpeedupPoint(one.cpus, one.speedup, one.standard_error, one.samples, max(0.0, now_s - one.measured_at_s))
            for one in memory.sizes
        ]
    )


def renewed(before: tuple[SpeedupPoint, ...], fresh: tuple[SpeedupPoint, ...]) -> tuple[SpeedupPoint, ...]:
    """*before* if *fresh* does not differ much from it, else *fresh*.

    A fit is kept as long as the points are the same object, and most reports only repeat what is known.
    """
    if len(before) != len(fresh):
        return fresh
    for old, new in zip(before, fresh, strict=True):
        if (
            old.cpus != new.cpus
            or abs(new.speedup - old.speedup) > _SAME_ERRORS * new.standard_error
            or not 1 / _SAME_RATIO < new.standard_error / old.standard_error < _SAME_RATIO
            or abs(new.age_s - old.age_s) > _SAME_AGE_S + 0.5 * old.age_s
        ):
            return fresh
    return before


def _usable(point: SpeedupPoint) -> bool:
    return point.samples > 0 and math.isfinite(point.speedup) and 0 <= point.standard_error < math.inf


def _error(point: SpeedupPoint) -> float:
    """The standard error of one report, at least LEAST_RELATIVE_ERROR: a reported zero must not count for ever."""
    return max(point.standard_error, LEAST_RELATIVE_ERROR * max(1.0, point.speedup))


def _first(point: SpeedupPoint, now_s: float) -> KnownSize:
    error = _error(point)
    reported = (point.speedup, point.samples)
    return KnownSize(point.cpus, point.speedup, error**-2, error, point.samples, now_s, reported)


def _again(before: KnownSize, point: SpeedupPoint, now_s: float) -> KnownSize:
    """The knowledge of a size after one more report of it."""
    # The mean error of reports, not this one's. If errors grow with the speedup, low reports would count for more.
    error = before.report_error + ERROR_SHARE * (_error(point) - before.report_error)
    elapsed_s = max(0.0, now_s - before.measured_at_s)
    difference = point.speedup - before.speedup
    reported = (point.speedup, point.samples)
    if abs(difference) > CONTRADICTION * math.hypot(error, before.standard_error):
        same_direction = before.doubts * difference > 0
        doubts = (abs(before.doubts) if same_direction else 0) + 1
        doubt_sum = (before.doubt_sum if same_direction else 0.0) + point.speedup
        return replace(
            before,
            doubts=doubts if difference > 0 else -doubts,
            doubt_sum=doubt_sum,
            reported=reported,
            report_error=error,
        )
    fraction = min(1.0, elapsed_s / INDEPENDENT_S)
    old = before.information * math.exp(-elapsed_s / MEMORY_S)
    new = fraction * error**-2
    most = MOST_REPORTS * error**-2
    return KnownSize(
        point.cpus,
        before.speedup + new / (old + new) * difference,
        min(max(old + new, error**-2), most),
        error,
        before.samples + point.samples,
        now_s,
        reported,
    )


def _anew(contradicted: KnownSize, now_s: float) -> KnownSize:
    """The knowledge of a size from only the reports that contradicted."""
    reports = abs(contradicted.doubts)
    return replace(
        contradicted,
        speedup=contradicted.doubt_sum / reports,
        information=reports / 2 * contradicted.report_error**-2,
        samples=reports,
        measured_at_s=now_s,
        doubts=0,
        doubt_sum=0.0,
    )
