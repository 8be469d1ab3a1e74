"""Steps that suspend a domain and let it run again, and what is known after each."""

from dataclasses import replace

from test_steps import ask, cooperating, cpus, floating, goal, on, resting
from vscaf.core.backoff import RETRY_S
from vscaf.core.reconcile.state import (
    Apply,
    Resume,
    Suspend,
    Told,
    failed,
    finished,
    looked,
    resumed,
    suspended,
    woken,
)
from vscaf.core.reconcile.steps import Goal
from vscaf.values import State

STOP = Goal(cpus(), 4, competition=False, suspended=True)


def frozen(*partition, name="a", **changes):
    """A domain that settled on *partition*, and that vscaf has suspended since."""
    return replace(suspended(replace(on(*partition, name=name), ours=True)), **changes)


def test_who_is_to_stop_is_suspended_at_once_and_claims_what_it_has_until_it_was_seen_paused():
    steps = ask([cooperating(0, 1)], {"a": STOP})
    assert (steps.calls, steps.tells) == ((Suspend("a", again=False),), ())
    assert steps.states == {"a": State.SHRINKING}
    begun = steps.standings["a"]
    assert begun.claim == cpus(0, 1) and begun.ours and not begun.frozen
    stopped = suspended(begun)
    assert (stopped.claim, stopped.dormant) == (cpus(), cpus(0, 1)) and stopped.frozen and stopped.ours
    after = ask([stopped], {"a": STOP})
    assert (after.calls, after.tells, after.states) == ((), (), {"a": State.SUSPENDED})


def test_others_have_its_pcpus_only_then():
    goals = {"a": STOP, "b": goal(0, 1)}
    steps = ask([on(0, 1), resting("b")], goals)
    assert steps.calls == (Suspend("a", again=False),) and steps.waits == {"b": ("a",)}
    still = ask([failed(steps.standings["a"], Suspend("a", again=False), 10.0), resting("b")], goals, 11.0)
    assert all(call.domain == "a" for call in still.calls) and still.waits == {"b": ("a",)}
    after = ask([suspended(steps.standings["a"]), resting("b")], goals)
    assert after.calls == (Apply("b", cpus(0, 1), floating({0, 1})),)


def test_where_a_suspend_fails_it_rests_and_is_tried_again():
    begun = ask([on(0, 1)], {"a": STOP}).standings["a"]
    once = failed(begun, Suspend("a", again=False), 10.0)
    assert once.affinity == begun.affinity and once.ours, "it may have come about after all"
    assert ask([once], {"a": STOP}).calls == () and ask([once], {"a": STOP}).again_at_s == 10.0 + RETRY_S
    steps = ask([once], {"a": STOP}, 11.0)
    assert [type(call) for call in steps.calls] == [Apply] and steps.calls[0].partition == cpus()
    rests = finished(steps.standings["a"], steps.calls[0])
    assert rests.claim == cpus()
    assert ask([rests], {"a": STOP}, 11.0).calls == (Suspend("a", again=True),)
    stopped = suspended(ask([rests], {"a": STOP}, 11.0).standings["a"])
    assert stopped.dormant == cpus() and woken(stopped).claim == cpus(), "at rest it claims nothing anyway"


def test_it_runs_again_once_its_partition_is_free_and_its_pins_are_there():
    goals = {"a": goal(2, 3), "b": STOP}
    steps = ask([frozen(0, 1), on(2, 3, name="b")], goals)
    assert steps.calls == (Suspend("b", again=False),) and steps.waits == {"a": ("b",)}
    steps = ask([frozen(0, 1), suspended(steps.standings["b"])], goals)
    (call,) = steps.calls
    assert call == Apply("a", cpus(2, 3), floating({2, 3})) and steps.states["a"] == State.GROWING
    begun = steps.standings["a"]
    assert begun.claim == cpus(2, 3) and begun.frozen
    pinned = finished(begun, call)
    steps = ask([pinned], {"a": goal(2, 3)})
    assert steps.calls == (Resume("a"),) and steps.tells == (), "it hears nothing while it stands"
    running = steps.standings["a"]
    assert running.claim == cpus(2, 3) and not running.frozen and running.ours
    done = resumed(running, 20.0)
    assert not done.ours and done.told_at_s == 20.0
    assert ask([done], {"a": goal(2, 3)}).states == {"a": State.CONTAINED}


def test_on_the_same_partition_nothing_but_the_resume_is_to_do():
    stood = suspended(replace(cooperating(0, 1), ours=True))
    steps = ask([stood], {"a": goal(0, 1)})
    assert steps.calls == (Resume("a"),) and steps.standings["a"].claim == cpus(0, 1)
    done = resumed(steps.standings["a"], 20.0)
    after = ask([done], {"a": goal(0, 1)})
    assert (after.calls, after.tells, after.states) == ((), (), {"a": State.COOPERATING}), "its guest is as it was"


def test_a_resume_that_fails_is_tried_again_and_its_partition_stays_its_own():
    running = ask([frozen(0, 1)], {"a": goal(0, 1)}).standings["a"]
    once = failed(running, Resume("a"), 10.0)
    assert once.claim == cpus(0, 1) and once.ours and not once.frozen
    assert ask([once, resting("b")], {"a": goal(0, 1), "b": goal(0)}).waits == {"b": ("a",)}
    assert ask([once], {"a": goal(0, 1)}).calls == ()
    assert ask([once], {"a": goal(0, 1)}, 11.0).calls == (Resume("a"),)
    assert ask([once], {"a": STOP}, 11.0).calls != (), "or it is suspended once more, and seen to be"


def test_a_frozen_domain_that_is_not_to_run_after_all_gives_up_its_claim_at_once():
    steps = ask([frozen(0, 1)], {"a": goal(2, 3)})
    pinned = finished(steps.standings["a"], steps.calls[0])
    assert pinned.claim == cpus(2, 3) and pinned.dormant == cpus()
    steps = ask([pinned, resting("b")], {"a": STOP, "b": goal(2, 3)})
    assert steps.standings["a"].claim == cpus() and steps.standings["a"].dormant == cpus(2, 3)
    assert [call.domain for call in steps.calls] == ["b"]


def test_a_frozen_domain_that_is_to_rest_is_pinned_there_and_resumed():
    steps = ask([frozen(0, 1)], {"a": goal()})
    (call,) = steps.calls
    assert call.partition == cpus() and steps.tells == ()
    rests = finished(steps.standings["a"], call)
    steps = ask([rests], {"a": goal()})
    assert steps.calls == (Resume("a"),) and steps.states["a"] == State.GROWING
    after = ask([resumed(steps.standings["a"], 10.0)], {"a": goal()})
    assert after.calls == () and after.states == {"a": State.RESTING}
    assert [tell.told for tell in after.tells] == [Told(0, 4, False)]


def test_whom_somebody_else_resumes_claims_what_it_runs_on_at_once():
    awake = woken(frozen(0, 1))
    assert awake.claim == cpus(0, 1) and not awake.ours and not awake.frozen and awake.dormant == cpus()
    assert ask([awake], {"a": STOP}).calls == (Suspend("a", again=False),)
    on_its_way = ask([frozen(0, 1)], {"a": goal(2, 3)}).standings["a"]
    assert woken(on_its_way).claim == cpus(0, 1, 2, 3), "it may compute where it was and where it goes"
    lost = failed(on_its_way, Apply("a", cpus(2, 3), floating({2, 3})), 10.0)
    assert woken(lost).claim == cpus(0, 1, 2, 3)


def test_a_look_at_a_frozen_domain_claims_nothing():
    seen = looked(frozen(0, 1), 2, floating({0, 5}))
    assert seen.claim == cpus() and seen.dormant == cpus(0, 5)
    assert woken(seen).claim == cpus(0, 5)
    at_rest = looked(frozen(0, 1, resting=True, dormant=cpus()), 2, floating({8, 9}))
    assert at_rest.dormant == cpus()


def test_pins_that_are_elsewhere_come_first_although_the_partition_is_claimed():
    """As after a call that failed: it claims where it goes and is pinned where it was."""
    stood = frozen(0, 1, claim=cpus(2, 3))
    (call,) = ask([stood], {"a": goal(2, 3)}).calls
    assert call == Apply("a", cpus(2, 3), floating({2, 3}))
    assert [type(call) for call in ask([frozen(2, 3, retiring=True, claim=cpus(2, 3))], {"a": goal(2, 3)}).calls] == [
        Apply
    ]
