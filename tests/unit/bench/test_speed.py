"""Laws of the speed of a program in a run."""

from dataclasses import dataclass
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import SECONDS, alone, executions, run
from vscaf.bench.samples import Execution
from vscaf.bench.speed import alone_rate, rate, span, speedups, window, work_between

TIMES = st.floats(0, 100)
LENGTHS = st.floats(0.01, 20)
RATES = st.floats(0.1, 5)


@dataclass
class Case:
    done: list[Execution]
    cuts: list[float]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Executions one after the other, with pauses between them, and times in order."""
    at_s, done = draw(TIMES), []
    for length_s, pause_s in draw(st.lists(st.tuples(LENGTHS, st.floats(0, 5)), max_size=8)):
        done.append(Execution(at_s, at_s + length_s, True))
        at_s += length_s + pause_s
    return Case(done, sorted(draw(st.lists(st.floats(0, 300), min_size=2, max_size=6))))


@given(cases())
def test_the_work_of_adjacent_times_adds_up(case: Case) -> None:
    parts = [work_between(case.done, start_s, end_s) for start_s, end_s in pairwise(case.cuts)]
    assert sum(parts) == pytest.approx(work_between(case.done, case.cuts[0], case.cuts[-1]))
    assert all(part >= 0 for part in parts)


@given(cases())
def test_in_all_of_the_time_the_work_is_the_number_of_executions(case: Case) -> None:
    assert work_between(case.done, 0, 1000) == pytest.approx(len(case.done))


def test_an_execution_that_lies_partly_in_the_time_counts_in_part() -> None:
    done = [Execution(0, 4, True), Execution(4, 8, True)]
    assert work_between(done, 3, 6) == pytest.approx(0.25 + 0.5)
    assert work_between(done, 8, 9) == 0


def test_an_execution_that_was_wrong_did_no_work() -> None:
    assert work_between([Execution(0, 4, True), Execution(4, 8, False)], 0, 8) == 1


def test_the_window_is_the_time_in_which_all_compute() -> None:
    first = [Execution(0, 4, True), Execution(4, 9, True)]
    assert window([first, [Execution(2, 7, True)]]) == (2, 7)
    assert window([first, [Execution(9, 12, True)]]) is None


@given(st.lists(RATES, min_size=2, max_size=2), st.lists(RATES, min_size=2, max_size=2), st.floats(0.1, 10))
def test_speedups_do_not_depend_on_the_reference_pace(
    rates: list[float], references: list[float], factor: float
) -> None:
    """The reference pace scales all steady seconds, alone and together."""

    def found(pace: float) -> list[float]:
        together = run(1, ["cg.W", "lu.W"], "static", rates, pace=0.8 * pace)
        one = [alone_at(pace, name, each) for name, each in zip(("cg.W", "lu.W"), references, strict=True)]
        return speedups(together, one, steady=True)

    def alone_at(pace: float, name: str, reference: float) -> float:
        return alone_rate([run(1, [name], "alone", [reference], threads=1, pace=pace)], name, 1, steady=True)

    assert found(1.0) == pytest.approx(found(factor))
    assert found(1.0) == pytest.approx([one / (0.8 * each) for one, each in zip(rates, references, strict=True)])


def test_a_rate_is_by_the_clock_if_steady_seconds_are_not_wanted_or_not_known() -> None:
    slow = run(1, ["cg.W"], "unmanaged", [2.0], pace=0.5)
    assert rate(slow, slow.programs[0], steady=True) == pytest.approx(4.0)
    assert rate(slow, slow.programs[0], steady=False) == pytest.approx(2.0)
    unknown = run(1, ["cg.W"], "unmanaged", [2.0])
    assert rate(unknown, unknown.programs[0], steady=True) == pytest.approx(2.0)


def test_only_work_in_the_window_counts() -> None:
    sample = msgspec.structs.replace(run(1, ["cg.W"], "unmanaged", [2.0]), window=(1.0, 3.0))
    assert rate(sample, sample.programs[0], steady=False) == pytest.approx(2.0)
    late = msgspec.structs.replace(sample, window=(SECONDS - 1, SECONDS + 9))
    assert executions(2.0)[-1].end_s == pytest.approx(10.5)
    assert rate(late, late.programs[0], steady=False) == pytest.approx(0.3)  # 3 executions in 10 s


def test_the_rate_alone_is_the_median_of_the_same_workload_and_threads() -> None:
    samples = [*alone(1, "cg.W", 1.0, 1.5), *alone(2, "cg.W", 3.0), *alone(3, "cg.W", 1.2), *alone(1, "lu.W", 9.0)]
    assert alone_rate(samples, "cg.W", 1, steady=True) == pytest.approx(1.2)
    assert alone_rate(samples, "cg.W", 0, steady=True) == pytest.approx(1.5)
    with pytest.raises(ValueError, match=r"mg.W was not measured alone on 1 threads"):
        alone_rate(samples, "mg.W", 1, steady=True)


def test_the_span_is_from_the_first_start_to_the_last_end() -> None:
    first = [Execution(1, 4, True), Execution(4, 9, True)]
    assert span([first, [Execution(2, 7, True)]]) == (1, 9)
    assert span([first, [Execution(9, 12, True)]]) == (1, 12)
