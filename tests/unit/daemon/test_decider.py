"""What the daemon learns from its decisions: how long transitions take, and allocations that it varies on purpose."""

from contextlib import closing
from dataclasses import replace
from unittest.mock import patch

import pytest
from vscaf.config import Config, PolicyConfig
from vscaf.core.decide.damping import with_allocations
from vscaf.core.decide.decision import DecideMemory, decide
from vscaf.core.decide.explore import explore
from vscaf.core.decide.prediction import Prediction
from vscaf.daemon import decider as module
from vscaf.daemon.decider import FIRST_TRANSITION_S, MOST_FITS, MOST_TRANSITION_S, Decider
from vscaf.daemon.loop import Daemon
from vscaf.journal import Journal
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import HostCpus, State
from vscaf_policies import DomainState, PoolState, SpeedupPoint, estimates
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
    decider = Decider(0.01)
    assert decider.transition_s == FIRST_TRANSITION_S
    assert not decider.transition_measured
    for number in range(60):
        start_s = 10.0 * number
        decider.begun("a", start_s)
        decider.seen({"a": State.SHRINKING}, start_s + 0.05)
        decider.seen({"a": State.COOPERATING}, start_s + 0.1)
        decider.seen({"a": State.COOPERATING}, start_s + 5.0)
    assert decider.transition_s == pytest.approx(0.1, abs=0.02)
    assert decider.transition_measured


def test_what_transitions_take_is_reckoned_with(monkeypatch):
    """In the value of a change, and in what is worth trying."""
    decider, reckoned = Decider(0.01), []
    for number in range(60):
        decider.begun("a", 10.0 * number)
        decider.seen({"a": State.COOPERATING}, 10.0 * number + 4.0)
    monkeypatch.setattr(module, "decide", lambda *given: reckoned.append(given[-1].transition_s) or decide(*given))
    monkeypatch.setattr(module, "explore", lambda *given: reckoned.append(given[-1].transition_s) or explore(*given))
    decider.decide(state(a=18, b=18), max_speedup_fitted, {}, DecideMemory())
    assert reckoned == [pytest.approx(4.0, abs=0.1)] * 2


def test_who_is_gone_or_stuck_says_nothing_of_transitions():
    decider = Decider(0.01)
    decider.begun("a", 0.0)
    decider.seen({}, 0.1)
    decider.begun("b", 0.0)
    decider.seen({"b": State.UNKNOWN}, 1.0)
    decider.seen({"b": State.UNKNOWN}, MOST_TRANSITION_S + 1.0)
    assert decider.transition_s == FIRST_TRANSITION_S
    assert not decider.transition_measured


def test_what_is_varied_goes_back_and_decisions_do_not_see_it():
    decider, memory = Decider(0.01), DecideMemory()
    first = decider.decide(state(a=18, b=18), max_speedup_fitted, {}, memory)
    assert decider.exploring == {"a", "b"}
    assert all("exploring" in reason for reason in first.reasons.values())
    varied = with_allocations(state(1.0, a=18, b=18), first.allocations)
    during = decider.decide(varied, max_speedup_fitted, {}, first.memory)
    assert (during.allocations, during.reasons) == (first.allocations, {})
    sure = replace(
        varied,
        time_s=2.5,
        domains=tuple(
            replace(d, points=tuple(SpeedupPoint(p, 0.6 * p, 0.001 * p, 8) for p in range(2, 37)))
            for d in varied.domains
        ),
    )
    after = decider.decide(sure, max_speedup_fitted, {}, during.memory)
    assert decider.exploring == set()
    assert sum(after.allocations.values()) == 36
    for domain in sure.domains:
        to = after.allocations[domain.name]
        assert to == domain.allocation or after.reasons[domain.name].startswith(f"{domain.allocation} -> {to}: ")
    assert decider.cost > 0
    assert decider.lost_s > 0
    decider.forget()
    assert decider.cost == 0


def test_what_was_varied_says_where_it_comes_from_and_why_it_goes():
    decider = Decider(0.01)
    first = decider.decide(state(a=18, b=18), max_speedup_fitted, {}, DecideMemory())
    varied = with_allocations(state(1.0, a=18, b=18), first.allocations)
    a, b = varied.domains
    b = replace(b, minimum=4, demand=4)
    after = decider.decide(replace(varied, domains=(a, b)), max_speedup_fitted, {}, first.memory)
    assert after.reasons["b"] == f"{b.allocation} -> 4: it could now use 4 (demand 4, maximum 36)"
    assert after.reasons["a"].startswith(f"{a.allocation} -> {after.allocations['a']}: ")


def test_nothing_is_varied_for_policies_that_do_not_ask_nor_where_it_is_off():
    for decider, policy in ((Decider(0.01), equipartition), (Decider(0.0), max_speedup_fitted)):
        decision = decider.decide(state(a=18, b=18), policy, {}, DecideMemory())
        assert sum(decision.allocations.values()) == 36
        assert decider.exploring == set()
        assert decider.lost_s == 0


def fits(decider, pool, policy=max_speedup_fitted):
    """The decision and how many curves were fitted for it."""
    with patch.object(estimates, "_fitted", wraps=estimates._fitted) as fitted:
        decision = decider.decide(pool, policy, {}, DecideMemory())
    return decision, fitted.call_count


def test_the_speedup_that_a_partition_loses():
    decider, pool = Decider(0.0), state(a=18, b=18)
    assert decider.prediction({"a": 18, "b": 18}) == Prediction()
    decision = decider.decide(pool, max_speedup_fitted, {}, DecideMemory())
    assert decider.prediction(decision.allocations).lost == 0.0
    one_less = dict(decision.allocations) | {"a": decision.allocations["a"] - 1}
    with patch.object(estimates, "_fitted", side_effect=AssertionError("a curve was fitted again")):
        assert decider.prediction(one_less).lost > 0
    decider.forget()
    assert decider.prediction(one_less) == Prediction()


def test_if_the_policy_fails_no_speedup_is_predicted():
    def fails(pool, options):
        raise RuntimeError("always")

    decider, pool = Decider(0.0), state(a=18, b=18)
    decider.decide(pool, max_speedup_fitted, {}, DecideMemory())
    decider.decide(pool, fails, {}, DecideMemory())
    assert decider.policy_error is not None
    assert decider.prediction({"a": 18, "b": 18}) == Prediction()


def test_of_a_fleet_few_curves_are_fitted_for_one_decision():
    count = 2 * MOST_FITS + 7
    domains = tuple(
        DomainState(
            f"d{number:03}", 1, 8, 1.0, 8, 1, may_rest=True, scaf_weight=None, newcomer=False,
            points=(SpeedupPoint(4, 2.0 + number / count, 0.1, 8),),
        )
        for number in range(count)
    )  # fmt: skip
    pool, decider = PoolState(4 * count, 1, 0.0, domains), Decider(0.01)
    fitted = []
    for _ in range(4):
        decision, fits_now = fits(decider, pool)
        assert sum(decision.allocations.values()) <= pool.cpus
        fitted.append(fits_now)
    assert fitted == [MOST_FITS, MOST_FITS, 7, 0]
    fresh = replace(pool, domains=tuple(replace(d, points=(SpeedupPoint(4, 3.5, 0.2, 9),)) for d in domains))
    decider.decide(fresh, max_speedup_fitted, {}, DecideMemory())
    seen = []

    def spy(shown, _options):
        seen.append([domain.points[0].speedup for domain in shown.domains])
        return {domain.name: 1 for domain in shown.domains}

    decider.decide(fresh, spy, {}, DecideMemory())
    assert seen[0].count(3.5) == 2 * MOST_FITS, "the others must keep their earlier points"
    decider.forget()
    decider.decide(
        fresh, lambda shown, _: {d.name: seen.append(d.points) or 1 for d in shown.domains}, {}, DecideMemory()
    )
    assert sum(points == () for points in seen[1:]) == count - MOST_FITS, "another policy must begin without points"


def test_newcomers_and_those_that_rest_take_no_turn():
    names = [f"d{number:03}" for number in range(2 * MOST_FITS)]
    points = (SpeedupPoint(4, 2.0, 0.1, 8),)
    domains = tuple(
        DomainState(
            name, 1, 8, 1.0, 8 * (number % 3 > 0), 1, may_rest=True, scaf_weight=None, newcomer=number % 3 == 1,
            points=points,
        )
        for number, name in enumerate(names)
    )  # fmt: skip
    shown = []

    def spy(pool, _options):
        shown.extend(pool.domains)
        return {domain.name: 1 for domain in pool.domains}

    Decider(0.01).decide(PoolState(400, 1, 0.0, domains), spy, {}, DecideMemory())
    assert all(domain.points == points for domain in shown)


def test_what_bounds_a_word_bounds_what_is_tried() -> None:
    """Exploration gives no domain more than the option most_of_equal allows the policy to give."""
    decider, memory = Decider(steady=0.5), DecideMemory()
    options = {"most_of_equal": 1.25}
    points = {"a": (SpeedupPoint(8, 8.0, 0.1, 9),), "b": (SpeedupPoint(8, 2.0, 0.4, 9),)}
    has = {"a": 8, "b": 8}
    for period in range(400):
        domains = tuple(
            DomainState(name, 1, 16, 1.0, 16, cpus, True, None, False, points[name]) for name, cpus in has.items()
        )
        decision = decider.decide(PoolState(16, 1, period / 4, domains), max_speedup_fitted, options, memory)
        memory, has = decision.memory, dict(decision.allocations)
        assert max(has.values()) <= 10
    assert decider.lost_s > 0  # something was tried


def test_under_another_policy_the_daemon_learns_anew(tmp_path) -> None:
    numbers = frozenset(range(36))
    cpus = HostCpus(numbers, tuple(frozenset({cpu}) for cpu in numbers), dict.fromkeys(numbers, 0))
    fitted_policy = PolicyConfig(name="max-speedup-fitted")
    config = Config(pool="0-35", policy=fitted_policy, exploration_percent=5.0)
    with closing(Journal(tmp_path, "boot")) as journal:
        daemon = Daemon(config, SimulatedHost(cpus), cpus, journal)
        daemon.decider.decide(state(a=18, b=18), max_speedup_fitted, {}, DecideMemory())
        assert daemon.decider.exploring
        assert daemon.decider.lost_s > 0
        daemon.use_policy(PolicyConfig(name="equipartition"), equipartition)
        assert (daemon.decider.exploring, daemon.decider.lost_s) == (frozenset(), 0.0)
