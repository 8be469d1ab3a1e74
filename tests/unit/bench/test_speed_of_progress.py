"""Work between two times: of executions as a whole, and by the progress that they printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.bench.samples import Execution
from vscaf.bench.speed import work_between

GAPS = st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 100)), max_size=8)
TIMES = st.floats(-10, 500)


@st.composite
def one_after_the_other(draw):
    """Executions one after the other from time 0; some have marks."""
    executions, now_s = [], 0.0
    for gaps in draw(st.lists(GAPS, min_size=1, max_size=5)):
        start_s = now_s
        marks = [(start_s, 0.0)]
        for gap_s, amount in gaps:
            marks.append((marks[-1][0] + gap_s, marks[-1][1] + amount))
        now_s = marks[-1][0] + draw(st.floats(0.1, 5))
        executions.append(Execution(start_s, now_s, True, 0, tuple(marks) if gaps else ()))
    return executions


@given(one_after_the_other())
def test_all_the_time_has_all_the_work(executions):
    total = sum(one.marks[-1][1] if one.marks else 1.0 for one in executions)
    assert work_between(executions, -1.0, executions[-1].end_s + 1) == pytest.approx(total)


@given(one_after_the_other(), st.lists(TIMES, min_size=3, max_size=3))
def test_work_adds_up_and_is_never_negative(executions, times):
    first, middle, last = sorted(times)
    parts = work_between(executions, first, middle), work_between(executions, middle, last)
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(work_between(executions, first, last), abs=1e-9)


@given(st.floats(0, 100), st.floats(0.5, 50), st.integers(1, 20), st.floats(0.5, 1000), st.tuples(TIMES, TIMES))
def test_even_progress_is_like_no_marks(start_s, seconds, count, amount, times):
    marks = tuple((start_s + seconds * step / count, amount * step / count) for step in range(count + 1))
    plain = Execution(start_s, start_s + seconds, True)
    marked = Execution(start_s, start_s + seconds, True, 0, marks)
    first, last = sorted(times)
    assert work_between([marked], first, last) == pytest.approx(amount * work_between([plain], first, last), abs=1e-6)


def test_progress_tells_when_the_work_was_done():
    slow_then_fast = Execution(0.0, 10.0, True, 0, ((0.0, 0.0), (8.0, 10.0), (9.0, 100.0)))
    assert work_between([slow_then_fast], 0.0, 8.0) == 10.0
    assert work_between([slow_then_fast], 8.0, 8.5) == 45.0
    assert work_between([slow_then_fast], 9.0, 10.0) == 0.0  # after the last mark


def test_an_execution_that_printed_nothing_did_nothing():
    assert work_between([Execution(0.0, 10.0, False, 1, ((0.0, 0.0),))], 0.0, 10.0) == 0.0
