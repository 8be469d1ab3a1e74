"""The model without a formula: a Gaussian process in ln p around smooth curves, and its monotone projection.

ln S(p) = m(p) + r(p). m is one of a small set of plain curves (Gunther's law for several serial and coherence costs);
r is a Gaussian process that is 0 at p = 1. Which curve, and which amplitude, length and roughness of r, is weighed by
marginal likelihood (Rasmussen and Williams 2006, eq. 2.30), all of them together. Near points the process follows the
points, knees and dips included; far from them it goes back to the plain curves with the amplitude as its error.
"""

import itertools
import math
from functools import lru_cache

import numpy as np

from vscaf_policies.models.parametric import Fit, usl
from vscaf_policies.models.points import Array, Data

_SERIAL = ((0.0, 0.1), (0.003, 0.1), (0.01, 0.13), (0.03, 0.17), (0.06, 0.15), (0.12, 0.13), (0.25, 0.1), (0.5, 0.07), (1.0, 0.05))
_COHERENCE = ((0.0, 0.7), (1e-4, 0.15), (1e-3, 0.1), (1e-2, 0.05))
_PLAIN = np.array([(serial, coherence) for (serial, _), (coherence, _) in itertools.product(_SERIAL, _COHERENCE)])
_PLAIN_PRIOR = np.array([first * second for (_, first), (_, second) in itertools.product(_SERIAL, _COHERENCE)])
_PLAIN_PRIOR /= _PLAIN_PRIOR.sum()
"""The plain curves: (sigma, kappa) of Gunther's law, and the prior probability of each."""

_LEAST_PROBABILITY = 5e-3


_KERNELS = np.array(
    [
        # amplitude (of ln S), length (in ln p), rough, prior probability
        (0.08, 1.5, 0.0, 0.3),
        (0.15, 0.5, 0.0, 0.2),
        (0.4, 0.8, 0.0, 0.2),
        (0.1, 1.0, 1.0, 0.15),
        (0.5, 1.0, 1.0, 0.15),
    ]
)
"""Covariances of r: the exponential kernel where rough (knees and steps at any p), else Matern's with 3/2."""


def _covariance(kernels: Array, first: Array, second: Array) -> Array:
    """Covariance of r between first and second (ln p), a matrix for each row of kernels, given that r(0) = 0."""
    scale = np.where(kernels[:, 2] > 0.0, 1.0, math.sqrt(3.0)) / kernels[:, 1]
    bend = np.where(kernels[:, 2] > 0.0, 0.0, scale)

    def correlation(distance: Array) -> Array:
        columns = (slice(None),) + (None,) * distance.ndim
        result: Array = (1.0 + bend[columns] * distance) * np.exp(-scale[columns] * distance)
        return result

    to_zero = correlation(first)[:, :, None] * correlation(second)[:, None, :]
    result: Array = (correlation(np.abs(first[:, None] - second)) - to_zero) * np.square(kernels[:, 0])[:, None, None]
    return result


@lru_cache(maxsize=64)
def _at_sizes(at: bytes) -> tuple[Array, Array]:
    """What does not depend on the measured figures: covariances among the sizes (ln p), and the plain curves there."""
    x = np.frombuffer(at)
    return _covariance(_KERNELS, x, x), usl(_PLAIN, np.exp(x))


@lru_cache(maxsize=32)
def _at_question(most: int) -> tuple[Array, Array]:
    """At the sizes of the question: variance of r without a point for each kernel, and the plain curves."""
    at = np.log(sizes(most))
    own = np.stack([np.diag(matrix) for matrix in _covariance(_KERNELS, at, at)])
    return own, usl(_PLAIN, sizes(most))


def fit_free(data: Data, most: int) -> Fit:
    """The shape-free model against the data; mean and variance of ln S at each of sizes(most)."""
    covariances, plain_there = _at_sizes(data.x.tobytes())
    covariances = covariances + np.diag(np.square(data.error))
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
    across = _covariance(_KERNELS[kept], np.log(sizes(most)), data.x)
    gains = across @ precisions[kept]
    explained = np.maximum(own[kept] - np.einsum("kpx,kpx->kp", gains, across), 0.0)
    lines = plain[curves] + misfits[curves] @ gains.transpose(0, 2, 1)
    means = np.einsum("kc,kcp->kp", within, lines)
    spread = np.einsum("kc,kcp->kp", within, np.square(lines - means[:, None]))
    mean, variance = mixture(shares[kept], means, explained + spread)
    return Fit(mean, variance, log_evidence)


def mixture(weights: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """Mean and variance of a mixture: the variance within its parts and that between them. Rows are parts."""
    weights = weights / weights.sum()
    mean = weights @ means
    return mean, weights @ (variances + (means - mean) ** 2)


def monotone(free: Fit, data: Data, cpus: Array) -> Fit:
    """The shape-free fit made to rise or stay level with every CPU: its projection by isotonic regression.

    The evidence is that of the free fit less half of the chi^2 that the projection costs at the points: nothing where
    the free fit rises anyway, much where precise points fall. The error holds what the projection moved.
    """
    if np.all(np.diff(free.mean) >= 0.0):
        return free
    mean = np.array(isotonic(free.mean.tolist(), (1.0 / (free.variance + 1e-6)).tolist()))
    at = np.log(cpus)
    before, after = (np.interp(data.x, at, values) for values in (free.mean, mean))
    cost = np.square((data.y - after) / data.error).sum() - np.square((data.y - before) / data.error).sum()
    return Fit(mean, free.variance + (mean - free.mean) ** 2, free.log_evidence - 0.5 * max(0.0, float(cost)))


def isotonic(values: list[float], weights: list[float]) -> list[float]:
    """The rising sequence nearest to values by weighted squares: neighbours that fall are pooled."""
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
    """Where curves are evaluated: every p up to 128, then 24 in each octave, and the last one."""
    if most <= 128:
        result = np.arange(1.0, most + 1.0)
    else:
        above = np.round(np.geomspace(128.0, most, 1 + math.ceil(24 * math.log2(most / 128))))
        result = np.unique(np.concatenate([np.arange(1.0, 129.0), above]))
    result.flags.writeable = False
    return result
