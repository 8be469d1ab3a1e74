"""Bounds of domains in whole chunks: the fast ways give the same results as the simple ones."""

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools import domain_states, pools
from vscaf_policies import (
    DomainState,
    PolicyError,
    PoolState,
    SpeedupPoint,
    competes,
    integer_partition,
    largest,
    smallest,
)
from vscaf_policies.bounds import bounded_partition, limits
from vscaf_policies.equipartition import equipartition
from vscaf_policies.max_speedup import max_speedup
from vscaf_policies.max_speedup_fitted import MOST, max_speedup_fitted


@given(domain_states, st.integers(1, 4))
def test_limits_are_the_smallest_and_the_largest(domain, chunk):
    assert limits(domain, chunk) == (smallest(domain, chunk), largest(domain, chunk))


@given(domain_states)
def test_other_knowledge_changes_nothing_else(domain):
    points = (SpeedupPoint(2, 1.5, 0.1, 3),)
    known = domain.knowing(2.5, not domain.newcomer, points)
    assert known == replace(domain, scaf_weight=2.5, newcomer=not domain.newcomer, points=points)
    assert {field.name for field in fields(domain) if getattr(known, field.name) != getattr(domain, field.name)} <= {
        "scaf_weight",
        "newcomer",
        "points",
    }


@given(st.lists(domain_states, unique_by=lambda one: one.name, max_size=7), st.integers(1, 40), st.integers(1, 3))
def test_a_bounded_partition_is_the_integer_partition_of_those_that_compete(domains, cpus, chunk):
    pool = PoolState(cpus, chunk, 0.0, tuple(domains))
    shares = {domain.name: domain.weight for domain in domains}
    there = [domain for domain in domains if competes(domain)]
    expected = dict.fromkeys(shares, 0) | integer_partition(
        {domain.name: shares[domain.name] for domain in there},
        cpus,
        chunk,
        {domain.name: smallest(domain, chunk) for domain in there},
        {domain.name: largest(domain, chunk) for domain in there},
    )
    assert bounded_partition(pool, shares) == expected


def test_a_share_that_means_nothing_is_refused_by_name():
    pool = PoolState(8, 1, 0.0, (DomainState("a", 1, 4, 1.0, 4, 0, True, None, False, ()),))
    for share in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="'a'"):
            bounded_partition(pool, {"a": share})


def test_a_domain_has_priority_0_unless_set():
    assert DomainState("a", 1, 4, 1.0, 4, 0, True, None, False, ()).priority == 0


@given(pools, st.floats(1.0, 4.0))
def test_a_word_brings_nobody_more_than_so_many_equal_shares(pool: PoolState, most: float) -> None:
    equal = equipartition(pool, {})
    weighted = bounded_partition(pool, {domain.name: domain.weight for domain in pool.domains})
    by_weight = {name: max(share, weighted[name]) for name, share in equal.items()}
    for policy, shares in ((max_speedup, equal), (max_speedup_fitted, by_weight)):
        answer = policy(pool, {"most_of_equal": most})
        for name, share in shares.items():
            assert answer[name] <= most * share
        for unbounded in (1e9, 1e308):
            assert policy(pool, {"most_of_equal": unbounded}) == policy(pool, {"most_of_equal": 0})


@given(pools)
def test_the_default_is_no_limit_for_scafs_policy_and_three_equal_shares_for_the_fitted_one(pool: PoolState) -> None:
    assert max_speedup(pool, {}) == max_speedup(pool, {"most_of_equal": 0})
    assert max_speedup_fitted(pool, {}) == max_speedup_fitted(pool, {"most_of_equal": 3})
    assert max_speedup_fitted.most_of_equal == MOST == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("most", [0.5, -1, True, False, "2", math.nan, math.inf])
def test_what_is_no_number_of_equal_shares_is_refused(most: object) -> None:
    with pytest.raises(PolicyError, match="most_of_equal"):
        max_speedup(PoolState(4, 1, 0.0, ()), {"most_of_equal": most})
