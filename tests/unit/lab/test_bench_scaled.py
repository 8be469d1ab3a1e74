"""The figures of the scaled machine from made-up runs whose figures are known, and what is not figures but pure."""

import json

import msgspec
import pytest
from made_samples import alone, run
from vscaf.bench.samples import ALONE, Execution, ProgramSample, RunKey, Sample
from vscaf.errors import UsageError
from vscaf_bench.report import Report
from vscaf_bench.scaled_figures import (
    SETTLED_OVER_S,
    Cell,
    scaled_figures,
    settled_s,
    settled_times,
    steady_part,
)
from vscaf_bench.scaled_gate import Gate
from vscaf_bench.scaled_place import statuses
from vscaf_bench.scaled_plan import ARRANGEMENTS, PAIRS, pairs_named, plan
from vscaf_bench.scaled_report import fill, pair_table
from vscaf_bench.scaled_timeline import timeline
from vscaf_bench.scaled_watch import lost_seconds

PAIR = ("ep.S", "mg.S")
LONG_S = 100.0


def cell(sample, pace=1.0):
    """A machine whose CPUs have the same pace all the time."""
    return Cell(sample.key, sample.attempt, ((0.0, 0.0), (2 * LONG_S, 2 * LONG_S * pace)))


def cells(samples, pace=1.0):
    return {(one.key, one.attempt): cell(one, pace) for one in samples}


def alones(rounds=3):
    return [one for number in range(1, rounds + 1) for name in PAIR for one in alone(number, name, 1.0)]


def changing(number, rates, later, at_s, policy="max-speedup"):
    """A run under a policy: each program's marks show one rate until at_s, and another one until LONG_S."""
    programs = []
    for name, member, one, other in zip(PAIR, ("first", "second"), rates, later, strict=True):
        marks = ((0.0, 0.0), (at_s, one * at_s), (LONG_S, one * at_s + other * (LONG_S - at_s)))
        programs.append(ProgramSample(name, member, (Execution(0.0, LONG_S, True, 0, marks),)))
    return Sample(RunKey(number, PAIR, policy), 1, "", (0.0, LONG_S), tuple(programs))


def static(number, split, rates, **more):
    return run(number, PAIR, "static", rates, allocations=split, **more)


def of(found, arrangement):
    (group,) = found.groups
    return next(one for one in group.arrangements if one.arrangement == arrangement)


def test_the_steady_part_of_a_policy_is_the_last_half_and_of_the_others_all():
    sample = changing(1, (1, 1), (4, 2), 50.0)
    found = scaled_figures([*alones(), sample], cells([*alones(), sample]))
    assert of(found, "max-speedup").total.value == pytest.approx(6.0)
    assert steady_part(sample, cell(sample)).window == (50.0, 100.0)
    by_hand = static(1, (5, 1), (2.0, 1.0))
    assert steady_part(by_hand, cell(by_hand)).window == by_hand.window


def test_speedups_count_steady_seconds():
    """On CPUs at half their pace, the programs do half the work: their speedup is the same."""
    fast = alones()
    slow = static(1, (5, 1), (2.0, 0.5))
    found = scaled_figures([*fast, slow], {**cells(fast), **cells([slow], 0.5)})
    assert of(found, "oracle").total.value == pytest.approx(5.0)


def test_the_oracle_is_the_best_split_by_its_median_and_not_the_best_of_each_round():
    runs = []
    for number, (five, one) in enumerate(((5.0, 1.0), (5.0, 1.0), (1.0, 9.0)), start=1):
        runs += [static(number, (5, 1), (five, 0.0001)), static(number, (1, 5), (one, 0.0001))]
        runs += [static(number, (3, 3), (2.5, 0.0001)), run(number, PAIR, "passive", (4.0, 0.0001))]
        runs.append(changing(number, (5, 0), (5, 0), 50.0))
    every = [*alones(), *runs]
    ratios = of(scaled_figures(every, cells(every)), "max-speedup").ratios
    assert ratios["oracle"].value == pytest.approx(1.0, rel=1e-3)
    assert ratios["oracle"].high == pytest.approx(5.0, rel=1e-3)  # in the third round, to the same split
    assert ratios["equal"].value == pytest.approx(2.0, rel=1e-3)
    assert ratios["passive"].value == pytest.approx(1.25, rel=1e-3)


def test_a_run_without_its_cell_or_disturbed_gives_no_ratio():
    runs = [static(1, (3, 3), (1.0, 1.0)), changing(1, (2, 2), (2, 2), 50.0)]
    every = [*alones(), *runs]
    watched = cells(every)
    assert of(scaled_figures(every, watched), "max-speedup").ratios["equal"].value == pytest.approx(2.0)
    del watched[runs[0].key, 1]
    assert not of(scaled_figures(every, watched), "max-speedup").ratios
    every[-2] = static(1, (3, 3), (1.0, 1.0), disturbed=True)
    assert not of(scaled_figures(every, cells(every)), "max-speedup").ratios


@pytest.mark.parametrize(("at_s", "expected_s"), [(0.001, 10.0), (20.0, 28.5), (30.0, 38.5)])
def test_settled_is_when_the_last_seconds_have_nine_tenths_of_the_final_sum(at_s, expected_s):
    """From 3 to 6: the mean of 10 seconds is 5.4 once eight of them are at 6."""
    sample = changing(1, (2, 1), (5, 1), at_s)
    assert settled_s(sample, cell(sample), (1.0, 1.0)) == pytest.approx(expected_s, abs=0.51)
    assert SETTLED_OVER_S == 10.0


def test_settled_is_at_the_latest_when_the_steady_part_begins():
    sample = changing(1, (2, 1), (5, 1), 49.0)
    assert settled_s(sample, cell(sample), (1.0, 1.0)) == 50.0


def test_settled_times_use_the_rates_alone():
    """The first program is ten times as fast alone, so its change from 2 to 5 does not matter."""
    sample = changing(1, (2, 1), (5, 1), 40.0)
    slow = [*alones(), sample]
    fast = [*alone(1, "ep.S", 50.0), *alone(1, "mg.S", 1.0), sample]
    assert settled_times(slow, cells(slow), "max-speedup")[PAIR].value > 40
    assert settled_times(fast, cells(fast), "max-speedup")[PAIR].value == SETTLED_OVER_S


def test_settled_times_are_from_undisturbed_runs_of_programs_that_were_right_alone():
    good = changing(1, (2, 1), (5, 1), 20.0)
    bad = msgspec.structs.replace(changing(2, (2, 1), (5, 1), 40.0), disturbed=True)
    every = [*alones(), good, bad]
    assert settled_times(every, cells(every), "max-speedup")[PAIR].n == 1
    wrong = [*alone(1, "ep.S", 1.0), run(1, ["mg.S"], ALONE, [1.0], threads=1, verified=False), good]
    assert not settled_times(wrong, cells(wrong), "max-speedup")


def test_a_pair_misses_only_by_its_whole_interval():
    """Two rounds: once 0.7 and once 1.2 of equal shares."""
    runs = [static(number, (3, 3), (1.0, 1.0)) for number in (1, 2)]
    runs += [changing(1, (0.7, 0.7), (0.7, 0.7), 20.0), changing(2, (1.2, 1.2), (1.2, 1.2), 48.0)]
    every = [*alones(), *runs]
    report = Report("scaled")
    fill(report, every, cells(every))
    bars = {one.name: one.bar for one in report.results}
    assert bars["scaled.vs_equal.ep.S+mg.S"] == "high at least 0.97: met"
    assert bars["scaled.vs_equal.geomean"] == "at least 1.1: MISSED"
    assert bars["scaled.settled_s"] == "at most 40 s: met"


def test_a_pair_that_settles_late_misses():
    every = [*alones(), static(1, (3, 3), (1.0, 1.0)), changing(1, (2, 1), (5, 1), 45.0)]
    report = Report("scaled")
    fill(report, every, cells(every))
    assert {one.name: one.bar for one in report.results}["scaled.settled_s"] == "at most 40 s: MISSED"


def test_the_report_judges_max_speedup_alone():
    runs = [
        one for number in (1, 2) for one in (static(number, (3, 3), (1.0, 1.0)), static(number, (5, 1), (2.0, 1.0)))
    ]
    runs += [run(number, PAIR, "passive", (1.0, 1.0)) for number in (1, 2)]
    for policy in ("max-speedup", "equipartition"):
        runs += [changing(number, (1, 1), (2, 1), 20.0, policy) for number in (1, 2)]
    every = [*alones(), *runs]
    report = Report("scaled")
    fill(report, every, cells(every))
    by_name = {one.name: one for one in report.results}
    assert by_name["scaled.vs_oracle.geomean"].value == pytest.approx(1.0)
    assert by_name["scaled.vs_oracle.geomean"].bar == "at least 0.95: met"
    assert by_name["scaled.vs_equal.ep.S+mg.S"].value == pytest.approx(1.5)
    assert by_name["scaled.vs_passive.geomean"].bar == "at least 1.15: met"
    assert by_name["scaled.equipartition.vs_equal.geomean"].value == pytest.approx(1.5)
    assert not by_name["scaled.equipartition.vs_equal.geomean"].bar
    assert by_name["scaled.sum.ep.S+mg.S.oracle.5.1"].value == pytest.approx(3.0)
    assert by_name["scaled.settled_s"].value == pytest.approx(27, abs=1)


def test_a_missed_target_is_said():
    runs = [static(1, (3, 3), (2.0, 2.0)), changing(1, (1, 1), (1, 1), 20.0)]
    every = [*alones(), *runs]
    report = Report("scaled")
    fill(report, every, cells(every))
    bars = {one.name: one.bar for one in report.results}
    assert bars["scaled.vs_oracle.geomean"].endswith("MISSED")
    assert bars["scaled.vs_equal.ep.S+mg.S"].endswith("MISSED")


def test_the_gate_names_each_part_that_failed():
    good = Gate({2: 1.9, 6: 5.4}, 2.0, 200.0, 0.01)
    assert not good.failures()
    (failed,) = Gate({2: 1.9, 6: 5.3}, 2.0, 200.0, 0.01).failures()
    assert failed.startswith("EP on 6 slow CPUs has a speedup of 5.30: at least 5.40")
    for halves in (1.2, 2.9):
        (failed,) = Gate({2: 1.9}, halves, 200.0, 0.01).failures()
        assert "spinners" in failed
    (failed,) = Gate({2: 1.9}, 2.0, 9000.0, 0.01).failures()
    assert "barrier" in failed
    assert len(Gate({2: 1.0}, 1.0, 9000.0, 0.01).failures()) == 3


def test_a_vcpu_loses_only_what_its_quota_gives_it():
    assert lost_seconds(0.25, 0.75, 0.25) == 0
    assert lost_seconds(0.2, 0.8, 0.25) == pytest.approx(0.05)
    assert lost_seconds(0.05, 0.15, 0.25) == 0  # it slept otherwise
    assert lost_seconds(0.5, 0.0, 0.25) == 0


def test_statuses_have_the_time_of_their_end_and_the_last_may_be_cut_off():
    texts = [json.dumps({"joined": number}) for number in range(3)]
    pieces = [(1.0, texts[0][:5]), (2.0, texts[0][5:] + "\n" + texts[1]), (3.0, "\n" + texts[2][:-1])]
    assert statuses(pieces) == [(2.0, {"joined": 0}), (2.0, {"joined": 1})]


def test_the_timeline_has_a_line_for_each_change():
    """A program that has no row between two of its runs has not changed."""

    def said(at_s, **threads):
        names = {"ep": "ep.S", "mg": "mg.S"}
        rows = [{"name": names[name], "threads": count, "state": "running"} for name, count in threads.items()]
        return at_s, {"processes": rows}

    sample = static(1, (3, 3), (1.0, 1.0))
    status = (
        said(-1, ep=6),
        said(1, ep=3, mg=3),
        said(2, ep=3),
        said(3, ep=3, mg=3),
        said(4, ep=6),
        said(5, ep=5, mg=1),
    )
    status[-1][1]["processes"][0]["speedup"] = {"p": 5, "value": 4.93}
    assert timeline(sample, Cell(sample.key, 1, (), status)) == [
        "   -1.0 s  6+-  ep.S: running, mg.S: -",
        "    1.0 s  3+3  ep.S: running, mg.S: running",
        "    4.0 s  6+-  ep.S: running, mg.S: -",
        "    5.0 s  5+1  ep.S: running 4.9@5, mg.S: running",
    ]


def test_each_round_has_each_program_alone_and_each_split_of_each_pair():
    keys = plan(PAIRS, ARRANGEMENTS, 6, 3)
    assert len(keys) == len(set(keys))
    for number in (1, 2, 3):
        mine = [key for key in keys if key.round == number]
        programs = {name for pair in PAIRS for name in pair}
        assert {key.workloads for key in mine if key.arrangement == ALONE} == {(name,) for name in programs}
        assert all(key.threads == 1 for key in mine if key.arrangement == ALONE)
        for pair in PAIRS:
            splits = {key.allocations for key in mine if key.workloads == pair and key.arrangement == "static"}
            assert splits == {(1, 5), (2, 4), (3, 3), (4, 2), (5, 1)}
            together = [key.arrangement for key in mine if key.workloads == pair]
            assert together.count("passive") == together.count("max-speedup") == 1
            assert together.count("unmanaged") == (1 if number == 1 else 0)


def test_pairs_and_arrangements_by_name():
    assert pairs_named(["ep+mg", "uts+mg", "lu+cg", "ft.W+is.S"]) == [
        ("ep.S", "mg.S"),
        ("uts-binomial.S", "mg.W"),
        ("lu-hp.S", "cg.W"),
        ("ft.W", "is.S"),
    ]
    keys = plan([PAIR], ["5+1"], 6, 1)
    assert [key.allocations for key in keys if key.arrangement == "static"] == [(5, 1)]
    for name in ("ep", "ep+none", "ep.S+mg.S+cg.S"):
        with pytest.raises(UsageError, match="not a pair"):
            pairs_named([name])
    for name in ("5+2", "fair"):
        with pytest.raises(UsageError, match="not an arrangement"):
            plan([PAIR], [name], 6, 1)


@pytest.mark.parametrize(("rounds", "interval"), [(1, ""), (2, "4.00 to 6.00")])
def test_the_table_has_an_interval_only_of_several_rounds(rounds, interval):
    runs = [run(number, PAIR, "passive", (3.0, 2.0 * number - 1.0)) for number in range(1, rounds + 1)]
    every = [*alones(), *runs]
    table = pair_table(every, cells(every))
    assert list(table.columns[5].cells) == [interval]
