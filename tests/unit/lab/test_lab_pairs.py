"""A demo from its command line to its exit status, with made-up runs."""

import json

import pytest
from vscaf.bench.observe.host_load import Reading
from vscaf.bench.observe.measure import Run
from vscaf.bench.observe.pace import Paces
from vscaf.bench.observe.sampler import Sample
from vscaf.bench.observe.timeline import track
from vscaf.bench.observe.watch import Watched
from vscaf.lab.errors import LabError
from vscaf_lab.pairs import (
    NAMES,
    Alone,
    Pair,
    PairTexts,
    PolicyRun,
    Result,
    VerificationFailed,
    judge,
    ratio,
    read_command,
    run_demo,
)

pytestmark = pytest.mark.slow

TEXTS = PairTexts("programs", "name", "program", "Made up", "which ran where")
ALONE_S = 10.0


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    """So that messages are not broken into lines."""
    monkeypatch.setenv("COLUMNS", "1000")


def watched(taken=0.0):
    """Ten seconds in which each program computes at full pace on its own pCPU. taken: how much of the two CPUs
    something else used, in CPUs.
    """
    samples = [
        Sample(number * 0.1, number * 0.1, name, 0, place, frozenset({place}), place, number * 100_000_000, 0)
        for number in range(101)
        for place, name in enumerate(NAMES)
    ]
    paces = Paces({place: [(number * 0.02, 60_000.0) for number in range(500)] for place in range(2)})
    readings = [Reading(at_s, 2.0 * at_s, (2.0 - taken) * at_s, (2.0 - taken) * at_s, taken * at_s) for at_s in (0, 10)]
    return Watched(track(samples, 0.1), paces, readings)


def policy_run(alone, seconds, verified=True, taken=0.0):
    """Both programs compute for the first *seconds* of the ten seconds."""
    results = [Result(name, Run([(0.0, 0.0), (1.0, seconds)], ALONE_S), verified) for name in NAMES]
    return PolicyRun(results, alone, watched(taken), 0, (0.0, seconds))


def demo(tmp_path, *options, unmanaged_s=8.0, verified=True, disturb=None):
    """The exit status of a demo of EP in which `max-speedup` takes 5 s, and its report.

    disturb: by policy (or "alone"), the CPUs that something else used in its first runs, in order; 0 in later runs. A
    disturbed run takes twice as long. verified: of all runs, or of each `max-speedup` run in order.
    """
    seconds = {"unmanaged": unmanaged_s, "static": 5.0, "equipartition": 5.0, "max-speedup": 5.0}
    given = read_command("made-up", "a demo", "unused", ["--output", str(tmp_path), *options])
    taken = {policy: iter(each) for policy, each in (disturb or {}).items()}
    right = iter(verified if isinstance(verified, list) else [])

    def of_others(policy):
        return next(taken.get(policy, iter(())), 0.0)

    def alone():
        return Alone(Run([(0.0, 0.0), (1.0, ALONE_S)], 1.0), NAMES[0], watched(of_others("alone")))

    def under(policy, one):
        others = of_others(policy)
        good = next(right, True) if policy == "max-speedup" and isinstance(verified, list) else bool(verified)
        return policy_run(one, seconds[policy] * (2.0 if others else 1.0), good, others)

    def measure(report):
        report.machine["guests"] = "made up"
        report.run(Pair("ep.S", 1, 0.0), alone, under)

    status = run_demo(given, TEXTS, measure)
    return status, json.loads((tmp_path / "report.json").read_text())


def test_a_demo_in_which_all_holds_ends_with_0_and_leaves_its_report(tmp_path, capsys):
    status, report = demo(tmp_path)
    output = capsys.readouterr().out
    assert status == 0, output
    assert "MISSED" not in output and "met" in output
    assert (tmp_path / "timeline-ep-S.png").exists() and (tmp_path / "logs").is_dir()
    assert (report["quick"], report["rounds"], report["machine"]["guests"]) == (False, 2, "made up")
    (pair,) = report["pairs"]
    assert list(pair["policies"]) == ["unmanaged", "static", "equipartition", "max-speedup"]
    found = pair["policies"]["max-speedup"]
    assert len(found["rounds"]) == 2
    assert found["sum_of_speedups_by_the_clock"] == pytest.approx(4.0)
    assert found["ratio_to_unmanaged_by_the_clock"] == pytest.approx(8.0 / 5.0)


def test_a_bar_that_is_missed_and_a_verification_that_failed_end_a_demo_with_1(tmp_path, capsys):
    assert demo(tmp_path, unmanaged_s=4.0)[0] == 1
    assert "MISSED ep.S+ep.S: sum of speedups, max-speedup to unmanaged" in capsys.readouterr().out
    assert demo(tmp_path, verified=False)[0] == 1
    assert "MISSED ep.S+ep.S: every verification successful" in capsys.readouterr().out


def test_policies_and_rounds_are_those_that_were_asked_for(tmp_path):
    status, report = demo(tmp_path, "--quick", "--policies", "static,max-speedup")
    assert status == 0
    assert (report["quick"], report["rounds"]) == (True, 1)
    assert list(report["pairs"][0]["policies"]) == ["static", "max-speedup"]


def rounds_of(report, policy="max-speedup"):
    return report["pairs"][0]["policies"][policy]["rounds"]


def test_a_disturbed_run_is_said_and_repeated_and_does_not_count(tmp_path, capsys):
    status, report = demo(tmp_path, disturb={"max-speedup": [1.0]})
    output = capsys.readouterr().out
    assert status == 0, output
    assert output.count("disturbed: others had 50% of the CPU time") == 1
    assert "to judge" not in output and "of 2 rounds" not in output
    first, second = rounds_of(report)
    assert (first["disturbed"], first["sum_of_speedups_by_the_clock"]) == (False, pytest.approx(4.0))
    assert [one["lost_to_others"] for one in first["repeated"]] == [pytest.approx(0.5)]
    assert second["repeated"] == []


def test_a_round_that_stays_disturbed_is_marked_and_the_other_is_judged(tmp_path, capsys):
    status, report = demo(tmp_path, disturb={"max-speedup": [1.0, 0.5, 1.0]})
    output = capsys.readouterr().out
    assert status == 0, output
    assert "1 of 2 rounds" in output and "to judge" not in output
    first, second = rounds_of(report)
    assert (first["disturbed"], second["disturbed"]) == (True, False)
    assert (first["lost_to_others"], len(first["repeated"])) == (pytest.approx(0.25), 2)
    found = report["pairs"][0]["policies"]["max-speedup"]
    assert found["sum_of_speedups_by_the_clock"] == pytest.approx(4.0)
    assert found["ratio_to_static_by_the_clock"] == pytest.approx(1.0)
    assert found["ratio_to_static_disturbed"] is False


@pytest.mark.parametrize("which", ["max-speedup", "alone"])
def test_a_demo_that_is_disturbed_all_the_time_says_so_and_ends_with_0(tmp_path, capsys, which):
    status, report = demo(tmp_path, disturb={which: [1.0] * 6})
    output = capsys.readouterr().out
    assert status == 0, output
    assert "MISSED" not in output and output.count("too disturbed to judge") == 2
    assert "run the demo again" in output and "2 of 2 rounds" in output
    assert [one["disturbed"] for one in rounds_of(report)] == [True, True]
    assert report["pairs"][0]["policies"]["max-speedup"]["ratio_to_static_disturbed"] is True


def test_a_reference_that_is_disturbed_all_the_time_is_not_judged_by(tmp_path, capsys):
    assert demo(tmp_path, unmanaged_s=2.0, disturb={"unmanaged": [1.0] * 6})[0] == 0
    output = capsys.readouterr().out
    assert output.count("too disturbed to judge") == 1 and output.count("met   ") == 2


def test_a_failed_verification_counts_in_a_run_that_does_not_count(tmp_path, capsys):
    assert demo(tmp_path, disturb={"max-speedup": [1.0]}, verified=[False])[0] == 1
    assert "MISSED ep.S+ep.S: every verification successful" in capsys.readouterr().out


def test_a_bar_that_is_missed_undisturbed_is_missed_whatever_else_was_disturbed(tmp_path, capsys):
    assert demo(tmp_path, unmanaged_s=4.0, disturb={"static": [1.0] * 6})[0] == 1
    output = capsys.readouterr().out
    assert output.count("too disturbed to judge") == 1 and output.count("MISSED") == 1


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


@pytest.mark.parametrize(
    ("verified", "found", "disturbed", "verdicts"),
    [
        (True, 1.0, False, ["met", "met"]),
        (True, 0.5, False, ["met", "MISSED"]),
        (True, 0.5, True, ["met", "too disturbed to judge"]),
        (True, 1.0, True, ["met", "too disturbed to judge"]),
        (False, 1.0, True, ["MISSED", "too disturbed to judge"]),
    ],
)
def test_a_verdict_is_no_figures_that_was_disturbed(verified, found, disturbed, verdicts):
    result = {"programs": [{"verified": verified}], "ratio_to_static": found, "ratio_to_static_disturbed": disturbed}
    pairs = [{"name": "cg.A+cg.A", "policies": {"max-speedup": result}}]
    assert [verdict for verdict, _ in judge(pairs, TEXTS)] == verdicts


def test_a_verification_that_fails_alone_ends_a_demo_with_1(tmp_path, capsys):
    def measure(report):
        raise VerificationFailed("cg.A alone on one thread: its verification failed")

    assert run_demo(read_command("made-up", "a demo", "unused", ["--output", str(tmp_path)]), TEXTS, measure) == 1
    assert "its verification failed" in capsys.readouterr().out


@pytest.mark.parametrize("error", [LabError("no guest today"), TimeoutError("no guest today")])
def test_a_demo_that_cannot_be_run_ends_with_2(tmp_path, capsys, error):
    def measure(report):
        report.add({"name": "found before"})
        raise error

    assert run_demo(read_command("made-up", "a demo", "unused", ["--output", str(tmp_path)]), TEXTS, measure) == 2
    assert f"demo: no guest today; the logs are in {tmp_path / 'logs'}" in capsys.readouterr().out
    assert [pair["name"] for pair in json.loads((tmp_path / "report.json").read_text())["pairs"]] == ["found before"]


@pytest.mark.parametrize("once_s", [0.1, 7.4, 19.0, 45.0])
def test_the_second_program_starts_while_the_first_computes_on_a_machine_of_any_speed(once_s):
    pair = Pair.lasting("cg.A", 20.0, once_s)
    work_s = pair.repeat * once_s
    assert pair.repeat >= 1 and (pair.repeat == 1 or 10.0 < work_s < 30.0)
    assert 0.0 < pair.delay_s < work_s / 2 / 2, "even on two CPUs it has not done half of its work"
