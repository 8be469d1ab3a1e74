"""The order of a bench's runs."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from vscaf.bench.plan import all_groups, equal_split, round_of_runs, splits
from vscaf.bench.samples import ALONE

WORKLOADS = ["cg.W", "ep.S", "lu.S", "mg.W"]
ARRANGEMENTS = ("unmanaged", "static", "max-speedup")
SPLITS = [(1, 1), (2, 0)]


def a_round(number, groups=None, arrangements=ARRANGEMENTS, allocations=((1, 1),)):
    return round_of_runs(number, groups or all_groups(WORKLOADS, 2), arrangements, lambda members: allocations)


def test_all_pairs_are_each_pair_once_and_each_with_itself():
    pairs = all_groups(WORKLOADS, 2)
    assert len(pairs) == len({frozenset(pair) for pair in pairs}) == 10
    assert all((name, name) in pairs for name in WORKLOADS)


@given(st.integers(1, 6), st.integers(1, 3))
def test_splits_give_everybody_a_cpu_and_leave_none(cpus, members):
    found = splits(cpus, members)
    assert len(set(found)) == len(found)
    assert all(sum(split) == cpus and min(split) >= 1 and len(split) == members for split in found)
    assert bool(found) == (cpus >= members)


@given(st.integers(1, 64), st.integers(1, 8))
def test_an_equal_split_leaves_no_cpu_and_differs_by_one_at_most(cpus, members):
    split = equal_split(cpus, members)
    assert sum(split) == cpus and len(split) == members
    assert max(split) - min(split) <= 1
    assert list(split) == sorted(split, reverse=True)


@given(st.integers(0, 50))
def test_each_run_is_made_once_a_round(number):
    runs = a_round(number)
    assert set(Counter(runs).values()) == {1}
    together = [run for run in runs if run.arrangement != ALONE]
    assert {(run.workloads, run.arrangement) for run in together} == {
        (pair, name) for pair in all_groups(WORKLOADS, 2) for name in ARRANGEMENTS
    }
    assert {run.round for run in runs} == {number}


@given(st.integers(0, 50))
def test_each_workload_is_first_run_alone_on_one_thread_and_on_all(number):
    runs = a_round(number)
    alone = [run for run in runs if run.arrangement == ALONE]
    assert runs[: len(alone)] == alone
    assert sorted((run.workloads, run.threads) for run in alone) == sorted(
        ((name,), threads) for name in WORKLOADS for threads in (0, 1)
    )


def test_static_is_run_with_each_split_and_the_others_once():
    runs = [run for run in a_round(1, allocations=SPLITS) if run.workloads == ("cg.W", "lu.S")]
    by_arrangement = Counter(run.arrangement for run in runs)
    assert by_arrangement == {"unmanaged": 1, "static": 2, "max-speedup": 1}
    assert {run.allocations for run in runs if run.arrangement == "static"} == set(SPLITS)
    assert {run.allocations for run in runs if run.arrangement != "static"} == {()}


def test_groups_of_any_size_have_the_splits_of_their_size():
    groups = [("cg.W",), ("cg.W", "cg.W"), ("cg.W", "cg.W", "cg.W")]
    runs = round_of_runs(1, groups, ("static",), lambda members: splits(3, members))
    static = Counter((len(run.workloads), run.allocations) for run in runs if run.arrangement == "static")
    assert static == {(1, (3,)): 1, (2, (1, 2)): 1, (2, (2, 1)): 1, (3, (1, 1, 1)): 1}


@given(st.integers(0, 50))
def test_the_order_depends_on_the_number_of_the_round_alone(number):
    assert a_round(number) == a_round(number)


def test_rounds_have_different_orders():
    orders = {tuple((run.workloads, run.arrangement, run.threads) for run in a_round(number)) for number in range(5)}
    assert len(orders) == 5


@given(st.integers(0, 50))
def test_the_runs_of_a_group_follow_each_other(number):
    """They are compared, so little time lies between them."""
    groups = [run.workloads for run in a_round(number) if run.arrangement != ALONE]
    changes = sum(before != after for before, after in itertools.pairwise(groups))
    assert changes == len(set(groups)) - 1
