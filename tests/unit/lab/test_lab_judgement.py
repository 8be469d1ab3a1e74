"""The pure functions by which the guest tests judge samples, with made-up ones."""

import pytest
from vscaf.bench.observe.pace import Paces, steady_seconds
from vscaf.occupancy.sampler import Sample
from vscaf.occupancy.timeline import track
from vscaf_lab.separation import Overlap, cpu_seconds, least_turns, overlaps, partition_changes

A, B = frozenset({0}), frozenset({1})
BOTH = A | B
WINDOWS = {"a": [(0.0, 100.0)], "b": [(0.0, 100.0)]}


def samples(*rows):
    """Samples of two domains with one vCPU each that always run. Each row is a round after 0.1 s: (allowed a, last a,
    allowed b, last b)."""
    made = []
    for number, (allowed_a, last_a, allowed_b, last_b) in enumerate(rows):
        at_s, run_ns = number * 0.1, number * 100_000_000
        made.append(Sample(at_s, at_s, "a", 0, 11, allowed_a, last_a, run_ns, 0))
        made.append(Sample(at_s, at_s, "b", 0, 22, allowed_b, last_b, run_ns, 0))
    return made


APART = (A, 0, B, 1)


def test_domains_that_keep_apart_do_not_overlap():
    assert overlaps(samples(*[APART] * 5), WINDOWS) == []


def test_an_overlap_of_pins_is_found_in_all_its_rounds():
    found = overlaps(samples(APART, APART, *[(B, 1, B, 1)] * 3, APART), WINDOWS)
    assert found == [Overlap("a", "b", B, 3, floating=False)]


def test_who_floats_is_told_from_who_is_pinned():
    found = overlaps(samples(*[(BOTH, 0, B, 1)] * 3, *[(B, 1, B, 1)] * 2, APART, *[(BOTH, 0, B, 1)] * 2), WINDOWS)
    assert found == [
        Overlap("a", "b", B, 3, floating=True),
        Overlap("a", "b", B, 2, floating=False),
        Overlap("a", "b", B, 2, floating=True),
    ]


def test_pcpus_that_change_hands_while_a_round_is_read_are_no_overlap():
    """The first domain was read before it lost its pCPU, the second after it got that pCPU."""
    assert overlaps(samples(APART, (A, 0, A, 0), (B, 1, A, 0)), WINDOWS) == []


def test_an_overlap_that_lasts_to_the_end_is_found():
    (found,) = overlaps(samples(APART, *[(BOTH, 0, BOTH, 0)] * 4), WINDOWS)
    assert (found.rounds, found.pcpus) == (4, BOTH)


def test_a_domain_that_does_not_compute_may_be_anywhere():
    assert overlaps(samples(*[(BOTH, 0, BOTH, 0)] * 4), {"a": [(0.0, 100.0)], "b": [(50.0, 60.0)]}) == []


def in_turns(owner, late=()):
    """Samples every 20 ms for 3 s. A domain computes on pCPU 0 at the times at which `owner(at_s)` names it.

    late: the rounds in which the sampler was held up for 15 ms between reading a and reading b.
    """
    made, run_s, read_s = [], dict.fromkeys("ab", 0.0), dict.fromkeys("ab", 0.0)
    for number in range(150):
        for thread, name in enumerate("ab"):
            at_s = number * 0.02 + (0.015 if number in late and name == "b" else 0.0)
            moments = (read_s[name] + (at_s - read_s[name]) * (part + 0.5) / 20 for part in range(20))
            run_s[name] += sum((name in owner(moment)) * (at_s - read_s[name]) / 20 for moment in moments)
            read_s[name] = at_s
            made.append(Sample(at_s, at_s, name, 0, thread, A, 0, round(run_s[name] * 1e9), 0))
    return made


def test_turns_are_counted_whenever_the_samples_are_taken():
    taken = in_turns(lambda at_s: "ab"[int(at_s + 0.01) % 2])
    assert (least_turns(taken, 0), least_turns(taken, 1)) == (3, 0)
    assert least_turns([sample for sample in taken if sample.domain == "b"], 0) == 1


@pytest.mark.parametrize("off_s", [0.0, 0.004, 0.008, 0.012, 0.016])
def test_a_sampler_that_is_held_up_while_the_turn_changes_sees_no_turn_more(off_s):
    taken = in_turns(lambda at_s: "ab"[int(at_s + off_s) % 2], late=(49, 50, 99, 100))
    assert least_turns(taken, 0) == 3


@pytest.mark.parametrize("both_s", [0.06, 0.1, 0.5, 1.0])
def test_two_at_once_are_seen_as_more_turns_than_there_are(both_s):
    taken = in_turns(lambda at_s: "ab" if 1.0 <= at_s < 1.0 + both_s else "ab"[int(at_s) % 2])
    assert least_turns(taken, 0) >= 5


def test_changes_and_time_are_counted():
    made = samples(APART, APART, (BOTH, 0, B, 1), (BOTH, 0, B, 1), APART)
    assert partition_changes(made) == {"a": 2, "b": 0}
    assert cpu_seconds(made) == {("a", 0): pytest.approx(0.4), ("b", 0): pytest.approx(0.4)}


def test_a_second_at_half_pace_is_half_a_steady_second():
    where = track(samples(*[APART] * 101), 0.1)
    paces = Paces(
        {
            0: [(n * 0.02, 60_000.0 if n < 250 else 120_000.0) for n in range(500)],
            1: [(n * 0.02, 60_000.0) for n in range(500)],
        }
    )
    assert steady_seconds("a", where, paces, 60_000.0, (2.0, 8.0)) == pytest.approx(3.0 + 1.5, abs=0.06)
    assert steady_seconds("b", where, paces, 60_000.0, (2.0, 8.0)) == pytest.approx(6.0, abs=0.06)
