"""Gangs: each has the pool for a slice, all domains that fit run, and no domain waits longer than a round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools import domain, domain_states, pool
from vscaf.core.decide.decision import DecideMemory, decide
from vscaf_policies import PolicyError, competes, largest, smallest
from vscaf_policies.gang import gang


def rounds(cpus, *domains, slices=4, **options):
    """The domains that run in each slice, with their CPUs."""
    slice_s = options.get("slice_s", 2.0)
    answers = [gang(pool(cpus, *domains, time_s=(number + 0.5) * slice_s), options) for number in range(slices)]
    return [{name: cpus for name, cpus in answer.cpus.items() if cpus} for answer in answers]


def test_each_has_the_whole_pool_in_turn():
    assert rounds(8, domain("a"), domain("b"), slices=3) == [{"a": 8}, {"b": 8}, {"a": 8}]
    answer = gang(pool(8, domain("a"), domain("b"), domain("idle", demand=0)), {})
    assert answer.suspended == {"b"} and not answer.queued, "a domain without demand is suspended instead of resting"


def test_as_many_as_fit_run_together():
    domains = [domain("a", demand=5), domain("b", maximum=4), domain("c", demand=3), domain("d", demand=4)]
    assert rounds(8, *domains, slices=2) == [{"a": 5, "c": 3}, {"b": 4, "d": 4}]
    assert rounds(16, *domains, slices=2) == [{"a": 5, "b": 4, "c": 3, "d": 4}] * 2
    assert gang(pool(16, *domains), {}).suspended == frozenset()


def test_who_may_not_rest_is_in_every_slice():
    keeps = domain("keeps", minimum=2, maximum=4, demand=0, may_rest=False)
    assert rounds(8, keeps, domain("a"), domain("b", demand=4), slices=2) == [
        {"keeps": 2, "a": 6},
        {"keeps": 2, "b": 4},
    ]
    needy = domain("needy", minimum=2, maximum=4, may_rest=False)
    assert rounds(8, needy, domain("b", demand=4), slices=1) == [{"needy": 4, "b": 4}]


def test_minima_of_who_may_not_rest_are_cut_where_they_leave_no_chunk_to_a_gang():
    state = pool(8, domain("fixed", minimum=8, maximum=8, may_rest=False), domain("a"), domain("b"))
    assert decide(state, gang, {}).allocations == {"fixed": 7, "a": 1, "b": 0}


def test_slices_are_as_long_as_the_option_says():
    domains = (domain("a"), domain("b"))
    assert gang(pool(4, *domains, time_s=9.9), {"slice_s": 10}).suspended == {"b"}
    assert gang(pool(4, *domains, time_s=10.1), {"slice_s": 10}).suspended == {"a"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slice_s": 0.01}, "slice_s is 0.01"),
        ({"slice_s": "2"}, "slice_s is '2'"),
        ({"slice_s": True}, "slice_s is True"),
        ({"slice_s": float("inf")}, "slice_s is inf"),
        ({"slice_s": float("nan")}, "slice_s is nan"),
        ({"slice": 2}, "unknown option 'slice'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(PolicyError, match=message):
        gang(pool(4, domain("a")), options)


def test_the_core_says_why_a_domain_does_not_run():
    first = decide(pool(4, domain("a"), domain("b"), time_s=0.0), gang, {})
    assert first.allocations == {"a": 4, "b": 0} and first.suspended == {"b"}
    assert first.reasons["b"] == "0 -> 0: suspended: others have the present slice of time"
    later = decide(pool(4, domain("a", allocation=4), domain("b"), time_s=2.0), gang, {}, first.memory)
    assert later.allocations == {"a": 0, "b": 4} and later.suspended == {"a"}
    assert later.reasons == {
        "a": "4 -> 0: suspended: others have the present slice of time",
        "b": "0 -> 4: it has the present slice of time",
    }


@given(
    st.lists(domain_states, unique_by=lambda one: one.name, max_size=8),
    st.integers(1, 20),
    st.integers(1, 3),
    st.floats(0.0, 1e6),
)
def test_everybody_has_a_slice_of_each_round_with_all_that_it_can_use(domains, chunks, chunk, time_s):
    room = chunks * chunk
    competing = [one for one in domains if competes(one)]
    fixed = [one for one in competing if not one.may_rest]
    free = max(chunk, room - sum(smallest(one, chunk) for one in fixed))
    ran = {}
    slices = len(competing) or 1
    for number in range(slices):
        at_s = (int(time_s) // 2 + number) * 2 + 1.0
        state = pool(room, *domains, chunk=chunk, time_s=at_s)
        answer = gang(state, {})
        assert answer == gang(state, {}) and not answer.queued
        assert answer.suspended <= {one.name for one in competing if one.may_rest}
        for one in competing:
            if one.name in answer.suspended:
                assert answer.cpus[one.name] == 0
            elif one.may_rest:
                assert answer.cpus[one.name] == min(free, largest(one, chunk))
                ran.setdefault(one.name, number)
            else:
                assert smallest(one, chunk) <= answer.cpus[one.name] <= largest(one, chunk)
        if room >= sum(smallest(one, chunk) for one in fixed) + chunk:
            assert sum(answer.cpus.values()) <= room
        decision = decide(state, gang, {}, DecideMemory())
        assert decision.suspended == answer.suspended
    assert ran.keys() == {one.name for one in competing if one.may_rest}, "somebody never runs"
