"""What the curves predict for the present sizes, and what these lose against the policy's own answer."""

import math
from dataclasses import replace

import pools
import pytest
from vscaf.core.decide.decision import DecideMemory, Decision, decide
from vscaf.core.decide.prediction import Prediction, predict
from vscaf_policies import PoolState, SpeedupPoint
from vscaf_policies.equipartition import equipartition
from vscaf_policies.max_speedup import max_speedup
from vscaf_policies.max_speedup_fitted import max_speedup_fitted
from vscaf_policies.unmanaged import unmanaged

CPUS = 16


def domain(name, scaf_weight, allocation, **changes):
    known = {"maximum": CPUS, "demand": CPUS, "allocation": allocation, "scaf_weight": scaf_weight}
    return pools.domain(name, **known | changes)


def answer(**cpus):
    return Decision({}, frozenset(), {}, True, DecideMemory(), answered=cpus)


def pool(*domains, chunk=1):
    return PoolState(CPUS, chunk, 0.0, domains)


PAIR = pool(domain("a", 2.0, 8), domain("b", 1.0, 8))


def s(weight, cpus):
    return 1.0 + weight * math.log(cpus)


def test_the_speedup_at_the_present_sizes_and_what_the_answer_would_give():
    got = predict(PAIR, answer(a=10, b=6), {"a": 8, "b": 8}, fitted=False)
    assert got.speedups == {"a": pytest.approx(s(2.0, 8)), "b": pytest.approx(s(1.0, 8))}
    assert got.optimum == pytest.approx(s(2.0, 10) + s(1.0, 6))
    assert got.lost == pytest.approx(got.optimum - s(2.0, 8) - s(1.0, 8))


def test_sizes_are_those_that_are_held_and_not_those_that_were_decided():
    assert predict(PAIR, answer(a=10, b=6), {"a": 10, "b": 6}, fitted=False).lost == 0.0
    on_the_way = predict(PAIR, answer(a=10, b=6), {"a": 4, "b": 6}, fitted=False)
    assert on_the_way.lost == pytest.approx(s(2.0, 10) - s(2.0, 4))
    nothing = predict(PAIR, answer(a=10, b=6), {"b": 6}, fitted=False)
    assert nothing.lost == pytest.approx(s(2.0, 10))
    assert set(nothing.speedups) == {"b"}, "what holds no CPU has no speedup"


def test_weights_count_in_the_sums_and_not_in_the_speedups():
    heavy = pool(domain("a", 2.0, 8, weight=3.0), domain("b", 1.0, 8))
    got = predict(heavy, answer(a=10, b=6), {"a": 8, "b": 6}, fitted=False)
    assert got.lost == pytest.approx(3.0 * (s(2.0, 10) - s(2.0, 8)))
    assert got.optimum == pytest.approx(3.0 * s(2.0, 10) + s(1.0, 6))
    assert got.speedups["a"] == pytest.approx(s(2.0, 8))


def test_what_is_not_known_is_not_guessed():
    unknown = pool(domain("a", 2.0, 8), domain("b", None, 8), domain("c", 2.0, 8, newcomer=True))
    got = predict(unknown, answer(a=8, b=4, c=4), {"a": 4, "b": 4, "c": 4}, fitted=False)
    assert got == Prediction({"a": pytest.approx(s(2.0, 4))}, None, pytest.approx(s(2.0, 8) - s(2.0, 4)))
    got = predict(unknown, answer(a=4, b=8, c=4), {"a": 4, "b": 4, "c": 4}, fitted=False)
    assert got.lost is None, "the size of a domain with an unknown curve is not the one that was asked for"


def test_a_domain_without_demand_has_no_speedup_and_loses_none():
    got = predict(pool(domain("a", 2.0, 8, demand=0)), answer(a=8), {"a": 2}, fitted=False)
    assert got == Prediction({}, 0.0, 0.0)


def test_a_domain_that_was_not_pinned_yet_is_not_credited_with_cpus_that_it_may_not_use():
    small = pool(domain("a", 2.0, 4, maximum=4, demand=4))
    assert predict(small, answer(a=4), {"a": 16}, fitted=False).speedups["a"] == pytest.approx(s(2.0, 4))


def test_by_fitted_curves_in_whole_chunks():
    points = tuple(SpeedupPoint(p, 0.8 * p, 0.001 * p, 8) for p in range(2, CPUS + 1))
    got = predict(pool(domain("a", None, 8, points=points), chunk=2), answer(a=8), {"a": 6}, fitted=True)
    assert got.speedups["a"] == pytest.approx(0.8 * 6, rel=0.05)
    assert got.lost == pytest.approx(0.8 * 2, rel=0.1)
    assert predict(pool(domain("a", None, 8)), answer(a=8), {"a": 8}, fitted=True) == Prediction({}, None, 0.0)


@pytest.mark.parametrize(("changes", "managed"), [({"sharing": frozenset("ab")}, True), ({}, False)])
def test_nothing_is_predicted_for_shares_of_time_nor_where_nothing_is_managed(changes, managed):
    decision = replace(answer(a=10, b=6), managed=managed, **changes)
    assert predict(PAIR, decision, {"a": 8, "b": 8}, fitted=False) == Prediction()


@pytest.mark.parametrize("policy", [equipartition, max_speedup, max_speedup_fitted])
def test_decisions_have_the_answer_without_damping(policy):
    decision = decide(PAIR, policy, {})
    assert decision.answered == policy(PAIR, {})
    assert decide(PAIR, unmanaged, {}).answered == {}


def test_a_change_that_does_not_pay_is_a_lost_speedup():
    memory = decide(PAIR, max_speedup, {}).memory
    held = dict(decide(PAIR, max_speedup, {}).allocations)
    learned = pool(domain("a", 3.0, held["a"]), domain("b", 1.0, held["b"]))
    decision = decide(learned, max_speedup, {}, memory)
    assert decision.allocations == held != decision.answered == max_speedup(learned, {})
    lost = predict(learned, decision, held, fitted=False).lost
    assert lost is not None and lost > 0
