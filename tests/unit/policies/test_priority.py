"""Admission by priority: domains that fit are in, none waits for one of lower priority, and none flaps."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools import domain, domain_states, pool
from vscaf.core.decide.decision import decide
from vscaf_policies import PolicyError, PoolState, competes, largest, smallest
from vscaf_policies.priority import priority


def test_the_higher_priority_is_admitted_first_and_who_does_not_fit_waits():
    state = pool(
        8, domain("low", minimum=4), domain("high", minimum=4, priority=2), domain("top", minimum=4, priority=3)
    )
    answer = priority(state, {})
    assert answer.cpus == {"top": 4, "high": 4, "low": 0}
    assert answer.queued == {"low"} and not answer.suspended


def test_among_equals_who_is_in_stays_in():
    early = domain("z", minimum=6, allocation=8)
    assert priority(pool(8, early, domain("a", minimum=6)), {}).queued == {"a"}
    assert priority(pool(8, early, domain("a", minimum=6, priority=1)), {}).queued == {"z"}


def test_a_smaller_one_behind_one_that_waits_is_admitted():
    state = pool(8, domain("a", minimum=6, priority=2), domain("b", minimum=4, priority=1), domain("c", minimum=2))
    answer = priority(state, {})
    assert answer.queued == {"b"} and answer.cpus == {"a": 6, "b": 0, "c": 2}


def test_who_may_not_rest_is_admitted_whatever_its_priority():
    keeps = domain("keeps", minimum=6, demand=0, may_rest=False, priority=-1)
    answer = priority(pool(8, keeps, domain("high", minimum=4, priority=5)), {})
    assert answer.queued == {"high"} and answer.cpus["keeps"] == 6


def test_a_minimum_above_the_pool_is_the_whole_pool():
    assert priority(pool(7, domain("a", minimum=20), chunk=2), {}).cpus == {"a": 6}
    assert priority(pool(6, domain("a", minimum=20, priority=1), domain("b")), {}).queued == {"b"}


def test_the_admitted_share_by_weight_or_by_weight_and_speedup():
    state = pool(12, domain("a", weight=2.0, scaf_weight=1.0), domain("b", scaf_weight=6.0))
    assert priority(state, {}).cpus == priority(state, {"split": "weight"}).cpus == {"a": 8, "b": 4}
    assert priority(state, {"split": "speedup"}).cpus == {"a": 3, "b": 9}
    unknown = pool(12, domain("a", weight=2.0), domain("b"))
    assert priority(unknown, {"split": "speedup"}).cpus == {"a": 8, "b": 4}


@pytest.mark.parametrize(
    ("options", "message"),
    [({"split": "fair"}, "option split is 'fair'"), ({"spilt": "weight"}, "unknown option 'spilt'")],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(PolicyError, match=message):
        priority(pool(4, domain("a")), options)


def test_the_core_says_why_a_domain_waits():
    state = pool(4, domain("a", minimum=3, allocation=4), domain("b", minimum=3, priority=1))
    decision = decide(state, priority, {})
    assert decision.allocations == {"a": 0, "b": 4} and decision.queued == {"a"}
    assert decision.reasons["a"] == "4 -> 0: queued: there is no room for its minimum of 3"
    first = decide(pool(4, domain("a", minimum=3, allocation=4)), priority, {})
    later = decide(
        replace(state, domains=(domain("a", minimum=3, allocation=4), domain("b", minimum=3))),
        priority,
        {},
        first.memory,
    )
    assert later.reasons["b"] == "0 -> 0: queued: there is no room for its minimum of 3", "it had none before"
    again = decide(
        replace(state, domains=(domain("a", minimum=3, allocation=4), domain("b", minimum=3))),
        priority,
        {},
        later.memory,
    )
    assert again.reasons == {}, "told more than once"


pools = st.builds(
    lambda domains, chunks, chunk: PoolState(chunks * chunk + chunk // 2, chunk, 0.0, tuple(domains)),
    st.lists(domain_states, unique_by=lambda one: one.name, max_size=7),
    st.integers(1, 20),
    st.integers(1, 3),
)
splits = st.sampled_from(({}, {"split": "weight"}, {"split": "speedup"}))


def needs(state, one):
    return min(state.cpus // state.chunk * state.chunk, smallest(one, state.chunk))


@given(pools, splits)
def test_who_is_admitted_has_its_minimum_and_who_is_not_could_not(state, options):
    answer = priority(state, options)
    competing = [one for one in state.domains if competes(one)]
    admitted = [one for one in competing if one.name not in answer.queued]
    room = state.cpus // state.chunk * state.chunk
    fixed = sum(needs(state, one) for one in admitted if not one.may_rest)
    assert sum(needs(state, one) for one in admitted) <= max(room, fixed)
    assert answer.queued <= {one.name for one in competing if one.may_rest}
    for one in state.domains:
        cpus = answer.cpus[one.name]
        if one not in admitted:
            assert cpus == 0
        elif fixed <= room:
            assert needs(state, one) <= cpus <= largest(one, state.chunk)
    if admitted:
        assert sum(answer.cpus.values()) in {room, sum(answer.cpus[one.name] for one in admitted)}
    for one in competing:
        if one.name in answer.queued:  # it would not fit even if all that may rest and have a lower priority went
            stay = [each for each in admitted if not each.may_rest or each.priority >= one.priority]
            assert sum(needs(state, each) for each in stay) + needs(state, one) > room


@given(pools, splits)
def test_what_is_decided_is_decided_again(state, options):
    """Asked with what it gave, it gives the same: through the core too, which holds it to the bounds."""
    answer = priority(state, options)
    settled = replace(state, domains=tuple(replace(one, allocation=answer.cpus[one.name]) for one in state.domains))
    assert priority(settled, options) == answer
    decision = decide(state, priority, options)
    assert decision.queued == answer.queued and not decision.sharing - {
        one.name for one in state.domains if not one.may_rest
    }
    after = replace(
        state, domains=tuple(replace(one, allocation=decision.allocations[one.name]) for one in state.domains)
    )
    assert decide(after, priority, options, decision.memory).allocations == decision.allocations


@given(pools, domain_states)
def test_a_newcomer_pushes_out_only_those_of_lower_priority(state, newcomer):
    before = priority(state, {})
    settled = tuple(
        replace(one, allocation=before.cpus[one.name]) for one in state.domains if one.name != newcomer.name
    )
    after = priority(replace(state, domains=(*settled, replace(newcomer, allocation=0))), {})
    for one in settled:
        if one.name in after.queued and one.allocation:
            assert newcomer.priority > one.priority or not newcomer.may_rest
