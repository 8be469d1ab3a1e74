"""Decisions: the bounds hold whatever the policy answers, and a change must pay."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools import domain, pool
from vscaf.core.decide.decision import Damping, DecideMemory, decide
from vscaf_policies import Answer, PolicyError, PoolState, load_policy, timeless
from vscaf_policies.equipartition import equipartition
from vscaf_policies.max_speedup import max_speedup
from vscaf_policies.max_speedup_fitted import max_speedup_fitted
from vscaf_policies.static import static
from vscaf_policies.unmanaged import unmanaged


def applied(state, decision, **changes):
    """The pool after the decision took effect. changes: other fields of domains, by the domain's name."""
    domains = (
        replace(d, **({"allocation": decision.allocations[d.name]} | changes.get(d.name, {}))) for d in state.domains
    )
    return replace(state, domains=tuple(domains))


def test_two_guests_on_two_cpus_are_2_and_rest_then_1_and_1_then_rest_and_2():
    state = pool(2, domain("a", maximum=2, demand=2), domain("b", maximum=2, demand=0))
    first = decide(state, equipartition, {})
    assert first.allocations == {"a": 2, "b": 0}
    state = applied(state, first, b={"demand": 2, "newcomer": True})
    second = decide(state, equipartition, {}, first.memory)
    assert second.allocations == {"a": 1, "b": 1}
    assert second.reasons["b"] == "0 -> 1: it now has a demand of 2"
    assert second.reasons["a"].startswith("2 -> 1: ")
    state = applied(state, second, a={"demand": 0})
    third = decide(state, equipartition, {}, second.memory)
    assert third.allocations == {"a": 0, "b": 2}
    assert third.reasons == {"a": "1 -> 0: no demand, it rests", "b": "1 -> 2: demand or bounds changed: a"}


def test_unmanaged_leaves_everything_alone():
    state = pool(2, domain("a", allocation=7), domain("b", demand=0, allocation=3))
    decision = decide(state, unmanaged, {})
    assert not decision.managed
    assert decision.allocations == {"a": 7, "b": 3}
    assert decision.reasons == {}


def test_a_domain_that_may_not_rest_keeps_its_minimum():
    state = pool(4, domain("keep", demand=0, may_rest=False, minimum=2), domain("a"))
    assert decide(state, equipartition, {}).allocations == {"keep": 2, "a": 2}


def test_a_policy_that_is_greedy_or_silent_is_held_to_the_bounds():
    state = pool(8, domain("a", maximum=3), domain("b", minimum=2, allocation=2), domain("c"))
    assert decide(state, lambda *_: {"a": 1000, "c": 0}, {}).allocations == {"a": 3, "b": 2, "c": 1}


def test_what_a_policy_leaves_over_is_left_over():
    state = pool(8, domain("a"), domain("b", minimum=2), domain("c", demand=0))
    assert decide(state, static, {"allocations": {"a": 3, "b": 1, "c": 4}}).allocations == {"a": 3, "b": 2, "c": 0}


@pytest.mark.parametrize("answer", [{"z": 1}, {"a": -1}, {"a": 1.5}, {"a": True}])
def test_a_policy_that_answers_nonsense_is_named(answer):
    with pytest.raises(PolicyError, match=r"'z'|'a'"):
        decide(pool(4, domain("a")), lambda *_: answer, {})


@pytest.mark.parametrize("answer", [[("a", 1)], 4, Answer([("a", 1)])])
def test_a_policy_that_answers_something_else_than_cpus_by_name_is_told(answer):
    with pytest.raises(PolicyError, match="CPUs by name"):
        decide(pool(4, domain("a")), lambda *_: answer, {})


def test_a_policy_may_keep_only_such_waiting_as_there_are_and_may_rest():
    state = pool(4, domain("a"), domain("keeps", may_rest=False))
    for answer in (Answer({}, queued=frozenset({"z"})), Answer({}, suspended=frozenset({"z"}))):
        with pytest.raises(PolicyError, match="'z' waiting, which is not in the pool"):
            decide(state, lambda *_, answer=answer: answer, {})
    with pytest.raises(PolicyError, match="queues 'keeps', which may not rest"):
        decide(state, lambda *_: Answer({}, queued=frozenset({"keeps"})), {})
    both = decide(state, lambda *_: Answer({"a": 4}, frozenset({"a"}), frozenset({"a", "keeps"})), {})
    assert (both.queued, both.suspended, both.allocations) == (frozenset(), {"a", "keeps"}, {"a": 0, "keeps": 0})


def test_whoever_begins_to_wait_and_has_nothing_is_told_why_once():
    """Its allocation stays 0, so the only news is that it waits."""
    state = pool(4, domain("a", demand=0), domain("b", minimum=4))

    def queues(state, _options):
        return Answer({"b": 4}, queued=frozenset({"a"} & {one.name for one in state.domains}))

    first = decide(state, queues, {})
    state = applied(state, first, a={"demand": 2})
    second = decide(state, queues, {}, first.memory)
    assert second.reasons == {"a": "0 -> 0: queued: there is no room for its minimum of 1"}
    third = decide(applied(state, second), queues, {}, second.memory)
    assert (third.reasons, third.queued) == ({}, {"a"})


def test_a_pool_without_a_chunk_or_with_a_double_is_refused():
    with pytest.raises(ValueError, match="whole chunk"):
        decide(pool(1, domain("a"), chunk=2), equipartition, {})
    with pytest.raises(ValueError, match="'a' is in the pool twice"):
        decide(pool(4, domain("a"), domain("a")), equipartition, {})


def test_bounds_are_rounded_up_to_whole_chunks():
    state = pool(8, domain("a", maximum=1), domain("b", minimum=3, maximum=3), chunk=2)
    assert decide(state, equipartition, {}).allocations == {"a": 2, "b": 4}


def test_more_domains_than_chunks_share_the_last_one_the_same_every_time():
    state = pool(4, domain("a"), domain("b", weight=2.0), domain("c"), domain("d", demand=0), chunk=2)
    first = decide(state, equipartition, {})
    assert first.allocations == {"a": 2, "b": 2, "c": 2, "d": 0}
    assert first.sharing == {"a", "c"}
    assert "shares the last chunk with 1 more" in first.reasons["a"]
    again = decide(applied(state, first), max_speedup, {}, first.memory)
    assert (again.allocations, again.sharing, again.reasons) == (first.allocations, first.sharing, {})
    state = applied(state, first, c={"demand": 0})
    alone = decide(state, equipartition, {}, first.memory)
    assert alone.sharing == frozenset()
    assert alone.reasons["a"] == "2 -> 2: it has a chunk of its own again"


def test_the_higher_priority_has_a_chunk_of_its_own():
    state = pool(4, domain("a", weight=9.0), domain("b", priority=1), domain("c", priority=-1), chunk=2)
    assert decide(state, equipartition, {}).sharing == {"a", "c"}


def test_who_has_a_chunk_of_its_own_keeps_it_when_more_come():
    state = pool(2, domain("m"), domain("n"))
    first = decide(state, equipartition, {})
    state = replace(applied(state, first), domains=(*applied(state, first).domains, domain("a")))
    second = decide(state, equipartition, {}, first.memory)
    assert second.sharing == {"a", "n"}
    third = decide(applied(state, second), equipartition, {}, second.memory)
    assert third.sharing == second.sharing


def known(name, weight, allocation=0):
    return domain(name, scaf_weight=weight, allocation=allocation)


def test_a_small_gain_does_not_pay_and_a_large_one_does():
    state = pool(16, known("a", 1.0), known("b", 1.0))
    first = decide(state, max_speedup, {})
    assert first.allocations == {"a": 8, "b": 8}
    drifted = applied(state, first, a={"scaf_weight": 1.2})
    assert max_speedup(drifted, {}) == {"a": 9, "b": 7}
    second = decide(drifted, max_speedup, {}, first.memory)
    assert (second.allocations, second.reasons, second.managed) == ({"a": 8, "b": 8}, {}, True)
    third = decide(applied(drifted, second, a={"scaf_weight": 6.0}), max_speedup, {}, second.memory)
    assert third.allocations == {"a": 14, "b": 2}
    assert "predicted sum of speedups +" in third.reasons["a"]


def test_the_threshold_is_the_relative_gain_in_the_sum_of_speedups():
    state = pool(16, known("a", 1.0), known("b", 1.0))
    first = decide(state, max_speedup, {})
    drifted = applied(state, first, a={"scaf_weight": 1.2})
    before = 2 + 1.2 * math.log(8) + math.log(8)
    gain = (2 + 1.2 * math.log(9) + math.log(7)) / before - 1
    assert decide(drifted, max_speedup, {}, first.memory, Damping(gain * 1.01, transition_s=0.0)).allocations["a"] == 8
    assert decide(drifted, max_speedup, {}, first.memory, Damping(gain * 0.99, transition_s=0.0)).allocations["a"] == 9


periods = st.lists(
    st.tuples(
        st.lists(st.sampled_from((0.5, 0.98, 1.0, 1.0, 1.02, 2.0)), min_size=4, max_size=4),
        st.sampled_from((0, *[64] * 11)),
        st.sampled_from((None, *[1.2] * 9)),
    ),
    max_size=30,
)
"""In each: by how much each domain's weight changes, the demand of the first, and the option most_of_equal."""


@given(periods, st.sampled_from((max_speedup, max_speedup_fitted)))
def test_who_need_not_be_asked_the_same_again_decides_as_if_it_were(changes, policy):
    """The law of `timeless`: it saves calls, and nothing else."""
    calls = {True: 0, False: 0}

    def asked(saves):
        def counted(state, options):
            calls[saves] += 1
            return policy(state, options)

        counted.timeless, counted.explores = saves, getattr(policy, "explores", False)
        return counted

    start = pool(32, *(known(name, 1.0) for name in "abcd"))
    both = {saves: (asked(saves), start, DecideMemory()) for saves in (True, False)}
    for number, (factors, demand, most) in enumerate(changes):
        decisions = {}
        for saves, (one, state, memory) in both.items():
            now = [
                replace(d, scaf_weight=d.scaf_weight * factor, demand=demand if d.name == "a" else 64)
                for d, factor in zip(state.domains, factors, strict=True)
            ]
            shown = replace(state, domains=tuple(now), time_s=0.25 * number)
            decision = decisions[saves] = decide(shown, one, {} if most is None else {"most_of_equal": most}, memory)
            both[saves] = (one, applied(shown, decision), decision.memory)
        assert replace(decisions[True], memory=DecideMemory()) == replace(decisions[False], memory=DecideMemory())
    assert calls[True] <= calls[False]


def test_the_same_is_not_asked_twice():
    states = []

    @timeless
    def spy(state, options):
        states.append(state)
        return max_speedup(state, options)

    state = pool(16, known("a", 1.0), known("b", 1.0))
    first = decide(state, spy, {})
    second = decide(applied(state, first, a={"scaf_weight": 1.2}), spy, {}, first.memory)
    assert len(states) == 3
    third = decide(applied(state, second, a={"scaf_weight": 1.21}), spy, {}, second.memory)
    assert len(states) == 4 and third.allocations == second.allocations == first.allocations
    decide(applied(state, third, a={"scaf_weight": 1.2}, b={"demand": 60}), spy, {}, third.memory)
    assert len(states) == 6, "the demand is another one"


def test_the_end_of_being_new_alone_changes_nothing_that_does_not_pay():
    state = pool(16, replace(known("a", 1.2), newcomer=True), known("b", 1.0))
    first = decide(state, max_speedup, {})
    settled = applied(state, first, a={"newcomer": False})
    assert max_speedup(settled, {}) != first.allocations
    assert decide(settled, max_speedup, {}, first.memory).allocations == first.allocations


def test_demand_bounds_and_newcomers_act_at_once():
    state = pool(16, known("a", 1.0), known("b", 1.0))
    first = decide(state, max_speedup, {})
    drifted = applied(state, first, a={"scaf_weight": 1.2})
    never = Damping(math.inf)
    for change in ({"demand": 12}, {"maximum": 12}, {"minimum": 2}):
        now = applied(drifted, first, b=change)
        assert decide(now, max_speedup, {}, first.memory, never).allocations == {"a": 9, "b": 7}, change
    damped = decide(drifted, max_speedup, {}, first.memory, never)
    assert damped.allocations == first.allocations
    new = applied(drifted, first, a={"newcomer": True}, b={"scaf_weight": 5.0})
    assert decide(new, max_speedup, {}, first.memory, never).memory.circumstances.newcomers == {"a"}


def test_a_present_that_breaks_a_law_is_not_kept():
    state = pool(16, known("a", 1.0), known("b", 1.0))
    first = decide(state, max_speedup, {})
    for wrong in ({"a": 9, "b": 8}, {"a": 8, "b": 7}, {"a": 16, "b": 0}):
        now = replace(state, domains=tuple(replace(d, allocation=wrong[d.name]) for d in state.domains))
        assert decide(now, max_speedup, {}, first.memory, Damping(math.inf)).allocations == {"a": 8, "b": 8}


def test_cpus_of_one_that_is_to_rest_are_not_left_with_it():
    state = pool(16, known("a", 1.0), known("b", 1.0), domain("idle", demand=0))
    first = decide(state, max_speedup, {})
    wrong = {"a": 7, "b": 7, "idle": 2}
    now = replace(state, domains=tuple(replace(d, allocation=wrong[d.name]) for d in state.domains))
    assert decide(now, max_speedup, {}, first.memory, Damping(math.inf)).allocations == {"a": 8, "b": 8, "idle": 0}


def test_other_options_act_at_once_though_nothing_was_learned():
    state = pool(4, domain("a"), domain("b"))
    first = decide(state, static, {"allocations": {"a": 1, "b": 3}})
    assert first.allocations == {"a": 1, "b": 3}
    second = decide(applied(state, first), static, {"allocations": {"a": 3, "b": 1}}, first.memory)
    assert second.allocations == {"a": 3, "b": 1}


def test_a_policy_of_time_acts_at_once():
    def turns(state, _options):
        return {"a": 3, "b": 1} if int(state.time_s) % 2 == 0 else {"a": 1, "b": 3}

    state, memory, seen = pool(4, domain("a"), domain("b")), DecideMemory(), []
    for second in range(6):
        decision = decide(replace(state, time_s=float(second)), turns, {}, memory)
        state, memory = applied(state, decision), decision.memory
        seen.append(decision.allocations["a"])
    assert seen == [3, 1, 3, 1, 3, 1]


@st.composite
def pools(draw):
    chunk = draw(st.integers(1, 3))
    names = draw(st.lists(st.text("abcdefg", min_size=1, max_size=2), unique=True, max_size=8))
    domains = []
    for name in names:
        minimum = draw(st.integers(1, 9))
        domains.append(
            domain(
                name,
                minimum=minimum,
                maximum=minimum + draw(st.integers(0, 12)),
                weight=draw(st.sampled_from([0.5, 1.0, 2.0])),
                demand=draw(st.integers(0, 16)),
                allocation=draw(st.integers(0, 8)),
                may_rest=draw(st.booleans()),
                scaf_weight=draw(st.none() | st.floats(0.05, 8)),
                newcomer=draw(st.booleans()),
            )
        )
    return PoolState(draw(st.integers(chunk, 30)), chunk, draw(st.floats(0, 9)), tuple(domains))


def check_laws(state, decision, work_conserving=False):
    chunk, chunks = state.chunk, state.cpus // state.chunk
    active = [d for d in state.domains if d.demand > 0 or not d.may_rest]
    given_to = decision.allocations
    assert given_to.keys() == {d.name for d in state.domains}
    assert all(given_to[d.name] == 0 for d in state.domains if d not in active)
    if len(active) > chunks:
        assert len(decision.sharing) == len(active) - chunks + 1
        assert decision.sharing <= {d.name for d in active}
        assert all(given_to[d.name] == chunk for d in active)
        return
    assert not decision.sharing

    def up(cpus):
        return max(1, math.ceil(cpus / chunk)) * chunk

    minima_fit = sum(up(d.minimum) for d in active) <= chunks * chunk
    for d in active:
        assert given_to[d.name] % chunk == 0
        assert (up(d.minimum) if minima_fit else chunk) <= given_to[d.name]
        assert given_to[d.name] <= up(min(d.maximum, max(d.demand, d.minimum)))
    assert sum(given_to.values()) <= chunks * chunk
    if work_conserving and sum(given_to.values()) < chunks * chunk:
        assert all(given_to[d.name] >= min(d.demand, d.maximum) for d in active)


@pytest.mark.slow
@given(
    pools(),
    st.sampled_from(["equipartition", "max-speedup", "static", "wild"]),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 16), st.booleans()), max_size=5),
    st.data(),
)
def test_the_laws_hold_over_any_history_under_any_policy(state, name, history, data):
    def wild(pool_state, _options):
        return {d.name: data.draw(st.integers(0, 50), d.name) for d in pool_state.domains}

    policy = wild if name == "wild" else load_policy(name)
    options = {"allocations": {d.name: d.maximum for d in state.domains[::2]}} if name == "static" else {}
    memory = DecideMemory()
    for scale, demand, acted in [(1.0, 1, True), *history]:
        decision = decide(state, policy, options, memory)
        check_laws(state, decision, work_conserving=name in ("equipartition", "max-speedup"))
        changed = {d.name for d in state.domains if decision.allocations[d.name] != d.allocation}
        assert changed <= decision.reasons.keys()
        memory = decision.memory
        state = replace(
            state,
            domains=tuple(
                replace(
                    d,
                    allocation=decision.allocations[d.name] if acted else d.allocation,
                    demand=demand if index == 0 else d.demand,
                    scaf_weight=None if d.scaf_weight is None else max(0.05, d.scaf_weight * scale),
                )
                for index, d in enumerate(state.domains)
            ),
        )


@pytest.mark.slow
@given(pools(), st.sampled_from(["equipartition", "max-speedup"]))
def test_a_decision_that_was_acted_on_is_not_changed_again(state, name):
    policy = load_policy(name)
    first = decide(state, policy, {})
    second = decide(applied(state, first), policy, {}, first.memory)
    assert (second.allocations, second.sharing, second.reasons) == (first.allocations, first.sharing, {})
