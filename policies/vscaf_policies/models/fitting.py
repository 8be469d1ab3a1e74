"""From points to an estimate: fits each model, weighs the models by evidence, and gives the standard errors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vscaf_policies.models.estimate import SpeedupEstimate
from vscaf_policies.models.parametric import FAMILIES, Fit, fit_family, fit_log
from vscaf_policies.models.points import (
    DRIFT_PER_S,
    LEAST_SPEEDUP,
    MOST_EFFICIENCY,
    Array,
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
    return _estimate(usable_points(points, drift_per_s), most, asked)


@lru_cache(maxsize=256)
def _estimate(points: tuple[UsablePoint, ...], most: int, models: tuple[str, ...]) -> SpeedupEstimate:
    """From ln S at some sizes to S at every size: sizes in between are interpolated, linear in ln p."""
    belief = _belief(points, most, models)
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


@lru_cache(maxsize=4096)
def _belief(points: tuple[UsablePoint, ...], most: int, models: tuple[str, ...]) -> _Belief:
    data = as_data(points)
    cpus = sizes(most)
    if data is None:
        at = np.log(cpus)
        return _Belief("unknown", UNKNOWN_EXPONENT * at, np.square(UNKNOWN_ERROR * at))
    fits = _fits(points, data, cpus, models)
    names = list(fits)
    scores = np.array([math.log(PRIOR[name]) + fits[name].log_evidence for name in names])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    mean, variance = mixture(
        weights,
        np.array([fit.mean for fit in fits.values()]),
        np.array([fits[name].variance + (0.0 if name in _SHAPEFREE else MISFIT**2) for name in names]),
    )
    variance += np.square(UNFORESEEN_PER_E_FOLD * _distance(np.log(cpus), data.x))
    if names != ["log"]:  # SCAF's model alone stays as published: it may be superlinear on few CPUs
        mean = np.clip(mean, math.log(LEAST_SPEEDUP), np.log(MOST_EFFICIENCY * cpus))
    chosen = names[int(np.argmax(weights))]
    return _Belief(chosen, mean, variance, tuple(zip(names, weights.tolist(), strict=True)), fits[chosen].parameters)


def _fits(points: tuple[UsablePoint, ...], data: Data, cpus: Array, models: tuple[str, ...]) -> dict[str, Fit]:
    fits: dict[str, Fit] = {}
    free = fit_free(data, int(cpus[-1])) if _SHAPEFREE & set(models) else None
    for name in models:
        if name in FAMILIES:
            fits[name] = fit_family(name, data, cpus)
        elif name == "log":
            fits[name] = fit_log(points, data, cpus)
        elif free is not None:
            fits[name] = free if name == "free" else monotone(free, data, cpus)
    return fits


def _distance(at: Array, measured: Array) -> Array:
    """Distance of each of *at* from the nearest measured size, or from 0 (p = 1, which is known), in ln p."""
    known = np.concatenate([np.zeros(1), measured])
    after = np.minimum(np.searchsorted(known, at), len(known) - 1)
    distances: Array = np.minimum(np.abs(at - known[after]), np.abs(at - known[np.maximum(after - 1, 0)]))
    return distances
