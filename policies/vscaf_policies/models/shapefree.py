"""The model without a formula: a Gaussian process in ln p around smooth curves, and its monotone projection.

ln S(p) = m(p) + r(p). m is one of a small set of plain curves (Gunther's law for several serial and coherence costs).
r is a Gaussian process that is 0 at p = 1. All combinations of a curve and of an amplitude, length and roughness of r
are weighed by marginal likelihood (Rasmussen and Williams 2006, eq. 2.30). Near the points the process follows them,
including knees and dips. Far from them it returns to the plain curves, with the amplitude as its error.
"""

import itertools
import math
from functools import lru_cache

import numpy as np

from vscaf_policies.models.parametric import Fit, usl
from vscaf_policies.models.points import TABLED, Array, Data

_SERIAL = {0.0: 0.1, 0.003: 0.1, 0.01: 0.13, 0.03: 0.17, 0.06: 0.15, 0.12: 0.13, 0.25: 0.1, 0.5: 0.07, 1.0: 0.05}
_COHERENCE = {0.0: 0.68, 1e-4: 0.15, 1e-3: 0.1, 1e-2: 0.05, 0.1: 0.01, 3.0: 0.01}
_PLAIN = np.array(list(itertools.product(_SERIAL, _COHERENCE)))
_PLAIN_PRIOR = np.outer(list(_SERIAL.values()), list(_COHERENCE.values())).ravel()
"""The plain curves: (sigma, kappa) of Gunther's law, and the prior probability of each."""

_ROUGHNESS = 0.015
"""Relative difference of S from any smooth curve, independent for each p: a loop may divide well by one p and badly by
the next. So the curve follows a precise point at its own p, however smooth the rest is."""

_LEAST_PROBABILITY = 5e-3


_KERNELS = np.array(
    [
        # smooth amplitude (of ln S), its length (in ln p), rough amplitude, prior probability
        (0.08, 1.5, 0.0, 0.25),
        (0.15, 0.5, 0.03, 0.2),
        (0.4, 0.8, 0.05, 0.2),
        (0.08, 1.5, 0.15, 0.2),
        (0.4, 0.8, 0.5, 0.15),
    ]
)
"""Covariances of r: Matern's with 3/2 for smooth bends, and the exponential one of length 1 for knees and steps."""


def _covariance(kernels: Array, first: Array, second: Array) -> Array:
    """Covariance of r between first and second (ln p), a matrix for each row of kernels, given that r(0) = 0."""
    result = _stationary(kernels, np.abs(first[:, None] - second))
    from_zero, to_zero = _stationary(kernels, first), _stationary(kernels, second)
    result -= from_zero[:, :, None] * (to_zero / _variance(kernels)[:, None])[:, None, :]
    return result


def _variance(kernels: Array) -> Array:
    """Variance of r far from p = 1, for each row of kernels."""
    result: Array = np.square(kernels[:, 0]) + np.square(kernels[:, 2])
    return result


def _stationary(kernels: Array, distance: Array) -> Array:
    """Covariance over a distance in ln p, for each row of kernels, before r(0) = 0 is taken into account."""
    columns = (slice(None),) + (None,) * distance.ndim
    scaled = (math.sqrt(3.0) / kernels[:, 1])[columns] * distance
    result: Array = np.exp(-scaled)
    scaled += 1.0
    result *= scaled
    result *= np.square(kernels[:, 0])[columns]
    result += np.square(kernels[:, 2])[columns] * np.exp(-distance)
    return result


def _at_sizes(x: Array) -> tuple[Array, Array]:
    """The parts that do not depend on measurements: covariances among the sizes (ln p), and the plain curves there."""
    return _covariance(_KERNELS, x, x), usl(_PLAIN, np.exp(x))


@lru_cache(maxsize=1)
def _tables() -> tuple[Array, Array]:
    """_at_sizes of 1, 2, ..., TABLED."""
    return _at_sizes(np.log(np.arange(1.0, TABLED + 1.0)))


def _at_points(data: Data) -> tuple[Array, Array]:
    """_at_sizes of the sizes of the data."""
    if data.columns is None:
        return _at_sizes(data.x)
    covariances, plain = _tables()
    return covariances.take(data.columns, 1).take(data.columns, 2), plain.take(data.columns, 1)


@lru_cache(maxsize=32)
def _at_question(most: int) -> tuple[Array, Array]:
    """At sizes(most): variance of r for each kernel before any measurement, and the plain curves."""
    cpus = sizes(most)
    variance = _variance(_KERNELS)[:, None]
    own = variance - np.square(_stationary(_KERNELS, np.log(cpus))) / variance + _ROUGHNESS**2
    return own, usl(_PLAIN, cpus)


def fit_free(data: Data, most: int) -> Fit:
    """The shape-free model against the data; mean and variance of ln S at each of sizes(most)."""
    covariances, plain_there = _at_points(data)
    covariances = covariances + np.diag(np.square(data.error) + _ROUGHNESS**2)
    factors = np.linalg.cholesky(covariances)
    # The likelihood of the parametric models leaves out ln det of the noise: it is the same for all of them.
    diagonals = np.diagonal(factors, axis1=1, axis2=2) / data.error
    log_determinants = 2.0 * np.log(diagonals).sum(axis=1)
    precisions = np.linalg.inv(covariances)
    misfits = data.y - plain_there
    chi_squared = np.einsum("kcp,cp->kc", misfits @ precisions, misfits)  # kernel, plain curve, point
    log_joint = np.log(_KERNELS[:, 3:]) + np.log(_PLAIN_PRIOR) - 0.5 * (chi_squared + log_determinants[:, None])
    best = log_joint.max()
    probability = np.exp(log_joint - best)
    log_evidence = float(best + math.log(probability.sum()))

    shares = probability.sum(axis=1)
    kept = np.flatnonzero(shares >= _LEAST_PROBABILITY * shares.max())
    curves = np.flatnonzero(probability.max(axis=0) >= _LEAST_PROBABILITY * probability.max())
    within = probability[np.ix_(kept, curves)]
    within /= within.sum(axis=1, keepdims=True)
    own, plain = _at_question(most)
    at = np.log(sizes(most))
    if data.columns is not None and most <= TABLED:
        across = _tables()[0].take(kept, 0)[:, :most].take(data.columns, 2)
    else:
        across = _covariance(_KERNELS[kept], at, data.x)
    across += _ROUGHNESS**2 * (np.abs(at[:, None] - data.x) < 1e-9)
    gains = across @ precisions[kept]
    explained = np.maximum(own[kept] - np.einsum("kpx,kpx->kp", gains, across), 0.0)
    lines = plain[curves] + misfits[curves] @ gains.transpose(0, 2, 1)
    means = np.einsum("kc,kcp->kp", within, lines)
    spread = np.einsum("kc,kcp->kp", within, np.square(lines - means[:, None]))
    mean, variance = mixture(shares[kept], means, explained + spread)
    return Fit(mean, variance, log_evidence)


def mixture(weights: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """Mean and variance of a mixture: the variance within its parts plus the variance between them. Rows are parts."""
    weights = weights / weights.sum()
    mean = weights @ means
    return mean, weights @ (variances + (means - mean) ** 2)


def monotone(free: Fit, data: Data, cpus: Array) -> Fit:
    """The nearest curve to the shape-free fit that never falls: its projection by isotonic regression.

    Its log evidence is that of the free fit less half of the chi^2 that the projection adds at the points. That is
    nothing if the free fit never falls, and much if precise points fall. The error includes the projection's shift.
    """
    if np.all(np.diff(free.mean) >= 0.0):
        return free
    mean = np.array(isotonic(free.mean.tolist(), (1.0 / (free.variance + 1e-6)).tolist()))
    at = np.log(cpus)
    before, after = (np.interp(data.x, at, values) for values in (free.mean, mean))
    cost = np.square((data.y - after) / data.error).sum() - np.square((data.y - before) / data.error).sum()
    return Fit(mean, free.variance + (mean - free.mean) ** 2, free.log_evidence - 0.5 * max(0.0, float(cost)))


def isotonic(values: list[float], weights: list[float]) -> list[float]:
    """The sequence nearest to values by weighted squares that never falls: neighbours that fall are pooled."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] > pool[0]:
            last = pools.pop()
            total = last[1] + pool[1]
            pool = ((last[0] * last[1] + pool[0] * pool[1]) / total, total, last[2] + pool[2])
        pools.append(pool)
    return [value for value, _, count in pools for _ in range(count)]


@lru_cache(maxsize=32)
def sizes(most: int) -> Array:
    """The sizes at which curves are evaluated: every p up to 128, then 24 in each octave, and the last one."""
    if most <= 128:
        result = np.arange(1.0, most + 1.0)
    else:
        above = np.round(np.geomspace(128.0, most, 1 + math.ceil(24 * math.log2(most / 128))))
        result = np.unique(np.concatenate([np.arange(1.0, 129.0), above]))
    result.flags.writeable = False
    return result
