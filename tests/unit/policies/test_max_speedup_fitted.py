"""The fitted policy: the best split for known curves, equal shares for unknown ones, and no wild answers."""

import itertools
import math
from dataclasses import replace

import pools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pools import pool
from vscaf_policies import PolicyError, PoolState, SpeedupPoint
from vscaf_policies.equipartition import equipartition
from vscaf_policies.estimates import worth
from vscaf_policies.max_speedup_fitted import USE, max_speedup_fitted
from vscaf_policies.models import fit_curve

EVERY = (2, 4, 6, 8, 10, 12, 14, 16, 18, 22, 26, 30, 36)


def domain(name, curve=None, sizes=EVERY, error=0.02, **changes):
    points = tuple(SpeedupPoint(p, curve(p), error * curve(p), 8) for p in sizes) if curve else ()
    return pools.domain(name, **({"points": points} | changes))


def linear(p):
    return 0.9 * p


def knee(p):
    return min(p, 12)


def log2(p):
    return 1 + 2 * math.log(p)


def falling(p):
    return p / (1 + 0.03 * (p - 1) + 0.004 * p * (p - 1))


def test_knees_and_extreme_splits_are_found():
    assert max_speedup_fitted(pool(36, domain("a", linear), domain("b", log2)), {})["b"] <= 4
    split = max_speedup_fitted(pool(36, domain("a", linear), domain("b", knee)), {})
    assert split["b"] == pytest.approx(12, abs=2)
    assert sum(split.values()) == 36


@pytest.mark.parametrize("pair", list(itertools.combinations((linear, knee, log2, falling), 2)))
def test_well_known_curves_come_within_two_percent_of_the_best_split(pair):
    names = ("a", "b")
    split = max_speedup_fitted(pool(36, *map(domain, names, pair)), {})
    got = sum(curve(split[name]) for name, curve in zip(names, pair, strict=True))
    best = max(pair[0](p) + pair[1](36 - p) for p in range(1, 36))
    assert got >= 0.98 * best


def test_what_more_cpus_make_slower_leaves_them_over():
    split = max_speedup_fitted(pool(36, domain("a", falling), domain("b", falling, maximum=10)), {})
    assert split["b"] == 10
    assert 10 <= split["a"] <= 22


def test_unknown_ones_and_newcomers_get_the_equal_share():
    known = domain("k", linear)
    assert max_speedup_fitted(pool(36, known, domain("n", linear, newcomer=True), domain("u")), {}) == {
        "k": 12,
        "n": 12,
        "u": 12,
    }
    unmeasured = pool(17, domain("a"), domain("b"), domain("c", demand=0))
    assert max_speedup_fitted(unmeasured, {}) == equipartition(unmeasured, {})


def test_one_lucky_measurement_is_no_reason_to_starve_anybody():
    """One domain has S(8) = 9 +- 4, the other has a well known curve of the same true shape."""
    lucky = domain("a", lambda p: 9.0, sizes=(8,), error=0.45)
    split = max_speedup_fitted(pool(16, lucky, domain("b", lambda p: 1 + 2.4 * math.log(p), sizes=(4, 8, 12))), {})
    assert split["b"] >= 4


def test_weights_count_and_options_are_refused():
    heavy = max_speedup_fitted(pool(36, domain("a", log2, weight=3.0), domain("b", log2)), {})
    assert heavy["a"] > 24
    with pytest.raises(PolicyError, match="max-speedup-fitted"):
        max_speedup_fitted(pool(4, domain("a")), {"speed": 1})


SHAPES = {
    "linear": linear,
    "log2": log2,
    "root": math.sqrt,
    "amdahl": lambda p: 1 / (0.1 + 0.9 / p),
    "flat": lambda p: 1 + 0.2 * math.log(p),
}


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(sorted(SHAPES)), min_size=2, max_size=5),
    st.sampled_from((0.1, 0.5, 1.0, 1.5, 4.0)),
    st.floats(1.01, 20.0),
    st.sampled_from((0, 1.5, 3)),
    st.integers(12, 40),
)
def test_a_larger_weight_never_brings_fewer_cpus(shapes, weight, factor, most, cpus):
    """And at some weight it brings more. For programs that no number of CPUs makes slower."""

    def has(weight):
        others = [domain(f"d{number}", SHAPES[shape]) for number, shape in enumerate(shapes)]
        state = pool(cpus, replace(others[0], weight=weight), *others[1:])
        return max_speedup_fitted(state, {"most_of_equal": most})["d0"]

    assert has(weight) <= has(weight * factor)
    assert has(1e-3) < has(1000.0)


def test_the_limit_of_a_domain_grows_with_its_weight():
    """Weights are no claim of a guest: three times its share by weight is more than three times the equal share."""
    others = [domain(name, log2) for name in "bcdef"]
    assert max_speedup_fitted(pool(36, domain("a", linear), *others), {})["a"] == 18
    assert max_speedup_fitted(pool(36, domain("a", linear, weight=3.0), *others), {})["a"] > 20


def test_without_points_the_one_parameter_is_better_than_nothing():
    state = pool(36, domain("a", scaf_weight=8.0), domain("b", scaf_weight=1.0))
    split = max_speedup_fitted(state, {})
    assert split["a"] > 24
    known = worth(state.domains[0], state)
    assert known is not None
    assert known.expected[17] == pytest.approx(1 + 8 * math.log(18))
    assert known.cautious[17] < known.expected[17]


def test_it_says_that_it_wants_exploration():
    assert max_speedup_fitted.explores is True


@settings(max_examples=30)
@given(st.data())
def test_bounds_and_chunks_hold(data):
    chunk = data.draw(st.sampled_from([1, 2, 3]))
    domains = []
    for number in range(data.draw(st.integers(0, 5))):
        minimum = data.draw(st.integers(1, 5))
        maximum = minimum + data.draw(st.integers(0, 20))
        curve = data.draw(st.sampled_from([linear, knee, log2, falling, None]))
        demand = data.draw(st.integers(0, 30))
        domains.append(domain(f"d{number}", curve, minimum=minimum, maximum=maximum, demand=demand))
    state = pool(data.draw(st.integers(chunk, 40)), *domains, chunk=chunk)
    split = max_speedup_fitted(state, {})
    assert split == max_speedup_fitted(PoolState(state.cpus, chunk, 9.0, tuple(reversed(domains))), {})
    assert sum(split.values()) <= state.cpus
    for d in domains:
        assert split[d.name] % chunk == 0
        assert split[d.name] <= -(-min(d.maximum, max(d.demand, d.minimum)) // chunk) * chunk


def test_a_step_that_was_measured_stands_against_a_smooth_fit():
    """The speedup is 21 on 40 and 48 CPUs and 27.5 from 50 on. Formulas smooth this, but at a measured size the
    estimate stays near the measurement."""
    sizes = {8: 7.5, 16: 12.5, 24: 16.0, 32: 18.0, 40: 21.0, 48: 21.0, 50: 27.5, 56: 27.5}
    sure, vague = (domain("a", sizes.__getitem__, tuple(sizes), error=error) for error in (0.01, 0.5))
    estimate = worth(sure, pool(64, sure))
    smooth = fit_curve(sure.points, 64)
    off = [abs(math.log(estimate.expected[cpus - 1] / speedup)) for cpus, speedup in sizes.items()]
    assert max(off) < 0.03
    assert max(off) < max(abs(math.log(smooth.speedup(cpus) / speedup)) for cpus, speedup in sizes.items())
    drawn = worth(vague, pool(64, vague)).expected
    assert drawn == pytest.approx(fit_curve(vague.points, 64).mean, rel=0.05), "a step was drawn through noise"


def test_what_was_measured_long_ago_draws_nothing_to_itself():
    """After half an hour the relative error is 180%. The fit no longer believes such a point, so it makes no step."""
    now, formerly = SpeedupPoint(8, 6.0, 0.1, 9), SpeedupPoint(16, 4.0, 0.1, 9, age_s=1800.0)
    fresh = domain("a", points=(now, replace(formerly, age_s=0.0)))
    stale = domain("a", points=(now, formerly))
    assert worth(fresh, pool(32, fresh)).expected[15] == pytest.approx(4.0, rel=0.05)
    expected = worth(stale, pool(32, stale)).expected
    assert expected == pytest.approx(fit_curve(stale.points, 32).mean, rel=0.02)
    assert expected[15] > 7.0


def test_of_two_with_one_curve_the_better_known_has_more():
    """Estimates count minus their error, because a lucky measurement is no reason to take CPUs from others."""
    sure, vague = (domain(name, log2, sizes=(4, 8), error=error) for name, error in (("sure", 0.01), ("vague", 0.3)))
    split = max_speedup_fitted(pool(32, sure, vague), {})
    assert split["sure"] > 16 > split["vague"]


def test_what_nobody_else_wants_goes_to_whom_it_is_not_expected_to_slow_down():
    """Nothing was measured beyond 16. There the curve minus its error falls, and the curve itself hardly does."""
    flat = {4: 3.0, 8: 3.2, 16: 3.3}
    state = pool(32, domain("flat", flat.__getitem__, tuple(flat), error=0.05))
    known = worth(state.domains[0], state)
    assert known.cautious[31] < known.cautious[15] - 16 * USE
    assert known.expected[31] > known.expected[15] - 16 * USE
    assert max_speedup_fitted(state, {}) == {"flat": 32}
