"""The expected speedup of each domain by number of chunks, in the form that splits of the pool are compared with."""

import math
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.bounds import competes, limits
from vscaf_policies.models import SpeedupEstimate, fit_together
from vscaf_policies.models.points import UsablePoint, usable_points
from vscaf_policies.state import DomainState, PoolState

CAUTION = 1.0
"""Standard errors that are subtracted from an estimate. With normal errors the true value is above it 5 of 6 times."""

WEIGHT_ERROR = 0.3
"""Relative error of C if only C is known: SCAF's single point tells little about the shape."""

STEPS = 0.085
"""Relative size of the steps by which programs differ from a smooth curve."""

STEPS_ALIKE = 0.1
"""Distance in ln p at which the correlation of steps falls to 1/e."""

MOST_ERROR = 1e3
"""Largest relative error of a point that is used here; a larger one counts as this."""

MOST_REMEMBERED_BYTES = 128 << 20
"""The most memory for remembered answers. 10,000 domains of 64 CPUs take a sixth of it."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """A speedup curve by chunks: index k is for k + 1 chunks. It is read-only.

    expected: S as fitted, and drawn towards the measurements at near sizes. cautious: expected less CAUTION standard
    errors, so that no domain loses its CPUs to the uncertain extrapolation of another. error: standard errors.
    distance: from the nearest size that was measured (S(1) = 1 is known), in ln p.
    """

    expected: Numbers
    cautious: Numbers
    error: Numbers
    distance: Numbers

    @property
    def size_bytes(self) -> int:
        """Memory of its arrays."""
        return self.expected.nbytes + self.cautious.nbytes + self.error.nbytes + self.distance.nbytes


class Remembered:
    """A cache of the answers last used, at most most_bytes in total; one answer is kept however large it is.

    An lru_cache would not do, because it counts answers: one for 4,096 CPUs takes as much memory as 64 for 64 CPUs, and
    guests with noisy reports would fill it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._answers: OrderedDict[Hashable, tuple[Worth, object]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, asked: Hashable) -> Worth | None:
        """The remembered answer, or None."""
        known = self._answers.get(asked)
        if known is None:
            return None
        self._answers.move_to_end(asked)
        return known[0]

    def keep(self, asked: Hashable, answer: Worth, about: object = None) -> Worth:
        """Remembers the answer, forgets those not used for the longest time, and returns the answer.

        about: an object that lives as long as the answer is remembered, so that its id can be a part of `asked`.
        """
        for numbers in (answer.expected, answer.cautious, answer.error, answer.distance):
            numbers.flags.writeable = False
        former = self._answers.pop(asked, None)
        self.size_bytes += answer.size_bytes - (former[0].size_bytes if former is not None else 0)
        self._answers[asked] = answer, about
        while self.size_bytes > self._most_bytes and len(self._answers) > 1:
            _, (gone, _) = self._answers.popitem(last=False)
            self.size_bytes -= gone.size_bytes
        return answer


MOST_TOGETHER = 64
"""The most curves that are fitted together. It limits the memory that this takes."""

_remembered = Remembered(MOST_REMEMBERED_BYTES)


def worth(domain: DomainState, pool: PoolState) -> Worth | None:
    """What each number of chunks is worth to the domain, at least up to the most that it can get; None: not known.

    The curve is fitted to its points. Without a usable point, or if the fit is not finite, it comes from its
    scaf_weight, S(p) = 1 + C ln p (Creech 2015, eq. 4.2). For a newcomer, it is not known. Answers are remembered.
    """
    if domain.newcomer:
        return None
    asked = _asked(domain, pool)
    known = _remembered.get(asked)
    return known if known is not None else _learned([(domain, asked)])[0]


_latest: dict[tuple[int, int, int], tuple[object, dict[str, Worth | None]]] = {}
"""The latest answer of worths, by the id of the domains, with the domains, so that no others get that id."""


def worths(pool: PoolState) -> Mapping[str, Worth | None]:
    """The worth of each domain that competes, by name. New curves are fitted together.

    If it is asked about the same domains again, it need not look up each of them: a decision asks twice.
    """
    pool_asked = id(pool.domains), pool.cpus, pool.chunk
    latest = _latest.get(pool_asked)
    if latest is not None:
        return latest[1]
    answers: dict[str, Worth | None] = {}
    new = []
    for domain in pool.domains:
        if not competes(domain):
            continue
        known = None
        if not domain.newcomer:
            asked = _asked(domain, pool)
            known = _remembered.get(asked)
            if known is None:
                new.append((domain, asked))
        answers[domain.name] = known
    for first in range(0, len(new), MOST_TOGETHER):
        some = new[first : first + MOST_TOGETHER]
        answers.update(zip([domain.name for domain, _asked in some], _learned(some), strict=True))
    _latest.clear()
    _latest[pool_asked] = pool.domains, answers
    return answers


def expected(known: Worth | None, chunks: int) -> Numbers | None:
    """The expected speedup on 1, 2, ... chunks, at most *chunks*; None: not known."""
    return None if known is None else known.expected[:chunks]


def cautious(known: Worth | None, chunks: int) -> Numbers | None:
    """The expected speedup less its error on 1, 2, ... chunks, at most *chunks*; None: not known."""
    return None if known is None else known.cautious[:chunks]


_Asked = tuple[Hashable, int, int]
"""What an answer is about, the chunk, and the CPUs for which a curve is needed."""


def _asked(domain: DomainState, pool: PoolState) -> _Asked:
    chunk = pool.chunk
    most = min(limits(domain, chunk)[1], pool.cpus // chunk * chunk)
    most = 1 << (max(most, chunk) - 1).bit_length()  # so that a small change of demand needs no new curve
    # Points by id, because their hash takes longer than all else here. Equal points give an equal answer anyway.
    return (id(domain.points) if domain.points else ("C", domain.scaf_weight), chunk, most)


def _learned(new: Sequence[tuple[DomainState, _Asked]]) -> list[Worth | None]:
    """Makes the answers, and remembers them."""
    usable = [usable_points(domain.points) for domain, _asked in new]
    fits = fit_together([(points, most) for points, (_, (_about, _chunk, most)) in zip(usable, new, strict=True)])
    answers: list[Worth | None] = []
    for (domain, asked), points, fit in zip(new, usable, fits, strict=True):
        _about, chunk, most = asked
        known = None if fit.model == "unknown" else _fitted(points, fit, chunk, most)
        if known is not None and _finite(known):
            answers.append(_remembered.keep(asked, known, domain.points))
        else:
            answers.append(_by_weight(domain.scaf_weight, chunk, most))
    return answers


def _by_weight(weight: float | None, chunk: int, most: int) -> Worth | None:
    if weight is None or not math.isfinite(weight) or weight <= 0:
        return None
    asked = (("C", weight), chunk, most)
    known = _remembered.get(asked)
    if known is not None:
        return known
    known = _logarithmic(weight, chunk, most)
    return _remembered.keep(asked, known) if _finite(known) else None


def _finite(worth: Worth) -> bool:
    return all(bool(np.isfinite(one).all()) for one in (worth.expected, worth.cautious, worth.error))


def _fitted(points: Sequence[UsablePoint], fit: SpeedupEstimate, chunk: int, most: int) -> Worth:
    cpus = np.arange(chunk, most + 1, chunk)
    mean, error = np.array(fit.mean), np.array(fit.standard_error)[cpus - 1]
    expected = _with_steps(points, mean[cpus - 1], cpus, mean)
    measured = np.log(np.array([1, *(point.cpus for point in points)]))
    distance = np.abs(np.log(cpus)[:, None] - measured).min(axis=1)
    return Worth(expected, np.maximum(0.0, expected - CAUTION * error), error, distance)


def _with_steps(points: Sequence[UsablePoint], expected: Numbers, cpus: NDArray[np.int64], mean: Numbers) -> Numbers:
    """*expected*, for each of *cpus*, drawn towards the points near it. mean: S(1), S(2), ... as fitted.

    Programs have knees and steps, at the end of a socket or where a loop divides evenly, and smooth formulas miss them.
    So the residual of the fit in ln S is modelled as a Gaussian process, with standard deviation STEPS and a covariance
    that falls with distance (Rasmussen and Williams 2006, eq. 2.23). A size that was measured precisely keeps its
    value. A point's age is in its error, so an old point no longer draws the curve.
    """
    near = [one for one in points if one.cpus <= len(mean)]
    if not near:
        return expected
    at, speedups = np.array([one.cpus for one in near]), np.array([one.speedup for one in near])
    error = np.minimum(np.array([one.standard_error for one in near]), MOST_ERROR * speedups) / speedups
    where = np.log(at)
    among = STEPS**2 * np.exp(-np.abs(where[:, None] - where) / STEPS_ALIKE)
    gains = np.linalg.solve(among + np.diag(error**2), np.log(speedups / mean[at - 1]))
    towards = STEPS**2 * np.exp(-np.abs(np.log(cpus)[:, None] - where) / STEPS_ALIKE)
    drawn: Numbers = expected * np.exp(towards @ gains)
    return drawn


def _logarithmic(weight: float, chunk: int, most: int) -> Worth:
    distance = np.log(np.arange(chunk, most + 1, chunk))
    with np.errstate(over="ignore", invalid="ignore"):  # if the weight is absurd; worth() checks the result
        expected, error = 1.0 + weight * distance, WEIGHT_ERROR * weight * distance
        return Worth(expected, expected - CAUTION * error, error, distance)
