"""The memory of estimates has a bounded size, whatever guests report."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools import domain, pool
from vscaf_policies import SpeedupPoint
from vscaf_policies.estimates import Remembered, Worth, worth


def answer(numbers: int) -> Worth:
    """An answer for *numbers* chunks, at 32 bytes each."""
    return Worth(*(np.arange(numbers, dtype=float) for _ in range(4)))


def test_what_was_not_asked_for_the_longest_is_forgotten():
    kept = Remembered(most_bytes=3 * 32 * 10)
    for name in "abc":
        kept.keep(name, answer(10))
    assert kept.get("a") is not None
    kept.keep("d", answer(10))
    assert [name for name in "abcd" if kept.get(name) is not None] == ["a", "c", "d"]
    kept.keep("large", answer(20))
    assert [name for name in ("a", "c", "d", "large") if kept.get(name) is not None] == ["d", "large"]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 40)), max_size=60))
def test_it_takes_no_more_than_it_may(asked):
    kept, sizes = Remembered(most_bytes=32 * 64), {}
    for name, numbers in asked:
        kept.keep(name, answer(numbers))
        sizes[name] = numbers
        there = {name for name in sizes if kept.get(name) is not None}
        assert name in there and len(kept) == len(there)
        assert kept.size_bytes == sum(32 * sizes[name] for name in there) <= 32 * 64


def test_one_that_is_too_large_is_kept_alone():
    kept = Remembered(most_bytes=100)
    kept.keep("a", answer(1))
    kept.keep("b", answer(1000))
    assert len(kept) == 1 and kept.get("b") is not None


def test_an_answer_is_the_same_one_and_cannot_be_spoilt():
    points = tuple(SpeedupPoint(cpus, 0.8 * cpus, 0.1, 4, 0.0) for cpus in (2, 4, 8))
    for one in (domain("a", points=points), domain("b", scaf_weight=3.25)):
        state = pool(32, one)
        estimate = worth(one, state)
        assert estimate is not None and worth(one, state) is estimate
        for numbers in (estimate.expected, estimate.cautious, estimate.error, estimate.distance):
            with pytest.raises(ValueError, match="read-only"):
                numbers[0] = 7.0


ABSURD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 5e-324, 1e-320, 1e-300, 1e-9, 1e300, 1.7e308, -1.0]),
)


@pytest.mark.filterwarnings("error")
@given(
    st.lists(st.tuples(st.integers(0, 5000), ABSURD, ABSURD, st.integers(0, 9), ABSURD), max_size=6),
    st.one_of(st.none(), ABSURD),
)
def test_whatever_is_said_a_worth_is_finite_or_not_known(said, weight):
    points = tuple(SpeedupPoint(*one) for one in said)
    honest = tuple(SpeedupPoint(cpus, 0.8 * cpus, 0.1, 4, 0.0) for cpus in (2, 8))
    for known in (points, points + honest):
        told = worth(domain("a", points=known, scaf_weight=weight), pool(32))
        if told is not None:
            assert all(np.isfinite(one).all() for one in (told.expected, told.cautious, told.error, told.distance))


@pytest.mark.filterwarnings("error")
def test_a_speedup_next_to_nothing_between_true_ones_leaves_the_curve_finite():
    points = tuple(SpeedupPoint(p, s, e, 9) for p, s, e in ((2, 2.0, 0.02), (4, 5e-324, 0.0), (8, 8.0, 0.02)))
    estimate = worth(domain("a", points=points), pool(32))
    assert estimate is not None and np.isfinite(estimate.expected).all()
