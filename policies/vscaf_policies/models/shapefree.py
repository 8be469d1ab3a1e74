"""The model without a formula: a Gaussian process in ln p around smooth curves, and its monotone projection.

ln S(p) = m(p) + r(p). m is one of a small set of plain curves (Gunther's law for several serial and coherence costs);
r is a Gaussian process that is 0 at p = 1. Which curve, and which amplitude, length and roughness of r, is weighed by
marginal likelihood (Rasmussen and Williams 2006, eq. 2.30), all of them together. Near points the process follows the
points, knees and dips included; far from them it goes back to the plain curves with the amplitude as its error.
"""

import itertools
import math
from dataclasses import dataclass
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

_LEAST_PROBABILITY = 1e-3


@dataclass(frozen=True, slots=True)
class Kernel:
    """Covariance of r: amplitude (of ln S), length (in ln p), and whether it may have knees and steps at every p."""

    amplitude: float
    length: float
    rough: bool
    prior: float

    def stationary(self, first: Array, second: Array) -> Array:
        """Exponential kernel where rough, else Matern 3/2."""
        distance = np.abs(first[:, None] - second) / self.length
        if self.rough:
            return self.amplitude**2 * np.exp(-distance)
        distance *= math.sqrt(3.0)
        return self.amplitude**2 * (1.0 + distance) * np.exp(-distance)

    def covariance(self, first: Array, second: Array) -> Array:
        """The same, given that r(0) = 0: S(1) = 1 is exact."""
        zero = np.zeros(1)
        to_zero = self.stationary(first, zero) @ self.stationary(zero, second)
        result: Array = self.stationary(first, second) - to_zero / self.amplitude**2
        return result


KERNELS = (
    Kernel(0.08, 1.5, False, 0.25),
    Kernel(0.08, 0.5, False, 0.15),
    Kernel(0.3, 1.5, False, 0.15),
    Kernel(0.3, 0.5, False, 0.15),
    Kernel(0.1, 1.0, True, 0.15),
    Kernel(0.4, 1.0, True, 0.1),
    Kernel(1.0, 1.0, True, 0.05),
)


def fit_free(data: Data, cpus: Array) -> Fit:
    """The shape-free model against the data; mean and variance of ln S at each of cpus."""
    x = data.x
    noise = np.diag(data.error**2)
    covariances = np.stack([kernel.covariance(x, x) for kernel in KERNELS]) + noise
    precisions = np.linalg.inv(covariances)
    _, log_determinants = np.linalg.slogdet(covariances)
    misfits = data.y - usl(_PLAIN, np.exp(x))
    explained = misfits @ precisions  # kernel, plain curve, point
    chi_squared = np.einsum("kcp,cp->kc", explained, misfits)
    # The likelihood of the parametric models leaves out ln det of the noise: it is the same for all of them.
    log_determinants -= 2.0 * np.log(data.error).sum()
    log_joint = (
        np.log([kernel.prior for kernel in KERNELS])[:, None]
        + np.log(_PLAIN_PRIOR)
        - 0.5 * (chi_squared + log_determinants[:, None])
    )
    best = log_joint.max()
    probability = np.exp(log_joint - best)
    log_evidence = float(best + math.log(probability.sum()))
    probability /= probability.sum()

    at = np.log(cpus)
    plain = usl(_PLAIN, cpus)
    means, variances, shares = [], [], []
    for index, kernel in enumerate(KERNELS):
        share = float(probability[index].sum())
        if share < _LEAST_PROBABILITY:
            continue
        kept = probability[index] >= _LEAST_PROBABILITY * probability[index].max()
        within = probability[index, kept] / probability[index, kept].sum()
        across = kernel.covariance(at, x)
        gain = across @ precisions[index]
        own = kernel.amplitude**2 * (1.0 - np.square(kernel.stationary(at, np.zeros(1))[:, 0] / kernel.amplitude**2))
        curves = plain[kept] + misfits[kept] @ gain.T
        mean = within @ curves
        means.append(mean)
        variances.append(within @ (curves - mean) ** 2 + np.maximum(own - np.einsum("ij,ij->i", gain, across), 0.0))
        shares.append(share)
    mean, variance = mixture(np.array(shares), np.array(means), np.array(variances))
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
