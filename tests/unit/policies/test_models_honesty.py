"""The models' standard errors are honest: for many true curves and noisy points, the truth is near often enough."""

import math
import random
from statistics import mean, median

import numpy as np
import pytest
from vscaf_policies import SpeedupPoint
from vscaf_policies.models import fit_curve

MOST = 64
KINDS = ("amdahl", "usl", "log", "knee", "table")


def true_curve(kind, rng):
    """S(1) ... S(MOST) of a random program of this kind. S(p) is at index p - 1."""
    sizes = range(1, MOST + 1)
    if kind == "amdahl":
        serial = 10 ** rng.uniform(-3, -0.5)
        return [1 / (serial + (1 - serial) / p) for p in sizes]
    if kind == "usl":
        sigma, kappa = 10 ** rng.uniform(-3, -0.7), 10 ** rng.uniform(-5, -2.3)
        return [p / (1 + sigma * (p - 1) + kappa * p * (p - 1)) for p in sizes]
    if kind == "log":
        weight = rng.uniform(0.2, 3)
        return [1 + weight * math.log(p) for p in sizes]
    if kind == "knee":
        knee, before, after = rng.uniform(4, 40), rng.uniform(0.6, 1), rng.uniform(-0.3, 0.5)
        return [p**before if p < knee else knee**before * (p / knee) ** after for p in sizes]
    at = [0, *sorted(rng.uniform(0.5, 4) for _ in range(4)), math.log(MOST)]
    slopes = [rng.uniform(0.5, 1), *(rng.uniform(-0.2, 1) for _ in range(4))]
    heights = np.concatenate([[0], np.cumsum(np.diff(at) * slopes)])
    return np.exp(np.interp(np.log(np.arange(1, MOST + 1)), at, heights)).tolist()


def measured(curve, cpus, noise, rng):
    """One noisy measurement of the curve with a correct standard error."""
    speedup = curve[cpus - 1]
    return SpeedupPoint(cpus, speedup * (1 + noise * rng.gauss(0, 1)), noise * speedup, 5)


def share_within(estimate, curve, sizes, errors=2.0):
    """For each size: whether the truth is within *errors* standard errors, as a list of booleans."""
    return [abs(estimate.speedup(p) - curve[p - 1]) <= errors * estimate.uncertainty(p) for p in sizes]


@pytest.mark.parametrize("noise", [0.1, 0.03])
@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_is_within_two_standard_errors(kind, noise):
    near, everywhere = [], []
    for seed in range(80):
        rng = random.Random(f"{kind} {seed}")
        curve = true_curve(kind, rng)
        sizes = [rng.randint(2, MOST) for _ in range(rng.choice([1, 2, 3, 4, 6, 8, 12, 20]))]
        estimate = fit_curve([measured(curve, p, noise, rng) for p in sizes], MOST)
        beside = sorted({p + step for p in sizes for step in (-1, 0, 1) if 2 <= p + step <= MOST})
        near += share_within(estimate, curve, beside)
        everywhere += share_within(estimate, curve, range(2, MOST + 1))
    assert mean(near) >= 0.85
    assert mean(everywhere) >= 0.85


def test_one_standard_error_is_not_too_much_either():
    """If errors are normal, 68% lie within one standard error. An estimate that is never wrong would be useless."""
    within = []
    for seed in range(100):
        rng = random.Random(seed)
        curve = true_curve(KINDS[seed % len(KINDS)], rng)
        sizes = sorted(rng.sample(range(2, MOST + 1), 12))
        estimate = fit_curve([measured(curve, p, 0.1, rng) for p in sizes], MOST)
        within += share_within(estimate, curve, sizes, 1.0)
    assert 0.6 <= mean(within) <= 0.85


def test_many_points_make_it_surer_than_one():
    beside_one, beside_many = [], []
    for seed in range(40):
        rng = random.Random(seed)
        curve = true_curve(KINDS[seed % len(KINDS)], rng)
        sizes = sorted(rng.sample(range(2, MOST + 1), 20))
        points = [measured(curve, p, 0.1, rng) for p in sizes]
        few, many = fit_curve(points[10:11], MOST), fit_curve(points, MOST)
        beside_one.append(few.uncertainty(sizes[10]) / few.speedup(sizes[10]))
        beside_many.append(many.uncertainty(sizes[10]) / many.speedup(sizes[10]))
    assert median(beside_one) > 0.07
    assert median(beside_many) < 0.05


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_far_from_the_points_the_error_is_large_and_still_honest(noise):
    within, growth = [], []
    for seed in range(100):
        rng = random.Random(seed)
        curve = true_curve(KINDS[seed % len(KINDS)], rng)
        estimate = fit_curve([measured(curve, p, noise, rng) for p in (2, 3, 4, 6, 8)], MOST)
        within += share_within(estimate, curve, (16, 32, 64))
        relative = [estimate.uncertainty(p) / estimate.speedup(p) for p in (8, 16, 32, 64)]
        assert relative == sorted(relative)
        growth.append(relative[-1] / relative[0])
        assert relative[-1] > 0.2
    assert mean(within) >= 0.85
    assert min(growth) > 2


def test_all_models_together_are_much_nearer_than_scafs_alone():
    together, alone = [], []
    for seed in range(60):
        rng = random.Random(seed)
        curve = true_curve(KINDS[seed % len(KINDS)], rng)
        points = [measured(curve, p, 0.03, rng) for p in (4, 8, 16, 24, 32, 48)]
        for models, errors in ((None, together), (("log",), alone)):
            estimate = fit_curve(points, MOST, models) if models else fit_curve(points, MOST)
            errors += [abs(estimate.speedup(p) / curve[p - 1] - 1) for p in range(4, 49)]
    assert mean(together) < 0.03
    assert mean(together) < mean(alone) / 3
