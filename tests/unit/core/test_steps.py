"""The next steps of a transition, one at a time. The test plays the calls and the guest."""

from dataclasses import replace

import pytest
from vscaf.core.backoff import RETRY_MOST_S, RETRY_S
from vscaf.core.reconcile.state import (
    Affinity,
    AnnouncedSize,
    Apply,
    Look,
    Resize,
    TransitionState,
    Treatment,
    on_done,
    on_failed,
    on_found_meant_to_rest,
    on_read,
    on_treatment,
)
from vscaf.core.reconcile.steps import Announcement, Goal, Timing, next_steps
from vscaf.values import State

TIMING = Timing(deadline_s=0.5, resend_s=1.0, unplug_after_s=600.0)
RESERVE = frozenset({8, 9})


def cpus(*numbers):
    return frozenset(numbers)


def floating(where, vcpus=2, emulator=RESERVE, shares=100):
    """An affinity in which all vCPUs float over *where*."""
    return Affinity(dict.fromkeys(range(vcpus), frozenset(where)), emulator, {}, shares)


def treatment(**changes):
    return replace(
        Treatment(rest_area=RESERVE, rest_shares=100, shares=100, emulator_area=RESERVE, vcpus_found=2), **changes
    )


def on(*partition, name="a", vcpus=2, **changes):
    """A domain that settled on *partition* long ago, without an agent."""
    where = frozenset(partition)
    transition = TransitionState(
        name, vcpus, vcpus, treatment(), where, floating(where, vcpus), announced=AnnouncedSize(len(where), 4, False)
    )
    return replace(transition, **changes)


def cooperating(*partition, online=(0, 1), **changes):
    """A domain that settled on *partition* long ago, with one pCPU for each online vCPU."""
    transition = on(*partition, **({"answers": True, "acknowledged": True, "online": online} | changes))
    pins = dict.fromkeys(range(transition.vcpus), frozenset(partition))
    pins.update((vcpu, cpus(cpu)) for vcpu, cpu in zip(online, sorted(partition), strict=False))
    return replace(transition, affinity=replace(transition.affinity, vcpus=pins))


def resting(name="a", vcpus=2, **changes):
    announced = AnnouncedSize(0, 4, False)
    return replace(
        TransitionState(name, vcpus, vcpus, treatment(), cpus(), floating(RESERVE, vcpus), True, announced=announced),
        **changes,
    )


def goal(*partition, limit=4, competition=False):
    return Goal(frozenset(partition), limit, competition)


def ask(transitions, goals, now_s=10.0, sharing=frozenset(), timing=TIMING):
    """The next steps of *transitions* (states) to *goals* (by name)."""
    return next_steps({one.name: one for one in transitions}, goals, sharing, now_s, timing)


def after(steps, now_s=10.0, goals=None, timing=TIMING, **changes):
    """The steps after *steps*, with *changes* to the transition state of "a"."""
    transitions = dict(steps.transitions)
    transitions["a"] = replace(transitions["a"], **changes)
    return next_steps(transitions, goals, frozenset(), now_s, timing)


# Settled and at rest


def test_who_is_where_it_should_be_is_left_alone():
    steps = ask([on(0, 1), resting("b")], {"a": goal(0, 1), "b": goal()})
    assert (steps.announcements, steps.calls) == ((), ())
    assert steps.states == {"a": State.CONTAINED, "b": State.RESTING}
    assert steps.again_at_s == float("inf")


def test_who_cooperates_has_each_online_vcpu_on_a_pcpu_of_its_own():
    steps = ask([cooperating(0, 1)], {"a": goal(0, 1)})
    assert (steps.calls, steps.states) == ((), {"a": State.COOPERATING})
    steps = ask([cooperating(0, 1, vcpus=3, online=(0, 2))], {"a": goal(0, 1)})
    assert (steps.calls, steps.states) == ((), {"a": State.COOPERATING})


def test_who_grows_keeps_each_vcpu_where_it_was():
    """All vCPUs float until the guest has answered. Then each vCPU that had a pCPU gets the same one again."""
    there = cooperating(2, 3, vcpus=4)
    goals = {"a": goal(0, 1, 2, 3)}
    (wider,) = ask([there], goals).calls
    assert wider == Apply("a", cpus(0, 1, 2, 3), floating({0, 1, 2, 3}, 4))
    grown = replace(on_done(there, wider), online=(0, 1, 2, 3), announced=AnnouncedSize(4, 4, False))
    (pinned,) = ask([grown], goals).calls
    assert pinned.affinity.vcpus == {0: cpus(2), 1: cpus(3), 2: cpus(0), 3: cpus(1)}
    rested = on_done(replace(grown, affinity=pinned.affinity), Apply("a", cpus(), floating({8}, 4)))
    back = replace(
        on_done(rested, wider), answers=True, acknowledged=True, online=(0, 1), announced=AnnouncedSize(4, 4, False)
    )
    (again,) = ask([back], goals).calls
    assert {vcpu: again.affinity.vcpus[vcpu] for vcpu in (0, 1)} == {0: cpus(2), 1: cpus(3)}


@pytest.mark.parametrize("changes", [{"answers": False}, {"online": (0, 1, 2)}, {"online": None}])
def test_who_does_not_cooperate_floats_over_its_partition(changes):
    steps = ask([replace(cooperating(0, 1), **changes)], {"a": goal(0, 1)})
    assert steps.calls == (Apply("a", cpus(0, 1), floating({0, 1})),)
    assert steps.states == {"a": State.CONTAINED}


def test_who_goes_to_rest_is_moved_at_once_and_told():
    steps = ask([cooperating(0, 1)], {"a": goal()})
    assert steps.announcements == (Announcement("a", AnnouncedSize(0, 4, False), False),)
    (call,) = steps.calls
    assert call == Apply("a", cpus(), floating(RESERVE))
    assert steps.states == {"a": State.SHRINKING}
    assert steps.transitions["a"].claim == cpus(0, 1), "it may compute there until the call succeeds"
    rested = on_done(steps.transitions["a"], call)
    assert (rested.claim, rested.resting) == (cpus(), True)
    done = ask([rested], {"a": goal()})
    assert (done.calls, done.states) == ((), {"a": State.RESTING})


def test_who_rests_where_the_pool_now_is_claims_it_until_it_has_moved():
    """pCPU 9 moves from the reserve to the pool. The next domain waits until nobody rests there."""
    smaller, goals = treatment(rest_area=cpus(8), emulator_area=cpus(8)), {"a": goal(), "b": goal(0, 9)}
    moved = on_treatment(resting(), smaller, added=cpus(9))
    steps = ask([moved, on(0, name="b", treatment=smaller)], goals)
    assert moved.claim == cpus(9) and steps.waits == {"b": ("a",)}
    (call,) = (call for call in steps.calls if call.domain == "a")
    assert call == Apply("a", cpus(), floating({8}, emulator=cpus(8)))
    assert on_done(steps.transitions["a"], call).claim == cpus()
    assert on_read(on_failed(steps.transitions["a"], call, 10.0), 2, floating(RESERVE)).claim == cpus(9)
    frozen = on_treatment(resting(known_suspended=True, suspended_by_us=True), smaller, added=cpus(9))
    assert (frozen.claim, frozen.latent_claim) == (cpus(), cpus(9)), "it runs nowhere"
    for one, there, added in [
        (resting(), smaller, cpus(7)),  # another pCPU
        (resting(), smaller, cpus()),  # the pool is as before
        (resting(), treatment(), cpus(9)),  # it goes on resting there
        (on(0), smaller, cpus(9)),  # it does not rest
    ]:
        assert on_treatment(one, there, added) == replace(one, treatment=there)


def test_who_rests_has_its_weight_at_rest_and_gets_it_back():
    light = treatment(rest_shares=2)
    (call,) = ask([on(0, treatment=light)], {"a": goal()}).calls
    assert call.affinity.shares == 2
    (call,) = ask([resting(treatment=light)], {"a": goal(0)}).calls
    assert call.affinity.shares == 100


def test_a_host_without_weights_is_asked_for_none():
    weightless = replace(on(0), affinity=floating({0}, shares=None))
    (call,) = ask([weightless], {"a": goal()}).calls
    assert call.affinity.shares is None


def test_the_rest_area_may_change_while_it_rests():
    (call,) = ask([resting(treatment=treatment(rest_area=cpus(8)))], {"a": goal()}).calls
    assert call == Apply("a", cpus(), floating({8}))


def test_emulator_and_io_threads_go_to_their_area_or_else_to_the_partition():
    with_io = replace(on(0, 1), affinity=replace(floating({0, 1}), emulator=cpus(0), iothreads={1: cpus(5)}))
    (call,) = ask([with_io], {"a": goal(0, 1)}).calls
    assert (call.affinity.emulator, call.affinity.iothreads) == (RESERVE, {1: RESERVE})
    (call,) = ask([replace(with_io, treatment=treatment(emulator_area=cpus()))], {"a": goal(0, 1)}).calls
    assert (call.affinity.emulator, call.affinity.iothreads) == (cpus(0, 1), {1: cpus(0, 1)})


# Shrink


def test_a_shrink_waits_for_the_acknowledgement():
    to_one = {"a": goal(0)}
    steps = ask([cooperating(0, 1)], to_one)
    assert steps.announcements == (Announcement("a", AnnouncedSize(1, 4, False), False),)
    assert steps.calls == ()
    assert steps.states == {"a": State.SHRINKING}
    assert steps.again_at_s == 10.5
    steps = after(steps, 10.4, to_one)
    assert (steps.announcements, steps.calls) == ((), ())
    steps = after(steps, 10.4, to_one, acknowledged=True, online=(0,))
    assert steps.calls == (Apply("a", cpus(0), floating({0})),)
    assert on_done(steps.transitions["a"], steps.calls[0]).claim == cpus(0)


def test_who_is_late_is_contained_at_the_deadline():
    to_one = {"a": goal(0)}
    steps = after(ask([cooperating(0, 1)], to_one), 10.5, to_one)
    assert steps.calls == (Apply("a", cpus(0), floating({0})),)
    settled = ask([on_done(steps.transitions["a"], steps.calls[0])], to_one, 10.6)
    assert settled.states == {"a": State.CONTAINED}


def test_who_does_not_answer_is_not_waited_for():
    steps = ask([on(0, 1)], {"a": goal(0)})
    assert steps.announcements == (Announcement("a", AnnouncedSize(1, 4, False), False),)
    assert steps.calls == (Apply("a", cpus(0), floating({0})),)


def test_who_falls_silent_is_not_waited_for_any_longer():
    steps = after(ask([cooperating(0, 1)], {"a": goal(0)}), 10.1, {"a": goal(0)}, answers=False)
    assert len(steps.calls) == 1


def test_time_to_leave_does_not_start_over_with_a_new_decision():
    steps = ask([cooperating(0, 1, 2, online=(0, 1, 2), vcpus=3)], {"a": goal(0, 1)})
    steps = after(steps, 10.3, {"a": goal(0)})
    assert steps.announcements == (Announcement("a", AnnouncedSize(1, 4, False), False),)
    assert (steps.calls, steps.again_at_s) == ((), 10.5)
    (call,) = after(steps, 10.5, {"a": goal(0)}).calls
    assert call.partition == cpus(0)


def test_a_decision_that_takes_a_shrink_back_leaves_nothing_to_undo():
    steps = ask([cooperating(0, 1)], {"a": goal(0)})
    steps = after(steps, 10.2, {"a": goal(0, 1)})
    assert steps.announcements == (Announcement("a", AnnouncedSize(2, 4, False), False),)
    assert (steps.calls, steps.states) == ((), {"a": State.COOPERATING})
    steps = after(steps, 10.3, {"a": goal(0, 1)}, acknowledged=True)
    assert (steps.announcements, steps.calls, steps.states) == ((), (), {"a": State.COOPERATING})
    # For a later shrink it has the full deadline again.
    assert after(steps, 20.0, {"a": goal(0)}).again_at_s == 20.5


# Grow


def test_a_grow_waits_for_the_claim_and_then_pins_before_it_tells():
    goals = {"a": goal(0), "b": goal(1)}
    transitions = [cooperating(0, 1), resting("b")]
    steps = ask(transitions, goals)
    assert (steps.waits, steps.calls) == ({"b": ("a",)}, ())
    assert steps.states["b"] == State.GROWING
    steps = after(steps, 10.1, goals, acknowledged=True, online=(0,))
    (shrink,) = steps.calls
    assert steps.waits == {"b": ("a",)}, "the call has begun but not ended"
    done = on_done(steps.transitions["a"], shrink)
    steps = ask([done, steps.transitions["b"]], goals, 10.2)
    grow = next(call for call in steps.calls if call.domain == "b")
    assert grow == Apply("b", cpus(1), floating({1}))
    assert steps.transitions["b"].claim == cpus(1), "it claims from the begin of the call"
    assert not [one for one in steps.announcements if one.domain == "b"]
    steps = ask([done, on_done(steps.transitions["b"], grow)], goals, 10.3)
    assert [one for one in steps.announcements if one.domain == "b"] == [
        Announcement("b", AnnouncedSize(1, 4, False), False)
    ]


def test_two_that_grow_do_not_get_the_same_pcpu_though_both_may():
    shared = frozenset({"a", "b"})
    steps = ask([resting("a"), resting("b")], {"a": goal(0), "b": goal(0)}, sharing=shared)
    assert len(steps.calls) == 2, "these two may share it"
    steps = ask([on(0, name="a"), resting("b")], {"a": goal(0), "b": goal(0)}, sharing=frozenset({"b"}))
    assert steps.waits == {"b": ("a",)}


def test_a_swap_in_a_full_pool_ends_within_one_deadline():
    """Only here an overlap is allowed: there is no free pCPU on which a domain could wait."""
    goals = {"a": goal(1), "b": goal(0)}
    steps = ask([on(0), on(1, name="b")], goals)
    (call,) = steps.calls
    transitions = dict(steps.transitions)
    transitions[call.domain] = on_done(transitions[call.domain], call)
    steps = next_steps(transitions, goals, frozenset(), 10.0, TIMING)
    (last,) = steps.calls
    assert {call.domain, last.domain} == {"a", "b"}
    transitions = dict(steps.transitions) | {last.domain: on_done(steps.transitions[last.domain], last)}
    assert {name: one.claim for name, one in transitions.items()} == {"a": cpus(1), "b": cpus(0)}


# The guest


def test_what_is_not_acknowledged_is_told_again():
    announced = cooperating(
        0, acknowledged=False, announced=AnnouncedSize(1, 4, False), announced_at_s=0.0, sent_at_s=9.5
    )
    announced = replace(announced, affinity=floating({0}))
    steps = ask([announced], {"a": goal(0)}, 10.0)
    assert (steps.announcements, steps.again_at_s) == ((), 10.5)
    steps = ask([announced], {"a": goal(0)}, 10.5)
    assert steps.announcements == (Announcement("a", AnnouncedSize(1, 4, False), True),)
    assert (steps.transitions["a"].announced_at_s, steps.transitions["a"].sent_at_s) == (0.0, 10.5)
    assert steps.again_at_s == 11.5, "if this is not confirmed, it is told again"


def test_who_rests_is_told_again_too():
    steps = ask([resting(answers=True, announced=None)], {"a": goal()}, 10.0)
    assert steps.announcements == (Announcement("a", AnnouncedSize(0, 4, False), False),)
    assert steps.again_at_s == 11.0


def test_who_does_not_answer_is_not_told_again():
    steps = ask([replace(on(0), sent_at_s=0.0)], {"a": goal(0)})
    assert (steps.announcements, steps.again_at_s) == ((), float("inf"))


def test_a_limit_that_changed_is_news():
    steps = ask([cooperating(0, 1)], {"a": goal(0, 1, limit=2, competition=True)})
    assert steps.announcements == (Announcement("a", AnnouncedSize(2, 2, True), False),)
    assert (steps.calls, steps.states) == ((), {"a": State.COOPERATING}), "its pins are right until it answers"


def test_a_guest_that_never_answers_the_news_is_contained():
    steps = ask([cooperating(0, 1)], {"a": goal(0, 1, competition=True)})
    steps = after(steps, 10.5, {"a": goal(0, 1, competition=True)})
    assert steps.calls == (Apply("a", cpus(0, 1), floating({0, 1})),)


# Calls that fail


def test_after_a_failure_it_waits_then_looks_and_tries_again_ever_later():
    transition, goals, now_s = on(0, 1), {"a": goal(0)}, 10.0
    waits = []
    for _ in range(8):
        steps = ask([transition], goals, now_s)
        (call,) = steps.calls
        assert isinstance(call, Apply)
        transition = on_failed(steps.transitions["a"], call, now_s)
        assert transition.claim == cpus(0, 1)
        steps = ask([transition], goals, now_s)
        assert (steps.calls, steps.states) == ((), {"a": State.UNKNOWN})
        waits.append(steps.again_at_s - now_s)
        now_s = steps.again_at_s
        steps = ask([transition], goals, now_s)
        assert steps.calls == (Look("a"),)
        transition = on_read(steps.transitions["a"], 2, floating({0, 1}))
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert (waits[0], waits[-1]) == (RETRY_S, RETRY_MOST_S)
    steps = ask([transition], goals, now_s)
    transition = on_done(steps.transitions["a"], steps.calls[0])
    assert (transition.failures, transition.claim) == (0, cpus(0))


def test_looks_that_fail_wait_ever_longer_and_are_forgotten_once_there_is_nothing_to_do():
    transition = on(0, affinity=None)
    for now_s, again_s in ((10.0, 10.25), (10.25, 10.75), (10.75, 11.75)):
        steps = ask([transition], {"a": goal(0)}, now_s)
        transition = on_failed(steps.transitions["a"], Look("a"), now_s)
        assert ask([transition], {"a": goal(0)}, now_s).again_at_s == again_s
    steps = ask([transition], {"a": goal(0)}, 11.75)
    transition = on_read(steps.transitions["a"], 2, floating({0}))
    steps = ask([transition], {"a": goal(0)}, 11.75)
    assert (steps.calls, steps.transitions["a"].failures) == ((), 0)


def test_a_failed_look_changes_nothing_so_the_next_one_is_compared_with_what_was_known():
    known = on(0)
    once = on_failed(replace(known, moving=True), Look("a"), 10.0)
    twice = on_failed(once, Look("a"), 10.25)
    assert once.affinity is None and once.last_affinity == twice.last_affinity == known.affinity
    seen = on_read(twice, 2, floating({1}))
    assert seen.last_affinity == seen.affinity == floating({1})
    for call in (Apply("a", cpus(0, 1), floating({0, 1})), Resize("a", 3)):
        assert on_failed(known, call, 11.0).last_affinity is None, "vscaf may have changed it"
    assert on_done(known, Resize("a", 3)).last_affinity is None


def test_a_grow_that_failed_half_way_keeps_its_claim_until_it_is_looked_at():
    goals = {"a": goal(0, 1)}
    (grow,) = (steps := ask([on(0)], goals)).calls
    broken = on_failed(steps.transitions["a"], grow, 10.0)
    assert broken.claim == cpus(0, 1)
    (look,) = (steps := ask([broken], goals, 11.0)).calls
    assert look == Look("a")
    half = replace(floating({0}), vcpus={0: cpus(0, 1), 1: cpus(0)})
    assert on_read(steps.transitions["a"], 2, half).claim == cpus(0, 1)
    assert on_read(steps.transitions["a"], 2, floating({0})).claim == cpus(0)


def test_who_was_brought_to_its_partition_by_calls_that_failed_in_part_is_waited_for():
    """Its vCPUs were pinned and its emulator was not. It is known where it runs, so no other domain is let in there."""
    emulator = frozenset(range(10))
    half_way = on(0, 1, affinity=floating(cpus(0, 1), emulator=emulator), placed=False, found_at_s=0.0)
    half_way = replace(half_way, failures=1, retry_at_s=20.0)
    other = resting("b")
    there = ask([half_way, other], {"a": goal(0, 1), "b": goal()})
    steps = ask(there.transitions.values(), {"a": goal(0), "b": goal(1)})
    assert steps.waits == {"b": ("a",)}
    assert not [call for call in steps.calls if call.domain == "b"]


def test_who_waits_for_one_that_is_late_gets_what_is_free_until_then():
    goals = {"a": goal(2), "b": goal(0, 1, 3)}
    (leaves,) = (begun := ask([on(0, 1), resting("b")], goals, 10.0)).calls
    assert leaves.domain == "a" and begun.waits == {"b": ("a",)}
    assert begun.again_at_s == 11.0, "the guest's deadline, and as long for the call"
    waits = after(begun, 10.9, goals)
    assert waits.calls == () and waits.waits == {"b": ("a",)}
    late = after(waits, 11.0, goals)
    assert late.calls == (Apply("b", cpus(3), floating({3})),), "the call on a has not ended"
    assert late.transitions["a"].claim == cpus(0, 1, 2)
    here = {**late.transitions, "b": on_done(late.transitions["b"], late.calls[0])}
    settled = ask(here.values(), goals, 12.0)
    assert settled.calls == () and [(one.domain, one.announced.cpus) for one in settled.announcements] == [("b", 1)]
    left = {**settled.transitions, "a": on_done(settled.transitions["a"], leaves)}
    rest = ask(left.values(), goals, 13.0)
    assert Apply("b", cpus(0, 1, 3), floating({0, 1, 3})) in rest.calls


def test_one_call_a_domain_at_a_time():
    steps = ask([on(0, 1)], {"a": goal(0)})
    assert steps.transitions["a"].moving
    assert after(steps, 30.0, {"a": goal(1)}).calls == ()


def test_who_retires_half_way_keeps_its_claim_but_not_its_rest_area():
    """All vCPUs but one are at rest over the pool. The pCPU on which the last one computes is not free yet."""
    pool = cpus(0, 1, 2)
    shares = treatment(rest_area=pool, emulator_area=cpus())
    (call,) = (steps := ask([on(0, treatment=shares)], {"a": goal()})).calls
    broken = on_failed(steps.transitions["a"], call, 10.0)
    half = Affinity({0: pool, 1: cpus(0)}, pool, {}, 100)
    seen = on_read(replace(broken, moving=True), 2, half)
    assert seen.claim == cpus(0)
    others = ask([seen, resting("b")], {"a": goal(), "b": goal(0, 1)}, 10.1)
    assert others.waits == {"b": ("a",)}
    steps = ask([seen, resting("b")], {"a": goal(), "b": goal(1, 2)}, 11.0)
    assert Apply("b", cpus(1, 2), floating({1, 2})) in steps.calls
    # It should return to its partition before it has come to rest, and that call fails as well.
    (back,) = (steps := ask([seen], {"a": goal(0)}, 11.0)).calls
    broken = on_failed(steps.transitions["a"], back, 11.0)
    assert on_read(broken, 2, half).claim == cpus(0), "its rest area does not count as its claim"


def test_who_an_earlier_daemon_meant_to_rest_claims_what_it_still_runs_on():
    seen = on_found_meant_to_rest(on(0, 1, affinity=floating(RESERVE)))
    assert (seen.claim, seen.resting) == (cpus(), True)
    half = replace(floating(RESERVE), vcpus={0: RESERVE, 1: cpus(0)})
    seen = on_found_meant_to_rest(on(0, 1, affinity=half))
    assert (seen.claim, seen.resting) == (cpus(0), False)
    steps = ask([seen, resting("b")], {"a": goal(), "b": goal(0)})
    assert steps.waits == {"b": ("a",)}
    assert steps.calls == (Apply("a", cpus(), floating(RESERVE)),)


def test_a_grow_from_rest_that_fails_and_is_not_wanted_any_more_blocks_nobody():
    pool = cpus(0, 1, 2)
    shares = treatment(rest_area=pool, emulator_area=pool)
    at_rest = floating(pool, emulator=pool)
    (grow,) = (steps := ask([resting(treatment=shares, affinity=at_rest)], {"a": goal(0)})).calls
    broken = on_failed(steps.transitions["a"], grow, 10.0)
    steps = ask([broken], {"a": goal()}, 11.0)
    seen = on_read(steps.transitions["a"], 2, at_rest)
    assert seen.claim == cpus(0), "the look alone cannot show that it rests"
    goals = {"a": goal(), "b": goal(0)}
    steps = ask([seen, resting("b")], goals, 11.0)
    steps = next_steps(steps.transitions, goals, frozenset(), 11.0, TIMING)
    assert steps.transitions["a"].claim == cpus()
    assert steps.transitions["b"].claim == cpus(0)


def test_a_guest_hears_of_more_only_when_a_grow_has_ended():
    goals = {"a": goal(0, 1)}
    steps = ask([cooperating(0, online=(0,))], goals)
    assert steps.calls
    steps = after(steps, 10.1, goals)
    assert (steps.announcements, steps.calls, steps.states) == ((), (), {"a": State.GROWING})
    # The same if the decision is taken back during a shrink: its pins become narrow first.
    steps = ask([on(0, 1, answers=True)], {"a": goal(0)}, 20.0)
    steps = after(steps, 20.5, {"a": goal(0)})
    assert steps.calls
    assert after(steps, 20.6, goals).announcements == ()


def test_pins_that_somebody_changed_are_put_right():
    steps = ask([on(0, affinity=None), on(1, name="b")], {"a": goal(0), "b": goal(1)})
    assert steps.calls == (Look("a"),)
    seen = on_read(steps.transitions["a"], 2, floating({0, 1}))
    assert seen.claim == cpus(0, 1)
    steps = ask([seen, on(1, name="b")], {"a": goal(0), "b": goal(1)})
    assert steps.calls == (Apply("a", cpus(0), floating({0})),)


def test_a_vcpu_count_that_changed_is_looked_at():
    assert ask([on(0, vcpus=2, affinity=floating({0}, 3))], {"a": goal(0)}).calls == (Look("a"),)


# Plug and unplug


def test_vcpus_are_plugged_for_a_partition_that_has_room_looked_at_and_pinned():
    goals = {"a": goal(0, 1, 2)}
    steps = ask([on(0, 1, 2, vcpus_maximum=4)], goals)
    assert steps.calls == (Resize("a", 3),)
    resized = on_done(steps.transitions["a"], steps.calls[0])
    (look,) = (steps := ask([resized], goals)).calls
    assert look == Look("a")
    seen = on_read(steps.transitions["a"], 3, Affinity({0: cpus(0), 1: cpus(1), 2: cpus(0, 1, 2, 3)}, RESERVE, {}, 100))
    assert seen.claim == cpus(0, 1, 2, 3), "the new vCPU may run anywhere until it is pinned"
    assert ask([seen], goals).calls == (Apply("a", cpus(0, 1, 2), floating({0, 1, 2}, 3)),)


def test_a_refused_plug_is_not_asked_for_again():
    goals = {"a": goal(0, 1, 2)}
    steps = ask([on(0, 1, 2, vcpus_maximum=4)], goals)
    refused = on_failed(steps.transitions["a"], steps.calls[0], 10.0)
    (look,) = (steps := ask([refused], goals)).calls
    assert look == Look("a"), "it is looked at at once: some vCPUs may have come"
    seen = on_read(steps.transitions["a"], 2, floating({0, 1, 2}))
    assert ask([seen], goals, 99.0).calls == ()
    more = replace(seen, claim=cpus(0, 1, 2, 3), affinity=floating({0, 1, 2, 3}))
    assert ask([more], {"a": goal(0, 1, 2, 3)}, 99.0).calls == (Resize("a", 4),)


@pytest.mark.parametrize("begun", [False, True])
def test_a_plug_without_an_answer_is_asked_for_again_and_delays_nothing_else(begun):
    goals = {"a": goal(0, 1, 2)}
    steps = ask([on(0, 1, 2, vcpus_maximum=4)], goals)
    failed = on_failed(steps.transitions["a"], steps.calls[0], 10.0, begun=begun, answered=False)
    assert (failed.affinity is None) == begun, "what was not begun has changed nothing"
    seen = on_read(failed, 2, floating({0, 1, 2}))
    waits = ask([seen], goals)
    assert (waits.calls, waits.again_at_s) == ((), 10.0 + RETRY_S)
    (call,) = ask([seen], {"a": goal(0)}).calls
    assert isinstance(call, Apply) and call.partition == cpus(0)
    steps = ask([seen], goals, 10.0 + RETRY_S)
    assert steps.calls == (Resize("a", 3),)
    again = on_failed(steps.transitions["a"], steps.calls[0], 11.0, begun=begun, answered=False)
    assert again.resize_backoff.retry_at_s == 11.0 + 2 * RETRY_S
    assert on_done(again, steps.calls[0]).resize_backoff.failures == 0


def test_a_plug_that_brought_some_is_tried_once_more():
    goals = {"a": goal(0, 1, 2, 3)}
    steps = ask([on(0, 1, 2, 3, vcpus_maximum=4)], goals)
    seen = on_read(on_failed(steps.transitions["a"], steps.calls[0], 10.0), 3, floating({0, 1, 2, 3}, 3))
    steps = ask([seen], goals)
    assert steps.calls == (Resize("a", 4),)
    seen = on_read(on_failed(steps.transitions["a"], steps.calls[0], 10.0), 3, floating({0, 1, 2, 3}, 3))
    assert ask([seen], goals).calls == ()


def test_what_has_been_of_no_use_for_long_is_unplugged_down_to_what_was_found():
    goals, transition = {"a": goal(0)}, on(0, vcpus=4, treatment=treatment(unplug=True))
    steps = ask([transition], goals)
    assert (steps.calls, steps.again_at_s) == ((), 610.0)
    steps = after(steps, 610.0, goals)
    assert steps.calls == (Resize("a", 2),)
    assert ask([replace(transition, treatment=treatment(), unused_since_s=0.0)], goals, 9999.0).calls == ()


def test_use_in_between_starts_disuse_over():
    steps = ask([on(0, vcpus=4, treatment=treatment(unplug=True))], {"a": goal(0)})
    used = replace(steps.transitions["a"], claim=cpus(0, 1, 2, 3), affinity=floating({0, 1, 2, 3}, 4))
    steps = ask([used], {"a": goal(0, 1, 2, 3)}, 500.0)
    assert steps.transitions["a"].unused_since_s is None
    less = replace(steps.transitions["a"], claim=cpus(0), affinity=floating({0}, 4))
    assert ask([less], {"a": goal(0)}, 610.0).again_at_s == 1210.0


def test_an_unplug_that_never_completes_is_asked_for_once():
    goals = {"a": goal(0)}
    transition = on(0, vcpus=4, treatment=treatment(unplug=True), unused_since_s=0.0)
    steps = ask([transition], goals, 700.0)
    (unplug,) = steps.calls
    steps = ask([on_done(steps.transitions["a"], unplug)], goals, 700.0)
    assert steps.calls == (Look("a"),)
    seen = on_read(steps.transitions["a"], 4, floating({0}, 4))
    assert ask([seen], goals, 700.0).calls == ()
    # Much later the unplug completes after all. Then nothing is remembered of it, as at the start.
    late = on_read(replace(seen, vcpus=2, moving=True), 2, floating({0}))
    assert late.vcpus_refused is None


# Domains among each other


def test_a_domain_that_leaves_takes_its_claim_with_it():
    goals = {"a": goal(0), "b": goal(1)}
    steps = ask([on(1), resting("b")], goals | {"a": goal(1)})
    assert steps.waits == {"b": ("a",)}
    steps = ask([steps.transitions["b"]], {"b": goal(1)})
    assert steps.calls == (Apply("b", cpus(1), floating({1})),)


def test_states_in_words():
    transitions = [
        cooperating(0, name="a", online=(0,)),
        on(1, name="b"),
        cooperating(2, 3, name="c"),
        resting("d"),
        resting("e"),
        on(5, name="f", affinity=None),
    ]
    goals = {"a": goal(0), "b": goal(1), "c": goal(2), "d": goal(3), "e": goal(), "f": goal(5)}
    assert ask(transitions, goals).states == {
        "a": "cooperating",
        "b": "contained",
        "c": "shrinking",
        "d": "growing",
        "e": "resting",
        "f": "unknown",
    }


def test_steps_change_nothing_of_what_they_are_given():
    transitions = {"a": cooperating(0, 1)}
    before = dict(transitions)
    next_steps(transitions, {"a": goal(0)}, frozenset(), 10.0, TIMING)
    assert transitions == before
