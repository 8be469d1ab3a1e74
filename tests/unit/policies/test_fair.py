"""Laws of the Nash bargaining solution, and its answer to the thesis's example."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_laws import check_laws
from pools import CURVES, domain, measured, pool, pools
from vscaf_policies import PolicyError
from vscaf_policies.bounds import competes, limits
from vscaf_policies.equipartition import equipartition
from vscaf_policies.estimates import Worth, worth
from vscaf_policies.fair import fair

CG = measured((4, 4.0), (18, 17.0), (27, 23.2))
LU = measured((9, 8.0), (18, 12.0), (32, 20.0))


def every_split(state):
    """All splits in whole chunks within the bounds, as {name: CPUs}."""
    domains = [one for one in state.domains if competes(one)]
    ranges = [
        range(least, min(most, state.cpus) + 1, state.chunk)
        for least, most in (limits(one, state.chunk) for one in domains)
    ]
    for split in itertools.product(*ranges):
        if sum(split) <= state.cpus:
            yield {one.name: cpus for one, cpus in zip(domains, split, strict=True)}


def speedups(state, split):
    """The speedup S of each domain on its CPUs."""
    return {one.name: worth(one, state).expected[split[one.name] // state.chunk - 1] for one in state.domains}


known = st.lists(
    st.tuples(
        st.floats(0.1, 8),
        st.sampled_from(((), (), *CURVES)),
        st.sampled_from((1.0, 1.0, 2.0)),
        st.integers(1, 3),
        st.integers(3, 10),
    ),
    min_size=2,
    max_size=3,
).map(
    lambda drawn: [
        domain(name, scaf_weight=weight, points=points, weight=importance, minimum=least, maximum=most)
        for name, (weight, points, importance, least, most) in zip("abc", drawn, strict=False)
    ]
)


@settings(max_examples=50)
@given(known, st.integers(6, 16), st.integers(1, 2))
def test_is_the_largest_product_of_speedups_to_the_power_of_the_weights_and_pareto_optimal(domains, chunks, chunk):
    state = pool(chunks * chunk, *domains, chunk=chunk)
    chosen = speedups(state, fair(state, {}))

    for split in every_split(state):
        other = speedups(state, split)
        assert welfare(other, domains) <= welfare(chosen, domains) + 1e-9
        assert not (
            all(other[name] >= chosen[name] for name in chosen)
            and any(other[name] > chosen[name] + 1e-9 for name in chosen)
        )


def welfare(of, domains):
    """The logarithm of the product of speedups to the power of the weights."""
    return math.fsum(one.weight * math.log(of[one.name]) for one in domains)


def scaled_estimates(factors):
    """The answer of `worths` if each domain's curve is multiplied by its factor."""

    def estimates(state):
        scaled = {one.name: factors[one.name] * worth(one, state).expected for one in state.domains}
        return {name: Worth(curve, curve, curve, curve) for name, curve in scaled.items()}

    return estimates


@settings(max_examples=50)
@given(known, st.integers(9, 40), st.lists(st.floats(0.05, 20), min_size=3, max_size=3))
def test_a_whole_curve_that_is_multiplied_changes_nothing(domains, cpus, factors):
    """Where several splits are the best, rounding decides among them: so the product is compared, not the split."""
    state = pool(cpus, *domains)
    factor = dict(zip("abc", factors, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        before = fair(state, {})
        patch.setattr("vscaf_policies.fair.worths", scaled_estimates(factor))
        after = fair(state, {})
    assert math.isclose(
        welfare(speedups(state, after), domains), welfare(speedups(state, before), domains), abs_tol=1e-9
    )


@given(st.floats(0.1, 8), st.integers(2, 5), st.integers(5, 40), st.sampled_from((0.5, 1, 2, 4)))
def test_equals_get_the_same_but_for_a_chunk(weight, count, cpus, alpha):
    state = pool(cpus, *(domain(f"d{number}", scaf_weight=weight) for number in range(count)))
    split = fair(state, {"alpha": alpha})
    assert sum(split.values()) == cpus
    assert max(split.values()) - min(split.values()) <= 1


def test_alpha_goes_from_the_sum_to_the_worst_off():
    state = pool(36, domain("cg", points=CG), domain("lu", points=LU))
    worst = [min(speedups(state, fair(state, {"alpha": alpha})).values()) for alpha in (0, 0.5, 1, 2, 4)]
    total = [sum(speedups(state, fair(state, {"alpha": alpha})).values()) for alpha in (0, 0.5, 1, 2, 4)]
    assert worst == sorted(worst) and worst[0] < worst[-1]
    assert total == sorted(total, reverse=True) and total[0] > total[-1]


def test_next_to_1_alpha_does_what_1_does():
    state = pool(36, domain("cg", points=CG), domain("lu", points=LU))
    assert fair(state, {"alpha": 1 + 1e-9}) == fair(state, {"alpha": 1}) == fair(state, {})


def test_weights_count():
    heavy, light = domain("heavy", scaf_weight=2.0, weight=3.0), domain("light", scaf_weight=2.0)
    split = fair(pool(16, heavy, light), {})
    assert split["heavy"] > 2 * split["light"]


def test_a_program_that_is_slower_on_more_gets_no_more_than_its_best():
    hierarchy = measured((2, 1.9), (4, 3.4), (8, 2.8), (16, 2.0))
    assert fair(pool(16, domain("hierarchy", points=hierarchy)), {})["hierarchy"] < 8
    beside = fair(pool(16, domain("hierarchy", points=hierarchy), domain("unknown")), {})
    assert beside["hierarchy"] < 8 and sum(beside.values()) == 16, "the unknown domain gets the rest"


def test_with_nobody_known_is_equipartition():
    state = pool(17, domain("a"), domain("b"), domain("c", newcomer=True, scaf_weight=9.0))
    assert fair(state, {}) == equipartition(state, {})


@pytest.mark.parametrize("value", [-0.1, 4.5, math.nan, "1", True, None])
def test_refuses_an_alpha_that_is_none(value):
    with pytest.raises(PolicyError, match="alpha"):
        fair(pool(2, domain("a")), {"alpha": value})


def test_refuses_other_options_by_name():
    with pytest.raises(PolicyError, match="'beta'"):
        fair(pool(2, domain("a")), {"beta": 1})


@given(pools, st.randoms(use_true_random=False))
def test_keeps_bounds_and_whole_chunks_in_whatever_order_the_domains_are(state, random):
    check_laws(fair, state, random)
