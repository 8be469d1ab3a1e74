"""What an operator can do without vscaf, as plain values."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.bench.places.baselines import QUOTA_PERIOD_US, setting
from vscaf.bench.places.place import BASELINES
from vscaf.bench.plan import splits

POOLS = st.sets(st.integers(0, 40), min_size=2, max_size=8).map(sorted)


@st.composite
def static_cases(draw):
    """A pool, a split of it, and the vCPUs of each member: at least as many as its part has pCPUs."""
    pool = draw(POOLS)
    split = draw(st.sampled_from(splits(len(pool), draw(st.integers(2, min(4, len(pool)))))))
    return pool, split, draw(st.integers(len(pool), 12))


def used(one):
    return frozenset().union(*one.pins)


@given(static_cases())
def test_static_partitions_are_disjoint_parts_of_the_pool_of_the_given_sizes(case):
    pool, split, vcpus = case
    settings = [setting("static", pool, vcpus, split, member) for member in range(len(split))]
    parts = [used(one) for one in settings]
    assert [len(part) for part in parts] == list(split)
    assert frozenset().union(*parts) == frozenset(pool)  # with the sizes: they are disjoint
    assert [one.online for one in settings] == list(split)
    assert all(one.quota_us is None for one in settings)


@given(static_cases())
def test_static_gives_each_vcpu_that_is_online_a_pcpu_of_its_own(case):
    pool, split, vcpus = case
    for member in range(len(split)):
        one = setting("static", pool, vcpus, split, member)
        online = one.pins[: one.online]
        assert len(one.pins) == vcpus
        assert all(len(pin) == 1 for pin in one.pins) and len(set(online)) == one.online


@given(POOLS, st.integers(1, 12), st.integers(2, 6))
def test_quotas_sum_to_the_pool_at_most(pool, vcpus, members):
    settings = [setting("quota", pool, vcpus, (1,) * members, member) for member in range(members)]
    assert sum(one.quota_us * vcpus for one in settings) <= len(pool) * QUOTA_PERIOD_US
    assert all(0 < one.quota_us <= QUOTA_PERIOD_US for one in settings)
    assert all(one.pins == (frozenset(pool),) * vcpus and one.online == vcpus for one in settings)


@pytest.mark.parametrize(("members", "vcpus", "quota_us"), [(2, 4, 50_000), (2, 2, 100_000), (4, 4, 25_000)])
def test_a_quota_is_an_equal_share_of_the_pool(members, vcpus, quota_us):
    assert setting("quota", [0, 1, 2, 3], vcpus, (1,) * members, 0).quota_us == quota_us


@given(POOLS, st.integers(1, 12))
def test_pinned_is_vcpu_i_on_pcpu_i(pool, vcpus):
    one = setting("pinned", pool, vcpus, (), 0)
    assert [set(pin) for pin in one.pins] == [{pool[vcpu % len(pool)]} for vcpu in range(vcpus)]
    assert one.online == vcpus and one.quota_us is None


@given(POOLS, st.integers(1, 12))
def test_unmanaged_sets_nothing_that_a_guest_has_not_anyway(pool, vcpus):
    one = setting("unmanaged", pool, vcpus, (), 0)
    assert one.pins == (frozenset(pool),) * vcpus and one.online == vcpus and one.quota_us is None
    assert one.commands("a", range(vcpus)) == []


@given(POOLS, st.integers(1, 12))
def test_passive_is_unmanaged_with_threads_that_sleep_while_they_wait(pool, vcpus):
    one, unmanaged = (setting(name, pool, vcpus, (), 0) for name in ("passive", "unmanaged"))
    assert replace(one, environment={}) == unmanaged and unmanaged.environment == {}
    assert one.commands("a", range(vcpus)) == ["OMP_WAIT_POLICY=passive PROGRAM  # in a"]


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_a_setting(name):
    assert setting(name, [0, 1], 2, (1, 1), 0) is not None


def test_policies_are_no_baselines():
    assert setting("max-speedup", [0, 1], 2, (1, 1), 0) is None


def test_the_commands_are_those_that_an_operator_types():
    assert setting("static", [2, 3, 4, 5], 4, (1, 3), 1).commands("b", (0, 1, 2, 4)) == [
        "virsh setvcpus b 3 --guest",
        "virsh vcpupin b 0 3",
        "virsh vcpupin b 1 4",
        "virsh vcpupin b 2 5",
        "virsh vcpupin b 4 3",
    ]
    assert setting("quota", [2, 3], 2, (1, 1), 0).commands("a", (0, 1)) == [
        "virsh schedinfo a --set vcpu_period=100000 --set vcpu_quota=50000"
    ]


@given(static_cases())
def test_a_member_that_does_not_compute_floats(case):
    pool, split, vcpus = case
    assert setting("static", pool, vcpus, split, len(split)) == setting("unmanaged", pool, vcpus, (), 0)
