"""Models with a formula: their curves over a grid of parameters, weighed by likelihood and prior.

A fit is not one curve but all curves of the family, each with its probability given the points. The integral over the
parameters is a sum over a grid. The grid starts on the whole range. If the points determine the parameters well, it is
moved, turned and shrunk to the probable ones. So two things need no special case: parameters at the edge of their range
(no serial part, no contention), and ridges, where one parameter compensates for another. The evidence is the integral
itself, not an approximation around the best fit.

Several programs are fitted at once, because a call of numpy takes longer than its work for one program. The axes of
arrays are grid cell, program and size, as far as they depend on each.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.models.logarithmic import LEAST_WEIGHT, log_weight
from vscaf_policies.models.points import TABLED, Array, Batch, UsablePoint

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
    """One model fitted to the points of several programs, a row for each.

    mean, variance: of ln S at each size. log_evidence: ln of the marginal likelihood, up to a constant that is the same
    for all models of the same program. names, parameters: of the model, a column for each name.
    """

    mean: Array
    variance: Array
    log_evidence: Array
    names: tuple[str, ...] = ()
    parameters: Array = field(default_factory=lambda: np.zeros((0, 0)))


def amdahl(parameters: Array, cpus: Array) -> Array:
    """ln S with S = 1 / (f + (1 - f) / p). parameters: (f,) in the last axis, here and below."""
    inverse = 1.0 / cpus
    return -np.log(inverse + parameters * (1.0 - inverse))


def usl(parameters: Array, cpus: Array) -> Array:
    """ln S with S = p / (1 + sigma (p - 1) + kappa p (p - 1)). parameters: (sigma, kappa)."""
    slowdown = parameters[..., 1:] * cpus
    slowdown += parameters[..., :1]
    slowdown *= cpus - 1.0
    return np.log(cpus) - np.log1p(slowdown)


def downey(parameters: Array, cpus: Array) -> Array:
    """ln S of Downey's model. parameters: (A, sigma), A >= 1 and sigma >= 0.

    sigma <= 1: S = A p / (A + sigma/2 (p - 1)) up to p = A, A p / (sigma (A - 1/2) + p (1 - sigma/2)) up to 2A - 1, A
    above. sigma >= 1: S = p A (sigma + 1) / (sigma (p + A - 1) + A) up to p = A + A sigma - sigma, A above.
    """
    most, sigma = parameters[..., :1], parameters[..., 1:]
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
    """A model with a formula. The grid has coordinates in 0 ... 1, in the last axis. `natural` turns them into
    parameters, `log_prior` is the logarithm of their prior density, and `cells` is the size of the grid on the whole
    range."""

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
    parameters[..., 0] = np.exp(parameters[..., 0])
    return parameters


def _even(unit: Array) -> Array:
    return np.zeros(unit.shape[:-1])


def _little_coherence(unit: Array) -> Array:
    """Density 0.95 x 3 (1 - v)^2 + 0.05: half of the prior is below kappa = 0.00003, nine tenths below 0.009."""
    result: Array = np.log(2.85 * np.square(1.0 - unit[..., 1]) + 0.05)
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
    """ln S at 1, 2, ..., TABLED, as _whole_curves, at the same floating-point sizes as those of a Batch."""
    return FAMILIES[name].curves(_whole_parameters(name), np.exp(np.log(np.arange(1.0, TABLED + 1.0))))


def _curves_at_points(name: str, batch: Batch) -> Array:
    """ln S at the sizes of the programs, for each cell of the family's whole range."""
    if batch.columns is None:
        return FAMILIES[name].curves(_whole_parameters(name)[:, None], np.exp(batch.x))
    return _tabled_curves(name).take(batch.columns, axis=1)


def fit_family(name: str, batch: Batch, cpus: Array) -> Fit:
    """The family of that name fitted to the programs: mean and variance of ln S at each of cpus."""
    family = FAMILIES[name]
    unit, log_volume = _whole_range(family.cells)
    log_density = _log_likelihood(_curves_at_points(name, batch), batch) + _whole_prior(name)[:, None]
    probability, log_evidence = _normalized(log_density, log_volume)
    weights, curves = _kept(probability).T, _whole_curves(name, cpus.tobytes())
    mean, values = weights @ curves, weights @ _whole_parameters(name)
    variance = np.maximum(weights @ np.square(curves) - np.square(mean), 0.0)

    narrow = np.flatnonzero(_too_narrow(probability.reshape(*family.cells, -1)))
    if narrow.size:
        some = batch.rows(narrow)
        middle, precision = _best(family, unit[log_density[:, narrow].argmax(axis=0)], some)
        unit, log_inside, log_volumes = _grid_around(middle, precision)
        parameters = family.natural(unit)
        log_density = _log_likelihood(family.curves(parameters, np.exp(some.x)), some) + family.log_prior(unit)
        probability, log_evidence[narrow] = _normalized(log_density + log_inside, log_volumes)
        weights = _kept(probability)
        curves = family.curves(parameters, cpus)
        mean[narrow] = middles = np.einsum("cn,cnp->np", weights, curves)
        curves -= middles
        curves *= curves
        variance[narrow] = np.einsum("cn,cnp->np", weights, curves)
        values[narrow] = np.einsum("cn,cnd->nd", weights, parameters)
    return Fit(mean, variance, log_evidence, family.names, values)


def _log_likelihood(curves: Array, batch: Batch) -> Array:
    """The log likelihood of each curve, up to a constant for each program that is the same for all models."""
    misfit = curves - batch.y
    misfit /= batch.error
    result: Array = -0.5 * np.einsum("cnp,cnp->cn", misfit, misfit)
    return result


def _normalized(log_density: Array, log_volume: Array | float) -> tuple[Array, Array]:
    """For each program, the probability of each cell relative to the most probable one, and ln of the integral."""
    best = log_density.max(axis=0)
    probability = np.exp(log_density - best)
    return probability, best + np.log(probability.sum(axis=0)) + log_volume


def _kept(probability: Array) -> Array:
    """The weights of the cells: their probability, with a sum of 1, and 0 for the improbable ones."""
    kept = np.where(probability >= _LEAST_PROBABILITY, probability, 0.0)
    kept /= kept.sum(axis=0)
    return kept


def _grid_around(middle: Array, precision: Array) -> tuple[Array, Array, Array]:
    """A grid over the ellipse of that precision, for each program.

    Also returns ln of 1 for its cells within 0 ... 1 and ln of 0 for those outside, and ln of the volume of a cell.
    """
    turned = _root_of_inverse(precision)
    dimensions = middle.shape[1]
    standard, step = _standard_grid(dimensions)
    unit = middle + np.einsum("cd,ned->cne", standard, turned)
    log_inside = np.where((np.abs(unit - 0.5) <= 0.5).all(axis=2), 0.0, -np.inf)
    log_volume = np.log(np.diagonal(turned, axis1=1, axis2=2).prod(axis=1) * step**dimensions)
    return np.clip(unit, 0.0, 1.0), log_inside, log_volume


def _too_narrow(probability: Array) -> NDArray[np.bool_]:
    """Whether too few cells of the whole range share the probability, in one direction or in total, by program."""
    if probability.ndim == 2:
        return _shared_by(probability) < 4.0
    return (
        (_shared_by(probability.reshape(-1, probability.shape[-1])) < 10.0)
        | (_shared_by(probability.sum(axis=0)) < 3.0)
        | (_shared_by(probability.sum(axis=1)) < 3.0)
    )


def _shared_by(probability: Array) -> Array:
    """1 / sum p^2 of the normalized probability: the number of cells if all had the same probability."""
    shared: Array = probability.sum(axis=0) ** 2 / np.square(probability).sum(axis=0)
    return shared


def _best(family: Family, start: Array, batch: Batch) -> tuple[Array, Array]:
    """For each program, the best parameters, on the scale 0 ... 1, and the precision matrix there.

    By Levenberg and Marquardt's method. Derivatives are numerical differences, because Downey's formula has kinks. The
    precision includes that of the even prior, 12 in each direction, so that it is not 0 for a parameter about which the
    points tell nothing.
    """
    programs, dimensions = start.shape
    identity, sizes = np.eye(dimensions), np.exp(batch.x)
    one_step = np.concatenate([np.zeros((1, 1, dimensions)), identity[:, None]])
    parameters = kept = start
    best, damping = np.full(programs, math.inf), np.full(programs, 1e-2)
    normal, slopes = np.zeros((programs, dimensions, dimensions)), np.zeros((programs, dimensions))
    ended = np.zeros(programs, dtype=bool)
    for _ in range(_STEPS):
        shift = np.where(parameters > 0.5, -_DIFFERENCE, _DIFFERENCE)
        misfits = (family.curves(family.natural(parameters + one_step * shift), sizes) - batch.y) / batch.error
        chi_squared = np.einsum("np,np->n", misfits[0], misfits[0])
        gained = best - chi_squared
        better = (gained > 0.0) & ~ended
        slope = ((misfits[1:] - misfits[0]) / shift.T[:, :, None]).transpose(1, 0, 2)[better]
        normal[better] = slope @ slope.transpose(0, 2, 1)
        slopes[better] = np.einsum("ndp,np->nd", slope, misfits[0, better])
        kept = np.where(better[:, None], parameters, kept)
        best = np.where(better, chi_squared, best)
        damping *= np.where(better, 0.1, 20.0)
        ended |= np.where(better, gained < 1e-2, damping > 1e4)
        if ended.all():
            break
        parameters = np.minimum(np.maximum(kept - _solved(normal, slopes, damping), 0.0), 1.0)
    return kept, normal + 12.0 * identity


def _solved(normal: Array, slopes: Array, damping: Array) -> Array:
    """(normal + damping diag(normal) + identity)^-1 slopes, written out: for one and two dimensions that is faster."""
    more = 1.0 + damping
    first = normal[:, 0, 0] * more + 1.0
    if slopes.shape[1] == 1:
        return slopes / first[:, None]
    cross, second = normal[:, 0, 1], normal[:, 1, 1] * more + 1.0
    one, other = slopes.T
    solved: Array = np.array([second * one - cross * other, first * other - cross * one])
    solved /= first * second - cross * cross
    return solved.T


def _root_of_inverse(precision: Array) -> Array:
    """For each matrix, the lower triangular L with L L^T = matrix^-1, written out for one and two dimensions."""
    if precision.shape[1] == 1:
        return 1.0 / np.sqrt(precision)
    first, cross, second = precision[:, 0, 0], precision[:, 0, 1], precision[:, 1, 1]
    determinant = first * second - cross * cross
    corner = np.sqrt(second / determinant)
    root = np.zeros(precision.shape)
    root[:, 0, 0], root[:, 1, 0], root[:, 1, 1] = corner, -cross / determinant / corner, 1.0 / np.sqrt(second)
    return root


def fit_log(points: Sequence[Sequence[UsablePoint]], batch: Batch, cpus: Array) -> Fit:
    """SCAF's model, with C as published and an approximate evidence. Prior of C: even in ln C from 0.05 to 30."""
    weight, error = np.array([log_weight(one) for one in points]).T[:, :, None]
    logs = np.log(cpus)
    speedups = 1.0 + weight * logs
    misfit = (np.log1p(weight * batch.x) - batch.y) / batch.error
    width = np.minimum(1.0, math.sqrt(2.0 * math.pi) * error / (weight * math.log(_MOST_LOG_WEIGHT / LEAST_WEIGHT)))
    log_evidence = np.log(width[:, 0]) - 0.5 * np.square(misfit).sum(axis=1)
    return Fit(np.log(speedups), (error * logs / speedups) ** 2, log_evidence, ("weight",), weight)
