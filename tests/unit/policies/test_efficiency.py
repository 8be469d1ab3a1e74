"""Every CPU above a minimum pays for itself. CPUs that do not pay are left over."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_laws import check_laws
from pools import domain, measured, pool, pools
from vscaf_policies import PolicyError
from vscaf_policies.bounds import competes, limits
from vscaf_policies.efficiency import efficiency
from vscaf_policies.estimates import worth

thresholds = st.sampled_from((0.0, 0.1, 0.25, 0.5, 1.0))


@given(pools, thresholds)
def test_every_chunk_above_the_minimum_pays_at_least_the_threshold_and_none_that_would_is_left(state, threshold):
    split = efficiency(state, {"threshold": threshold})
    chunks = state.cpus // state.chunk
    free = chunks - sum(split.values()) // state.chunk
    for one in state.domains:
        least, most = (cpus // state.chunk for cpus in limits(one, state.chunk))
        known = worth(one, state)
        if not competes(one) or known is None:
            continue
        curve = known.expected
        has = split[one.name] // state.chunk
        for fewer in range(least, has):  # giving any number of chunks back costs more than they cost
            assert curve[has - 1] - curve[fewer - 1] >= threshold * (has - fewer) * state.chunk - 1e-9
        for more in range(has + 1, min(most, chunks, has + free) + 1):
            assert curve[more - 1] - curve[has - 1] <= threshold * (more - has) * state.chunk + 1e-9


@given(pools, thresholds, st.randoms(use_true_random=False))
def test_keeps_bounds_and_whole_chunks_in_whatever_order_the_domains_are(state, threshold, random):
    check_laws(efficiency, state, random, {"threshold": threshold})


def test_the_example_of_the_thesis_runs_on_two_cpus():
    """Creech 2015, section 8.5: twice as fast on 2 CPUs, 2.1 times as fast on 8."""
    state = pool(8, domain("badly scaling", points=measured((2, 2.0), (3, 2.02), (5, 2.05), (8, 2.1))))
    assert efficiency(state, {}) == {"badly scaling": 2}
    assert efficiency(state, {"threshold": 0.0})["badly scaling"] > 6


def test_the_logarithm_ends_where_its_slope_does():
    """C ln(p + 1) - C ln p falls below 1/4 of a speedup at p = 4 C or a little below."""
    assert efficiency(pool(64, domain("a", scaf_weight=4.0)), {}) == {"a": 16}
    assert efficiency(pool(64, domain("a", scaf_weight=4.0)), {"threshold": 0.5}) == {"a": 8}


def test_the_higher_the_threshold_the_fewer_cpus():
    state = pool(
        48, domain("a", scaf_weight=4.0), domain("b", scaf_weight=1.0), domain("c", minimum=7, scaf_weight=0.1)
    )
    used = [sum(efficiency(state, {"threshold": step / 10}).values()) for step in range(21)]
    assert used == sorted(used, reverse=True)
    assert used[0] == 48 and used[-1] == 2 + 1 + 7  # 4 ln 2 is more than 2, 4 ln 3/2 is less


def test_minima_hold_and_the_unknown_get_the_equal_share_and_no_more():
    state = pool(30, domain("kept", minimum=9, scaf_weight=0.05), domain("unknown"), domain("new", newcomer=True))
    assert efficiency(state, {}) == {"kept": 9, "unknown": 10, "new": 10}


def test_weights_decide_where_the_pool_is_too_small_but_not_what_pays():
    heavy, light = domain("heavy", weight=3.0, scaf_weight=3.0), domain("light", scaf_weight=3.0)
    scarce, plenty = efficiency(pool(12, heavy, light), {}), efficiency(pool(60, heavy, light), {})
    assert scarce["heavy"] > scarce["light"] and sum(scarce.values()) == 12
    assert plenty["heavy"] == plenty["light"] == 12


@pytest.mark.parametrize("value", [-0.1, 2.5, math.nan, "0.5", False])
def test_refuses_a_threshold_that_is_none(value):
    with pytest.raises(PolicyError, match="threshold"):
        efficiency(pool(2, domain("a")), {"threshold": value})


def test_refuses_other_options_by_name():
    with pytest.raises(PolicyError, match="'treshold'"):
        efficiency(pool(2, domain("a")), {"treshold": 1})
