"""The summary of runs, as numbers and as text."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from simulated_runs import EQUAL, FITTED, UNMANAGED, a_run, outcomes, two_guests
from vscaf import __version__
from vscaf.simulate.engine.result import Moment
from vscaf.simulate.report.document import Outcomes, document
from vscaf.simulate.report.summary import (
    Oracle,
    Ratios,
    Split,
    Spread,
    Together,
    quantile,
    ratios,
    short_names,
    summaries,
    together,
    usual_split,
)
from vscaf.simulate.report.table import FEW_GUESTS, table, together_table
from vscaf.simulate.scenarios.scenario import Amdahl, Guest
from vscaf.simulate.sweep import Failure

GOLDEN = Path(__file__).parent / "golden_simulate.json"


def text(one: Outcomes, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table(one, console))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cells(shown: str, policy: str) -> list[str]:
    line = next(line for line in shown.splitlines() if line.startswith(f"│ {policy} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_the_document_is_the_golden_one() -> None:
    content = document([outcomes()])
    assert content["vscaf"] == __version__
    assert {**content, "vscaf": "VERSION"} == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_a_row_for_each_policy() -> None:
    shown = text(outcomes())
    assert "two guests: 16 pCPUs, 40 s" in shown
    assert cells(shown, "equipartition") == [
        "equipartition", "11.00", "7.00", "4.00", "1.000", "0.863", "12", "1", "9", "0.00%", "0.5",
    ]  # fmt: skip
    assert cells(shown, "fitted")[1:6] == ["12.50", "9.00", "3.50", "1.136", "0.980"]
    assert cells(shown, "fitted")[9] == "1.25%"
    assert "oracle: 12.75 with the best split all the time: one 12, two 4" in shown
    assert "failed: broken, seed 1: ZeroDivisionError: division by zero" in shown


def test_runs_of_several_scenarios_are_counted_as_wins_even_and_losses() -> None:
    equal = [1.0, 1.05, 0.95, 1.051, 0.949, 1.3, None]
    found = [("fitted", Ratios(one, None if one is None else one / 2)) for one in equal] + [
        ("other", Ratios(None, None))
    ]
    fitted, other = together(found)
    known = [one for one in equal if one is not None]
    mean = sum(known) / len(known)
    assert (fitted.policy, fitted.runs, fitted.wins, fitted.even, fitted.losses) == ("fitted", 7, 2, 3, 1)
    assert (fitted.to_equipartition, fitted.to_oracle) == (pytest.approx(mean), pytest.approx(mean / 2))
    assert fitted.least_to_oracle == pytest.approx(0.949 / 2)
    assert other == Together("other", 1, 0, 0, 0, None, None, None)


def test_several_scenarios_have_a_table_together() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(together_table([outcomes(), Outcomes(two_guests(), {}, (FITTED,))]))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "2 scenarios together" in shown
    assert cells(shown, "fitted") == ["fitted", "2", "1", "0", "0", "1.136", "0.980", "0.980"]
    assert cells(shown, "unmanaged") == ["unmanaged", "1", "0", "0", "1", "0.545", "0.471", "0.471"]


def test_what_is_not_known_is_a_dash() -> None:
    shown = text(Outcomes(two_guests(), {}, (FITTED,)))
    assert cells(shown, "fitted")[4:6] == ["-", "-"] and "oracle:" not in shown
    moving = text(Outcomes(two_guests(), {1: Oracle(12.75, None)}, (FITTED,)))
    assert "oracle: 12.75 with the best split at every instant" in moving


def test_seeds_are_shown_by_median_and_range_and_compared_in_pairs() -> None:
    runs = (
        a_run("equipartition", {"one": 10.0}, {0.0: {"one": 8}}, seed=1),
        a_run("equipartition", {"one": 20.0}, {0.0: {"one": 8}}, seed=2),
        a_run("equipartition", {"one": 40.0}, {0.0: {"one": 8}}, seed=3),
        a_run("mine", {"one": 11.0}, {0.0: {"one": 8}}, seed=1, converged=None),
        a_run("mine", {"one": 22.0}, {0.0: {"one": 8}}, seed=2, converged=4),
        a_run("mine", {"one": 36.0}, {0.0: {"one": 8}}, seed=3, converged=8),
    )
    _, mine = summaries(two_guests(), runs, {})
    assert mine.to_equipartition == Spread(1.1, 0.9, 1.1)
    assert mine.sum_of_speedups == Spread(22.0, 11.0, 36.0)
    assert (mine.converged_periods, mine.unsettled) == (Spread(6.0, 4.0, 8.0), 1)
    shown = text(Outcomes(two_guests(), {}, runs))
    assert "3 seeds: median (least to most)" in shown
    assert "22.00" in shown and "(11.00 to 36.00)" in shown and "1 never" in shown


def test_each_seed_has_its_own_oracle() -> None:
    runs = [a_run("mine", {"one": 10.0}, {}, seed=seed) for seed in (1, 2, 3)]
    found = ratios(two_guests(), runs, {1: Oracle(20.0, None), 2: Oracle(10.0, None)})
    assert [one.to_oracle for one in found] == [0.5, 1.0, None]


def test_who_ends_counts_by_its_own_speedup() -> None:
    """Two runs do the same work. Over a window that is longer than both, their mean speedup would be the same too."""
    ends = two_guests(guests=(Guest(name="one", curve=Amdahl(serial=0.0), work_s=100.0),))
    slow = replace(a_run("equipartition", {"one": 5.0}, {}, end_s=20.0), sum_of_speedups=2.5)
    fast = replace(a_run("fitted", {"one": 10.0}, {}, end_s=10.0), sum_of_speedups=2.5)
    shown = text(Outcomes(ends, {}, (slow, fast)))
    assert "finished s" in shown and "finished s" not in text(outcomes())
    assert cells(shown, "fitted")[1:5] == ["10.00", "10.00", "10.0", "2.000"]
    there = replace(slow, guests=(replace(slow.guests[0], end_s=None),))
    assert cells(text(Outcomes(ends, {}, (there,))), "equipartition")[3] == "-"


def test_many_guests_are_shown_by_quantiles() -> None:
    run = a_run("mine", {f"guest-{number}": float(number) for number in range(101)}, {})
    shown = text(Outcomes(two_guests(), {}, (run,)))
    assert cells(shown, "mine")[2:7] == ["0.00", "10.00", "50.00", "90.00", "100.00"]
    assert "guest-7" not in shown
    few = a_run("mine", {f"guest-{number}": 1.0 for number in range(FEW_GUESTS)}, {})
    assert "guest-5" in text(Outcomes(two_guests(), {}, (few,)))


def test_broken_laws_and_failures_are_said_without_terminal_codes() -> None:
    run = a_run("mine", {"one": 1.0}, {}, violations=("pCPU 3 has two owners",))
    shown = text(Outcomes(two_guests(), {}, (run, Failure("two guests", "bad", 4, "\x1b[2Jgone"))))
    assert "violation: mine, seed 1: pCPU 3 has two owners" in shown
    assert "failed: bad, seed 4" in shown and "\x1b" not in shown


def test_of_many_broken_laws_some_are_shown_and_the_rest_counted() -> None:
    run = a_run("mine", {"one": 1.0}, {}, violations=tuple(f"pCPU {cpu} has two owners" for cpu in range(5)))
    shown = text(Outcomes(two_guests(), {}, (run,)))
    assert shown.count("has two owners") == 3 and "violation: mine, seed 1: 2 more: see --json" in shown
    three = text(Outcomes(two_guests(), {}, (replace(run, violations=run.violations[:3]),)))
    assert three.count("has two owners") == 3 and "more" not in three


def test_nothing_but_failures() -> None:
    assert text(Outcomes(two_guests(), {}, (Failure("two guests", "bad", 1, "no"),))).count("\n") == 1


def test_moments_are_told_as_changes() -> None:
    run = replace(
        EQUAL,
        moments=(
            Moment(0.0, {"one": 16, "two": 0}),
            Moment(1.0, {"one": 8, "two": 8}),
            Moment(2.0, {"one": 8, "two": 8}),
            Moment(3.0, {"two": 16}),
        ),
    )
    moments = document([Outcomes(two_guests(), {}, (run,))])["scenarios"][0]["runs"][0]["moments"]
    assert moments == [
        {"time_s": 0.0, "allocations": {"one": 16}},
        {"time_s": 1.0, "allocations": {"one": 8, "two": 8}},
        {"time_s": 3.0, "allocations": {"one": 0, "two": 16}},
    ]


def test_the_usual_split_is_that_of_the_later_half() -> None:
    assert usual_split(FITTED, ["one", "two"]) == Split((12, 4), (12, 3), (13, 4))
    assert usual_split(EQUAL, ["two", "one"]) == Split((8, 8), (8, 8), (8, 8))
    assert usual_split(UNMANAGED, ["one", "two"]) is None
    for few in (0, 1):
        assert usual_split(replace(EQUAL, moments=EQUAL.moments[:few]), ["one", "two"]) is None


def test_the_usual_split_is_of_the_time_in_which_all_are_there() -> None:
    """In the later half of the run one guest has ended. While both were there, 1:1 held for 1 s and 9:7 for 3 s."""
    moments = (
        Moment(0.0, {"one": 1, "two": 1}),
        Moment(1.0, {"one": 9, "two": 7}),
        Moment(4.0, {"one": 16}),
    )
    assert usual_split(replace(EQUAL, moments=moments), ["one", "two"]) == Split((9, 7), (9, 7), (9, 7))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_lie_within_and_rise(values: list[float], one: float, other: float) -> None:
    low, high = (quantile(values, share) for share in sorted((one, other)))
    assert min(values) <= low <= high + 1e-6 and high <= max(values) + 1e-6
    assert quantile(values, 0.0) == min(values) and quantile(values, 1.0) == max(values)


def test_quantile_of_nothing() -> None:
    assert math.isnan(quantile([], 0.5))
    assert quantile([1.0, 2.0], 0.5) == pytest.approx(1.5)


def test_policies_of_ones_own_are_called_by_their_functions() -> None:
    assert short_names(["static", "a/own.py:mine", "b.c:other"]) == {
        "static": "static",
        "a/own.py:mine": "mine",
        "b.c:other": "other",
    }
    assert short_names(["a.py:mine", "b.py:mine"]) == {"a.py:mine": "a.py:mine", "b.py:mine": "b.py:mine"}


def test_a_narrow_terminal_has_a_column_for_each_policy() -> None:
    shown = text(outcomes(), width=80)
    assert "…" not in shown and max(map(len, shown.splitlines())) <= 80
    assert cells(shown, "sum of speedups") == ["sum of speedups", "6.00", "11.00", "12.50"]
    assert cells(shown, "/ oracle") == ["/ oracle", "0.471", "0.863", "0.980"]
    assert "policy" in shown and "equipartition" in shown
