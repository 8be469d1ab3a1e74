"""The models of speedup: each formula, its recovery from points, the choice of a model, and garbage."""

import math
import subprocess
import sys
import time
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from vscaf.core.model.scaf import scaf_weight
from vscaf_policies import SpeedupPoint
from vscaf_policies.models import (
    DRIFT_PER_S,
    MODELS,
    SpeedupEstimate,
    fit_curve,
    fit_together,
    fitting,
    parametric,
    shapefree,
)
from vscaf_policies.models.points import MOST_SIZES, TABLED, Batch, as_data, usable_points
from vscaf_policies.models.shapefree import isotonic

MOST = 64
SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def amdahl(serial):
    return lambda p: 1 / (serial + (1 - serial) / p)


def usl(sigma, kappa):
    return lambda p: p / (1 + sigma * (p - 1) + kappa * p * (p - 1))


def logarithmic(weight):
    return lambda p: 1 + weight * math.log(p)


def downey(average, sigma):
    """Downey's model as in his paper, with one formula for each regime."""

    def low(p):
        if p <= average:
            return average * p / (average + sigma / 2 * (p - 1))
        if p <= 2 * average - 1:
            return average * p / (sigma * (average - 0.5) + p * (1 - sigma / 2))
        return average

    def high(p):
        if p <= average + average * sigma - sigma:
            return p * average * (sigma + 1) / (sigma * (p + average - 1) + average)
        return average

    return low if sigma <= 1 else high


CURVES = {
    "log": logarithmic(2.5),
    "amdahl": amdahl(0.05),
    "usl": usl(0.03, 0.0008),
    "downey": downey(20, 0.6),
    "downey-high": downey(30, 1.7),
}
HPX = {2: 1.9, 4: 3.2, 8: 2.4, 16: 2.9}


def points_of(curve, sizes=SIZES, relative_error=0.01, seed=None):
    """Points on the curve with this relative error. With a seed they have noise of that size."""
    noise = np.random.default_rng(seed).standard_normal(len(sizes)) if seed is not None else np.zeros(len(sizes))
    return [
        SpeedupPoint(p, curve(p) * (1 + relative_error * float(z)), relative_error * curve(p), 10)
        for p, z in zip(sizes, noise, strict=True)
    ]


def worst(estimate, curve, sizes):
    """The largest relative difference between the estimate and the curve at *sizes*."""
    return max(abs(estimate.speedup(p) / curve(p) - 1) for p in sizes)


def weight_of(estimate, *models):
    return sum(weight for name, weight in estimate.weights if name in models)


def test_an_estimate_answers_for_any_number_of_cpus():
    estimate = SpeedupEstimate("log", (1.0, 1.5), (0.0, 0.1))
    assert [estimate.speedup(p) for p in (-1, 0, 1, 2, 9)] == [0.0, 0.0, 1.0, 1.5, 1.5]
    assert [estimate.uncertainty(p) for p in (-1, 0, 1, 2, 9)] == [0.0, 0.0, 0.0, 0.1, 0.1]


def test_scafs_worked_example():
    foo, baz = (
        fit_curve([SpeedupPoint(p, p * efficiency, 0.1, 9)], 16, models=("log",))
        for p, efficiency in ((12, 2 / 3), (4, 3 / 8))
    )
    assert dict(foo.parameters)["weight"] == pytest.approx(7 / math.log(12))
    assert dict(baz.parameters)["weight"] == pytest.approx(0.5 / math.log(4))
    weights = [dict(estimate.parameters)["weight"] for estimate in (foo, baz)]
    assert [16 * weight / sum(weights) for weight in weights] == pytest.approx([14.18, 1.82], abs=0.01)
    assert foo.speedup(14) == pytest.approx(8.43, abs=0.01)


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.floats(-5, 700), st.floats(0, 1.5), st.integers(0, 3)), min_size=1, max_size=8
    )
)
@example([(8, 0.2, 0.1, 1)])
@example([(8, 500.0, 0.1, 1)])
def test_the_log_model_is_the_daemons(rows):
    points = [SpeedupPoint(cpus, speedup, error, samples) for cpus, speedup, error, samples in rows]
    estimate = fit_curve(points, 40, models=("log",))
    weight = scaf_weight(points)
    if estimate.model == "unknown":
        assert weight is None
        return
    assert dict(estimate.parameters)["weight"] == pytest.approx(weight)
    assert estimate.mean == pytest.approx([1 + weight * math.log(p) for p in range(1, 41)])


@pytest.mark.parametrize("average", [1, 1.5, 7, 20, 64])
@pytest.mark.parametrize("sigma", [0, 0.3, 1, 1.001, 2.5])
def test_downeys_formula_in_one_expression_is_his_three_regimes(average, sigma):
    sizes = np.arange(1.0, 200.0)
    computed = np.exp(parametric.downey(np.array([[average, sigma]], dtype=float), sizes))[0]
    assert computed == pytest.approx([downey(average, sigma)(p) for p in sizes])


@pytest.mark.parametrize(("average", "sigma"), [(51.4, 0.31), (1.24, 0.61), (3, 1.9), (200, 0.1), (2.0, 0.0)])
def test_downeys_optimum_is_found_in_either_regime_and_on_the_plateau(average, sigma):
    """The second curve is all plateau: it depends only on A, not on sigma."""
    curve = downey(average, sigma)
    estimate = fit_curve(points_of(curve, range(2, 58), 0.01, 22), MOST, models=("downey",))
    assert worst(estimate, curve, range(2, MOST + 1)) < 0.02


@pytest.mark.parametrize("precision", [[[4.0]], [[4.0, 1.0], [1.0, 9.0]], [[100.0, -19.0], [-19.0, 4.0]]])
def test_the_root_of_an_inverse_is_one(precision):
    root = parametric._root_of_inverse(np.array([precision]))[0]
    assert root @ root.T == pytest.approx(np.linalg.inv(precision))
    assert root == pytest.approx(np.tril(root))


RECOVERED = [
    ("amdahl", amdahl(0.2), {"serial": 0.2}),
    ("amdahl", amdahl(0.004), {"serial": 0.004}),
    ("usl", usl(0.05, 0.002), {"sigma": 0.05, "kappa": 0.002}),
    ("usl", usl(0.2, 0.05), {"sigma": 0.2, "kappa": 0.05}),
    ("downey", downey(12, 0.5), {"parallelism": 12, "sigma": 0.5}),
    ("downey", downey(12, 1.6), {"parallelism": 12, "sigma": 1.6}),
    ("log", logarithmic(3.3), {"weight": 3.3}),
]


@pytest.mark.parametrize(("model", "curve", "parameters"), RECOVERED)
def test_parameters_are_recovered_from_points_without_noise(model, curve, parameters):
    estimate = fit_curve(points_of(curve), MOST, models=(model,))
    assert estimate.model == model
    assert dict(estimate.parameters) == pytest.approx(parameters, rel=0.05)
    assert worst(estimate, curve, range(1, MOST + 1)) < 0.005


@pytest.mark.parametrize(("model", "curve", "_"), RECOVERED)
def test_all_models_together_recover_each_curve(model, curve, _):
    estimate = fit_curve(points_of(curve), MOST)
    assert worst(estimate, curve, range(1, MOST + 1)) < 0.01, (model, estimate.weights)


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("seed", range(6))
def test_data_from_a_model_choose_it_or_one_that_says_the_same(name, seed):
    curve = CURVES[name]
    estimate = fit_curve(points_of(curve, range(2, MOST + 1, 3), 0.02, seed), MOST)
    expected = name.removesuffix("-high")
    assert estimate.model == expected or worst(estimate, curve, range(2, MOST + 1)) < 0.02, estimate.weights


@pytest.mark.parametrize("serial", [0.02, 0.1, 0.4])
def test_the_simpler_model_is_preferred_where_both_explain_the_points(serial):
    """Gunther's law contains Amdahl's (kappa = 0), Downey's comes near it, and the shape-free models fit anything."""
    estimate = fit_curve(points_of(amdahl(serial)), MOST)
    assert estimate.model == "amdahl"
    assert weight_of(estimate, "usl") < weight_of(estimate, "amdahl")
    assert weight_of(estimate, "monotone", "free") < 0.05


def test_the_second_parameter_is_taken_where_the_points_need_it():
    assert fit_curve(points_of(usl(0.03, 0.002)), MOST).model == "usl"
    assert fit_curve(points_of(downey(12, 0.2)), MOST).model == "downey"


def test_a_curve_that_falls_is_data():
    points = points_of(HPX.__getitem__, tuple(HPX), 0.03)
    estimate = fit_curve(points, 16)
    assert estimate.model == "free"
    assert {p: estimate.speedup(p) for p in HPX} == pytest.approx(HPX, rel=0.03)


def test_a_program_that_collapses_is_data():
    collapse = {2: 0.1, 4: 0.06, 8: 0.03}
    estimate = fit_curve(points_of(collapse.__getitem__, tuple(collapse), 0.1), 8)
    assert {p: estimate.speedup(p) for p in collapse} == pytest.approx(collapse, rel=0.35)


def test_a_curve_that_falls_needs_evidence():
    """If the errors are large enough to explain the dip, a curve that never falls is more probable."""
    estimate = fit_curve(points_of(HPX.__getitem__, tuple(HPX), 0.25), 16)
    assert estimate.model != "free"
    assert weight_of(estimate, "free") < 0.1


def test_the_monotone_model_never_falls_and_says_how_far_that_takes_it_from_the_points():
    estimate = fit_curve(points_of(HPX.__getitem__, tuple(HPX), 0.03), 40, models=("monotone",))
    assert np.all(np.diff(estimate.mean) >= -1e-12)
    for p, speedup in HPX.items():
        assert abs(estimate.speedup(p) - speedup) <= 2 * estimate.uncertainty(p)


def test_a_rising_curve_that_no_formula_explains_is_monotone_rather_than_free():
    estimate = fit_curve(points_of(KNEES["kink"], range(2, MOST + 1)), MOST)
    assert estimate.model == "monotone"
    assert weight_of(estimate, "free") < weight_of(estimate, "monotone")


def test_the_process_is_zero_at_one_cpu():
    """So S(1) = 1 follows from the covariances of the shape-free model, without a special rule."""
    at = np.log(np.arange(1.0, 9.0))
    for matrix in shapefree._covariance(shapefree._KERNELS, at, at):
        assert matrix[0] == pytest.approx(np.zeros(8), abs=1e-12)
        assert np.linalg.eigvalsh(matrix).min() > -1e-12


def test_a_formula_is_never_believed_altogether():
    estimate = fit_curve(points_of(amdahl(0.05), range(2, MOST + 1)), MOST)
    assert estimate.model == "amdahl"
    assert all(estimate.uncertainty(p) >= 0.01 * estimate.speedup(p) for p in range(2, MOST + 1))


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(0.1, 10)), min_size=1, max_size=12))
def test_isotonic_regression_is_the_minimax_of_block_means(rows):
    values, weights = zip(*rows, strict=True)
    count = len(rows)

    def mean(first, last):
        return np.average(values[first : last + 1], weights=weights[first : last + 1])

    expected = [max(min(mean(i, j) for j in range(k, count)) for i in range(k + 1)) for k in range(count)]
    assert isotonic(list(values), list(weights)) == pytest.approx(expected, abs=1e-9)


KNEES = {
    "plateau": lambda p: min(p, 16.0),
    "kink": lambda p: p**0.95 if p <= 9 else 9**0.95 * (p / 9) ** 0.2,
    "step": lambda p: 0.8 * p if p <= 32 else 0.6 * p,
    "dip": lambda p: math.sqrt(p) * (0.7 if 20 <= p < 28 else 1.0),
    "saw": lambda p: p / math.ceil(p / 8) ** 0.5,
    **CURVES,
}


@pytest.mark.parametrize("name", KNEES)
def test_a_precise_table_is_reproduced(name):
    curve = KNEES[name]
    estimate = fit_curve(points_of(curve, range(2, MOST + 1)), MOST)
    assert worst(estimate, curve, range(2, MOST + 1)) < 0.02, estimate.weights


def test_without_a_point_the_curve_is_concave_and_its_error_very_large():
    for points in ([], [SpeedupPoint(1, 1.0, 0.0, 5)], [SpeedupPoint(8, math.nan, 1.0, 5)]):
        estimate = fit_curve(points, MOST)
        assert estimate.model == "unknown"
        assert np.all(np.diff(estimate.mean) > 0) and np.all(np.diff(estimate.mean, 2) < 0)
        assert estimate.uncertainty(MOST) > 0.5 * estimate.speedup(MOST)
        assert estimate.speedup(MOST) + 2 * estimate.uncertainty(MOST) >= MOST


@pytest.mark.parametrize(("cpus", "speedup"), [(12, 8.0), (4, 1.5), (16, 6.0), (32, 9.0)])
def test_one_point_gives_about_scafs_curve_through_it(cpus, speedup):
    estimate = fit_curve([SpeedupPoint(cpus, speedup, 0.05 * speedup, 9)], MOST)
    assert estimate.speedup(cpus) == pytest.approx(speedup, rel=0.03)
    assert estimate.model == "log"
    weight = (speedup - 1) / math.log(cpus)
    for p in range(2, MOST + 1):
        assert abs(estimate.speedup(p) - 1 - weight * math.log(p)) < 1.5 * estimate.uncertainty(p)
    assert estimate.uncertainty(MOST) / estimate.speedup(MOST) > 2 * estimate.uncertainty(cpus) / speedup


def test_s_of_one_is_exact():
    estimate = fit_curve([SpeedupPoint(8, 0.5, 0.1, 3), SpeedupPoint(1, 7.0, 0.1, 3)], 8)
    assert estimate.speedup(1) == 1.0 and estimate.uncertainty(1) == 0.0
    assert fit_curve([SpeedupPoint(8, 5.0, 0.1, 3)], 1).mean == (1.0,)


def test_error_grows_with_age_at_the_documented_rate():
    (young,) = usable_points([SpeedupPoint(8, 4.0, 0.2, 3)])
    (old,) = usable_points([SpeedupPoint(8, 4.0, 0.2, 3, age_s=100.0)])
    assert young.standard_error == 0.2
    assert old.standard_error == pytest.approx(math.hypot(0.2, DRIFT_PER_S * 100 * 4.0))


def test_the_younger_of_two_that_differ_is_believed():
    def at_8(first_age, second_age):
        points = [SpeedupPoint(8, 2.0, 0.1, 3, first_age), SpeedupPoint(8, 6.0, 0.3, 3, second_age)]
        return fit_curve(points, 16).speedup(8)

    assert at_8(900.0, 0.0) == pytest.approx(6.0, rel=0.05)
    assert at_8(0.0, 900.0) == pytest.approx(2.0, rel=0.05)


def test_points_of_one_size_that_contradict_each_other_are_not_precise():
    agree = fit_curve([SpeedupPoint(8, 4.0, 0.05, 3), SpeedupPoint(8, 4.05, 0.05, 3)], 16)
    contradict = fit_curve([SpeedupPoint(8, 3.0, 0.05, 3), SpeedupPoint(8, 5.5, 0.05, 3)], 16)
    assert agree.uncertainty(8) < 0.1
    assert contradict.uncertainty(8) > 0.8


def test_an_error_is_never_below_a_hundredth_of_the_speedup():
    claimed = [SpeedupPoint(8, 8.0, 0.0, 3), *(SpeedupPoint(8, 4.0, 0.05, 3) for _ in range(30))]
    (first, *_, last) = usable_points(claimed)
    assert (first.standard_error, last.standard_error) == (0.05, 0.08)


def test_more_sizes_than_are_worth_it_are_combined():
    curve = amdahl(0.002)
    points = points_of(curve, range(2, 1500))
    assert len(as_data(usable_points(points)).x) <= MOST_SIZES
    assert worst(fit_curve(points, 1500), curve, range(1, 1501)) < 0.01


def test_large_questions_agree_with_small_ones():
    points = points_of(usl(0.01, 0.00001), seed=3)
    small, large = fit_curve(points, 128), fit_curve(points, 4096)
    assert small.mean == pytest.approx(large.mean[:128])
    assert len(large.mean) == len(large.standard_error) == 4096
    for most in (129, 130, 1000, 1001):
        assert fit_curve(points, most).mean == pytest.approx(large.mean[:most], rel=1e-3)


def finite(estimate, most):
    """The laws that hold for any estimate."""
    assert len(estimate.mean) == len(estimate.standard_error) == most
    assert estimate.mean[0] == 1.0 and estimate.standard_error[0] == 0.0
    assert all(0.0 <= speedup <= 2.0 * p + 1e-9 for p, speedup in enumerate(estimate.mean, 1))
    assert all(math.isfinite(error) and error > 0.0 for error in estimate.standard_error[1:])
    assert not estimate.weights or weight_of(estimate, *MODELS) == pytest.approx(1.0)


anything = st.floats() | st.floats(-10, 100)


@given(
    st.lists(
        st.builds(
            SpeedupPoint,
            st.integers(-5, 200) | st.integers() | st.sampled_from([10**400, 1 << 20]),
            anything,
            anything,
            st.integers(-1, 5),
            anything,
        ),
        max_size=12,
    ),
    st.sampled_from([1, 2, 3, 17, 64, 200]),
)
@example([SpeedupPoint(1 << 20, 1e300, 1e-300, 1), SpeedupPoint(2, 0.0, 0.0, 1)], 64)
@example([SpeedupPoint(p, 2.0 * p, 0.0, 1) for p in range(2, 40)], 64)
@example([SpeedupPoint(p, 0.0, 0.0, 1) for p in range(2, 40)], 64)
@example([SpeedupPoint(8, 1e200, 1e200, 1), SpeedupPoint(8, 3.0, 1e308, 1, 1e308)], 64)
def test_garbage_never_raises_and_never_spreads(points, most):
    finite(fit_curve(points, most), most)


def test_garbage_beside_good_points_changes_nothing():
    good = points_of(amdahl(0.1))
    garbage = [
        SpeedupPoint(8, math.nan, 0.1, 5),
        SpeedupPoint(8, 4.0, math.inf, 5),
        SpeedupPoint(8, 4.0, 0.1, 0),
        SpeedupPoint(-3, 4.0, 0.1, 5),
        SpeedupPoint(1, 9.0, 0.1, 5),
        SpeedupPoint(8, 4.0, 0.1, 5, math.nan),
    ]
    assert fit_curve([*garbage, *good], MOST) == fit_curve(good, MOST)


@given(st.permutations(range(len(SIZES))), st.integers(0, 3))
def test_the_order_of_points_does_not_matter(order, seed):
    points = points_of(usl(0.05, 0.001), relative_error=0.05, seed=seed)
    assert fit_curve([points[index] for index in order], MOST) == fit_curve(points, MOST)


def test_the_order_and_number_of_models_do_not_matter():
    points = points_of(amdahl(0.1), seed=1)
    assert fit_curve(points, 16, models=("usl", "log", "usl")) == fit_curve(points, 16, models=("log", "usl"))


@pytest.mark.parametrize(("most", "models", "named"), [(0, MODELS, "most = 0"), (4, (), "0 models"), (4, ("x",), "x")])
def test_questions_that_make_no_sense_are_refused(most, models, named):
    with pytest.raises(ValueError, match=named):
        fit_curve([], most, models=models)


def test_a_fit_is_fast_and_remembered():
    """Machines differ, so it is compared with similar work: a few thousand steps of Python, a few hundred of numpy."""
    table = np.linspace(-3.0, 3.0, 576 * MOST).reshape(576, MOST)

    def work(_seed):
        sum(number * 0.5 for number in range(3000))
        for _ in range(300):
            np.add(table[0], table[1])
        np.exp(table)

    def best_s(of):
        times = []
        for seed in range(30):
            start = time.thread_time()
            of(seed)
            times.append(time.thread_time() - start)
        return min(times)

    def fit(most):
        return lambda seed: fit_curve(points_of(usl(0.05, 0.001), range(3, 63, 3), 0.05, seed), most)

    assert best_s(fit(64)) < 14 * best_s(work)
    assert best_s(fit(4096)) < 35 * best_s(work)
    points = points_of(usl(0.05, 0.001), seed=99)
    assert fit_curve(points, MOST) is fit_curve(points, MOST)


def test_policies_without_curves_do_not_load_numpy():
    code = "import sys, vscaf_policies; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.sets(st.integers(2, 140), min_size=1, max_size=20))
def test_what_is_looked_up_is_what_would_be_computed(sizes):
    """Up to TABLED CPUs, what depends only on sizes comes from tables."""
    data = Batch.of([as_data(usable_points([SpeedupPoint(cpus, 0.7 * cpus, 0.1 * cpus, 4) for cpus in sizes]))])
    assert (data.columns is not None) == (max(sizes) <= TABLED)
    without = replace(data, columns=None)
    for name in parametric.FAMILIES:
        looked_up, computed = (parametric._curves_at_points(name, one) for one in (data, without))
        assert np.array_equal(looked_up, computed)
    for looked_up, computed in zip(shapefree._at_points(data), shapefree._at_points(without), strict=True):
        assert np.array_equal(looked_up, computed)
    fits = (astuple(shapefree.fit_free(one, 64)) for one in (data, without))
    for looked_up, computed in zip(*fits, strict=True):
        assert np.array_equal(looked_up, computed)


programs = st.lists(
    st.tuples(st.dictionaries(st.integers(2, 300), st.floats(0.02, 4.0), min_size=1, max_size=12), st.integers(1, 600)),
    min_size=2,
    max_size=6,
)


@given(programs, st.sampled_from([0.01, 0.1, 0.5]))
def test_programs_that_are_fitted_together_are_fitted_as_if_alone(programs, error):
    """Whatever their sizes, numbers of points and shapes: efficiencies at random are curves that fall, too."""
    asked = [
        (usable_points([SpeedupPoint(p, each * p, error * each * p, 4) for p, each in efficiencies.items()]), most)
        for efficiencies, most in programs
    ]
    forget_fits()
    together = fit_together(asked)
    for one, found in zip(asked, together, strict=True):
        forget_fits()
        alone = fit_together([one])[0]
        assert found.mean == pytest.approx(alone.mean, rel=1e-9)
        assert found.standard_error == pytest.approx(alone.standard_error, rel=1e-6)
        assert dict(found.weights) == pytest.approx(dict(alone.weights), abs=1e-6)


def forget_fits():
    fitting._remembered.clear()
    fitting._estimate.cache_clear()
