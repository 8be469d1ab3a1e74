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
from vscaf_policies.models.points import TABLED, Array, Batch

_SERIAL = {0.0: 0.1, 0.003: 0.1, 0.01: 0.13, 0.03: 0.17, 0.06: 0.15, 0.12: 0.13, 0.25: 0.1, 0.5: 0.07, 1.0: 0.05}
_COHERENCE = {0.0: 0.68, 1e-4: 0.15, 1e-3: 0.1, 1e-2: 0.05, 0.1: 0.01, 3.0: 0.01}
_PLAIN = np.array(list(itertools.product(_SERIAL, _COHERENCE)))
_PLAIN_PRIOR = np.outer(list(_SERIAL.values()), list(_COHERENCE.values())).ravel()
"""The plain curves: (sigma, kappa) of Gunther's law, and the prior probability of each."""

_ROUGHNESS = 0.015
"""Relative difference of S from any smooth curve, independent for each p: a loop may divide well by one p and badly by
the next. So the curve follows a precise point at its own p, however smooth the rest is."""

_LEAST_PROBABILITY = 5e-3

_SAME_SIZE = 1e-9
"""Two sizes that differ by less, in ln p, are the same."""

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
    """Covariance of r between first and second (ln p, in the last axis), for each row of kernels, given that r(0) = 0.

    Axes: kernel, those of first and second, size of first, size of second.
    """
    result = _stationary(kernels, np.abs(first[..., :, None] - second[..., None, :]))
    to_zero = _stationary(kernels, second)
    to_zero /= _along(_variance(kernels), second.ndim)
    result -= _stationary(kernels, first)[..., :, None] * to_zero[..., None, :]
    return result


def _along(column: Array, axes: int) -> Array:
    """A number for each row of kernels, with so many axes after it."""
    return column[(slice(None),) + (None,) * axes]


def _variance(kernels: Array) -> Array:
    """Variance of r far from p = 1, for each row of kernels."""
    result: Array = np.square(kernels[:, 0]) + np.square(kernels[:, 2])
    return result


def _stationary(kernels: Array, distance: Array) -> Array:
    """Covariance over a distance in ln p, for each row of kernels, before r(0) = 0 is taken into account."""
    scaled = _along(math.sqrt(3.0) / kernels[:, 1], distance.ndim) * distance
    result: Array = np.exp(-scaled)
    scaled += 1.0
    result *= scaled
    result *= _along(np.square(kernels[:, 0]), distance.ndim)
    result += _along(np.square(kernels[:, 2]), distance.ndim) * np.exp(-distance)
    return result


def _at_sizes(x: Array) -> tuple[Array, Array]:
    """The parts that do not depend on measurements: covariances among the sizes (ln p), and the plain curves there."""
    return _covariance(_KERNELS, x, x), usl(_PLAIN.reshape(-1, *[1] * (x.ndim - 1), 2), np.exp(x))


@lru_cache(maxsize=1)
def _tables() -> tuple[Array, Array]:
    """_at_sizes of 1, 2, ..., TABLED."""
    return _at_sizes(np.log(np.arange(1.0, TABLED + 1.0)))


def _at_points(batch: Batch) -> tuple[Array, Array]:
    """_at_sizes of the sizes of each program. Axes: kernel, program, size, size; plain curve, program, size."""
    if batch.columns is None:
        return _at_sizes(batch.x)
    covariances, plain = _tables()
    return covariances[:, batch.columns[:, :, None], batch.columns[:, None, :]], plain.take(batch.columns, 1)


@lru_cache(maxsize=32)
def _at_question(most: int) -> tuple[Array, Array]:
    """At sizes(most): variance of r for each kernel before any measurement, and the plain curves."""
    cpus = sizes(most)
    variance = _variance(_KERNELS)[:, None]
    own = variance - np.square(_stationary(_KERNELS, np.log(cpus))) / variance + _ROUGHNESS**2
    return own, usl(_PLAIN, cpus)


def fit_free(batch: Batch, most: int) -> Fit:
    """The shape-free model of each program; mean and variance of ln S at each of sizes(most).

    Axes: kernel k, plain curve c, program n, point x, size p.
    """
    covariances, plain_there = _at_points(batch)
    noise = np.square(batch.error) + _ROUGHNESS**2
    covariances = covariances + noise[:, :, None] * np.eye(noise.shape[1])
    factors = np.linalg.cholesky(covariances)
    # The likelihood of the parametric models leaves out ln det of the noise: it is the same for all of them.
    diagonals = np.diagonal(factors, axis1=2, axis2=3) / batch.error
    log_determinants = 2.0 * np.log(diagonals).sum(axis=2)
    precisions = np.linalg.inv(covariances)
    misfits = (batch.y - plain_there).transpose(1, 0, 2)
    chi_squared = np.einsum("kncx,ncx->kcn", misfits @ precisions, misfits)
    log_joint = -0.5 * (chi_squared + log_determinants[:, None])
    log_joint += (np.log(_KERNELS[:, 3:]) + np.log(_PLAIN_PRIOR))[:, :, None]
    best = log_joint.max(axis=(0, 1))
    probability = np.exp(log_joint - best)
    log_evidence = best + np.log(probability.sum(axis=(0, 1)))

    shares = probability.sum(axis=1)
    shares[shares < _LEAST_PROBABILITY * shares.max(axis=0)] = 0.0
    within = np.where(probability.max(axis=0) >= _LEAST_PROBABILITY, probability, 0.0)
    # Only the kernels and curves that some program keeps are worth their time.
    kernels, curves = np.flatnonzero(shares.any(axis=1)), np.flatnonzero(within.any(axis=(0, 2)))
    within, shares = within[np.ix_(kernels, curves)], shares[kernels]
    within /= np.maximum(within.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    own, plain = _at_question(most)
    at = np.log(sizes(most))
    if batch.columns is not None and most <= TABLED:
        across = _tables()[0].take(kernels, 0)[:, :most].take(batch.columns, 2).transpose(0, 2, 1, 3)
    else:
        across = _covariance(_KERNELS[kernels], np.broadcast_to(at, (len(batch.x), len(at))), batch.x)
    across = across + _ROUGHNESS**2 * (np.abs(at[:, None] - batch.x[:, None]) < _SAME_SIZE)
    gains = across @ precisions[kernels]
    explained = np.maximum(own[kernels][:, None] - np.einsum("knpx,knpx->knp", gains, across), 0.0)
    lines = plain[curves] + misfits[:, curves] @ gains.transpose(0, 1, 3, 2)
    means = np.einsum("kcn,kncp->knp", within, lines)
    lines -= means[:, :, None]
    lines *= lines
    spread = np.einsum("kcn,kncp->knp", within, lines)
    mean, variance = mixture(shares, means, explained + spread)
    return Fit(mean, variance, log_evidence)


def mixture(weights: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """Mean and variance of a mixture: the variance within its parts plus the variance between them.

    weights: of each part, for each program. means, variances: the same at each size.
    """
    weights = weights / weights.sum(axis=0)
    mean = np.einsum("kn,knp->np", weights, means)
    return mean, np.einsum("kn,knp->np", weights, variances + np.square(means - mean))


def monotone(free: Fit, batch: Batch, cpus: Array, most: Array) -> Fit:
    """The nearest curve to the shape-free fit that never falls: its projection by isotonic regression.

    It goes up to the most CPUs of each program. Its log evidence is that of the free fit less half of the chi^2 that
    the projection adds at the points. That is nothing if the free fit never falls, and much if precise points fall. The
    error includes the projection's shift.
    """
    falling = (np.diff(free.mean) < 0.0).any(axis=1)
    if not falling.any():
        return free
    mean, log_evidence = free.mean.copy(), free.log_evidence.copy()
    for row in np.flatnonzero(falling):
        own = cpus <= most[row]
        mean[row, own] = isotonic(free.mean[row, own].tolist(), (1.0 / (free.variance[row, own] + 1e-6)).tolist())
        at, x, y, error = np.log(cpus[own]), batch.x[row], batch.y[row], batch.error[row]
        before, after = (np.square((y - np.interp(x, at, one[row, own])) / error).sum() for one in (free.mean, mean))
        log_evidence[row] -= 0.5 * max(0.0, float(after - before))
    return Fit(mean, free.variance + np.square(mean - free.mean), log_evidence)


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
