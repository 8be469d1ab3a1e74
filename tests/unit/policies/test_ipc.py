"""The thesis's counter-example: max-ipc gives the wrong answer that the thesis describes."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_laws import check_laws
from pools import domain, measured, pool, pools
from vscaf_policies import PolicyError
from vscaf_policies.fair import fair
from vscaf_policies.max_ipc import max_ipc

CG = domain("cg", ipc=6.1 / 18, points=measured((4, 4.0), (18, 17.0), (27, 23.2)))
LU = domain("lu", ipc=11.7 / 18, points=measured((9, 8.0), (18, 12.0), (32, 20.0)))
"""Creech 2015, Tables 4.1 and 4.3. They give the IPC of each program's 18 threads together, under equal shares."""


def test_chooses_4_and_32_for_cg_and_lu():
    assert max_ipc(pool(36, CG, LU), {}) == {"cg": 4, "lu": 32}


def test_and_so_misses_what_the_speedups_ask_for():
    assert fair(pool(36, CG, LU), {"alpha": 0})["cg"] > 18


def test_what_the_first_cannot_use_goes_to_the_next():
    first, second, third = domain("a", ipc=2.0, maximum=10), domain("b", ipc=1.0, maximum=9), domain("c", ipc=0.5)
    assert max_ipc(pool(32, first, second, third), {}) == {"a": 10, "b": 9, "c": 13}


def test_least_cpus_gives_way_to_the_pool_and_to_the_maximum():
    state = pool(8, domain("a", ipc=1.0), domain("b", ipc=2.0), domain("c", ipc=3.0, maximum=2))
    assert max_ipc(state, {}) == {"a": 3, "b": 3, "c": 2}
    assert max_ipc(state, {"least_cpus": 1}) == {"a": 1, "b": 5, "c": 2}


@pytest.mark.parametrize("missing", [None, math.nan, math.inf, -1.0])
def test_refuses_a_pool_until_every_computing_domain_has_a_figure(missing):
    known, unknown, idle = domain("a", ipc=1.0), domain("b", ipc=missing), domain("c", demand=0)
    with pytest.raises(PolicyError) as refused:
        max_ipc(pool(12, known, unknown, idle, replace(unknown, name="d")), {})
    assert "known of b, d:" in str(refused.value)
    assert all(words in str(refused.value) for words in ("VSCAF_METRIC=ipc", "virtual PMU", "PAPI"))
    assert max_ipc(pool(12, known, replace(unknown, ipc=0.5), idle), {}) == {"a": 8, "b": 4, "c": 0}


def test_the_refusal_of_a_fleet_stays_a_sentence():
    with pytest.raises(PolicyError, match=r"known of d00, d01, d02, d03, d04, \.\.\.: start"):
        max_ipc(pool(50, *[domain(f"d{number:02}") for number in range(50)]), {})


def test_what_only_may_not_rest_keeps_its_minimum():
    keeps = domain("a", demand=0, may_rest=False, minimum=2)
    assert max_ipc(pool(12, keeps, domain("b", ipc=1.0), domain("c", ipc=2.0)), {}) == {"a": 2, "b": 4, "c": 6}


@given(pools, st.integers(1, 8), st.randoms(use_true_random=False))
def test_keeps_bounds_and_whole_chunks_in_whatever_order_the_domains_are(state, least_cpus, random):
    counted = [replace(one, ipc=random.uniform(0, 4)) if one.demand else one for one in state.domains]
    check_laws(max_ipc, replace(state, domains=tuple(counted)), random, {"least_cpus": least_cpus})


@pytest.mark.parametrize("value", [0, 1.5, "4", True, None])
def test_refuses_a_least_that_is_none(value):
    with pytest.raises(PolicyError, match="least_cpus"):
        max_ipc(pool(2, domain("a", ipc=1.0)), {"least_cpus": value})


def test_refuses_other_options_by_name():
    with pytest.raises(PolicyError, match="'least'"):
        max_ipc(pool(2, domain("a", ipc=1.0)), {"least": 1})


def test_ties_go_to_the_first_by_name_in_whatever_order_they_come():
    a, b = domain("a", ipc=1.0), domain("b", ipc=1.0)
    assert max_ipc(pool(12, a, b), {}) == max_ipc(pool(12, b, a), {}) == {"a": 8, "b": 4}
