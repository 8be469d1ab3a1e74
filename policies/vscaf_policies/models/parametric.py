"""Models with a formula: their curves over a grid of parameters, weighed by likelihood and prior.

A fit is not one curve but all curves of the family, each with its probability given the points. The integral over the
parameters is a sum over a grid that follows the likelihood: it starts on the whole range and turns, moves and shrinks
until it covers what the points leave open. So parameters at the edge of their range (no serial part, no contention)
and ridges, where one parameter makes up for another, need no special case, and the evidence is the integral itself
and not an approximation around the best fit.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.models.logarithmic import log_weight
from vscaf_policies.models.points import Array, Data, UsablePoint

_STARTS = 2
_STEPS = 12
_DIFFERENCE = 1e-5
_LEAST_PROBABILITY = 1e-3
"""Of the most probable one: curves below are left out of means and errors."""

_MOST_LOG_WEIGHT = 30.0
"""C of a program with S = 2p on 64 CPUs."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What one model makes of the points: ln S at each size asked for, its variance, and how well it explains them.

    log_evidence: ln of the marginal likelihood, up to a constant that is the same for all models of one data.
    """

    mean: Array
    variance: Array
    log_evidence: float
    parameters: tuple[tuple[str, float], ...] = ()


def serial_fraction(unit: Array) -> Array:
    """0 ... 1 from 0 ... 1: linear up to about 0.0001, logarithmic above."""
    return 1e-4 * np.expm1(unit * math.log1p(1e4))


def coherence_cost(unit: Array) -> Array:
    """0 ... 1 from 0 ... 1: linear up to about 0.000001, logarithmic above."""
    return 1e-6 * np.expm1(unit * math.log1p(1e6))


def amdahl(parameters: Array, cpus: Array) -> Array:
    """ln S with S = 1 / (f + (1 - f) / p). parameters: rows of (f,)."""
    inverse = 1.0 / cpus
    return -np.log(inverse + parameters * (1.0 - inverse))


def usl(parameters: Array, cpus: Array) -> Array:
    """ln S with S = p / (1 + sigma (p - 1) + kappa p (p - 1)). parameters: rows of (sigma, kappa)."""
    return np.log(cpus / (1.0 + parameters @ np.stack([cpus - 1.0, cpus * (cpus - 1.0)])))


def downey(parameters: Array, cpus: Array) -> Array:
    """ln S of Downey's model. parameters: rows of (A, sigma), A >= 1 and sigma >= 0.

    sigma <= 1: S = A p / (A + sigma/2 (p - 1)) up to p = A, A p / (sigma (A - 1/2) + p (1 - sigma/2)) up to 2A - 1, A
    above. sigma >= 1: S = p A (sigma + 1) / (sigma (p + A - 1) + A) up to p = A + A sigma - sigma, A above.
    """
    most, sigma = parameters[:, :1], parameters[:, 1:]
    half = np.minimum(sigma, 1.0) / 2.0
    # S = A p / divisor. The last regime, S = A, is divisor = p; each divisor is the largest where its regime holds.
    rising = most + half * (cpus - 1.0)
    bending = 2.0 * half * (most - 0.5) + cpus * (1.0 - half)
    variable = (sigma * (cpus + most - 1.0) + most) / (sigma + 1.0)
    divisor = np.where(sigma <= 1.0, np.where(cpus <= most, rising, bending), variable)
    return np.log(most * cpus / np.maximum(divisor, cpus))


@dataclass(frozen=True, slots=True)
class Family:
    """A model with a formula. `natural` turns rows of numbers in 0 ... 1, where the grid lives, into parameters;
    `log_prior` is the logarithm of their prior density there."""

    names: tuple[str, ...]
    curves: Callable[[Array, Array], Array]
    natural: Callable[[Array], Array]
    log_prior: Callable[[Array], Array]


def _usl_parameters(unit: Array) -> Array:
    return np.stack([serial_fraction(unit[:, 0]), coherence_cost(unit[:, 1])], axis=1)


def _downey_parameters(unit: Array) -> Array:
    return np.stack([np.exp(unit[:, 0] * math.log(1 << 14)), 3.0 * unit[:, 1]], axis=1)


def _even(unit: Array) -> Array:
    return np.zeros(len(unit))


def _little_coherence(unit: Array) -> Array:
    """Density 3 (1 - v)^2: half of the prior is below kappa = 0.00002, nine tenths below 0.002."""
    return math.log(3.0) + 2.0 * np.log1p(-np.minimum(unit[:, 1], 1.0 - 1e-9))


FAMILIES = {
    "amdahl": Family(("serial",), amdahl, serial_fraction, _even),
    "usl": Family(("sigma", "kappa"), usl, _usl_parameters, _little_coherence),
    "downey": Family(("parallelism", "sigma"), downey, _downey_parameters, _even),
}


@lru_cache(maxsize=8)
def _whole_range(dimensions: int) -> tuple[Array, float]:
    """Middles of the cells that fill 0 ... 1 in each direction, and their distance."""
    count = 48 if dimensions == 1 else 16
    middles = (np.arange(count) + 0.5) / count
    grid = np.stack(np.meshgrid(*[middles] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    return grid, 1.0 / count


@lru_cache(maxsize=8)
def _standard_grid(dimensions: int) -> tuple[Array, float]:
    """Points from -3.6 to 3.6 standard deviations in each direction, and their distance."""
    count = 25 if dimensions == 1 else 13
    steps = np.linspace(-3.6, 3.6, count)
    grid = np.stack(np.meshgrid(*[steps] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    return grid, float(steps[1] - steps[0])


@lru_cache(maxsize=256)
def _whole_curves(family: str, sizes: bytes) -> Array:
    """ln S of the family's whole range at the sizes (float64, as bytes): the same programs ask for the same sizes."""
    unit, _ = _whole_range(len(FAMILIES[family].names))
    return FAMILIES[family].curves(FAMILIES[family].natural(unit), np.frombuffer(sizes))


def fit_family(name: str, data: Data, cpus: Array) -> Fit:
    """The family of that name against the data; mean and variance of ln S at each of cpus."""
    family = FAMILIES[name]
    dimensions = len(family.names)
    sizes = np.exp(data.x)
    unit, step = _whole_range(dimensions)
    log_volume = dimensions * math.log(step)
    log_density = _log_density(family, unit, _whole_curves(name, sizes.tobytes()), data)
    probability = np.exp(log_density - log_density.max())
    # The number of grid points that share the probability. Few: the likelihood is narrower than the grid.
    if probability.sum() ** 2 < 5.0 * dimensions * probability @ probability:
        starts = unit[np.argsort(-log_density, kind="stable")[:_STARTS]]
        middle, precision = _best(family, starts, data, sizes)
        turned = np.linalg.cholesky(np.linalg.inv(precision))
        standard, step = _standard_grid(dimensions)
        unit = middle + standard @ turned.T
        unit = unit[np.all((unit >= 0.0) & (unit <= 1.0), axis=1)]
        log_volume = float(np.log(np.diag(turned)).sum()) + dimensions * math.log(step)
        log_density = _log_density(family, unit, family.curves(family.natural(unit), sizes), data)
        probability = np.exp(log_density - log_density.max())
    log_evidence = float(log_density.max() + math.log(probability.sum()) + log_volume)
    return _summary(family, family.natural(unit), probability, log_evidence, cpus)


def _log_density(family: Family, unit: Array, curves: Array, data: Data) -> Array:
    misfit = (curves - data.y) / data.error
    density: Array = family.log_prior(unit) - 0.5 * np.einsum("ij,ij->i", misfit, misfit)
    return density


def _best(family: Family, starts: Array, data: Data, sizes: Array) -> tuple[Array, Array]:
    """The best parameters, on the scale 0 ... 1, and their precision matrix; Levenberg and Marquardt's method.

    All starts go side by side. The derivative is a difference: Downey's formula has kinks. The precision holds that
    of the even prior, 12 in each direction, so that a parameter of which the points say nothing has a finite one.
    """
    count, dimensions = starts.shape
    shifts = np.concatenate([np.zeros((1, dimensions)), np.eye(dimensions) * _DIFFERENCE])
    identity = np.eye(dimensions)
    here, best = starts, np.full(count, math.inf)
    kept, slopes, normal = starts, np.zeros((count, dimensions)), np.zeros((count, dimensions, dimensions))
    damping = np.full(count, 1e-2)
    for _ in range(_STEPS):
        inwards = np.where(here > 0.5, -1.0, 1.0)
        around = (here[:, None] + shifts * inwards[:, None]).reshape(-1, dimensions)
        misfit = (family.curves(family.natural(around), sizes) - data.y) / data.error
        misfit = misfit.reshape(count, dimensions + 1, -1)
        chi_squared = np.einsum("ij,ij->i", misfit[:, 0], misfit[:, 0])
        better = chi_squared < best
        gained = float((best - chi_squared).max())
        slope = (misfit[:, 1:] - misfit[:, :1]) * (inwards[:, :, None] / _DIFFERENCE)
        best = np.where(better, chi_squared, best)
        kept = np.where(better[:, None], here, kept)
        slopes = np.where(better[:, None], np.einsum("ijk,ik->ij", slope, misfit[:, 0]), slopes)
        normal = np.where(better[:, None, None], slope @ slope.transpose(0, 2, 1), normal)
        damping = np.where(better, damping * 0.1, damping * 10.0)
        if gained < 1e-3 and better.any():
            break
        scale = np.einsum("ijj->ij", normal) + 12.0
        damped = normal + identity * (damping[:, None] * scale)[:, None]
        here = np.clip(kept - np.linalg.solve(damped, slopes[..., None])[..., 0], 0.0, 1.0)
    winner = int(np.argmin(best))
    return kept[winner], normal[winner] + 12.0 * identity


def _summary(family: Family, parameters: Array, probability: Array, log_evidence: float, cpus: Array) -> Fit:
    kept: NDArray[np.bool_] = probability >= _LEAST_PROBABILITY * probability.max()
    parameters, probability = parameters[kept], probability[kept] / probability[kept].sum()
    curves = family.curves(parameters, cpus)
    mean = probability @ curves
    variance = probability @ (curves - mean) ** 2
    values = (probability @ parameters).tolist()
    return Fit(mean, variance, log_evidence, tuple(zip(family.names, values, strict=True)))


def fit_log(points: Sequence[UsablePoint], data: Data, cpus: Array) -> Fit | None:
    """SCAF's model: C as published; the evidence around it. Prior of C: even in ln C from 0.05 to 30."""
    fitted = log_weight(points)
    if fitted is None:
        return None
    weight, error = fitted
    logs = np.log(cpus)
    speedups = 1.0 + weight * logs
    misfit = (np.log1p(weight * data.x) - data.y) / data.error
    width = min(1.0, math.sqrt(2.0 * math.pi) * error / (weight * math.log(_MOST_LOG_WEIGHT / 0.05)))
    log_evidence = float(math.log(width) - 0.5 * misfit @ misfit)
    return Fit(np.log(speedups), (error * logs / speedups) ** 2, log_evidence, (("weight", weight),))
