"""What the tests with guests and the demo judge by: pure functions of samples and marks, tried on made-up ones."""

import pytest
from vscaf_lab.measure import Run, done_at, overlap, parse_marks
from vscaf_lab.pace import Paces, full_pace, steady_seconds
from vscaf_lab.sampler import Sample
from vscaf_lab.separation import cpu_seconds, overlaps, partition_changes, pcpu_shares
from vscaf_lab.timeline import track

A, B = frozenset({0}), frozenset({1})
BOTH = A | B
WINDOWS = {"a": [(0.0, 100.0)], "b": [(0.0, 100.0)]}


def samples(*rows):
    """One vCPU a domain, a round a tenth of a second: (allowed a, last a, allowed b, last b); both always run."""
    made = []
    for number, (allowed_a, last_a, allowed_b, last_b) in enumerate(rows):
        at_s, run_ns = number * 0.1, number * 100_000_000
        made.append(Sample(at_s, "a", 0, 11, allowed_a, last_a, run_ns, 0))
        made.append(Sample(at_s, "b", 0, 22, allowed_b, last_b, run_ns, 0))
    return made


APART = (A, 0, B, 1)


def test_domains_that_keep_apart_do_not_overlap():
    assert overlaps(samples(*[APART] * 5), WINDOWS) == []


def test_an_overlap_of_pins_is_found_with_its_length():
    (found,) = overlaps(samples(APART, APART, *[(BOTH, 0, B, 1)] * 3, APART), WINDOWS)
    assert (found.first, found.second, found.pcpus) == ("a", "b", B)
    assert (found.start_s, found.seconds) == (pytest.approx(0.2), pytest.approx(0.3))


def test_running_on_anothers_pcpu_is_an_overlap_whatever_the_pins_say():
    (found,) = overlaps(samples(APART, APART, (A, 1, B, 1), APART), WINDOWS)
    assert found.pcpus == B


def test_an_overlap_that_lasts_to_the_end_is_found():
    (found,) = overlaps(samples(APART, *[(BOTH, 0, BOTH, 0)] * 4), WINDOWS)
    assert found.seconds == pytest.approx(0.3)


def test_a_domain_that_does_not_compute_may_be_anywhere():
    assert overlaps(samples(*[(BOTH, 0, BOTH, 0)] * 4), {"a": [(0.0, 100.0)], "b": [(50.0, 60.0)]}) == []


def test_changes_time_and_shares_are_counted():
    made = samples(APART, APART, (BOTH, 0, B, 1), (BOTH, 0, B, 1), APART)
    assert partition_changes(made) == {"a": 2, "b": 0}
    assert cpu_seconds(made) == {("a", 0): pytest.approx(0.4), ("b", 0): pytest.approx(0.4)}
    assert pcpu_shares(made, 0.05, 0.35) == {0: {"a": pytest.approx(0.2)}, 1: {"b": pytest.approx(0.2)}}


def test_marks_give_progress_on_the_hosts_clock():
    marks = parse_marks("0.0 110.0\n0.5 114.0\n1.0 120.0\n", 100.0)
    assert [done_at(marks, at_s) for at_s in (5.0, 10.0, 12.0, 17.0, 99.0)] == [0.0, 0.0, 0.25, 0.75, 1.0]
    run = Run(marks, alone_one_thread_s=20.0)
    assert (run.seconds, run.speedup, run.work_between(12.0, 17.0)) == (10.0, 2.0, 0.5)
    assert overlap([run, Run([(0.0, 18.0), (1.0, 30.0)], 1.0)]) == (18.0, 20.0)
    assert overlap([run, Run([(0.0, 21.0), (1.0, 30.0)], 1.0)]) is None


def test_a_second_at_half_pace_is_half_a_steady_second():
    where = track(samples(*[APART] * 101), 0.1)
    paces = Paces(
        {
            0: [(n * 0.02, 60_000.0 if n < 250 else 120_000.0) for n in range(500)],
            1: [(n * 0.02, 60_000.0) for n in range(500)],
        }
    )
    assert full_pace([paces]) == 60_000.0
    assert steady_seconds("a", where, paces, 60_000.0, (2.0, 8.0)) == pytest.approx(3.0 + 1.5, abs=0.06)
    assert steady_seconds("b", where, paces, 60_000.0, (2.0, 8.0)) == pytest.approx(6.0, abs=0.06)
