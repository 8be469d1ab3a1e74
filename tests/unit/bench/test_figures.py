"""The figures of a bench, from made-up samples whose figures are known, and the laws of all figures."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import alone, run
from vscaf.bench.figures import (
    ArrangementFigures,
    Comparison,
    Figures,
    Verdict,
    _geometric,
    figures,
    verdict,
)
from vscaf.bench.intervals import Figure, median_interval
from vscaf.bench.places.place import BASELINES
from vscaf.bench.samples import Execution, ProgramSample, RunKey, Sample

PAIR = ("cg.W", "lu.W")
KINDS = ("unmanaged", "static", "max-speedup")
RATES = st.tuples(st.floats(0.1, 5), st.floats(0.1, 5))


def alones(rounds: int = 1) -> list[Sample]:
    """Each workload of PAIR does its work once a second on one thread."""
    return [sample for number in range(1, rounds + 1) for name in PAIR for sample in alone(number, name, 1.0, 1.5)]


def of(found: Figures, arrangement: str, allocations: tuple[int, ...] = ()) -> ArrangementFigures:
    """The figures of the only group in an arrangement."""
    (group,) = found.groups
    (one,) = [one for one in group.arrangements if (one.arrangement, one.allocations) == (arrangement, allocations)]
    return one


def compared(found: Figures, arrangement: str, baseline: str) -> Comparison:
    (one,) = [one for one in found.comparisons if (one.arrangement, one.baseline) == (arrangement, baseline)]
    return one


@st.composite
def rounds(draw: st.DrawFn) -> list[Sample]:
    """Rounds of PAIR in some of KINDS, with disturbed runs, after each workload alone."""
    samples = alones()
    for number in range(1, draw(st.integers(1, 4)) + 1):
        for kind in draw(st.lists(st.sampled_from(KINDS), unique=True)):
            for attempt in range(1, draw(st.integers(1, 3)) + 1):
                disturbed = draw(st.booleans())
                samples.append(run(number, PAIR, kind, draw(RATES), attempt=attempt, disturbed=disturbed))
                if not disturbed:
                    break
    return samples


@given(st.integers(1, 200))
def test_the_interval_has_at_least_95_percent_and_no_narrower_one_has(n: int) -> None:
    median, low, high = median_interval(list(range(n)))
    assert median == (n - 1) / 2 and low + high == n - 1

    def outside(rank: int) -> float:
        """The probability that the median is not between the value *rank* and its mirror image."""
        return sum(math.comb(n, k) for k in range(rank + 1)) / 2 ** (n - 1)

    if n > 5:
        assert outside(int(low)) <= 0.05
    else:
        assert low == 0
    assert outside(int(low) + 1) > 0.05


def test_the_interval_of_very_many_values_is_around_the_median() -> None:
    _, low, high = median_interval(range(3000))
    assert low == pytest.approx(1500 - 0.98 * math.sqrt(3000), abs=2) and low + high == 2999
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


def test_speedups_their_sum_and_ratios() -> None:
    samples = [
        *[sample for name, rate in zip(PAIR, (1.0, 2.0), strict=True) for sample in alone(1, name, rate, 1.5)],
        run(1, PAIR, "unmanaged", (0.4, 1.0)),  # speedups 0.4 and 0.5
        run(2, PAIR, "unmanaged", (0.6, 1.2)),  # 0.6 and 0.6
        run(1, PAIR, "max-speedup", (0.9, 1.8)),  # 0.9 and 0.9
        run(2, PAIR, "max-speedup", (1.0, 2.0)),  # 1.0 and 1.0
    ]
    found = figures(samples, BASELINES)
    one = of(found, "max-speedup")
    assert [each.value for each in one.speedups] == pytest.approx([0.95, 0.95])
    assert (one.total.value, one.total.low, one.total.high, one.total.n) == pytest.approx((1.9, 1.8, 2.0, 2))
    ratio = one.ratios["unmanaged"]
    assert (ratio.low, ratio.high, ratio.n) == pytest.approx((2.0 / 1.2, 1.8 / 0.9, 2))
    assert set(one.ratios) == {"unmanaged"} and of(found, "unmanaged").ratios == {}
    assert [each.name for each in found.workloads] == list(PAIR)
    cg, lu = found.workloads
    assert cg.speedup is not None
    assert (cg.seconds.value, lu.seconds.value, cg.speedup.value) == pytest.approx((1.0, 0.5, 1.5))


@given(rounds(), st.floats(0.1, 10))
def test_figures_do_not_depend_on_the_reference_pace(samples: list[Sample], factor: float) -> None:
    def at(pace: float) -> Figures:
        return figures(
            [
                msgspec.structs.replace(
                    sample,
                    programs=tuple(msgspec.structs.replace(one, steady_s=7 * pace) for one in sample.programs),
                )
                for sample in samples
            ],
            BASELINES,
        )

    assert numbers(at(1.0)) == pytest.approx(numbers(at(factor)))


def numbers(found: object) -> list[float]:
    """All numbers in some figures."""

    def walk(value: Any) -> list[float]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return [number for each in value for number in walk(each)]
        return [float(value)] if isinstance(value, int | float) else []

    return walk(msgspec.to_builtins(found))


@given(rounds(), RATES)
def test_disturbed_runs_change_nothing_where_there_are_undisturbed_ones(
    samples: list[Sample], rates: tuple[float, float]
) -> None:
    """The rates of all disturbed runs are replaced."""
    other = [
        run(one.key.round, PAIR, one.key.arrangement, rates, attempt=one.attempt, disturbed=True)
        if one.disturbed
        else one
        for one in samples
    ]
    before, after = figures(samples, BASELINES), figures(other, BASELINES)
    assert before.comparisons == after.comparisons
    for group, same in zip(before.groups, after.groups, strict=True):
        for one, another in zip(group.arrangements, same.arrangements, strict=True):
            assert one.only_disturbed is another.only_disturbed and one.ratios == another.ratios
            assert one.only_disturbed or one == another


@given(rounds())
def test_ratios_are_of_rounds_in_which_both_are_undisturbed(samples: list[Sample]) -> None:
    good: dict[str, set[int]] = {}
    for one in samples:
        if not one.disturbed and one.key.workloads == PAIR:
            good.setdefault(one.key.arrangement, set()).add(one.key.round)
    for group in figures(samples, BASELINES).groups:
        for one in group.arrangements:
            for baseline in BASELINES:
                both = good.get(one.arrangement, set()) & good.get(baseline, set())
                expected = len(both) if baseline != one.arrangement else 0
                assert (one.ratios[baseline].n if baseline in one.ratios else 0) == expected


def test_if_all_runs_are_disturbed_the_speedups_are_marked_and_not_compared() -> None:
    samples = [
        *alones(),
        run(1, PAIR, "unmanaged", (0.5, 0.5)),
        run(1, PAIR, "static", (0.9, 0.9), disturbed=True),
        run(2, PAIR, "static", (0.7, 0.7), disturbed=True),
        run(1, PAIR, "max-speedup", (1.0, 1.0)),
        run(2, PAIR, "max-speedup", (0.1, 0.1), disturbed=True),
    ]
    found = figures(samples, BASELINES)
    static, policy = of(found, "static"), of(found, "max-speedup")
    assert static.only_disturbed and static.disturbed == 2 and static.total.value == pytest.approx(1.6)
    assert static.ratios == {} and set(policy.ratios) == {"unmanaged"}
    assert not policy.only_disturbed and policy.disturbed == 1 and policy.total.value == pytest.approx(2.0)


def test_of_several_attempts_the_first_undisturbed_counts() -> None:
    samples = [
        *alones(),
        run(1, PAIR, "static", (0.1, 0.1), disturbed=True, attempt=1),
        run(1, PAIR, "static", (0.9, 0.9), attempt=2),
    ]
    static = of(figures(samples, BASELINES), "static")
    assert static.total.value == pytest.approx(1.8) and static.disturbed == 0 and not static.only_disturbed


def test_a_baseline_with_several_splits_is_the_one_with_the_best_median() -> None:
    samples = [
        *alones(),
        run(1, PAIR, "unmanaged", (0.5, 0.5)),
        run(1, PAIR, "static", (0.2, 1.4), allocations=(1, 3)),
        run(1, PAIR, "static", (1.0, 1.0), allocations=(2, 2)),
        run(1, PAIR, "static", (0.3, 0.9), allocations=(3, 1)),
        run(1, PAIR, "max-speedup", (1.0, 1.2)),
    ]
    found = figures(samples, BASELINES)
    assert of(found, "max-speedup").ratios["static"].value == pytest.approx(1.1)
    assert compared(found, "static", "unmanaged").mean.value == pytest.approx(2.0)


def test_noise_of_other_splits_does_not_count_as_a_baseline() -> None:
    samples = alones()
    for number, first in enumerate((0.5, 0.5, 1.0), start=1):
        samples += [
            run(number, PAIR, "static", (first, first), allocations=(1, 3)),
            run(number, PAIR, "static", (0.9, 0.9), allocations=(2, 2)),
            run(number, PAIR, "max-speedup", (0.9, 0.9)),
        ]
    assert of(figures(samples, BASELINES), "max-speedup").ratios["static"].low == pytest.approx(1.0)


def test_wins_and_losses_are_beyond_five_percent_with_the_whole_interval() -> None:
    assert verdict(Figure(1.2, 1.06, 1.3, 5)) is Verdict.WIN
    assert verdict(Figure(1.2, 1.04, 1.3, 5)) is Verdict.EVEN
    assert verdict(Figure(0.8, 0.7, 0.94, 5)) is Verdict.LOSS
    assert verdict(Figure(0.8, 0.7, 0.96, 5)) is Verdict.EVEN


def test_a_comparison_is_over_all_groups() -> None:
    others = ("cg.W", "cg.W"), ("lu.W", "lu.W")
    samples = alones()
    for group, gain in zip((*others, PAIR), (4.0, 1.0, 0.5), strict=True):
        samples += [run(1, group, "unmanaged", (0.5, 0.5)), run(1, group, "fair", (0.5 * gain, 0.5 * gain))]
    found = compared(figures(samples, BASELINES), "fair", "unmanaged")
    assert (found.wins, found.even, found.losses) == ((others[0],), (others[1],), (PAIR,))
    assert found.mean.value == pytest.approx(2.0 ** (1 / 3)) and found.groups == 3
    assert (found.win_mean, found.even_mean, found.loss_mean) == pytest.approx((4.0, 1.0, 0.5))


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        # One group: its own interval.
        ([(2.0, 1.0, 3.0)], (2.0, 1.0, 3.0)),
        # Four alike: half as wide, in logarithms.
        ([(2.0, 1.0, 4.0)] * 4, (2.0, math.sqrt(2), 2 * math.sqrt(2))),
    ],
)
def test_the_interval_of_a_mean_is_narrower_the_more_groups_there_are(
    ratios: list[tuple[float, float, float]], expected: tuple[float, float, float]
) -> None:
    mean = _geometric([Figure(*one, 5) for one in ratios])
    assert (mean.value, mean.low, mean.high) == pytest.approx(expected)


def test_a_mean_has_no_interval_if_a_group_has_a_single_round() -> None:
    once, often = Figure(2.0, 2.0, 2.0, 1), Figure(2.0, 1.0, 4.0, 5)
    for some in ([once], [once, often]):
        mean = _geometric(some)
        assert mean == Figure(pytest.approx(2.0), mean.value, mean.value, 1) and mean.interval(2) == ""
    mean = _geometric([often, Figure(2.0, 1.0, 4.0, 3)])
    assert mean.n == 3 and mean.interval(2) == "1.23 to 3.27"


def test_a_group_with_a_program_that_was_not_measured_alone_is_left_out() -> None:
    cg = alone(1, "cg.W", 1.0)
    samples = [*cg, run(1, ("cg.W", "cg.W"), "static", (1.0, 1.0)), run(1, PAIR, "static", (1.0, 1.0))]
    found = figures(samples, BASELINES)
    assert found.left_out == (PAIR,) and [group.workloads for group in found.groups] == [("cg.W", "cg.W")]
    assert found.workloads[0].speedup is None  # on all CPUs it was not measured yet
    only_on_all_cpus = alone(1, "lu.W", 1.0, 1.5)[1:]
    assert figures([*samples, *only_on_all_cpus], BASELINES) == found
    assert figures([], BASELINES) == Figures((), (), ())


def test_a_program_that_was_only_disturbed_alone_is_marked() -> None:
    quiet, busy = alone(1, "cg.W", 1.0, 1.5), alone(1, "lu.W", 1.0, 1.5, disturbed=True)
    assert [one.only_disturbed for one in figures([*quiet, *busy], BASELINES).workloads] == [False, True]
    later = alone(2, "lu.W", 2.0, 1.5)
    lu = figures([*quiet, *busy, *later], BASELINES).workloads[1]
    assert not lu.only_disturbed and lu.seconds.value == pytest.approx(0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: run(1, PAIR, "static", (1.0, 1.0), verified=False),
        lambda: run(1, ["cg.W"], "alone", [1.0], threads=1, verified=False),
        lambda: run(1, PAIR, "static", (1.0, 1.0), verified=False, disturbed=True, attempt=2),
    ],
)
def test_one_wrong_result_is_seen_even_in_a_run_that_does_not_count(wrong: Callable[[], Sample]) -> None:
    samples = [*alones(), run(1, PAIR, "static", (1.0, 1.0)), run(1, PAIR, "unmanaged", (1.0, 1.0))]
    assert figures(samples, BASELINES).verified
    assert not figures([*samples, wrong()], BASELINES).verified


def test_a_run_with_a_single_wrong_execution_gives_no_ratio() -> None:
    def one_wrong(sample: Sample) -> Sample:
        first, second = sample.programs
        executions = (msgspec.structs.replace(first.executions[0], verified=False), *first.executions[1:])
        return msgspec.structs.replace(sample, programs=(msgspec.structs.replace(first, executions=executions), second))

    samples = [*alones(2)]
    for number in (1, 2):
        samples += [run(number, PAIR, "unmanaged", (0.5, 0.5)), run(number, PAIR, "max-speedup", (1.0, 1.0))]
    assert of(figures(samples, BASELINES), "max-speedup").ratios["unmanaged"].n == 2
    samples[-1] = one_wrong(samples[-1])
    found = of(figures(samples, BASELINES), "max-speedup")
    assert found.ratios["unmanaged"].n == 1 and found.total.low > 0


@pytest.mark.parametrize("wrong_arrangement", ["unmanaged", "max-speedup", "alone"])
def test_a_program_that_is_wrong_gives_no_ratio(wrong_arrangement: str) -> None:
    """Not even if it ends at once and would look fast."""

    def one(arrangement: str, speeds: tuple[float, float]) -> Sample:
        return run(1, PAIR, arrangement, speeds, verified=arrangement != wrong_arrangement)

    first = run(1, ["cg.W"], "alone", [1.0], threads=1, verified=wrong_arrangement != "alone")
    samples = [first, run(1, ["lu.W"], "alone", [1.0], threads=1), one("unmanaged", (9.0, 9.0))]
    found = figures([*samples, one("max-speedup", (9.0, 9.0))], BASELINES)
    assert not found.verified and not found.comparisons
    assert found.left_out == ((PAIR,) if wrong_arrangement == "alone" else ())
    assert all(not arrangement.ratios for group in found.groups for arrangement in group.arrangements)


def test_a_reference_from_disturbed_runs_gives_no_ratio() -> None:
    alone_runs = [run(1, [name], "alone", [1.0], threads=1, disturbed=name == "cg.W") for name in PAIR]
    together = [run(1, PAIR, name, (0.5, 0.5)) for name in ("unmanaged", "max-speedup")]
    (group,) = figures([*alone_runs, *together], BASELINES).groups
    assert all(one.only_disturbed and not one.ratios for one in group.arrangements)


def once(number: int, arrangement: str, seconds: float) -> Sample:
    """Both programs of PAIR are executed once; the last ends after *seconds*."""
    programs = tuple(
        ProgramSample(name, member, (Execution(0.0, end_s, True),))
        for name, member, end_s in zip(PAIR, ("first", "second"), (seconds, seconds / 2), strict=True)
    )
    return Sample(RunKey(number, PAIR, arrangement), 1, "", (0.0, seconds), programs, once=True)


@given(st.floats(1, 100), st.floats(1, 100))
def test_of_programs_executed_once_the_ratio_is_that_of_the_times_until_all_have_ended(
    unmanaged_s: float, managed_s: float
) -> None:
    references = [sample for name in PAIR for sample in alone(1, name, 1.0, 1.5)]
    found = figures([*references, once(1, "unmanaged", unmanaged_s), once(1, "max-speedup", managed_s)], BASELINES)
    one = of(found, "max-speedup")
    assert one.ended_s is not None and one.ended_s.value == pytest.approx(managed_s)
    assert one.ratios["unmanaged"].value == pytest.approx(unmanaged_s / managed_s)


def test_programs_that_run_again_and_again_have_no_time_until_all_have_ended() -> None:
    samples = [*alone(1, "cg.W", 1.0), *alone(1, "lu.W", 1.0), run(1, PAIR, "unmanaged", (0.5, 0.5))]
    assert of(figures(samples, BASELINES), "unmanaged").ended_s is None
