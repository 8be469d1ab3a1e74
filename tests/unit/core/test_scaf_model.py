"""SCAF's model: the fit, the filter and the domain's weight."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.model.scaf import domain_weight, low_pass, most_weight, predicted_speedup, scaf_weight
from vscaf_policies import SpeedupPoint
from vscaf_policies.models.logarithmic import LEAST_WEIGHT


def point(cpus, speedup, standard_error=0.1, samples=100):
    return SpeedupPoint(cpus, speedup, standard_error, samples)


def test_one_point_is_equation_4_2():
    assert scaf_weight([point(12, 8.0)]) == pytest.approx(7 / math.log(12))
    assert scaf_weight([point(4, 1.5), point(1, 1.0, 0.0)]) == pytest.approx(0.5 / math.log(4))


def test_the_thesis_predicts_8_43_for_foo_on_14():
    assert predicted_speedup(scaf_weight([point(12, 8.0)]), 14) == pytest.approx(8.43, abs=0.01)


def test_without_a_point_above_one_cpu_the_weight_is_not_known():
    assert scaf_weight([]) is None
    assert scaf_weight([point(1, 1.0)]) is None
    assert scaf_weight([point(2, 1.9, samples=0), point(4, math.nan), point(4, 2.0, math.inf)]) is None


def test_the_surer_point_weighs_more():
    sure, unsure = point(4, 3.0, 0.05), point(4, 1.5, 0.5)
    low, high = 0.5 / math.log(4), 2.0 / math.log(4)
    weight = scaf_weight([sure, unsure])
    assert weight == pytest.approx((100 * high + low) / 101)


def test_an_error_of_zero_does_not_outweigh_everything():
    claimed = [point(2, 3.9, 0.0), *(point(2, 1.1, 0.02) for _ in range(20))]
    assert scaf_weight(claimed) < 1.5 / math.log(2)


def test_the_fit_is_clamped_on_both_sides():
    assert scaf_weight([point(8, 0.2)]) == LEAST_WEIGHT
    assert scaf_weight([point(8, 500.0)]) == pytest.approx(15 / math.log(8))


@given(st.integers(2, 4096))
def test_the_most_that_is_believed_is_perfect_scaling(cpus):
    assert most_weight(cpus) == pytest.approx(scaf_weight([point(cpus, float(cpus))]))
    assert most_weight(0) == most_weight(1) == most_weight(2)


@given(st.floats(0.1, 10), st.lists(st.tuples(st.integers(2, 64), st.floats(0.01, 1)), min_size=1, max_size=6))
def test_points_on_a_curve_give_back_its_weight(weight, where):
    points = [point(p, 1 + weight * math.log(p), e) for p, e in where]
    if all(p.speedup <= 2 * p.cpus for p in points):
        assert scaf_weight(points) == pytest.approx(weight)


def test_prediction_without_a_weight_is_linear_and_nothing_on_no_cpu():
    assert [predicted_speedup(None, p) for p in (0, 1, 5)] == [0, 1, 5]
    assert [predicted_speedup(2.0, p) for p in (0, 1)] == [0, 1]


def test_a_domain_weighs_the_sum_of_its_processes():
    assert domain_weight([1.5, 2.0]) == pytest.approx(3.5)
    assert domain_weight([1.0, 3.0, None]) == pytest.approx(6.0)
    assert domain_weight([None]) is None
    assert domain_weight([]) is None


def test_low_pass_is_the_rc_filter_of_the_thesis():
    assert low_pass(None, 0.7, 0.25) == 0.7
    assert low_pass(1.0, 0.0, 4.0) == pytest.approx(0.5)
    assert low_pass(1.0, 0.0, 0.25) == pytest.approx(4 / 4.25)
    with pytest.raises(ValueError, match="dt_s"):
        low_pass(1.0, 0.0, -1.0)
