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

from vscaf_policies.models.logarithmic import log_weight
from vscaf_policies.models.points import Array, Data, UsablePoint

_STEPS = 16
_DIFFERENCE = 1e-5
_LEAST_PROBABILITY = 1e-2
"""Of the most probable one: curves below are left out of means and errors."""

_SERIAL_FLOOR, _COHERENCE_FLOOR = 1e-4, 1e-6
_SERIAL_LOG, _COHERENCE_LOG = math.log1p(1.0 / _SERIAL_FLOOR), math.log1p(1.0 / _COHERENCE_FLOOR)
"""Serial fractions and coherence costs go from 0 to 1: evenly below the floor, in equal ratios above it."""

_USL_FLOORS, _USL_LOGS = np.array([_SERIAL_FLOOR, _COHERENCE_FLOOR]), np.array([_SERIAL_LOG, _COHERENCE_LOG])

_DOWNEY_SCALES = np.array([math.log(1 << 14), 3.0])
"""Average parallelism A from 1 to 16,384 in equal ratios; sigma evenly from 0 to 3 (Downey saw 0 to 2)."""

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


def amdahl(parameters: Array, cpus: Array) -> Array:
    """ln S with S = 1 / (f + (1 - f) / p). parameters: rows of (f,)."""
    inverse = 1.0 / cpus
    return -np.log(inverse + parameters * (1.0 - inverse))


def usl(parameters: Array, cpus: Array) -> Array:
    """ln S with S = p / (1 + sigma (p - 1) + kappa p (p - 1)). parameters: rows of (sigma, kappa)."""
    slowdown = parameters[:, 1:] * cpus
    slowdown += parameters[:, :1]
    slowdown *= cpus - 1.0
    return np.log(cpus) - np.log1p(slowdown)


def downey(parameters: Array, cpus: Array) -> Array:
    """ln S of Downey's model. parameters: rows of (A, sigma), A >= 1 and sigma >= 0.

    sigma <= 1: S = A p / (A + sigma/2 (p - 1)) up to p = A, A p / (sigma (A - 1/2) + p (1 - sigma/2)) up to 2A - 1, A
    above. sigma >= 1: S = p A (sigma + 1) / (sigma (p + A - 1) + A) up to p = A + A sigma - sigma, A above.
    """
    most, sigma = parameters[:, :1], parameters[:, 1:]
    # Each regime is S = A p / divisor, and the divisor that holds is the largest: that of S = A is p, and the one
    # between them lies below the first where it does not hold, for sigma >= 1 everywhere.
    rising = most + np.where(sigma <= 1.0, 0.5 * sigma, sigma / (1.0 + sigma)) * (cpus - 1.0)
    half = np.minimum(0.5 * sigma, 0.5)
    bending = (1.0 - half) * cpus
    bending += 2.0 * half * (most - 0.5)
    np.maximum(rising, bending, out=rising)
    np.maximum(rising, cpus, out=rising)
    return np.log(most * cpus / rising)


@dataclass(frozen=True, slots=True)
class Family:
    """A model with a formula. `natural` turns rows of numbers in 0 ... 1, where the grid lives, into parameters;
    `log_prior` is the logarithm of their prior density there."""

    names: tuple[str, ...]
    curves: Callable[[Array, Array], Array]
    natural: Callable[[Array], Array]
    log_prior: Callable[[Array], Array]


def _amdahl_parameters(unit: Array) -> Array:
    return np.expm1(unit * _SERIAL_LOG) * _SERIAL_FLOOR


def _usl_parameters(unit: Array) -> Array:
    return np.expm1(unit * _USL_LOGS) * _USL_FLOORS


def _downey_parameters(unit: Array) -> Array:
    parameters = unit * _DOWNEY_SCALES
    parameters[:, 0] = np.exp(parameters[:, 0])
    return parameters


def _even(unit: Array) -> Array:
    return np.zeros(len(unit))


def _little_coherence(unit: Array) -> Array:
    """Density 3 (1 - v)^2: half of the prior is below kappa = 0.00002, nine tenths below 0.002."""
    return math.log(3.0) + 2.0 * np.log1p(-np.minimum(unit[:, 1], 1.0 - 1e-9))


FAMILIES = {
    "amdahl": Family(("serial",), amdahl, _amdahl_parameters, _even),
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
    """Points from -3 to 3 standard deviations in each direction, and their distance."""
    count = 17 if dimensions == 1 else 9
    steps = np.linspace(-3.0, 3.0, count)
    grid = np.stack(np.meshgrid(*[steps] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    return grid, float(steps[1] - steps[0])


@lru_cache(maxsize=256)
def _whole_curves(name: str, sizes: bytes) -> tuple[Array, Array]:
    """ln S of the family's whole range at the sizes (float64, as bytes), and its square.

    The same programs ask for the same sizes again and again.
    """
    unit, _ = _whole_range(len(FAMILIES[name].names))
    curves = FAMILIES[name].curves(FAMILIES[name].natural(unit), np.frombuffer(sizes))
    return curves, curves * curves


@lru_cache(maxsize=8)
def _whole_prior(name: str) -> Array:
    """ln of the prior density over the whole range."""
    return FAMILIES[name].log_prior(_whole_range(len(FAMILIES[name].names))[0])


def fit_family(name: str, data: Data, cpus: Array) -> Fit:
    """The family of that name against the data; mean and variance of ln S at each of cpus."""
    family = FAMILIES[name]
    dimensions = len(family.names)
    sizes = np.exp(data.x)
    unit, step = _whole_range(dimensions)
    log_volume = dimensions * math.log(step)
    curves, squares = _whole_curves(name, sizes.tobytes())
    weights = 1.0 / (data.error * data.error)
    weighted = weights * data.y
    log_density = curves @ weighted
    log_density -= 0.5 * (squares @ weights + weighted @ data.y)
    log_density += _whole_prior(name)
    best = log_density.argmax()
    probability = np.exp(log_density - log_density[best])
    # The number of grid points that share the probability. Few: the likelihood is narrower than the grid.
    if probability.sum() ** 2 < 5.0 * dimensions * (probability @ probability):
        middle, precision = _best(family, unit[best], data, sizes)
        turned = _root_of_inverse(precision)
        unit, step = _standard_grid(dimensions)
        unit = middle + unit @ turned.T
        unit = unit[(np.abs(unit - 0.5) <= 0.5).all(axis=1)]
        log_volume = math.log(np.prod(np.diag(turned))) + dimensions * math.log(step)
        misfit = (family.curves(family.natural(unit), sizes) - data.y) / data.error
        log_density = family.log_prior(unit) - 0.5 * np.einsum("ij,ij->i", misfit, misfit)
        best = log_density.argmax()
        probability = np.exp(log_density - log_density[best])
    log_evidence = float(log_density[best]) + math.log(probability.sum()) + log_volume
    return _summary(family, family.natural(unit), probability, log_evidence, cpus)


def _best(family: Family, start: Array, data: Data, sizes: Array) -> tuple[Array, Array]:
    """The best parameters, on the scale 0 ... 1, and their precision matrix; Levenberg and Marquardt's method.

    The derivative is a difference: Downey's formula has kinks. The precision holds that of the even prior, 12 in each
    direction, so that a parameter of which the points say nothing has a finite one.
    """
    dimensions = len(start)
    identity = np.eye(dimensions)
    here = kept = start
    best, damping = math.inf, 1e-2
    normal, slopes = identity, start
    for _ in range(_STEPS):
        shift = np.where(here > 0.5, -_DIFFERENCE, _DIFFERENCE)
        around = np.concatenate([here[None], here + identity * shift])
        misfits = (family.curves(family.natural(around), sizes) - data.y) / data.error
        chi_squared = float(misfits[0] @ misfits[0])
        gained = best - chi_squared
        if gained > 0.0:
            kept, best, damping = here, chi_squared, damping * 0.1
            slope = (misfits[1:] - misfits[0]) / shift[:, None]
            normal, slopes = slope @ slope.T, slope @ misfits[0]
            if gained < 1e-2:
                break
        else:
            damping *= 20.0
            if damping > 1e4:
                break
        here = np.minimum(np.maximum(kept - _solved(normal, slopes, damping), 0.0), 1.0)
    return kept, normal + 12.0 * identity


def _root_of_inverse(precision: Array) -> Array:
    """Lower triangular L with L L^T = precision^-1, written out."""
    if len(precision) == 1:
        return 1.0 / np.sqrt(precision)
    (first, cross), (_, second) = precision.tolist()
    determinant = first * second - cross * cross
    corner = math.sqrt(second / determinant)
    return np.array([[corner, 0.0], [-cross / determinant / corner, 1.0 / math.sqrt(second)]])


def _solved(normal: Array, slopes: Array, damping: float) -> Array:
    """(normal + damping diag(normal) + a little)^-1 slopes, written out: for one and two dimensions that is faster."""
    more = 1.0 + damping
    if len(slopes) == 1:
        return slopes / (normal[0] * more + 1.0)
    (first, cross), (_, second) = normal.tolist()
    first, second = first * more + 1.0, second * more + 1.0
    one, other = slopes.tolist()
    determinant = first * second - cross * cross
    return np.array([second * one - cross * other, first * other - cross * one]) / determinant


def _summary(family: Family, parameters: Array, probability: Array, log_evidence: float, cpus: Array) -> Fit:
    kept = np.flatnonzero(probability >= _LEAST_PROBABILITY * probability.max())
    parameters, probability = parameters[kept], probability[kept]
    probability /= probability.sum()
    curves = family.curves(parameters, cpus)
    mean = probability @ curves
    curves -= mean
    curves *= curves
    variance = probability @ curves
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
