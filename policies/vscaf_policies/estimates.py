"""What is expected of each domain's speedup, in the form in which sums of them are compared: a worth for each chunk."""

import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.bounds import limits
from vscaf_policies.models import fit_curve
from vscaf_policies.models.points import UsablePoint, usable_points
from vscaf_policies.state import DomainState, PoolState, SpeedupPoint

CAUTION = 1.0
"""Standard errors that an estimate is discounted by: for each size as likely to be better as a coin falls twice."""

WEIGHT_ERROR = 0.3
"""Relative error of C where nothing but C is known: SCAF's one point says little of the shape."""

STEPS = 0.085
"""Relative size of the steps that programs have about a smooth curve."""

STEPS_ALIKE = 0.1
"""Sizes so far apart in ln p have 1/e of a step in common."""

MOST_ERROR = 1e3
"""Relative error of a point beyond which it says nothing here."""

MOST_REMEMBERED_BYTES = 128 << 20
"""What answers that are remembered may take. 10,000 domains of 64 CPUs take a sixth of it."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """A speedup curve by chunks: index k is for k + 1 chunks. Nobody may write to it.

    expected: S as fitted, and drawn to what was measured near by. cautious: the same, less CAUTION
    standard errors: what is known well counts for more, and a wild extrapolation is no reason to starve anybody. error:
    standard errors. distance: from the nearest size that was measured (S(1) = 1 is known), in ln p.
    """

    expected: Numbers
    cautious: Numbers
    error: Numbers
    distance: Numbers

    @property
    def size_bytes(self) -> int:
        """The numbers of it."""
        return self.expected.nbytes + self.cautious.nbytes + self.error.nbytes + self.distance.nbytes


class Remembered:
    """Answers by what was asked, those last asked for, of most_bytes together; one is kept however large it is.

    Not an lru_cache, which counts answers: one for 4,096 CPUs takes as much as 64 for 64, and guests whose reports are
    noisy have all of them filled.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._answers: OrderedDict[Hashable, Worth] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, asked: Hashable) -> Worth | None:
        """The answer; None: it is not remembered."""
        known = self._answers.get(asked)
        if known is not None:
            self._answers.move_to_end(asked)
        return known

    def keep(self, asked: Hashable, answer: Worth) -> Worth:
        """Remembers the answer, forgets what was not asked for the longest, and returns it."""
        for numbers in (answer.expected, answer.cautious, answer.error, answer.distance):
            numbers.flags.writeable = False
        former = self._answers.pop(asked, None)
        self.size_bytes += answer.size_bytes - (former.size_bytes if former is not None else 0)
        self._answers[asked] = answer
        while self.size_bytes > self._most_bytes and len(self._answers) > 1:
            _, gone = self._answers.popitem(last=False)
            self.size_bytes -= gone.size_bytes
        return answer


_remembered = Remembered(MOST_REMEMBERED_BYTES)


def worth(domain: DomainState, pool: PoolState) -> Worth | None:
    """What each number of chunks is worth to the domain, at least up to the most that it can be given; None: not known.

    By its points; without one that can be used, or where no finite curve comes of them, by its scaf_weight,
    S(p) = 1 + C ln p (Creech 2015, eq. 4.2). A newcomer's first figures count as nothing known. Answers are remembered.
    """
    if domain.newcomer:
        return None
    most = min(limits(domain, pool.chunk)[1], pool.cpus // pool.chunk * pool.chunk)
    most = 1 << (max(most, pool.chunk) - 1).bit_length()  # demand that moves a little asks for the same curve
    if domain.points:
        asked: Hashable = (domain.points, pool.chunk, most)
        known = _remembered.get(asked)
        if known is not None:
            return known
        known = _fitted(domain.points, pool.chunk, most)
        if known is not None and _finite(known):
            return _remembered.keep(asked, known)
    weight = domain.scaf_weight
    if weight is None or not math.isfinite(weight) or weight <= 0:
        return None
    asked = (weight, pool.chunk, most)
    known = _remembered.get(asked)
    if known is not None:
        return known
    known = _logarithmic(weight, pool.chunk, most)
    return _remembered.keep(asked, known) if _finite(known) else None


def _finite(worth: Worth) -> bool:
    return all(bool(np.isfinite(one).all()) for one in (worth.expected, worth.cautious, worth.error))


def _fitted(points: tuple[SpeedupPoint, ...], chunk: int, most: int) -> Worth | None:
    estimate = fit_curve(points, max(most, chunk))
    if estimate.model == "unknown":
        return None
    usable = usable_points(points)
    cpus = np.arange(chunk, max(most, chunk) + 1, chunk)
    expected, error = np.array(estimate.mean)[cpus - 1], np.array(estimate.standard_error)[cpus - 1]
    expected = _with_steps(usable, expected, cpus, np.array(estimate.mean))
    measured = np.log(np.array([1, *(point.cpus for point in usable)]))
    distance = np.abs(np.log(cpus)[:, None] - measured).min(axis=1)
    return Worth(expected, np.maximum(0.0, expected - CAUTION * error), error, distance)


def _with_steps(points: Sequence[UsablePoint], expected: Numbers, cpus: NDArray[np.int64], mean: Numbers) -> Numbers:
    """*expected*, for each of *cpus*, drawn towards the points near it. mean: S(1), S(2), ... as fitted.

    Programs have knees and steps, at a socket's end or where a loop divides evenly, and formulas run smoothly over
    them. So what the fit leaves of ln S is taken for a Gaussian process of its own, of standard deviation STEPS and
    covariance falling with the distance (Rasmussen and Williams 2006, eq. 2.23): what is known well at a size stands.
    A point's age is in its error, so what was known long ago draws no more.
    """
    near = [one for one in points if one.cpus <= len(mean)]
    if not near:
        return expected
    at, said = np.array([one.cpus for one in near]), np.array([one.speedup for one in near])
    error = np.minimum(np.array([one.standard_error for one in near]), MOST_ERROR * said) / said
    where = np.log(at)
    among = STEPS**2 * np.exp(-np.abs(where[:, None] - where) / STEPS_ALIKE)
    gains = np.linalg.solve(among + np.diag(error**2), np.log(said / mean[at - 1]))
    towards = STEPS**2 * np.exp(-np.abs(np.log(cpus)[:, None] - where) / STEPS_ALIKE)
    drawn: Numbers = expected * np.exp(towards @ gains)
    return drawn


def _logarithmic(weight: float, chunk: int, most: int) -> Worth:
    distance = np.log(np.arange(chunk, max(most, chunk) + 1, chunk))
    with np.errstate(over="ignore", invalid="ignore"):  # of an absurd weight: worth() looks at what came of it
        expected, error = 1.0 + weight * distance, WEIGHT_ERROR * weight * distance
        return Worth(expected, expected - CAUTION * error, error, distance)
