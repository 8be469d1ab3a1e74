"""Models with a formula: their curves over a grid of parameters, weighed by likelihood and prior.

A fit is not one curve but all curves of the family, each with its probability given the points. The integral over the
parameters is a sum over a grid. The grid starts on the whole range. If the points determine the parameters well, it is
moved, turned and shrunk to the probable ones. So two things need no special case: parameters at the edge of their range
(no serial part, no contention), and ridges, where one parameter compensates for another. The evidence is the integral
itself, not an approximation around the best fit.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vscaf_policies.models.logarithmic import LEAST_WEIGHT, log_weight
from vscaf_policies.models.points import TABLED, Array, Data, UsablePoint

_STEPS = 16
_DIFFERENCE = 1e-5
"""Most steps of the search for the best parameters, and the step width of its numerical derivatives."""

_LEAST_PROBABILITY = 1e-2
"""Relative to the most probable curve: less probable curves are left out of means and errors."""

_SERIAL_FLOOR, _COHERENCE_FLOOR = 1e-4, 1e-6
_SERIAL_LOG, _COHERENCE_LOG = math.log1p(1.0 / _SERIAL_FLOOR), math.log1p(10.0 / _COHERENCE_FLOOR)
"""Serial fractions go from 0 to 1, coherence costs from 0 to 10: in equal steps below the floor, in equal ratios above
it. A coherence cost above 1 is a collapse: a team that is ten times slower than one thread."""

_USL_FLOORS, _USL_LOGS = np.array([_SERIAL_FLOOR, _COHERENCE_FLOOR]), np.array([_SERIAL_LOG, _COHERENCE_LOG])

_DOWNEY_SCALES = np.array([math.log(1 << 14), 2.0])
"""Average parallelism A from 1 to 16,384 in equal ratios; sigma from 0 to 2 in equal steps, one regime in each half."""

_MOST_LOG_WEIGHT = 30.0
"""C of a program with S = 2p on 64 CPUs."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One model fitted to the points.

    mean, variance: of ln S at each size. log_evidence: ln of the marginal likelihood, up to a constant that is the same
    for all models of the same data.
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
    # Each regime is S = A p / divisor, and the largest divisor is the one that applies. The divisor of S = A is p. The
    # divisor of the middle regime is below the first one where it does not apply; for sigma >= 1, that is everywhere.
    rising = most + np.where(sigma <= 1.0, 0.5 * sigma, sigma / (1.0 + sigma)) * (cpus - 1.0)
    half = np.minimum(0.5 * sigma, 0.5)
    bending = (1.0 - half) * cpus
    bending += 2.0 * half * (most - 0.5)
    np.maximum(rising, bending, out=rising)
    np.maximum(rising, cpus, out=rising)
    return np.log(most * cpus / rising)


@dataclass(frozen=True, slots=True)
class Family:
    """A model with a formula. The grid has coordinates in 0 ... 1. `natural` turns rows of them into parameters,
    `log_prior` is the logarithm of their prior density, and `cells` is the size of the grid on the whole range."""

    names: tuple[str, ...]
    cells: tuple[int, ...]
    curves: Callable[[Array, Array], Array]
    natural: Callable[[Array], Array]
    log_prior: Callable[[Array], Array]


def _amdahl_parameters(unit: Array) -> Array:
    parameters: Array = np.expm1(unit * _SERIAL_LOG) * _SERIAL_FLOOR
    return parameters


def _usl_parameters(unit: Array) -> Array:
    parameters: Array = np.expm1(unit * _USL_LOGS) * _USL_FLOORS
    return parameters


def _downey_parameters(unit: Array) -> Array:
    parameters: Array = unit * _DOWNEY_SCALES
    parameters[:, 0] = np.exp(parameters[:, 0])
    return parameters


def _even(unit: Array) -> Array:
    return np.zeros(len(unit))


def _little_coherence(unit: Array) -> Array:
    """Density 0.95 x 3 (1 - v)^2 + 0.05: half of the prior is below kappa = 0.00003, nine tenths below 0.009."""
    result: Array = np.log(2.85 * np.square(1.0 - unit[:, 1]) + 0.05)
    return result


FAMILIES = {
    "amdahl": Family(("serial",), (48,), amdahl, _amdahl_parameters, _even),
    "usl": Family(("sigma", "kappa"), (16, 16), usl, _usl_parameters, _little_coherence),
    "downey": Family(("parallelism", "sigma"), (36, 10), downey, _downey_parameters, _even),
}


@lru_cache(maxsize=8)
def _whole_range(cells: tuple[int, ...]) -> tuple[Array, float]:
    """Centres of that many cells from 0 to 1 in each direction, and ln of the volume of one cell."""
    middles = [(np.arange(count) + 0.5) / count for count in cells]
    grid = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, len(cells))
    return grid, -math.log(math.prod(cells))


@lru_cache(maxsize=8)
def _standard_grid(dimensions: int) -> tuple[Array, float]:
    """Points from -3 to 3 standard deviations in each direction, and their distance."""
    count = 17 if dimensions == 1 else 9
    steps = np.linspace(-3.0, 3.0, count)
    grid = np.stack(np.meshgrid(*[steps] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    return grid, float(steps[1] - steps[0])


@lru_cache(maxsize=8)
def _whole_prior(name: str) -> Array:
    """ln of the prior density over the whole range."""
    return FAMILIES[name].log_prior(_whole_range(FAMILIES[name].cells)[0])


@lru_cache(maxsize=8)
def _whole_parameters(name: str) -> Array:
    """The parameters of each cell of the family's whole range."""
    return FAMILIES[name].natural(_whole_range(FAMILIES[name].cells)[0])


@lru_cache(maxsize=24)
def _whole_curves(name: str, sizes: bytes) -> Array:
    """ln S at the sizes (float64, as bytes), a row for each cell of the family's whole range."""
    return FAMILIES[name].curves(_whole_parameters(name), np.frombuffer(sizes))


@lru_cache(maxsize=8)
def _tabled_curves(name: str) -> Array:
    """ln S at 1, 2, ..., TABLED, as _whole_curves, at the same floating-point sizes as those of Data."""
    return FAMILIES[name].curves(_whole_parameters(name), np.exp(np.log(np.arange(1.0, TABLED + 1.0))))


def _curves_at_points(name: str, data: Data) -> Array:
    """ln S at the sizes of the data, a row for each cell of the family's whole range."""
    if data.columns is None:
        return FAMILIES[name].curves(_whole_parameters(name), np.exp(data.x))
    return _tabled_curves(name).take(data.columns, axis=1)


def fit_family(name: str, data: Data, cpus: Array) -> Fit:
    """The family of that name fitted to the data: mean and variance of ln S at each of cpus."""
    family = FAMILIES[name]
    unit, log_volume = _whole_range(family.cells)
    sizes = np.exp(data.x)
    log_density = _log_likelihood(_curves_at_points(name, data), data) + _whole_prior(name)
    best = log_density.argmax()
    probability = np.exp(log_density - log_density[best])
    narrow = _too_narrow(probability.reshape(family.cells))
    if narrow:
        middle, precision = _best(family, unit[best], data, sizes)
        unit, log_volume = _grid_around(middle, precision)
        log_density = _log_likelihood(family.curves(family.natural(unit), sizes), data) + family.log_prior(unit)
        best = log_density.argmax()
        probability = np.exp(log_density - log_density[best])
    log_evidence = float(log_density[best]) + math.log(probability.sum()) + log_volume

    kept = np.flatnonzero(probability >= _LEAST_PROBABILITY)
    probability = probability[kept] / probability[kept].sum()
    if narrow:
        parameters = family.natural(unit[kept])
        curves = family.curves(parameters, cpus)
    else:
        parameters, curves = _whole_parameters(name)[kept], _whole_curves(name, cpus.tobytes())[kept]
    mean = probability @ curves
    curves -= mean
    curves *= curves
    values = (probability @ parameters).tolist()
    return Fit(mean, probability @ curves, log_evidence, tuple(zip(family.names, values, strict=True)))


def _log_likelihood(curves: Array, data: Data) -> Array:
    """The log likelihood of each row of curves, up to a constant that is the same for all models."""
    misfit = curves - data.y
    misfit /= data.error
    result: Array = -0.5 * np.einsum("ij,ij->i", misfit, misfit)
    return result


def _grid_around(middle: Array, precision: Array) -> tuple[Array, float]:
    """A grid over the ellipse of that precision, without points outside 0 ... 1, and ln of the volume of a cell."""
    turned = _root_of_inverse(precision)
    standard, step = _standard_grid(len(middle))
    unit = middle + standard @ turned.T
    unit = unit[(np.abs(unit - 0.5) <= 0.5).all(axis=1)]
    return unit, math.log(np.prod(np.diag(turned)) * step ** len(middle))


def _too_narrow(probability: Array) -> bool:
    """Whether too few cells of the whole range share the probability, in one direction or in total."""
    if probability.ndim == 1:
        return _shared_by(probability) < 4.0
    return (
        _shared_by(probability.ravel()) < 10.0
        or _shared_by(probability.sum(axis=0)) < 3.0
        or _shared_by(probability.sum(axis=1)) < 3.0
    )


def _shared_by(probability: Array) -> float:
    """1 / sum p^2 of the normalized probability: the number of cells if all had the same probability."""
    return float(probability.sum() ** 2 / (probability @ probability))


def _best(family: Family, start: Array, data: Data, sizes: Array) -> tuple[Array, Array]:
    """The best parameters, on the scale 0 ... 1, and the precision matrix there, by Levenberg and Marquardt's method.

    Derivatives are numerical differences, because Downey's formula has kinks. The precision includes that of the even
    prior, 12 in each direction, so that it is not 0 for a parameter about which the points tell nothing.
    """
    identity = np.eye(len(start))
    parameters = kept = start.tolist()  # for one and two numbers, lists are faster than arrays
    best, damping = math.inf, 1e-2
    normal, slopes = identity, start
    for _ in range(_STEPS):
        shift = [-_DIFFERENCE if one > 0.5 else _DIFFERENCE for one in parameters]
        around = [parameters, *([*parameters] for _ in parameters)]
        for number, step in enumerate(shift):
            around[number + 1][number] += step
        misfits = (family.curves(family.natural(np.array(around)), sizes) - data.y) / data.error
        chi_squared = float(misfits[0] @ misfits[0])
        gained = best - chi_squared
        if gained > 0.0:
            kept, best, damping = parameters, chi_squared, damping * 0.1
            slope = (misfits[1:] - misfits[0]) / np.array(shift)[:, None]
            normal, slopes = slope @ slope.T, slope @ misfits[0]
            if gained < 1e-2:
                break
        else:
            damping *= 20.0
            if damping > 1e4:
                break
        parameters = [
            min(max(one - less, 0.0), 1.0) for one, less in zip(kept, _solved(normal, slopes, damping), strict=True)
        ]
    return np.array(kept), normal + 12.0 * identity


def _root_of_inverse(precision: Array) -> Array:
    """Lower triangular L with L L^T = precision^-1, written out."""
    if len(precision) == 1:
        return np.array([[1.0 / math.sqrt(precision[0, 0])]])
    (first, cross), (_, second) = precision.tolist()
    determinant = first * second - cross * cross
    corner = math.sqrt(second / determinant)
    return np.array([[corner, 0.0], [-cross / determinant / corner, 1.0 / math.sqrt(second)]])


def _solved(normal: Array, slopes: Array, damping: float) -> tuple[float, ...]:
    """(normal + damping diag(normal) + a little)^-1 slopes, written out: for one and two dimensions that is faster."""
    more = 1.0 + damping
    if len(slopes) == 1:
        return (float(slopes[0]) / (float(normal[0, 0]) * more + 1.0),)
    (first, cross), (_, second) = normal.tolist()
    first, second = first * more + 1.0, second * more + 1.0
    one, other = slopes.tolist()
    determinant = first * second - cross * cross
    return (second * one - cross * other) / determinant, (first * other - cross * one) / determinant


def fit_log(points: Sequence[UsablePoint], data: Data, cpus: Array) -> Fit:
    """SCAF's model, with C as published and an approximate evidence. Prior of C: even in ln C from 0.05 to 30."""
    weight, error = log_weight(points)
    logs = np.log(cpus)
    speedups = 1.0 + weight * logs
    misfit = (np.log1p(weight * data.x) - data.y) / data.error
    width = min(1.0, math.sqrt(2.0 * math.pi) * error / (weight * math.log(_MOST_LOG_WEIGHT / LEAST_WEIGHT)))
    log_evidence = float(math.log(width) - 0.5 * misfit @ misfit)
    return Fit(np.log(speedups), (error * logs / speedups) ** 2, log_evidence, (("weight", weight),))
