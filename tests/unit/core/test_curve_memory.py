"""The memory of a curve: its means become more exact, phases end, and claims about sizes never had are ignored."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.model.curve_memory import (
    MOST_PROGRAMS,
    MOST_REPORTS,
    MOST_SIZES,
    CurveMemory,
    Curves,
    domain_points,
    recall,
    remember,
    renewed,
)
from vscaf.core.model.trust import HostView, believed_points
from vscaf_policies import SpeedupPoint


def point(cpus, speedup, error=0.1, samples=8):
    return SpeedupPoint(cpus, speedup, error, samples)


def told(memory, cpus, speedups, error, *, from_s=0.0):
    """The memory after one report of this size each second."""
    for second, speedup in enumerate(speedups):
        memory = remember(memory, [point(cpus, speedup, error)], from_s + second, cpus)
    return memory


def test_the_mean_sharpens_and_never_below_what_reports_have_in_common():
    chance = random.Random(3)
    memory = told(CurveMemory(), 8, [5.0 + chance.gauss(0, 0.5) for _ in range(200)], 0.5)
    (known,) = recall(memory, 200.0)
    assert known.speedup == pytest.approx(5.0, abs=0.3)
    assert 0.5 / math.sqrt(MOST_REPORTS) * 0.99 <= known.standard_error <= 0.15
    (early,) = recall(told(CurveMemory(), 8, [5.0, 5.1, 4.9], 0.5), 3.0)
    assert 0.28 < early.standard_error < 0.5
    assert known.age_s == 1.0


def test_noise_that_goes_with_the_speedup_does_not_pull_the_mean_down():
    chance, means = random.Random(5), []
    for _ in range(40):
        speedups = [10.0 * (1 + chance.gauss(0, 0.1)) for _ in range(25)]
        memory = CurveMemory()
        for second, speedup in enumerate(speedups):
            memory = remember(memory, [point(8, speedup, 0.1 * speedup)], float(second), 8)
        means.append(recall(memory, 25.0)[0].speedup)
    assert sum(means) / len(means) == pytest.approx(10.0, abs=0.12)


def test_the_same_measurement_told_again_is_no_second_one():
    once = remember(CurveMemory(), [point(8, 5.0)], 0.0, 8)
    assert remember(once, [point(8, 5.0)], 7.0, 8) is once


def test_a_report_that_contradicts_in_the_same_words_is_still_heard():
    memory = told(CurveMemory(), 8, [7.0, 7.1, 6.9], 0.1)
    cut = told(memory, 8, [3.5, 3.5, 3.5], 0.1, from_s=3.0)
    assert recall(cut, 6.0)[0].speedup == pytest.approx(3.5)


def test_reports_that_come_faster_do_not_say_more():
    fast, slow = CurveMemory(), CurveMemory()
    for number in range(12):
        fast = remember(fast, [point(8, 5.0 + number % 2, 0.5)], number / 4, 8)
    for number in range(3):
        slow = remember(slow, [point(8, 5.0 + number % 2, 0.5)], float(number), 8)
    assert recall(fast, 3.0)[0].standard_error > 0.8 * recall(slow, 3.0)[0].standard_error


def test_what_is_measured_now_outweighs_what_was_long_ago():
    memory = told(CurveMemory(), 8, [5.0 + 0.01 * n for n in range(20)], 0.5)
    memory = told(memory, 8, [6.0 + 0.01 * n for n in range(10)], 0.5, from_s=600.0)
    assert recall(memory, 610.0)[0].speedup > 5.9


def test_a_phase_that_ends_makes_other_sizes_forgotten_at_once():
    memory = told(told(CurveMemory(), 16, [12.0, 12.2, 11.9], 0.5), 8, [7.0, 7.1, 6.9], 0.3, from_s=3.0)
    assert [one.cpus for one in recall(memory, 6.0)] == [8, 16]
    twice = told(memory, 8, [3.0, 3.1], 0.3, from_s=6.0)
    assert [one.cpus for one in recall(twice, 8.0)] == [8, 16], "two odd reports may be chance"
    assert recall(twice, 8.0)[0].speedup == pytest.approx(7.0, abs=0.1)
    thrice = told(memory, 8, [3.0, 3.1, 2.9], 0.3, from_s=6.0)
    (known,) = recall(thrice, 9.0)
    assert known.speedup == pytest.approx(3.0, abs=0.1)
    assert known.standard_error == pytest.approx(0.3 / math.sqrt(1.5), rel=0.01), "three reports are hardly independent"
    assert thrice.phases == memory.phases + 1


def test_hiccups_up_and_down_and_noise_are_no_phase():
    memory = told(CurveMemory(), 16, [12.0, 12.2, 11.9], 0.5)
    shaken = told(memory, 16, [2.0, 30.0, 2.1, 30.1, 12.0, 2.0], 0.5, from_s=3.0)
    assert shaken.phases == 0
    assert recall(shaken, 9.0)[0].speedup == pytest.approx(12.0, abs=0.2)
    chance = random.Random(7)
    noisy = told(CurveMemory(), 8, [10 * (1 + chance.gauss(0, 0.1)) for _ in range(2000)], 1.0)
    assert noisy.phases == 0


def test_claims_about_sizes_that_it_never_had_count_for_nothing():
    memory = told(CurveMemory(), 8, [6.0], 0.5)
    lied = remember(memory, [point(64, 64.0), point(9, 9.0), point(1, 0.01)], 1.0, 8)
    assert lied is memory
    larger = remember(memory, [point(9, 8.0)], 2.0, 12)
    assert [one.cpus for one in recall(remember(larger, [point(12, 9.0)], 3.0, 4), 3.0)] == [8, 9, 12]


def test_of_what_one_report_said_less_is_sure():
    """Reports that are four standard errors off contradict the mean of many reports, but not a single report."""
    once, often = told(CurveMemory(), 8, [5.0], 0.5), told(CurveMemory(), 8, [5.0, 5.01] * 12, 0.5)
    assert told(once, 8, [7.0, 7.01, 7.02], 0.5, from_s=30.0).phases == 0
    assert told(often, 8, [7.0, 7.01, 7.02], 0.5, from_s=30.0).phases == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_garbage_is_left_out(bad):
    memory = remember(CurveMemory(), [point(4, bad), point(5, 2.0, bad), point(6, 2.0, samples=0)], 0.0, 8)
    assert recall(memory, 0.0) == ()


def test_a_liar_that_waits_without_spinning_is_remembered_as_it_is():
    """By Amdahl's law with 10% serial on 16 CPUs it uses 6.4 CPUs, whatever it claims."""
    host_view = HostView(cpus=16, busy_cpus=6.4, seen_s=8.0)
    memory = CurveMemory()
    for second in range(10):
        believed = believed_points([point(16, 16.0, 0.01 + second / 1e6)], host_view, 16)
        memory = remember(memory, believed, float(second), 16)
    assert recall(memory, 10.0)[0].speedup == pytest.approx(6.4)


@given(
    st.lists(
        st.tuples(st.integers(0, 80), st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 9), st.integers(0, 100)),
        max_size=120,
    )
)
def test_whatever_is_said_the_memory_is_bounded_sorted_and_sane(reports):
    memory = CurveMemory()
    for second, (cpus, speedup, error, samples, allocation) in enumerate(reports):
        memory = remember(memory, [point(cpus, speedup, error, samples)], float(second), allocation)
        known = recall(memory, float(second))
        sizes = [one.cpus for one in known]
        assert sizes == sorted(set(sizes))
        assert len(sizes) <= MOST_SIZES
        for one in known:
            assert 1 < one.cpus <= memory.largest
            assert one.standard_error > 0
            assert math.isfinite(one.speedup + one.standard_error)
            assert one.age_s >= 0


def test_the_size_measured_longest_ago_goes_first():
    memory = CurveMemory()
    for cpus in range(2, MOST_SIZES + 12):
        memory = remember(memory, [point(cpus, 2.0)], float(cpus), 200)
    assert [one.cpus for one in recall(memory, 0.0)] == list(range(12, MOST_SIZES + 12))


def test_the_points_of_several_programs_add_up_at_what_they_have_now():
    first, second = [point(1, 1.0), point(6, 5.0, 0.3), point(3, 2.8)], [point(2, 1.8, 0.4)]
    assert domain_points([(6, first)]) == tuple(first)
    (both,) = domain_points([(6, first), (2, second)])
    assert (both.cpus, both.speedup, both.standard_error) == (8, pytest.approx(6.8), pytest.approx(0.5))
    (three,) = domain_points([(6, first), (2, second), (1, [])])
    assert (three.cpus, three.speedup) == (9, pytest.approx(7.8))
    assert domain_points([(6, first), (4, second)]) == (), "for one program nothing is known at its team size"
    assert domain_points([]) == ()


def test_points_are_the_same_ones_until_something_new_is_said():
    known = (SpeedupPoint(8, 5.0, 0.2, 8, 0.0), SpeedupPoint(16, 9.0, 0.5, 8, 30.0))
    near = (SpeedupPoint(8, 5.03, 0.19, 16, 0.0), SpeedupPoint(16, 9.0, 0.5, 8, 31.0))
    assert renewed(known, near) is known
    for other in (
        (near[0],),
        (SpeedupPoint(8, 5.3, 0.2, 8), near[1]),
        (SpeedupPoint(8, 5.0, 0.1, 8), near[1]),
        (near[0], SpeedupPoint(16, 9.0, 0.5, 8, 80.0)),
        (SpeedupPoint(9, 5.0, 0.2, 8), near[1]),
    ):
        assert renewed(known, other) is other


def test_each_set_of_programs_has_a_curve_and_the_last_ones_are_kept():
    curves = Curves()
    for number in range(MOST_PROGRAMS + 2):
        known, curves = curves.of((f"program-{number}",))
        assert known == CurveMemory()
        curves = curves.holding(told(known, 4, [3.0 + number], 0.1))
    assert len(curves.known) == MOST_PROGRAMS
    back, curves = curves.of((f"program-{MOST_PROGRAMS}",))
    assert recall(back, 0.0)[0].speedup == 3.0 + MOST_PROGRAMS
    assert len(curves.known) == MOST_PROGRAMS
    assert curves.of(("program-0",))[0] == CurveMemory()
