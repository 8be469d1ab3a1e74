"""Steps that suspend a domain and resume it, and what is known after each step."""

from dataclasses import replace

from test_steps import ask, cooperating, cpus, floating, goal, on, resting
from vscaf.core.backoff import RETRY_MOST_S, RETRY_S
from vscaf.core.reconcile.state import (
    AnnouncedSize,
    Apply,
    Resume,
    Suspend,
    on_done,
    on_external_resume,
    on_failed,
    on_read,
    on_resumed,
    on_suspended,
)
from vscaf.core.reconcile.steps import Goal
from vscaf.values import State

STOP = Goal(cpus(), 4, competition=False, suspended=True)


def frozen(*partition, name="a", **changes):
    """A domain that settled on *partition* and was then suspended by vscaf."""
    return replace(on_suspended(replace(on(*partition, name=name), suspended_by_us=True)), **changes)


def test_who_is_to_stop_is_suspended_at_once_and_claims_what_it_has_until_it_was_seen_paused():
    steps = ask([cooperating(0, 1)], {"a": STOP})
    assert (steps.calls, steps.announcements) == ((Suspend("a", again=False),), ())
    assert steps.states == {"a": State.SHRINKING}
    begun = steps.transitions["a"]
    assert begun.claim == cpus(0, 1) and begun.suspended_by_us and not begun.known_suspended
    stopped = on_suspended(begun)
    assert (
        (stopped.claim, stopped.latent_claim) == (cpus(), cpus(0, 1))
        and stopped.known_suspended
        and stopped.suspended_by_us
    )
    after = ask([stopped], {"a": STOP})
    assert (after.calls, after.announcements, after.states) == ((), (), {"a": State.SUSPENDED})


def test_others_have_its_pcpus_only_then():
    goals = {"a": STOP, "b": goal(0, 1)}
    steps = ask([on(0, 1), resting("b")], goals)
    assert steps.calls == (Suspend("a", again=False),) and steps.waits == {"b": ("a",)}
    waits = ask([on_failed(steps.transitions["a"], Suspend("a", again=False), 10.0), resting("b")], goals, 11.0)
    assert all(call.domain == "a" for call in waits.calls) and waits.waits == {"b": ("a",)}
    after = ask([on_suspended(steps.transitions["a"]), resting("b")], goals)
    assert after.calls == (Apply("b", cpus(0, 1), floating({0, 1})),)


def test_where_a_suspend_fails_it_rests_and_is_tried_again():
    begun = ask([on(0, 1)], {"a": STOP}).transitions["a"]
    once = on_failed(begun, Suspend("a", again=False), 10.0)
    assert once.affinity == begun.affinity and once.suspended_by_us, "the suspend may have taken effect"
    steps = ask([once], {"a": STOP})
    assert [type(call) for call in steps.calls] == [Apply] and steps.calls[0].partition == cpus()
    rests = on_done(steps.transitions["a"], steps.calls[0])
    assert rests.claim == cpus()
    assert ask([rests], {"a": STOP}).calls == () and ask([rests], {"a": STOP}).again_at_s == 10.0 + RETRY_S
    assert ask([rests], {"a": STOP}, 11.0).calls == (Suspend("a", again=True),)
    stopped = on_suspended(ask([rests], {"a": STOP}, 11.0).transitions["a"])
    assert stopped.latent_claim == cpus() and on_external_resume(stopped).claim == cpus(), "at rest it claims nothing"


def test_a_suspend_that_was_not_begun_is_not_vscafs():
    begun = ask([on(0, 1)], {"a": STOP}).transitions["a"]
    once = on_failed(begun, Suspend("a", again=False), 10.0, begun=False)
    assert not once.suspended_by_us and once.suspend_backoff.retry_at_s == 10.0 + RETRY_S
    again = on_failed(begun, Suspend("a", again=True), 10.0, begun=False)
    assert again.suspended_by_us, "an earlier one may have taken effect"


def test_who_rests_and_is_resumed_claims_nothing_that_a_failed_grow_had_claimed():
    rests = replace(resting("a"), claim=cpus(2), suspended_by_us=True)
    steps = ask([rests], {"a": goal()})
    assert steps.calls == (Resume("a"),) and steps.transitions["a"].claim == cpus()


def test_failed_suspends_delay_nothing_but_the_next_suspend():
    begun = ask([on(0, 1)], {"a": STOP})
    steps = ask([on_failed(begun.transitions["a"], Suspend("a", again=False), 10.0)], {"a": STOP})
    transition = on_done(steps.transitions["a"], steps.calls[0])
    for _ in range(8):
        at_s = transition.suspend_backoff.retry_at_s
        steps = ask([transition], {"a": STOP}, at_s)
        assert steps.calls == (Suspend("a", again=True),)
        transition = on_failed(steps.transitions["a"], steps.calls[0], at_s)
    assert transition.suspend_backoff.retry_at_s == at_s + RETRY_MOST_S
    (call,) = ask([transition], {"a": goal(0, 1)}, at_s).calls
    assert isinstance(call, Apply) and call.partition == cpus(0, 1), "it has its turn at once"


def test_it_runs_again_once_its_partition_is_free_and_its_pins_are_there():
    goals = {"a": goal(2, 3), "b": STOP}
    steps = ask([frozen(0, 1), on(2, 3, name="b")], goals)
    assert steps.calls == (Suspend("b", again=False),) and steps.waits == {"a": ("b",)}
    steps = ask([frozen(0, 1), on_suspended(steps.transitions["b"])], goals)
    (call,) = steps.calls
    assert call == Apply("a", cpus(2, 3), floating({2, 3})) and steps.states["a"] == State.GROWING
    begun = steps.transitions["a"]
    assert begun.claim == cpus(2, 3) and begun.known_suspended
    pinned = on_done(begun, call)
    steps = ask([pinned], {"a": goal(2, 3)})
    assert steps.calls == (Resume("a"),) and steps.announcements == (), "a suspended guest is told nothing"
    running = steps.transitions["a"]
    assert running.claim == cpus(2, 3) and not running.known_suspended and running.suspended_by_us
    done = on_resumed(running, 20.0)
    assert not done.suspended_by_us and done.announced_at_s == 20.0
    assert ask([done], {"a": goal(2, 3)}).states == {"a": State.CONTAINED}


def test_on_the_same_partition_nothing_but_the_resume_is_to_do():
    stood = on_suspended(replace(cooperating(0, 1), suspended_by_us=True))
    steps = ask([stood], {"a": goal(0, 1)})
    assert steps.calls == (Resume("a"),) and steps.transitions["a"].claim == cpus(0, 1)
    done = on_resumed(steps.transitions["a"], 20.0)
    after = ask([done], {"a": goal(0, 1)})
    assert (after.calls, after.announcements, after.states) == ((), (), {"a": State.COOPERATING}), (
        "it must stay cooperating"
    )


def test_a_resume_that_fails_is_tried_again_and_its_partition_stays_its_own():
    running = ask([frozen(0, 1)], {"a": goal(0, 1)}).transitions["a"]
    once = on_failed(running, Resume("a"), 10.0)
    assert once.claim == cpus(0, 1) and once.suspended_by_us and not once.known_suspended
    assert ask([once, resting("b")], {"a": goal(0, 1), "b": goal(0)}).waits == {"b": ("a",)}
    assert ask([once], {"a": goal(0, 1)}).calls == ()
    assert ask([once], {"a": goal(0, 1)}, 11.0).calls == (Resume("a"),)
    assert ask([once], {"a": STOP}, 11.0).calls != (), "else it is suspended once more, and then known to be"


def test_a_frozen_domain_that_is_not_to_run_after_all_gives_up_its_claim_at_once():
    steps = ask([frozen(0, 1)], {"a": goal(2, 3)})
    pinned = on_done(steps.transitions["a"], steps.calls[0])
    assert pinned.claim == cpus(2, 3) and pinned.latent_claim == cpus()
    steps = ask([pinned, resting("b")], {"a": STOP, "b": goal(2, 3)})
    assert steps.transitions["a"].claim == cpus() and steps.transitions["a"].latent_claim == cpus(2, 3)
    assert [call.domain for call in steps.calls] == ["b"]


def test_a_frozen_domain_that_is_to_rest_is_pinned_there_and_resumed():
    steps = ask([frozen(0, 1)], {"a": goal()})
    (call,) = steps.calls
    assert call.partition == cpus() and steps.announcements == ()
    rests = on_done(steps.transitions["a"], call)
    steps = ask([rests], {"a": goal()})
    assert steps.calls == (Resume("a"),) and steps.states["a"] == State.GROWING
    after = ask([on_resumed(steps.transitions["a"], 10.0)], {"a": goal()})
    assert after.calls == () and after.states == {"a": State.RESTING}
    assert [one.announced for one in after.announcements] == [AnnouncedSize(0, 4, False)]


def test_whom_somebody_else_resumes_claims_what_it_runs_on_at_once():
    awake = on_external_resume(frozen(0, 1))
    assert (
        awake.claim == cpus(0, 1)
        and not awake.suspended_by_us
        and not awake.known_suspended
        and awake.latent_claim == cpus()
    )
    assert ask([awake], {"a": STOP}).calls == (Suspend("a", again=False),)
    on_its_way = ask([frozen(0, 1)], {"a": goal(2, 3)}).transitions["a"]
    assert on_external_resume(on_its_way).claim == cpus(0, 1, 2, 3), "it may compute on both partitions"
    lost = on_failed(on_its_way, Apply("a", cpus(2, 3), floating({2, 3})), 10.0)
    assert on_external_resume(lost).claim == cpus(0, 1, 2, 3)


def test_a_look_at_a_frozen_domain_claims_nothing():
    seen = on_read(frozen(0, 1), 2, floating({0, 5}))
    assert seen.claim == cpus() and seen.latent_claim == cpus(0, 5)
    assert on_external_resume(seen).claim == cpus(0, 5)
    at_rest = on_read(frozen(0, 1, resting=True, latent_claim=cpus()), 2, floating({8, 9}))
    assert at_rest.latent_claim == cpus()


def test_pins_that_are_elsewhere_come_first_although_the_partition_is_claimed():
    """As after a call that failed: it claims the new partition and is pinned to the old one."""
    stood = frozen(0, 1, claim=cpus(2, 3))
    (call,) = ask([stood], {"a": goal(2, 3)}).calls
    assert call == Apply("a", cpus(2, 3), floating({2, 3}))
    assert [
        type(call) for call in ask([frozen(2, 3, meant_to_rest=True, claim=cpus(2, 3))], {"a": goal(2, 3)}).calls
    ] == [Apply]
