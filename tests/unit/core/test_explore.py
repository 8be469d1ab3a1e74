"""Exploration keeps the laws, happens only where something can be learned, and costs no more than its account has."""

import math
from dataclasses import replace

import numpy as np
import pools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vscaf.core.decide import explore as module
from vscaf.core.decide.damping import with_allocations
from vscaf.core.decide.decision import DecideMemory, Decision
from vscaf.core.decide.explore import ExploreMemory, ExploreSettings, expected_improvement, explore, unvaried
from vscaf_policies import PoolState, SpeedupPoint
from vscaf_policies.bounds import limits

CPUS = 36
SETTINGS, NEW = ExploreSettings(), ExploreMemory()


def known(name, allocation, *points, **changes):
    measured = tuple(SpeedupPoint(cpus, speedup, error, 8) for cpus, speedup, error in points)
    return pools.domain(
        name, **{"maximum": CPUS, "demand": CPUS, "allocation": allocation, "points": measured} | changes
    )


def pool(*domains, cpus=CPUS, chunk=1, time_s=100.0):
    return PoolState(cpus, chunk, time_s, domains)


def decided(state, sharing=frozenset(), managed=True):
    return Decision({d.name: d.allocation for d in state.domains}, sharing, {}, managed, DecideMemory())


def explored(state, memory=NEW, **changes):
    return explore(state, decided(state), memory, replace(SETTINGS, **changes))


UNSURE = (known("a", 18, (18, 12.0, 1.0)), known("b", 18, (18, 9.0, 0.8)))
CURVE = [(p, 1 + 3 * math.log(p), 0.02) for p in (2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 27, 30, 33, 36)]


def test_an_unsure_pair_is_varied_and_says_why():
    state = pool(*UNSURE)
    result = explored(state)
    assert sum(result.allocations.values()) == CPUS
    assert result.allocations != decided(state).allocations
    assert set(result.reasons) == {"a", "b"}
    assert all("exploring" in reason for reason in result.reasons.values())
    assert unvaried(with_allocations(state, result.allocations), result.memory) == state


@pytest.mark.parametrize("heavy", [0, 1])
def test_what_may_be_gained_and_lost_counts_by_weight(heavy):
    domains = [replace(one, weight=50.0 if number == heavy else 1.0) for number, one in enumerate(UNSURE)]
    assert explored(pool(*domains)).allocations[domains[heavy].name] > 18


@pytest.mark.parametrize(
    "domains",
    [
        (UNSURE[0],),
        (UNSURE[0], replace(UNSURE[1], newcomer=True)),
        (UNSURE[0], replace(UNSURE[1], points=())),
        (UNSURE[0], replace(UNSURE[1], allocation=0, demand=0)),
        (known("a", 18, *CURVE), known("b", 18, *CURVE)),
        (replace(UNSURE[0], minimum=18, maximum=18), replace(UNSURE[1], minimum=18, maximum=18)),
    ],
    ids=["alone", "newcomer", "unknown", "resting", "known well", "no room"],
)
def test_without_need_nothing_is_varied(domains):
    state = pool(*domains)
    rich = ExploreMemory(account_s=SETTINGS.startup_s)
    assert explored(state, rich).allocations == decided(state).allocations


def test_nothing_is_varied_where_domains_share_or_nothing_is_managed():
    state = pool(*UNSURE)
    for decision in (decided(state, sharing=frozenset({"a", "b"})), decided(state, managed=False)):
        assert explore(state, decision, ExploreMemory()).allocations == decision.allocations


def test_a_variation_lasts_its_time_and_ends_with_another_decision():
    state = pool(*UNSURE)
    first = explored(state)
    during = explored(replace(state, time_s=102.0), first.memory)
    assert (during.allocations, during.reasons) == (first.allocations, {})
    after = explored(replace(state, time_s=102.5), first.memory)
    assert after.memory.since_s != first.memory.since_s
    other = with_allocations(replace(state, time_s=101.0), {"a": 20, "b": 16})
    settled = explore(other, decided(other), first.memory, replace(SETTINGS, consider_s=math.inf))
    assert settled.allocations == {"a": 20, "b": 16}


def test_programs_that_more_cpus_make_slower_are_tried_with_less():
    falling = [(18, 10.0, 0.1), (27, 8.0, 0.5), (36, 6.0, 0.5)]
    state = pool(known("a", 18, *falling, maximum=18), known("b", 18, *CURVE, minimum=18, maximum=18))
    result = explored(state)
    assert result.allocations["a"] < 18
    assert result.allocations["b"] == 18


def test_what_the_policy_left_over_is_tried_too():
    fixed = {"minimum": 10, "maximum": 10}
    state = pool(UNSURE[0], known("b", 10, *CURVE, **fixed))
    result = explored(state)
    assert 18 < result.allocations["a"] <= CPUS - 10
    assert result.allocations["b"] == 10


def test_an_empty_account_ends_it_and_time_fills_it():
    state = pool(*UNSURE)
    nothing = {"startup_s": 0.0, "steady": 0.0}
    assert explored(state, **nothing).allocations == decided(state).allocations
    poor = {"startup_s": 0.0, "steady": 0.01}
    memory = explored(state, **poor).memory
    assert memory.account_s == 0.0
    late = explored(replace(state, time_s=400.0), memory, **poor)
    assert late.allocations != decided(state).allocations
    assert late.memory.account_s < poor["steady"] * 300.0


def test_what_was_too_dear_is_tried_once_the_account_bears_it():
    """Nothing is learned meanwhile. A variation that was too dear is tried once the account is high enough."""
    state = pool(*UNSURE)
    memory, tried_at_s = ExploreMemory(account_s=0.001), None
    for second in range(60):
        result = explored(replace(state, time_s=100.0 + second), memory, startup_s=0.0)
        memory = result.memory
        if memory.varied:
            tried_at_s = second
            break
    assert tried_at_s is not None
    assert memory.lost_s <= 0.001 + SETTINGS.steady * tried_at_s


def test_what_bounds_forbade_is_tried_once_they_allow_it():
    state = pool(*UNSURE)
    fixed = pool(*(replace(d, minimum=18, maximum=18) for d in UNSURE))
    memory = explored(fixed).memory
    assert not memory.varied
    assert explored(replace(state, time_s=101.0), memory).memory.varied


def test_nothing_is_looked_for_again_while_nothing_is_new(monkeypatch):
    state = pool(known("a", 18, *CURVE), known("b", 18, *CURVE))
    memory = explored(state).memory
    monkeypatch.setattr(module, "_best_move", lambda *_: pytest.fail("searched again although nothing is new"))
    assert not explored(replace(state, time_s=200.0), memory).memory.varied


def test_what_transitions_made_too_dear_is_tried_once_they_are_shorter():
    """Nothing is learned of the domains meanwhile."""
    state = pool(*UNSURE)
    memory = explored(state, transition_s=1000.0).memory
    assert not memory.varied
    assert not explored(replace(state, time_s=101.0), memory, transition_s=1000.0).memory.varied
    assert explored(replace(state, time_s=101.0), memory).memory.varied


def test_in_a_fleet_those_that_are_known_least_are_looked_at(monkeypatch):
    unsure = [known(f"unsure-{number}", 2, (2, 1.5, 0.5)) for number in range(3)]
    sure = [known(f"sure-{number}", 2, (2, 1.5, 0.01), (4, 2.9, 0.01)) for number in range(9)]
    looked_at, differences = set(), module._differences
    monkeypatch.setattr(
        module, "_differences", lambda curve, *rest: looked_at.add(curve.domain.name) or differences(curve, *rest)
    )
    explored(pool(*sure, *unsure), domains=3)
    assert looked_at == {one.name for one in unsure}


def test_what_is_lost_comes_from_the_account_as_it_is_lost():
    state = pool(*UNSURE)
    first = explored(state).memory
    learned = tuple(
        replace(d, points=(*d.points, SpeedupPoint(first.varied[d.name], 2.0 * (d.name == "a") + 1.0, 0.1, 8)))
        for d in state.domains
    )
    during = explore(pool(*learned, time_s=101.0), decided(state), first, SETTINGS).memory
    other = with_allocations(pool(*learned, time_s=102.0), {"a": 20, "b": 16})
    ended = explore(other, decided(other), during, replace(SETTINGS, consider_s=math.inf)).memory
    assert not ended.varied
    for memory, longer in ((during, first), (ended, during)):
        assert memory.lost_s > longer.lost_s + 0.2
        assert memory.account_s + memory.lost_s == pytest.approx(SETTINGS.startup_s)


def test_what_is_lost_is_counted_once():
    """At a constant rate as much is lost at the end of a variation as during it."""
    state = pool(*UNSURE)
    first = explored(state).memory
    learned = tuple(
        replace(d, points=(*d.points, SpeedupPoint(first.varied[d.name], 2.0 * (d.name == "a") + 1.0, 0.1, 8)))
        for d in state.domains
    )
    memory, seen = first, []
    for time_s in (101.25, 102.5):
        result = explore(pool(*learned, time_s=time_s), decided(state), memory, replace(SETTINGS, least_gain=math.inf))
        seen.append(result.memory.lost_s - memory.lost_s)
        memory = result.memory
    assert not memory.varied
    assert seen[0] == pytest.approx(seen[1]) and seen[0] > 0.2


def test_allowances_are_not_saved_up():
    memory = ExploreMemory()
    for number in range(6):
        names = ("a", "b", "c") if number % 2 else ("a", "b")
        now = pool(*(known(name, 12, *CURVE, minimum=12, maximum=12) for name in names), time_s=100.0 * number)
        memory = explore(now, decided(now), memory).memory
        assert memory.account_s <= SETTINGS.startup_s + SETTINGS.steady_most_s
    assert memory.lost_s == 0.0


def test_the_allowance_for_a_start_is_not_given_twice_in_a_minute():
    memory = ExploreMemory()
    granted = 0.0
    for second in range(60):
        names = ("a", "b", "c") if second % 2 else ("a", "b")
        domains = tuple(known(name, 12, *CURVE) for name in names)
        now = pool(*domains, time_s=float(second))
        before, memory = memory.account_s, explore(now, decided(now), replace(memory, account_s=0.0)).memory
        granted += memory.account_s
        assert before >= 0.0
    assert granted <= SETTINGS.startup_s * 2 + SETTINGS.steady * 60


def test_what_was_lost_is_counted_by_what_is_known_at_the_end():
    state = pool(*UNSURE)
    first = explored(state)
    taker = max(first.allocations, key=first.allocations.__getitem__)
    giver = min(first.allocations, key=first.allocations.__getitem__)
    learned = tuple(
        replace(
            d, points=(*d.points, SpeedupPoint(first.allocations[d.name], {taker: 12.0, giver: 1.0}[d.name], 0.1, 8))
        )
        for d in state.domains
    )
    during = explored(replace(state, time_s=102.4), first.memory)
    after = explore(pool(*learned, time_s=102.5), decided(state), during.memory, replace(SETTINGS, least_gain=math.inf))
    assert after.allocations == decided(state).allocations
    assert after.memory.lost_s - first.memory.lost_s > 2.5 * 0.2, "the domain that gave lost most of its speed"
    assert after.cost == pytest.approx(after.memory.lost_s / 2.5)
    assert after.memory.account_s == pytest.approx(SETTINGS.startup_s + 0.02 - after.memory.lost_s, abs=0.05)


def test_expected_improvement_by_numbers():
    chance = np.random.default_rng(1)
    for change, error in ((0.0, 1.0), (-1.0, 0.7), (0.4, 0.1)):
        sampled = np.maximum(0.0, chance.normal(change, error, 400_000)).mean()
        value = expected_improvement(np.array([change]), np.array([error]))[0]
        assert value == pytest.approx(sampled, abs=0.003)


@st.composite
def states(draw):
    chunk = draw(st.sampled_from([1, 2]))
    domains = []
    for number in range(draw(st.integers(0, 5))):
        size = draw(st.integers(1, 8)) * chunk
        minimum = draw(st.integers(1, size))
        errors = draw(st.lists(st.tuples(st.integers(2, 40), st.floats(0.2, 40), st.floats(0, 5)), max_size=4))
        domains.append(
            known(
                f"d{number}",
                size,
                *errors,
                minimum=minimum,
                maximum=size + draw(st.integers(0, 12)),
                demand=size + draw(st.integers(0, 12)),
                weight=draw(st.sampled_from([0.5, 1.0, 3.0])),
                newcomer=draw(st.integers(0, 5)) == 0,
                scaf_weight=draw(st.none() | st.floats(0.05, 6)),
            )
        )
    cpus = max(chunk, sum(d.allocation for d in domains) + draw(st.integers(0, 4)))
    return pool(*domains, cpus=cpus, chunk=chunk, time_s=0.0)


@settings(max_examples=40)
@given(states(), st.lists(st.tuples(st.floats(0.25, 5), st.integers(0, 4), st.floats(0.3, 2)), max_size=8))
def test_the_laws_hold_over_any_history(state, history):
    memory, losses = ExploreMemory(), 0.0
    for seconds, index, scale in [(0.25, 0, 1.0), *history]:
        domains = tuple(
            replace(d, points=tuple(replace(p, speedup=p.speedup * scale) for p in d.points)) if n == index else d
            for n, d in enumerate(state.domains)
        )
        state = replace(state, time_s=state.time_s + seconds, domains=domains)
        decision = decided(state)
        result = explore(state, decision, memory)
        memory = result.memory
        assert result.allocations.keys() == decision.allocations.keys()
        assert sum(result.allocations.values()) <= state.cpus
        changed = [d for d in state.domains if result.allocations[d.name] != d.allocation]
        assert len(changed) <= 2
        if len(changed) == 2:
            assert sum(result.allocations.values()) == sum(decision.allocations.values())
        for d in changed:
            low, high = limits(d, state.chunk)
            assert low <= result.allocations[d.name] <= high
            assert result.allocations[d.name] % state.chunk == 0
            assert not d.newcomer
        assert memory.lost_s >= 0.0
        losses = memory.lost_s
    assert math.isfinite(losses)


def flat(most, *sizes):
    """Points that are known well, of a curve that is linear up to *most* and flat beyond."""
    return [(p, min(float(most), float(p)), 0.02) for p in sizes]


@pytest.mark.parametrize("far_error", [0.0, SETTINGS.far_error])
def test_what_costs_nobody_anything_is_used_to_look_far_once(far_error):
    """As far as is known, both curves are flat below what the domains have. Beyond the last size may be a step."""
    near = known("a", 18, *flat(8, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 18, 21, 24))
    giver = known("b", 18, *flat(5, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 18, 21, 24, 27, 30, 33, 36))
    found = explored(pool(near, giver), far_error=far_error, unforeseen=0.0)
    assert (found.allocations["a"] >= SETTINGS.far * CPUS) == bool(far_error)
    there = replace(near, points=(*near.points, SpeedupPoint(30, 8.0, 0.02, 8)))
    again = explored(pool(there, giver), far_error=far_error, unforeseen=0.0)
    assert again.allocations["a"] < SETTINGS.far * CPUS


def test_a_team_with_a_thread_less_than_its_cores_has_been_far():
    """On cores of two threads, a team of 35 is measured on 36 CPUs."""
    near = known("a", 18, *flat(8, 2, 4, 6, 8, 10, 12, 14, 18, 21, 24), maximum=35)
    giver = known("b", 18, *flat(5, *range(2, 37, 2)))
    for cpus, far in ((27, True), (35, False), (34, False)):
        there = replace(near, points=(*near.points, SpeedupPoint(cpus, 8.0, 0.02, 8)))
        found = explored(pool(there, giver, chunk=2), unforeseen=0.0)
        assert (found.allocations["a"] >= SETTINGS.far * CPUS) == far, cpus
