"""Transition plans are carried out step by step: two domains are never on one pCPU, whichever step comes late."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vscaf.core.reconcile.plan import Grow, Shrink, plan


def cpus(*numbers):
    return frozenset(numbers)


def overlaps(held, sharing, excepted=frozenset()):
    names = sorted(held)
    return [
        (a, b)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if held[a] & held[b] and not {a, b} <= sharing and not excepted & {a, b}
    ]


def carry_out(problem, steps, shrink_order, grow_choice):
    """Does all steps on a copy of held and checks the laws at each. Grows come in any order that their needs allow."""
    held, target, sharing = problem
    now = dict.fromkeys(target, frozenset()) | dict(held)
    disjoint = not overlaps(now, sharing)
    for shrink in shrink_order:
        now[shrink.domain] = shrink.keep
        if disjoint:  # after any subset of the shrinks
            assert not overlaps(now, sharing)
    assert not overlaps(now, sharing, steps.overlapping)
    left = list(steps.grows)
    while left:
        ready = []
        for grow in left:
            assert grow.needs <= grow.cpus
            others = (
                now[n]
                for n in now
                if n != grow.domain and not {n, grow.domain} <= sharing and n not in steps.overlapping
            )
            in_use = frozenset().union(*others) & grow.cpus
            assert in_use <= grow.needs, "a pCPU in use is missing in needs"
            if not in_use:
                ready.append(grow)
        assert left[0] in ready, "the order of the plan does not work"
        grow = grow_choice(ready)
        left.remove(grow)
        now[grow.domain] = grow.cpus
        assert not overlaps(now, sharing, steps.overlapping & {g.domain for g in left})
    assert now == dict.fromkeys(now, frozenset()) | dict(target)


def test_shrink_then_grow():
    steps = plan({"a": cpus(0, 1), "b": cpus()}, {"a": cpus(0), "b": cpus(1)})
    assert steps.shrinks == (Shrink("a", cpus(0), cpus(0)),)
    assert steps.grows == (Grow("b", cpus(1), cpus(1)),)
    assert not steps.overlapping


def test_going_to_rest_and_vanishing_are_shrinks_to_nothing():
    steps = plan({"a": cpus(0), "gone": cpus(1)}, {"a": cpus()})
    assert steps.shrinks == (Shrink("a", cpus(), cpus()), Shrink("gone", cpus(), cpus()))
    assert steps.grows == ()


def test_what_stays_has_no_step():
    assert plan({"a": cpus(0, 1), "b": cpus(2)}, {"a": cpus(0, 1), "b": cpus(2, 3)}).shrinks == ()


def test_a_domain_that_moves_waits_on_what_nobody_wants():
    steps = plan({"a": cpus(4, 5), "b": cpus(0)}, {"a": cpus(0), "b": cpus(1)})
    assert steps.shrinks == (Shrink("a", cpus(4), cpus(0)), Shrink("b", cpus(1), cpus(1)))
    assert steps.grows == (Grow("a", cpus(0), cpus(0)),)


def test_a_domain_whose_place_is_wanted_moves_before_the_other_comes():
    steps = plan({"a": cpus(0), "b": cpus(1), "c": cpus(2)}, {"a": cpus(1), "b": cpus(2), "c": cpus()})
    assert steps.shrinks == (Shrink("c", cpus(), cpus()),)
    assert steps.grows == (Grow("b", cpus(2), cpus(2)), Grow("a", cpus(1), cpus(1)))
    assert not steps.overlapping


def test_a_circle_parks_one_on_the_smallest_free():
    held = {"a": cpus(0), "b": cpus(1), "c": cpus()}
    steps = plan(held, {"a": cpus(1), "b": cpus(0), "c": cpus(2)})
    assert steps.shrinks == (Shrink("a", cpus(2), cpus(1)),)
    assert [grow.domain for grow in steps.grows] == ["b", "a", "c"]
    assert not steps.overlapping


def test_a_circle_in_a_full_pool_is_said_to_overlap():
    steps = plan({"a": cpus(0), "b": cpus(1)}, {"a": cpus(1), "b": cpus(0)})
    assert len(steps.overlapping) == 1
    assert steps.shrinks == ()


def test_everyone_everywhere_is_only_shrunk():
    everywhere = cpus(*range(8))
    steps = plan({"a": everywhere, "b": everywhere}, {"a": cpus(0, 1), "b": cpus(2, 3)})
    assert steps.grows == ()
    assert {shrink.keep for shrink in steps.shrinks} == {cpus(0, 1), cpus(2, 3)}


def test_who_comes_to_share_a_chunk_needs_it_from_nobody_who_shares_it():
    steps = plan({"a": cpus(0, 1)}, {"a": cpus(0), "b": cpus(0), "c": cpus(1)}, frozenset("ab"))
    assert steps.grows == (Grow("b", cpus(0), cpus()), Grow("c", cpus(1), cpus(1)))


NAMES = "abcde"


@st.composite
def transitions(draw, disjoint):
    size = draw(st.integers(1, 7))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))

    def division():
        owners = draw(st.lists(st.sampled_from([*names, None]), min_size=size, max_size=size))
        return {name: frozenset(cpu for cpu, owner in enumerate(owners) if owner == name) for name in names}

    held = division() if disjoint else {name: draw(st.frozensets(st.integers(0, size))) for name in names}
    target = division()
    sharing = frozenset(draw(st.lists(st.sampled_from(names), unique=True)))
    chunk = frozenset().union(*(target[name] for name in sharing))
    target |= dict.fromkeys(sharing, chunk)
    if disjoint:
        together = frozenset().union(*(held[name] for name in sharing))
        held |= {name: together for name in sharing if draw(st.booleans())}
    return held, target, sharing


def check(problem, data):
    held, target, sharing = problem
    steps = plan(held, target, sharing)
    shrinks = data.draw(st.permutations(steps.shrinks))
    carry_out(problem, steps, shrinks, lambda ready: data.draw(st.sampled_from(ready)))
    assert steps.overlapping <= held.keys()
    return steps


@pytest.mark.slow
@given(transitions(disjoint=True), st.data())
@settings(max_examples=400)
def test_the_laws_hold_at_every_step_from_disjoint_partitions(problem, data):
    held, target, _ = problem
    steps = check(problem, data)
    if steps.overlapping:  # allowed only if there was no parking place left
        free = frozenset().union(*target.values()) - frozenset().union(*held.values())
        assert free <= frozenset().union(*(shrink.keep for shrink in steps.shrinks))


@pytest.mark.slow
@given(transitions(disjoint=False), st.data())
@settings(max_examples=400)
def test_the_laws_hold_from_partitions_that_overlap(problem, data):
    check(problem, data)


@given(transitions(disjoint=True), st.data())
def test_without_a_domain_that_moves_entirely_nothing_overlaps_and_order_is_free(problem, data):
    held, target, sharing = problem
    held = {name: held[name] if held[name] & target[name] or not target[name] else frozenset() for name in held}
    steps = check((held, target, sharing), data)
    assert not steps.overlapping
    assert all(shrink.keep == held[shrink.domain] & target[shrink.domain] for shrink in steps.shrinks)


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.floats(0, 1))
@settings(max_examples=30)
def test_the_laws_hold_for_many_domains(random, moving):
    """Sixty domains on 200 pCPUs; some stay, some change, some move entirely, in circles too."""
    owners = [random.choice([*range(60), None, None]) for _ in range(200)]
    targets = [random.choice([*range(60), None]) if random.random() < moving else owner for owner in owners]
    held, target = (
        {f"d{n:02}": frozenset(cpu for cpu, owner in enumerate(those) if owner == n) for n in range(60)}
        for those in (owners, targets)
    )
    steps = plan(held, target)
    shrinks = random.sample(steps.shrinks, len(steps.shrinks))
    carry_out((held, target, frozenset()), steps, shrinks, random.choice)
    changing = {name for name in held if held[name] != target[name]}
    assert {step.domain for step in (*steps.shrinks, *steps.grows)} == changing
