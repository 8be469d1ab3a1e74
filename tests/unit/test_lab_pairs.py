"""A demo from its command line to its exit status, on runs that are made up."""

import json

import pytest
from vscaf_lab.errors import LabError
from vscaf_lab.measure import Run
from vscaf_lab.pace import Paces
from vscaf_lab.pairs import NAMES, Alone, Pair, PolicyRun, Result, Watched, Words, read_command, run_demo
from vscaf_lab.sampler import Sample
from vscaf_lab.timeline import track

WORDS = Words("programs", "name", "program", "Made up", "which ran where")
ALONE_S = 10.0


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    """What is said is not broken into lines."""
    monkeypatch.setenv("COLUMNS", "1000")


def watched():
    """Ten seconds in which each program computes on a pCPU of its own, both at full pace."""
    samples = [
        Sample(number * 0.1, number * 0.1, name, 0, place, frozenset({place}), place, number * 100_000_000, 0)
        for number in range(101)
        for place, name in enumerate(NAMES)
    ]
    paces = Paces({place: [(number * 0.02, 60_000.0) for number in range(500)] for place in range(2)})
    return Watched(track(samples, 0.1), paces)


def policy_run(alone, seconds, verified=True):
    """Both programs compute for the first so many of the ten seconds."""
    results = [Result(name, Run([(0.0, 0.0), (1.0, seconds)], ALONE_S), verified) for name in NAMES]
    return PolicyRun(results, alone, watched(), 0, (0.0, seconds))


def demo(tmp_path, *options, unmanaged_s=8.0, verified=True):
    """The exit status of a demo of EP in which `max-speedup` takes 5 s, and its report."""
    seconds = {"unmanaged": unmanaged_s, "static": 5.0, "equipartition": 5.0, "max-speedup": 5.0}
    given = read_command("made-up", "a demo", "unused", ["--output", str(tmp_path), *options])
    alone = Alone(Run([(0.0, 0.0), (1.0, ALONE_S)], 1.0), NAMES[0], watched())

    def measure(report):
        report.machine["guests"] = "made up"
        report.run(
            Pair("ep.S", 1, 0.0), lambda: alone, lambda policy, one: policy_run(one, seconds[policy], verified=verified)
        )

    status = run_demo(given, WORDS, measure)
    return status, json.loads((tmp_path / "report.json").read_text())


def test_a_demo_in_which_all_holds_ends_with_0_and_leaves_its_report(tmp_path, capsys):
    status, report = demo(tmp_path)
    said = capsys.readouterr().out
    assert status == 0, said
    assert "MISSED" not in said and "met" in said
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


@pytest.mark.parametrize("error", [LabError("no guest today"), TimeoutError("no guest today")])
def test_a_demo_that_cannot_be_run_ends_with_2(tmp_path, capsys, error):
    def measure(report):
        report.add({"name": "found before"})
        raise error

    assert run_demo(read_command("made-up", "a demo", "unused", ["--output", str(tmp_path)]), WORDS, measure) == 2
    assert f"demo: no guest today; the logs are in {tmp_path / 'logs'}" in capsys.readouterr().out
    assert [pair["name"] for pair in json.loads((tmp_path / "report.json").read_text())["pairs"]] == ["found before"]
