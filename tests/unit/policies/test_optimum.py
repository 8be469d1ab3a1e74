"""The best partition against exhaustive search, a simple dynamic programme, and a greedy search by marginal gain."""

import heapq
import itertools
import math

import numpy as np
import optimum_growth
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vscaf_policies.optimum import best_partition, best_partition_bounded

whole_numbers = st.integers(-6, 20).map(float)  # their sums are exact, and they make ties
real_numbers = st.floats(-100, 100, allow_nan=False).map(lambda number: round(number, 3))


def concave(gains):
    return tuple(itertools.accumulate(sorted(gains, reverse=True)))


def convex(gains):
    return tuple(itertools.accumulate(sorted(gains)))


def s_shaped(gains):
    return tuple(itertools.accumulate(sorted(gains)[::2] + sorted(gains)[1::2][::-1]))


def falling(gains):
    return tuple(itertools.accumulate(-abs(gain) for gain in gains))


def stairs(gains):
    return tuple(gain for gain in itertools.accumulate(map(abs, gains)) for _ in range(2))


SHAPES = (concave, convex, s_shaped, falling, stairs, tuple)


@st.composite
def problems(draw, numbers=whole_numbers, shapes=SHAPES, most_parts=5, longest=6):
    """Curves, bounds and chunks. Sometimes several parts have the same curve."""
    parts = draw(st.integers(1, most_parts))
    curves = []
    while len(curves) < parts:
        gains = draw(st.lists(numbers, min_size=1, max_size=longest))
        curves += [draw(st.sampled_from(shapes))(gains)] * draw(st.sampled_from((1, 1, 1, 2, parts)))
    curves = curves[:parts]
    low = [draw(st.sampled_from((1, 1, 1, 2, 4))) for _ in range(parts)]
    high = [least + draw(st.integers(0, longest)) for least in low]
    return curves, low, high, draw(st.integers(max(parts, sum(low)), parts * longest + 3))


def worth(curve, chunks):
    return curve[min(chunks, len(curve)) - 1]


def exhaustive(curves, low, high, chunks):
    """The largest worth of any split, and minus the fewest chunks with this worth."""
    splits = itertools.product(*(range(least, most + 1) for least, most in zip(low, high, strict=True)))
    fitting = (split for split in splits if sum(split) <= chunks)
    return max((math.fsum(map(worth, curves, split)), -sum(split)) for split in fitting)


def plain_programme(curves, low, high, chunks):
    """The same by dynamic programming over all chunks. It is slow, but so short that it is easy to check."""
    best = {0: 0.0}
    for curve, least, most in zip(curves, low, high, strict=True):
        longer = {}
        for used, value in best.items():
            for more in range(least, min(most, chunks - used) + 1):
                longer[used + more] = max(longer.get(used + more, -math.inf), value + worth(curve, more))
        best = longer
    return max((value, -used) for used, value in best.items())


def greedy(curves, low, high, chunks):
    """The parts by marginal gain, with a heap. This is the optimum for concave curves."""
    parts = list(low)
    heap = []

    def offer(part):
        if parts[part] < min(high[part], len(curves[part])):
            gain = curves[part][parts[part]] - curves[part][parts[part] - 1]
            heapq.heappush(heap, (-gain, part))

    for part in range(len(parts)):
        offer(part)
    for _ in range(chunks - sum(low)):
        if not heap or heap[0][0] >= 0:
            break
        part = heapq.heappop(heap)[1]
        parts[part] += 1
        offer(part)
    return parts


def check(problem, value, used):
    curves, low, high, chunks = problem
    found = best_partition_bounded(*problem)
    assert all(least <= part <= most for least, part, most in zip(low, found.parts, high, strict=True))
    assert found.value == math.fsum(map(worth, curves, found.parts))
    assert found.value == pytest.approx(value, abs=1e-9)
    assert found.bound == found.value
    assert sum(found.parts) <= chunks
    if used is not None:
        assert sum(found.parts) == used
    assert best_partition(*problem) == found.parts


@given(problems())
@example(([(0.0, 0.0, 0.0, 5.0)] * 3, [1, 1, 1], [4, 4, 4], 11))
@example(([(1.0, 2.0, 3.0, 4.0), (5.0, 1.0, 1.0, 9.0)], [1, 1], [4, 4], 6))
@example(([(1.0, 2.0)] * 5, [1] * 5, [2] * 5, 8))
def test_is_the_best_of_all_splits_with_the_fewest_chunks(problem):
    value, used = exhaustive(*problem)
    check(problem, value, -used)


@given(problems(numbers=real_numbers))
def test_is_the_best_of_all_splits_of_real_values(problem):
    check(problem, exhaustive(*problem)[0], None)


@settings(max_examples=60)
@given(problems(most_parts=40, longest=9))
def test_is_what_the_plain_programme_finds(problem):
    value, used = plain_programme(*problem)
    check(problem, value, -used)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from((-4, -2, 0, 1, 3, 5, 6)).map(float), min_size=2, max_size=7),
    st.integers(30, 80),
    st.integers(0, 400),
)
@example([0.0, 0.0, 0.0, 0.0, 0.0, 6.0], 60, 101)
def test_of_many_equal_parts_only_a_few_need_be_looked_at(gains, parts, more):
    """The exchange argument: many more parts than the search keeps, all with the same curve."""
    curve = tuple(itertools.accumulate(gains))
    problem = [curve] * parts, [1] * parts, [len(curve)] * parts, parts + more
    value, used = plain_programme(*problem)
    check(problem, value, -used)


@given(problems(shapes=(concave, falling)))
def test_concave_curves_get_what_the_greedy_by_marginal_gain_gives_ties_included(problem):
    assert best_partition(*problem) == greedy(*problem)


@given(problems(numbers=st.floats(0.01, 3), shapes=(concave,), most_parts=30, longest=20))
def test_the_noise_of_floating_point_makes_no_concave_curve_another(problem):
    curves = problem[0]
    found = best_partition_bounded(*problem)
    assert found.value == pytest.approx(math.fsum(map(worth, curves, greedy(*problem))), rel=1e-12)


@given(problems(most_parts=12, longest=9), st.sampled_from((0, 1, 5, 20, 100)))
def test_with_little_work_the_optimum_is_between_value_and_bound(problem, work):
    curves, low, high, chunks = problem
    optimum, _used = plain_programme(*problem)
    found = best_partition_bounded(*problem, work=work)
    assert found.value <= optimum <= found.bound + 1e-9
    assert found.value == math.fsum(map(worth, curves, found.parts))
    assert all(least <= part <= most for least, part, most in zip(low, found.parts, high, strict=True))
    assert sum(found.parts) <= chunks


def test_says_so_where_the_work_did_not_suffice():
    problem = [(0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 11.0)] * 9, [1] * 9, [7] * 9, 30
    bounded = best_partition_bounded(*problem, work=1)
    assert bounded.value < bounded.bound
    unbounded = best_partition_bounded(*problem)
    assert bounded.value <= unbounded.value == unbounded.bound <= bounded.bound


def test_what_falls_is_left_over():
    """A scheduler that is slower on 8 cores than on 4 (as HPX's hierarchy) gets 4, although 16 are free."""
    assert best_partition([(1.0, 1.9, 2.7, 3.4, 3.3, 3.1, 2.9, 2.6)], [1], [16], 16) == [4]


def test_ties_go_to_the_first():
    assert best_partition([(1.0, 2.0, 3.0)] * 3, [1, 1, 1], [3, 3, 3], 6) == [3, 2, 1]
    assert best_partition([tuple(0.1 * k for k in range(1, 6))] * 3, [1, 1, 1], [5, 5, 5], 8) == [5, 2, 1]


def test_a_step_that_many_chunks_take_together_is_seen():
    """Marginal gains do not help here: the first chunks bring nothing, but all together bring the most."""
    stairs, slope = (1.0, 1.0, 1.0, 9.0), (1.0, 2.5, 3.0, 3.2)
    assert best_partition([stairs, slope], [1, 1], [4, 4], 5) == [4, 1]
    assert best_partition([stairs, slope], [1, 1], [4, 4], 4) == [1, 3]


def test_minima_that_do_not_fit_are_cut_from_the_largest():
    assert best_partition([(1.0,) * 9] * 3, [9, 3, 1], [9, 9, 9], 7) == [3, 3, 1]


def test_bounds_are_brought_together():
    assert best_partition([(1.0, 2.0, 3.0)] * 2, [3, 1], [2, 99], 5) == [2, 3]


def test_beyond_its_end_a_curve_is_flat_and_what_is_longer_than_needed_is_not_looked_at():
    assert best_partition([(1.0, 2.0), (5.0,)], [1, 3], [8, 8], 16) == [2, 3]
    assert best_partition([(1.0, 2.0, math.nan), (5.0, 0.0)], [1, 1], [2, 1], 16) == [2, 1]


def test_arrays_are_as_good_as_tuples():
    curves = [(1.0, 1.0, 4.0), (1.0, 2.0, 2.5), (0.0, 3.0, 1.0)]
    expected = best_partition(curves, [1] * 3, [3] * 3, 7)
    assert best_partition(np.array(curves), [1] * 3, [3] * 3, 7) == expected
    assert best_partition([np.array(curve) for curve in curves], [1] * 3, [3] * 3, 7) == expected
    assert all(type(part) is int for part in expected)


def test_nothing_is_split_among_nobody():
    assert best_partition([], [], [], 4) == []


@pytest.mark.parametrize(
    ("values", "low", "high", "chunks", "named"),
    [
        ([(1.0,)] * 3, [1] * 3, [1] * 3, 2, "3 parts for 2 chunks"),
        ([(1.0,)] * 3, [1] * 3, [1] * 2, 4, "2 maxima"),
        ([(1.0,), ()], [1] * 2, [1] * 2, 4, "curve 1 is empty"),
        ([(1.0,), (1.0, math.inf)], [1] * 2, [2] * 2, 4, "curve 1 is not finite"),
    ],
)
def test_what_is_no_problem_is_refused(values, low, high, chunks, named):
    with pytest.raises(ValueError, match=named):
        best_partition(values, low, high, chunks)


def test_the_most_unequal_worths_do_not_hide_each_other():
    """A part that is worth a billionth of another still gets what the other cannot use."""
    big, small = (1e9, 1.5e9), tuple(math.log(k) + 1 for k in range(1, 9))
    assert best_partition([big, small, small], [1] * 3, [8] * 3, 12) == [2, 5, 5]


def test_time_grows_no_faster_than_the_problem():
    """A tenth of the full size, so that it is quick. Up to 1.5 is allowed, because small problems have fixed costs."""
    sizes = ((250, 820), (500, 1640), (1000, 3280), (2000, 6560))
    for shape, figures in optimum_growth.measured(sizes).items():
        assert figures["exponent"] < 1.5, (shape, figures)
        assert figures["gap"] == 0, (shape, figures)
