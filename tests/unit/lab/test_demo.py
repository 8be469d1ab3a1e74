"""The demo from its command line to its exit status. The runs are made up, without pictures; all else is real."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from made_samples import run as made_run
from vscaf.bench.places import choice
from vscaf.bench.report import files
from vscaf.bench.samples import ALONE
from vscaf.bench.session import Session
from vscaf.lab.errors import LabError
from vscaf_lab.demo import ARRANGEMENTS, main
from vscaf_lab.demo_report import ratio

CG, EP = "cg.A+cg.A", "ep.W+ep.W"


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    """So that messages are not broken into lines."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """Runs a demo; returns its exit status and its report.

    Each program does its work once a second alone, and so often in each of two under an arrangement: `rates`, of all
    rounds or of each. The runs of an arrangement (or "alone") in `disturb` are disturbed as it says, in order; later
    ones are not. `wrong`: the arrangements whose first run has a wrong result.
    """

    @contextmanager
    def no_guests(*_, **__):
        yield SimpleNamespace(
            description="no guests", cpus=2, members=("first", "second"), commands=lambda arrangement, allocations: []
        )

    def call(*options, rates=None, disturb=None, wrong=()):
        by_arrangement = {
            **{"passive": 0.8, "static": 0.95, "unmanaged": 0.5, "pinned": 0.4, "equipartition": 0.9},
            "max-speedup": 0.95,
            **(rates or {}),
        }
        left = {name: iter(each) for name, each in (disturb or {}).items()}
        wrong_left = set(wrong)

        def once(_session, key, attempt):
            name = key.arrangement
            others = next(left.get(name, iter(())), False)
            right = name not in wrong_left
            wrong_left.discard(name)
            rate = 1.0 if name == ALONE else by_arrangement[name]
            if isinstance(rate, tuple):
                rate = rate[key.round - 1]
            rates = [rate / 2 if others else rate] * len(key.workloads)
            details = {"threads": key.threads, "allocations": key.allocations, "attempt": attempt}
            return made_run(key.round, key.workloads, name, rates, disturbed=others, verified=right, **details)

        monkeypatch.setattr(choice, "lab_place", no_guests)
        monkeypatch.setattr(Session, "_once", once)
        monkeypatch.setattr(files, "why_no_pictures", lambda: "they take a second each")
        status = main(["--output", str(tmp_path), *options])
        return status, json.loads((tmp_path / "report.json").read_text())

    return call


def of(report, pair=CG, arrangement="max-speedup"):
    (found,) = [one for one in report["pairs"] if one["name"] == pair]
    return found["policies"][arrangement]


def test_a_demo_in_which_all_holds_ends_with_0_and_leaves_its_report(demo, tmp_path, capsys):
    status, report = demo()
    output = capsys.readouterr().out
    assert status == 0, output
    assert "MISSED" not in output and output.count("met   ") == 5
    assert (tmp_path / "report.html").exists()
    assert (report["quick"], report["rounds"], [pair["name"] for pair in report["pairs"]]) == (False, 2, [CG, EP])
    assert set(report["pairs"][0]["policies"]) == set(ARRANGEMENTS)
    found = of(report)
    assert len(found["rounds"]) == 2
    assert found["sum_of_speedups"] == found["sum_of_speedups_by_the_clock"] == pytest.approx(1.9)
    assert found["ratio_to_unmanaged"] == pytest.approx(1.9)
    assert found["ratio_to_passive"] == pytest.approx(0.95 / 0.8)
    assert found["ratio_to_pinned"] == pytest.approx(0.95 / 0.4)
    assert [one["speedup"] for one in found["guests"]] == pytest.approx([0.95, 0.95])
    assert [one["domain"] for one in found["guests"]] == ["first", "second"]


def test_the_report_keeps_its_form(demo):
    _, report = demo()
    assert set(report) == {"machine", "quick", "rounds", "pairs"}
    pair = report["pairs"][0]
    assert set(pair) == {"name", "repeat", "alone_one_thread_s", "alone_one_thread_steady_s", "policies"}
    found = pair["policies"]["max-speedup"]
    sums = {"sum_of_speedups", "sum_of_speedups_by_the_clock"}
    ratios = {
        f"ratio_to_{name}{end}"
        for name in ("passive", "static", "unmanaged", "pinned")
        for end in ("", "_by_the_clock", "_disturbed")
    }
    assert set(found) == {"guests", "rounds"} | sums | ratios
    assert set(found["guests"][0]) == {"domain", "program", "seconds", "speedup", "speedup_by_the_clock", "verified"}
    lost = {"disturbed", "lost_to_others", "alone_lost_to_others", "repeated"}
    assert set(found["rounds"][0]) == sums | lost | {"both_compute_s", "transitions"}


def test_a_bar_that_is_missed_and_a_verification_that_failed_end_a_demo_with_1(demo, capsys):
    assert demo(rates={"unmanaged": 0.9})[0] == 1
    assert f"MISSED {CG}: sum of speedups, max-speedup to unmanaged: 1.06" in capsys.readouterr().out
    status, report = demo(wrong=["max-speedup"])
    assert status == 1 and not of(report)["guests"][0]["verified"]
    assert "MISSED every verification successful" in capsys.readouterr().out


def test_a_bar_that_some_round_meets_is_open(demo, capsys):
    """The median of EP is below its bars. The ratio of one round meets them."""
    assert demo("--rounds", "3", rates={"max-speedup": (0.88, 0.89, 0.96)})[0] == 0
    output = capsys.readouterr().out
    assert f"open   {EP}: sum of speedups, max-speedup to static: 0.94, 0.93 to 1.01 (at least 0.95)" in output
    assert "MISSED" not in output and "--rounds 5" in output
    assert demo("--rounds", "3", rates={"max-speedup": (0.86, 0.87, 0.89)})[0] == 1
    assert f"MISSED {EP}: sum of speedups, max-speedup to static: 0.92, 0.91 to 0.94" in capsys.readouterr().out


def test_one_round_misses_a_bar_only_by_more_than_chance(demo, capsys):
    assert demo("--quick", rates={"max-speedup": 0.83})[0] == 0
    output = capsys.readouterr().out
    assert "MISSED" not in output and output.count("open  ") == 2
    assert demo("--quick", rates={"max-speedup": 0.79})[0] == 1
    assert "MISSED cg.W+cg.W: sum of speedups, max-speedup to static: 0.83 (at least 0.95)" in capsys.readouterr().out


def test_a_median_far_below_its_bar_misses_it_whatever_one_round_says(demo):
    assert demo("--rounds", "3", rates={"max-speedup": (0.75, 0.79, 0.96)})[0] == 1


def test_arrangements_and_rounds_are_those_that_were_asked_for(demo):
    status, report = demo("--quick", "--arrangements", "static,max-speedup")
    assert status == 0
    assert (report["quick"], report["rounds"]) == (True, 1)
    assert set(report["pairs"][0]["policies"]) == {"static", "max-speedup"}
    assert report["pairs"][0]["name"] == "cg.W+cg.W"
    with pytest.raises(SystemExit, match="2"):
        main(["--arrangements", "static,no-such"])


def test_a_disturbed_run_is_said_and_repeated_and_does_not_count(demo, capsys):
    status, report = demo(disturb={"max-speedup": [True]})
    output = capsys.readouterr().out
    assert status == 0, output
    assert "to judge" not in output
    rounds = [one for pair in (CG, EP) for one in of(report, pair)["rounds"]]
    assert not any(one["disturbed"] for one in rounds)
    assert [one["lost_to_others"] for row in rounds for one in row["repeated"]] == [pytest.approx(0.2)]
    assert of(report)["sum_of_speedups"] == pytest.approx(1.9)


@pytest.mark.parametrize("which", ["max-speedup", ALONE])
def test_a_demo_that_is_disturbed_all_the_time_says_so_and_ends_with_0(demo, capsys, which):
    status, report = demo(disturb={which: [True] * 99})
    output = capsys.readouterr().out
    assert status == 0, output
    assert "MISSED" not in output and output.count("too disturbed to judge") == 4
    assert "run the demo again" in output
    assert all(one["disturbed"] for one in of(report)["rounds"])
    assert of(report)["ratio_to_static_disturbed"] is True


def test_a_bar_that_is_missed_undisturbed_is_missed_whatever_else_was_disturbed(demo, capsys):
    assert demo(rates={"unmanaged": 0.9}, disturb={"static": [True] * 99})[0] == 1
    output = capsys.readouterr().out
    assert output.count("too disturbed to judge") == 2 and output.count("MISSED") == 1


def test_a_failed_verification_counts_in_a_run_that_does_not_count(demo, capsys):
    assert demo(disturb={"max-speedup": [True]}, wrong=["max-speedup"])[0] == 1
    assert "MISSED every verification successful" in capsys.readouterr().out


def test_a_verification_that_fails_alone_ends_a_demo_with_1(demo):
    status, _ = demo("--rounds", "1", wrong=[ALONE])
    assert status == 1


@pytest.mark.parametrize("error", [LabError("no guest today"), TimeoutError("no guest today")])
def test_a_demo_that_cannot_be_run_ends_with_2(tmp_path, monkeypatch, capsys, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(choice, "lab_place", fails)
    assert main(["--output", str(tmp_path)]) == 2
    assert f"demo: no guest today; the logs are in {tmp_path / 'logs'}" in capsys.readouterr().out


def one_round(figure, disturbed=False):
    return {"sum": figure, "disturbed": disturbed}


@pytest.mark.parametrize(
    ("rounds", "others", "expected"),
    [
        ([one_round(1.0), one_round(3.0)], [one_round(1.0), one_round(1.0)], (2.0, True)),
        ([one_round(1.0), one_round(3.0, True)], [one_round(1.0), one_round(1.0)], (1.0, True)),
        ([one_round(1.0), one_round(3.0)], [one_round(1.0, True), one_round(1.0)], (3.0, True)),
        ([one_round(1.0, True), one_round(3.0)], [one_round(1.0), one_round(1.0, True)], (2.0, False)),
    ],
)
def test_a_ratio_is_of_rounds_in_which_neither_was_disturbed(rounds, others, expected):
    assert ratio(rounds, others, "sum") == expected
