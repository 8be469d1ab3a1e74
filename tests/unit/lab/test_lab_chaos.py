"""The judge of the chaos test finds what is wrong and nothing else. Its schedule depends only on the seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.occupancy.sampler import Sample
from vscaf_lab.chaos import (
    LONGEST_S,
    OF_A_GUEST,
    OF_AN_IDLE_GUEST,
    OF_THE_HOST,
    QUIET_S,
    RECOVERED_ROUNDS,
    SHORTEST_S,
    Burst,
    Law,
    judge,
    moments,
    schedule,
)

A, B = frozenset({0}), frozenset({1})
BOTH = A | B
LAW = Law(BOTH, {"a": 1, "b": 1})
BURST = Burst(1, 2.0, 4.0, 15.5)
END_S = 16.0
PROGRAMS = {"a": [(0.0, END_S)], "b": [(0.0, END_S)]}
STEP_S = 0.1


def samples(
    allowed, runs=lambda name, at_s: True, thread=lambda name, at_s: 11 if name == "a" else 22, waits=lambda name: 0
):
    """Samples of two domains with one vCPU each, over the whole run. `allowed(name, at_s)`: the pCPUs on which it may
    run. `waits(name)`: the share of its time in which it is ready and does not run."""
    run_ns = {"a": 0, "b": 0}
    made = []
    for number in range(round(END_S / STEP_S) + 1):
        at_s = number * STEP_S
        for name in ("a", "b"):
            run_ns[name] += round(STEP_S * 1e9) * runs(name, at_s)
            cpus = allowed(name, at_s)
            wait_ns = round(waits(name) * at_s * 1e9)
            made.append(Sample(at_s, at_s, name, 0, thread(name, at_s), cpus, min(cpus), run_ns[name], wait_ns))
    return made


def own(name, _at_s):
    return A if name == "a" else B


def verdict(made, *, law=LAW, bursts=(BURST,), programs=PROGRAMS, outages=None):
    return judge(made, law, bursts, programs, outages or {})


def overlapping(start_s, end_s):
    return lambda name, at_s: BOTH if name == "a" and start_s <= at_s < end_s else own(name, at_s)


def test_domains_that_keep_apart_and_go_on_are_right():
    found = verdict(samples(own))
    assert found.violations == []
    assert found.recovery_s == {1: 0.0}


RECOVERED_S = (RECOVERED_ROUNDS - 1) * STEP_S  # at the end of the quiet all must be right for this long


@pytest.mark.parametrize("end_s", [5.0, 15.5 - RECOVERED_S - 0.05])
def test_an_overlap_that_ends_before_the_quiet_does_is_recovered_from(end_s):
    found = verdict(samples(overlapping(3.0, end_s)))
    assert found.violations == []
    assert found.recovery_s[1] == pytest.approx(end_s - 4.0, abs=STEP_S)


@pytest.mark.parametrize(("start_s", "end_s"), [(3.0, END_S), (3.0, 15.5 - RECOVERED_S + 0.2), (13.8, 14.0)])
def test_an_overlap_that_stays_or_comes_back_is_a_violation(start_s, end_s):
    (found,) = verdict(samples(overlapping(start_s, end_s))).violations
    assert "burst 1: never right again: " in found and "a and b compute and are not apart" in found
    # The pCPU that both have does not count as b's own.
    assert "b has fewer pCPUs of its own than its minimum of 1" in found


def test_moments_that_come_late_count_as_any_others():
    """On a busy machine there are fewer looks. Nothing is judged by the time that it took."""
    late = [one for one in samples(overlapping(3.0, 8.0)) if not 4.05 < one.monotonic_s < 7.95]
    assert verdict(late).violations == []


def test_a_domain_that_does_not_compute_may_be_anywhere():
    resting = samples(overlapping(0.0, END_S), runs=lambda name, _: name == "b")
    assert verdict(resting, programs={"b": [(0.0, END_S)]}).violations == []


def test_a_domain_below_its_minimum_is_found_though_nobody_overlaps():
    found = verdict(samples(own), law=Law(BOTH, {"a": 2, "b": 1}))
    assert found.violations and all(
        "a has fewer pCPUs of its own than its minimum of 2" in one for one in found.violations
    )


def test_computing_outside_the_pool_is_found():
    found = verdict(samples(lambda name, at_s: frozenset({7}) if name == "a" else B))
    assert any("a computes outside the pool" in one for one in found.violations)


def test_a_survivor_that_stands_still_is_found():
    stands = samples(own, runs=lambda name, at_s: name == "b" or at_s < 3.0)
    found = verdict(stands)
    assert found.violations == ["burst 1: never right again: a does not go on"]


def test_a_domain_that_a_busy_machine_hardly_serves_computes_all_the_same():
    def starved(name, at_s):
        return name == "b" or round(at_s / STEP_S) % 10 == 0

    served = samples(own, runs=starved, waits=lambda name: 0.9 if name == "a" else 0)
    assert verdict(served).violations == []
    clashing = samples(overlapping(3.0, END_S), runs=starved, waits=lambda name: 0.9 if name == "a" else 0)
    assert any("are not apart" in one for one in verdict(clashing).violations)


def test_a_run_that_nobody_watched_is_not_right():
    assert verdict([one for one in samples(own) if one.monotonic_s < 5.0]).violations != []


def test_a_burst_without_quiet_is_not_judged_silently():
    hurried = Burst(1, 2.0, 10.0, 12.0)
    assert verdict(samples(own), bursts=[hurried]).violations == ["burst 1: never right again: too few looks"]


OUTAGE = {"daemon": [(2.0, 6.0)]}


def test_a_new_overlap_while_the_daemon_is_away_is_found_however_short():
    found = verdict(samples(overlapping(4.0, 4.2)), outages=OUTAGE)
    assert found.violations == ["while daemon was away (from 2.00 s on): a and b came to share pCPU [1]"]


def test_an_overlap_that_was_there_before_is_not_new():
    assert verdict(samples(overlapping(1.0, 7.0)), outages=OUTAGE).violations == []


def test_what_was_under_way_may_arrive():
    assert verdict(samples(overlapping(2.2, 7.0)), outages=OUTAGE).violations == []


def test_what_a_stopped_libvirtd_had_got_may_arrive_when_it_goes_on():
    both = OUTAGE | {"libvirtd": [(1.5, 4.0)]}
    assert verdict(samples(overlapping(4.3, 7.0)), outages=both).violations == []
    assert verdict(samples(overlapping(3.7, 7.0)), outages=both).violations != [], "before it went on"
    assert verdict(samples(overlapping(5.5, 7.0)), outages=both).violations != [], "long after it went on"


def test_a_guest_that_starts_meanwhile_may_be_anywhere():
    born = samples(overlapping(4.0, 7.0), thread=lambda name, at_s: 33 if name == "a" and at_s >= 4.0 else ord(name))
    assert verdict(born, outages=OUTAGE).violations == []


def test_an_order_that_waited_for_a_stopped_guest_may_arrive():
    disturbed = {"a": [(0.0, 3.0), (5.0, END_S)], "b": [(0.0, END_S)]}
    assert verdict(samples(overlapping(4.0, 7.0)), outages=OUTAGE, programs=disturbed).violations == []


def test_busy_time_is_of_the_last_second():
    made = moments(samples(own, runs=lambda name, at_s: name == "a" and at_s > 5.0))
    assert [made[at].computing() for at in (49, 52, 60)] == [[], ["a"], ["a"]]
    assert made[60].busy_cpus == {"a": pytest.approx(1.0), "b": 0.0}
    assert made[55].busy_cpus["a"] == pytest.approx(0.5)


@given(st.integers(0, 10**6), st.floats(30, 600))
def test_the_schedule_follows_from_the_seed(seed, seconds):
    made = schedule(seed, seconds, ["a", "b"], ["c"])
    assert made == schedule(seed, seconds, ["a", "b"], ["c"])
    longer = schedule(seed, 2 * seconds, ["a", "b"], ["c"])
    assert longer[: len(made)] == made, "a longer run begins as the shorter one does"
    for burst in made:
        assert 1 <= len(burst) <= 4
        assert len({one.part for one in burst}) == len(burst), "two things at once happen to two parts"
        assert all(SHORTEST_S <= one.away_s <= LONGEST_S for one in burst)
    kinds = {*OF_THE_HOST, *(("guest", kind) for kind in OF_A_GUEST), *(("c", kind) for kind in OF_AN_IDLE_GUEST)}
    drawn = [("guest", one.kind) if one.part in ("a", "b") else (one.part, one.kind) for burst in made for one in burst]
    assert set(drawn) <= kinds
    length_s = sum(max(one.delay_s + one.away_s for one in burst) + QUIET_S for burst in made)
    assert length_s <= max(seconds, 2 * QUIET_S)


def test_every_kind_comes_up_before_any_comes_twice():
    drawn = [(one.part, one.kind) for burst in schedule(5, 3000, ["a"], ["c"]) for one in burst]
    kinds = {*OF_THE_HOST, *(("a", kind) for kind in OF_A_GUEST), *(("c", kind) for kind in OF_AN_IDLE_GUEST)}
    for first in range(0, len(drawn) - len(kinds), len(kinds)):
        assert set(drawn[first : first + len(kinds)]) == kinds


def test_seeds_differ():
    assert len({str(schedule(seed, 60, ["a", "b"])) for seed in range(20)}) == 20
