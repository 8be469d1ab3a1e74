"""From points to an estimate: fits each model, weighs the models by evidence, and gives the standard errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from vscaf_policies.models.estimate import SpeedupEstimate
from vscaf_policies.models.parametric import FAMILIES, Fit, fit_family, fit_log
from vscaf_policies.models.points import (
    DRIFT_PER_S,
    LEAST_SPEEDUP,
    MOST_EFFICIENCY,
    TABLED,
    Array,
    Batch,
    Data,
    UsablePoint,
    as_data,
    usable_points,
)
from vscaf_policies.models.shapefree import fit_free, mixture, monotone, sizes
from vscaf_policies.state import SpeedupPoint

PRIOR = {"log": 0.5, "amdahl": 0.2, "usl": 0.1, "downey": 0.1, "monotone": 0.08, "free": 0.02}
"""Probability of each model before any point: simpler ones are more probable, and SCAF's decides at one point."""

MODELS = tuple(PRIOR)
_SHAPEFREE = frozenset({"monotone", "free"})

UNFORESEEN_PER_E_FOLD = 0.12
"""Relative error of every model for each factor of e between p and the nearest measured size. No program follows a
formula exactly, and at other sizes no measurement has checked it."""

MISFIT = 0.015
"""Relative error of a formula at its own points: a formula may be wrong even if the points do not reject it."""

UNKNOWN_EXPONENT, UNKNOWN_ERROR = 0.75, 0.25
"""Exponent and its standard error without a point: S(p) = p^0.75, and two errors reach from p^0.25 to above p."""

MOST_REMEMBERED = 4096
"""The most fits that are remembered. Points whose ages have not changed by much need no new fit: see usable_points."""

_FEW_POINTS = 8
"""Programs with at most this many points are fitted together. One with more is fitted only with programs that have
about as many, because all of them take as long as the one with the most points."""

_DECIMALS = 12
"""Of ln S. The last bits depend on the programs that are fitted together."""


def fit_curve(
    points: Sequence[SpeedupPoint],
    most: int,
    models: tuple[str, ...] = MODELS,
    drift_per_s: float = DRIFT_PER_S,
) -> SpeedupEstimate:
    """Estimates S(1) ... S(most) from the points.

    points: any order; those that cannot be used are left out (see usable_points). most: number of CPUs up to which S is
    estimated, at least 1. models: names from MODELS that may explain the points. drift_per_s: relative error that each
    second of age adds. Without a usable point the model is "unknown", and S = p^0.75 with a large error.
    The same arguments give the same answer; answers are remembered.

    Raises ValueError for most below 1, no model, or an unknown one.
    """
    unknown = sorted(set(models) - set(MODELS))
    if most < 1 or unknown or not models:
        names = f"unknown models {', '.join(unknown)}" if unknown else f"{len(models)} models, most = {most}"
        raise ValueError(f"fit of a speedup curve: {names}: most must be >= 1 and models some of {', '.join(MODELS)}")
    asked = tuple(name for name in MODELS if name in models)
    return _estimate(_Asked(usable_points(points, drift_per_s), most, asked))


def fit_together(programs: Sequence[tuple[tuple[UsablePoint, ...], int]]) -> list[SpeedupEstimate]:
    """The estimates of several programs: much faster than one after the other.

    programs: for each, what usable_points gives, and most, as in fit_curve.
    """
    asked = [_Asked(points, most, MODELS) for points, most in programs]
    _beliefs(asked)  # remembers them for _estimate
    return [_estimate(one) for one in asked]


class _Asked(NamedTuple):
    """What a fit depends on."""

    points: tuple[UsablePoint, ...]
    most: int
    models: tuple[str, ...]


@lru_cache(maxsize=256)
def _estimate(asked: _Asked) -> SpeedupEstimate:
    """From ln S at some sizes to S at every size: sizes in between are interpolated, linear in ln p."""
    most, belief = asked.most, _beliefs([asked])[0]
    mean, variance = belief.mean, belief.variance
    if len(mean) < most:
        at, every = np.log(sizes(most)), np.log(np.arange(1.0, most + 1.0))
        mean, variance = np.interp(every, at, mean), np.interp(every, at, variance)
    speedups = np.exp(mean)
    errors = speedups * np.sqrt(variance)
    speedups[0], errors[0] = 1.0, 0.0
    return SpeedupEstimate(
        belief.model, tuple(speedups.tolist()), tuple(errors.tolist()), belief.weights, belief.parameters
    )


@dataclass(frozen=True, slots=True)
class _Belief:
    """An estimate in ln S only at sizes(most). It is small even for a large most, so many of them can be remembered."""

    model: str
    mean: Array
    variance: Array
    weights: tuple[tuple[str, float], ...] = ()
    parameters: tuple[tuple[str, float], ...] = ()


_remembered: dict[_Asked, _Belief] = {}


def _beliefs(programs: Sequence[_Asked]) -> list[_Belief]:
    """The belief about each program. Those that are not remembered are fitted in batches of similar ones."""
    found = {asked: _remembered[asked] for asked in programs if asked in _remembered}
    batches: dict[tuple[int, int, tuple[str, ...]], dict[_Asked, Data]] = {}
    for asked in programs:
        if asked in found:
            continue
        data = as_data(asked.points)
        if data is None:
            at = np.log(sizes(asked.most))
            found[asked] = _Belief("unknown", UNKNOWN_EXPONENT * at, np.square(UNKNOWN_ERROR * at))
        else:
            points = max(_FEW_POINTS, 1 << (len(data.x) - 1).bit_length())
            batches.setdefault((points, max(asked.most, TABLED), asked.models), {})[asked] = data
    for (_points, _most, models), batch in batches.items():
        found.update(_fitted(batch, models))
    _remembered.update(found)
    while len(_remembered) > MOST_REMEMBERED:
        del _remembered[next(iter(_remembered))]
    return [found[asked] for asked in programs]


def _fitted(programs: Mapping[_Asked, Data], models: tuple[str, ...]) -> dict[_Asked, _Belief]:
    """Fits programs with the same sizes(most), as far as each goes."""
    batch, cpus = Batch.of(list(programs.values())), sizes(max(asked.most for asked in programs))
    fits = _fits(list(programs), batch, cpus, models)
    scores = np.array([math.log(PRIOR[name]) + fit.log_evidence for name, fit in fits.items()])
    weights = np.exp(scores - scores.max(axis=0))
    weights /= weights.sum(axis=0)
    misfits = np.array([0.0 if name in _SHAPEFREE else MISFIT**2 for name in fits])
    means = np.array([fit.mean for fit in fits.values()])
    variances = np.array([fit.variance for fit in fits.values()]) + misfits[:, None, None]
    mean, variance = mixture(weights, means, variances)
    variance += np.square(UNFORESEEN_PER_E_FOLD * _distance(np.log(cpus), batch.x))
    if models != ("log",):  # SCAF's model alone stays as published: it may be superlinear on few CPUs
        mean = np.clip(mean, math.log(LEAST_SPEEDUP), np.log(MOST_EFFICIENCY * cpus))
    mean = mean.round(_DECIMALS)
    beliefs = {}
    for row, (asked, chosen) in enumerate(zip(programs, weights.argmax(axis=0), strict=True)):
        model, own = models[chosen], len(sizes(asked.most))
        fit = fits[model]
        parameters = tuple(zip(fit.names, fit.parameters[row].tolist(), strict=True)) if fit.names else ()
        shares = tuple(zip(models, weights[:, row].tolist(), strict=True))
        beliefs[asked] = _Belief(model, mean[row, :own].copy(), variance[row, :own].copy(), shares, parameters)
    return beliefs


def _fits(programs: Sequence[_Asked], batch: Batch, cpus: Array, models: tuple[str, ...]) -> dict[str, Fit]:
    fits: dict[str, Fit] = {}
    free = fit_free(batch, int(cpus[-1])) if _SHAPEFREE & set(models) else None
    for name in models:
        if name in FAMILIES:
            fits[name] = fit_family(name, batch, cpus)
        elif name == "log":
            fits[name] = fit_log([asked.points for asked in programs], batch, cpus)
        elif free is not None:
            most = np.array([asked.most for asked in programs])
            fits[name] = free if name == "free" else monotone(free, batch, cpus, most)
    return fits


def _distance(at: Array, measured: Array) -> Array:
    """Distance of each of *at* from the nearest size of each program, or from 0 (p = 1, which is known), in ln p."""
    known = np.concatenate([np.zeros((len(measured), 1)), measured], axis=1)
    distances: Array = np.abs(at[:, None] - known[:, None]).min(axis=2)
    return distances
