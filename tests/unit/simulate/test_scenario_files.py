"""Scenario and curve files: what they mean, and the messages about bad ones."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.errors import UsageError
from vscaf.simulate.scenarios.curves import (
    Amdahl,
    Downey,
    Log,
    Perfect,
    SpeedupCurve,
    Usl,
    formula_curve,
    load_curve,
    shipped_curves,
)
from vscaf.simulate.scenarios.expansion import expanded, scenarios_of
from vscaf.simulate.scenarios.files import load_scenario, shipped_scenarios

CURVE = 'name = "c"\nsource = "s"\nassumed = "a"\npoints = [[1, 1.0], [4, 3.0], [8, 2.5], [16, 9.0]]\n'
PAIRS = "[pairs]\ncurves = "
HEAD = 'name = "x"\nseconds = 10\n'
GUEST = '[[guest]]\nname = "a"\ncurve = {model = "perfect"}\n'


def curve_of(points: list[tuple[float, float]], between: str) -> SpeedupCurve:
    return SpeedupCurve("c", "c", "s", "a", tuple(points), between)  # type: ignore[arg-type]


@pytest.mark.parametrize("between", ["log", "linear", "monotone"])
def test_a_curve_goes_through_its_points_and_is_flat_beyond(between: str) -> None:
    curve = curve_of([(1.0, 1.0), (4.0, 3.0), (8.0, 2.5), (16.0, 9.0)], between)
    assert [curve.speedup(p) for p in (1, 4, 8, 16, 64)] == pytest.approx([1.0, 3.0, 2.5, 9.0, 9.0])
    assert [curve.speedup(p) for p in (0, 0.25)] == [0.0, 0.25]
    assert 2.5 <= curve.speedup(6) <= 3.0  # it stays between its two neighbours


def test_in_between_it_is_linear_in_what_it_says() -> None:
    points = [(1.0, 1.0), (4.0, 3.0)]
    assert curve_of(points, "linear").speedup(2.5) == pytest.approx(2.0)
    assert curve_of(points, "log").speedup(2.0) == pytest.approx(2.0)


@given(st.lists(st.floats(0.5, 4.0), min_size=2, max_size=6), st.floats(1.0, 64.0), st.floats(1.0, 64.0))
def test_a_monotone_curve_rises_where_its_points_do(steps: list[float], one: float, other: float) -> None:
    points, speedup = [(1.0, 1.0)], 1.0
    for number, step in enumerate(steps):
        speedup += step
        points.append((2.0 ** (number + 1), speedup))
    curve = curve_of(points, "monotone")
    low, high = sorted((one, other))
    assert curve.speedup(low) <= curve.speedup(high) + 1e-9
    assert curve.speedup(high) <= speedup + 1e-9


def test_formulas() -> None:
    assert formula_curve(Amdahl(serial=0.1)).speedup(4) == pytest.approx(1 / (0.1 + 0.9 / 4))
    assert formula_curve(Log(weight=2.0)).speedup(2.718281828459045) == pytest.approx(3.0)
    assert formula_curve(Usl(contention=0.1, coherence=0.01)).speedup(4) == pytest.approx(4 / (1 + 0.3 + 0.12))
    assert formula_curve(Perfect(most=3)).speedup(8) == 3.0
    assert formula_curve(Downey(parallelism=8)).speedup(4) == pytest.approx(4.0)
    assert formula_curve(Downey(parallelism=8)).speedup(64) == pytest.approx(8.0)
    for sigma in (0.5, 1.0, 2.0):
        curve = formula_curve(Downey(parallelism=8, sigma=sigma))
        values = [curve.speedup(p) for p in range(1, 65)]
        assert values == sorted(values) and values[0] == pytest.approx(1.0) and values[-1] == pytest.approx(8.0)
        steps = [after - before for before, after in itertools.pairwise(values)]
        assert max(steps) < 1.01  # the parts of the formula meet
    assert formula_curve(Amdahl(serial=0.1)).name == "amdahl serial 0.1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "c"\n', "missing required field `source`: the keys are name"),
        (CURVE + "beween = 3", "unknown field `beween`"),
        (CURVE.replace("[1, 1.0], ", ""), r"points: the first is not \[1, 1.0\]"),
        (CURVE.replace("[8,", "[3,"), "points: threads do not rise"),
        (CURVE.replace('assumed = "a"\n', ""), "assumed: is missing"),
        ("name = ", "not TOML"),
    ],
)
def test_a_bad_curve_file_is_named_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        load_curve(path)
    assert str(caught.value).startswith(f"curve {path}: ")


def test_nothing_is_assumed_where_every_size_is_published(tmp_path: Path) -> None:
    path = tmp_path / "whole.toml"
    path.write_text('name = "c"\nsource = "s"\npoints = [[1, 1.0], [2, 1.5], [3, 1.8]]\n')
    assert load_curve(path).assumed == ""


def test_what_is_shipped_can_be_used() -> None:
    assert "cg-tilegx36" in shipped_curves() and "cg-lu" in shipped_scenarios()
    for name in shipped_curves():
        assert load_curve(name).speedup(1) == 1.0
    for name in shipped_scenarios():
        assert all(expanded(one) for one in scenarios_of(load_scenario(name)))


def test_pairs_are_a_scenario_for_each_two_of_their_curves(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('name = "own"\nsource = "s"\npoints = [[1, 1.0], [2, 1.5]]\n')
    path = tmp_path / "all.toml"
    path.write_text(
        'name = "all"\nseconds = 10\nseed = 3\n[host]\npcpus = 8\n'
        '[pairs]\ncurves = ["own.toml", {model = "perfect", most = 4}, "cg-t2"]\napart_s = 2\nalone_s = 5\n'
        "loss = 3.0\nyields = true\n"
    )
    scenario = load_scenario(path)
    each = scenarios_of(scenario)
    assert [one.name for one in each] == ["all-own-perfect most 4", "all-own-cg-t2", "all-perfect most 4-cg-t2"]
    assert all(one.seed == 3 and one.host.pcpus == 8 and scenarios_of(one) == (one,) for one in each)
    (first, second) = expanded(each[0])
    assert (first.start_s, second.start_s) == (0.0, 2.0)
    assert (first.work_s, second.work_s) == (5 * 1.5, 5 * 4.0)  # the largest speedups of the curves
    assert first.curve.speedup(2) == 1.5
    assert (first.loss, first.yields, second.loss, second.yields) == (3.0, True, 3.0, True)
    with pytest.raises(UsageError, match="for each of its pairs"):
        expanded(scenario)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"\n' + GUEST, "missing required field `seconds`: its keys are name, title"),
        (HEAD, r"there is no \[\[guest\]\], no \[\[arrivals\]\] and no \[pairs\]: add one"),
        (HEAD + PAIRS + '["cg-t2", "lu-t2"]\n' + GUEST, r"there is \[pairs\] and \[\[guest\]\] or \[\[arrivals\]\]"),
        (HEAD + PAIRS + '["cg-t2"]', r"of length >= 2 - at `\$.pairs.curves`: its keys are curves, apart_s, alone_s"),
        (HEAD + PAIRS + '["cg-t2", "nope"]', "pairs: curve nope: no shipped one has that name"),
        (
            HEAD + PAIRS + '["cg-t2", "lu-t2", "cg-t2"]',
            r"pairs: .* some have one name \(cg-t2, lu-t2\): name each once",
        ),
        (HEAD + "settle_s = 10\n" + PAIRS + '["cg-t2", "lu-t2"]', "settle_s 10 leaves nothing"),
        (HEAD + GUEST + "vcpu = 3", r"unknown field `vcpu` - at `\$.guest\[0\]`: its keys are name, curve, count"),
        (HEAD + GUEST + "phases = [{secs = 3}]", r"unknown field `secs`.*: its keys are seconds, work_s"),
        (HEAD + GUEST + "phases = [{serial = true}]", "guest a: phases: one must have exactly one of seconds"),
        (HEAD + GUEST + "phases = [{idle = true, work_s = 2}]", "guest a: phases: an idle one"),
        (HEAD + GUEST + 'behaviour = "crashes"', "guest a: .*crash_s go together"),
        (HEAD + GUEST + "end_s = 3\nstart_s = 4", "guest a: end_s 3 is not after start_s 4"),
        (HEAD + GUEST + "minimum = 3\nmaximum = 2", "guest a: maximum 2 is below minimum 3"),
        (HEAD + GUEST + "home_node = 1", "guest a: home_node 1: the host has 1 nodes"),
        (HEAD + GUEST + GUEST, "guest a: there are two of that name"),
        (HEAD + "settle_s = 10\n" + GUEST, "settle_s 10 leaves nothing"),
        (HEAD + "[host]\npcpus = 5\nthreads_per_core = 2\n" + GUEST, "host.pcpus 5 are not whole cores of 2"),
        (HEAD + "[host]\npcpus = 5\nnodes = 6\n" + GUEST, "host.nodes 6: there are fewer cores"),
        (HEAD + '[[guest]]\nname = "a"\ncurve = "nope"', "guest a: curve nope: no shipped one has that name"),
        (
            HEAD + '[[arrivals]]\nname = "v"\nvcpus = [2]\ncurves = [{curve = {model = "perfect"}}]\nper_hour = [1, 2]',
            "arrivals v: per_hour has 2 numbers: give one, or 24",
        ),
        (HEAD + '[[arrivals]]\nname = "v"\nvcpus = []\ncurves = []', "arrivals v: curves and vcpus need one"),
        ('name = "x"\nseconds = inf\n' + GUEST, r"Expected `float` <= 1000000000.0 - at `\$.seconds`: its keys are"),
        (
            HEAD + '[[arrivals]]\nname = "v"\nvcpus = [2]\ncurves = [{curve = {model = "perfect"}}]\nper_hour = inf',
            r"Expected `float` <= 1000000.0 - at `\$.arrivals\[0\].per_hour`: its keys are name, curves",
        ),
        ("name = ", "not TOML"),
    ],
)
def test_a_bad_scenario_file_is_named_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(f"scenario {path}: ")


def test_a_name_that_is_neither_shipped_nor_a_file() -> None:
    with pytest.raises(UsageError, match=r"scenario nowhere: no shipped one has that name \(.*cg-lu"):
        load_scenario("nowhere")
    with pytest.raises(UsageError, match="No such file"):
        load_scenario("nowhere.toml")


def test_curves_are_looked_for_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(CURVE)
    (tmp_path / "scene.toml").write_text(
        HEAD + '[[guest]]\nname = "a"\ncurve = "mine.toml"\ncount = 2\n'
        'unmanaged_curve = "mine.toml"\nphases = [{seconds = 1, curve = "mine.toml"}]'
    )
    plans = expanded(load_scenario(tmp_path / "scene.toml"))
    assert [plan.name for plan in plans] == ["a-0", "a-1"]
    assert plans[0].curve.name == "c" and plans[0].phases[0].curve == plans[0].unmanaged_curve == plans[0].curve
    assert plans[0].vcpus == 36


def test_arrivals_are_by_the_seed_and_by_the_hour(tmp_path: Path) -> None:
    hours = [0.0] * 24
    hours[1] = 100.0
    (tmp_path / "fleet.toml").write_text(
        f'name = "f"\nseconds = 7200\n[[arrivals]]\nname = "v"\nvcpus = [2, 4]\nat_start = 3\nper_hour = {hours}\n'
        'curves = [{curve = {model = "perfect"}, weight = 3}, {curve = {model = "log", weight = 1.0}}]\n'
        "work_median_s = 50\nbusy_median_s = 5\nidle_median_s = 5\n"
    )
    scenario = load_scenario(tmp_path / "fleet.toml")
    plans = expanded(scenario)
    assert plans == expanded(scenario) != expanded(scenario, seed=7)
    starts = [plan.start_s for plan in plans]
    assert starts[:3] == [0.0] * 3 and all(3600.0 <= start_s < 7200.0 for start_s in starts[3:])
    assert 70 <= len(plans) - 3 <= 130
    perfect = sum(plan.curve.name == "perfect" for plan in plans)
    assert 0.6 < perfect / len(plans) < 0.9
    assert {plan.vcpus for plan in plans} == {2, 4}
    assert all(plan.work_s and plan.work_s > 0 for plan in plans)
    assert {phase.curve is None for phase in plans[0].phases} == {True, False}
