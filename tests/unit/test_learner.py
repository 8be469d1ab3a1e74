"""What the daemon learns by its decisions: how long transitions take, and what it varies on purpose."""

from dataclasses import replace

import pytest
from vscaf.core.damping import with_allocations
from vscaf.core.decide import DecideMemory
from vscaf.core.standing import State
from vscaf.learner import FIRST_TRANSITION_S, MOST_TRANSITION_S, Learner
from vscaf_policies import DomainState, PoolState, SpeedupPoint
from vscaf_policies.equipartition import equipartition
from vscaf_policies.max_speedup_fitted import max_speedup_fitted


def state(time_s=0.0, **allocations):
    domains = tuple(
        DomainState(
            name, 1, 36, 1.0, 36, cpus, may_rest=True, scaf_weight=None, newcomer=False,
            points=(SpeedupPoint(18, speedup, 1.0, 8),),
        )
        for (name, cpus), speedup in zip(allocations.items(), (12.0, 9.0), strict=True)
    )  # fmt: skip
    return PoolState(36, 1, time_s, domains)


def test_transitions_are_timed_from_goal_to_arrival():
    learner = Learner(0.01)
    assert learner.transition_s == FIRST_TRANSITION_S
    for number in range(60):
        start_s = 10.0 * number
        learner.begun("a", start_s)
        learner.seen({"a": State.SHRINKING}, start_s + 0.05)
        learner.seen({"a": State.COOPERATING}, start_s + 0.1)
        learner.seen({"a": State.COOPERATING}, start_s + 5.0)
    assert learner.transition_s == pytest.approx(0.1, abs=0.02)


def test_who_is_gone_or_stuck_says_nothing_of_transitions():
    learner = Learner(0.01)
    learner.begun("a", 0.0)
    learner.seen({}, 0.1)
    learner.begun("b", 0.0)
    learner.seen({"b": State.UNKNOWN}, 1.0)
    learner.seen({"b": State.UNKNOWN}, MOST_TRANSITION_S + 1.0)
    assert learner.transition_s == FIRST_TRANSITION_S


def test_what_is_varied_goes_back_and_decisions_do_not_see_it():
    learner, memory = Learner(0.01), DecideMemory()
    first = learner.decide(state(a=18, b=18), max_speedup_fitted, {}, memory)
    assert learner.exploring == {"a", "b"}
    assert all("exploring" in reason for reason in first.reasons.values())
    varied = with_allocations(state(1.0, a=18, b=18), first.allocations)
    during = learner.decide(varied, max_speedup_fitted, {}, first.memory)
    assert (during.allocations, during.reasons) == (first.allocations, {})
    sure = replace(
        varied,
        time_s=2.5,
        domains=tuple(
            replace(d, points=tuple(SpeedupPoint(p, 0.6 * p, 0.001 * p, 8) for p in range(2, 37)))
            for d in varied.domains
        ),
    )
    after = learner.decide(sure, max_speedup_fitted, {}, during.memory)
    assert learner.exploring == set()
    assert sum(after.allocations.values()) == 36
    assert after.reasons.keys() >= {d.name for d in sure.domains if after.allocations[d.name] != d.allocation}
    assert learner.cost > 0
    assert learner.lost_s > 0
    learner.forget()
    assert learner.cost == 0


def test_nothing_is_varied_for_policies_that_do_not_ask_nor_where_it_is_off():
    for learner, policy in ((Learner(0.01), equipartition), (Learner(0.0), max_speedup_fitted)):
        decision = learner.decide(state(a=18, b=18), policy, {}, DecideMemory())
        assert sum(decision.allocations.values()) == 36
        assert learner.exploring == set()
        assert learner.lost_s == 0
