"""The shipped curves and scenarios load, name their sources, agree with the published numbers, and run."""

import math
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
import pytest
from vscaf.errors import UsageError
from vscaf.simulate.engine.run import simulate
from vscaf.simulate.engine.steal_governor import STEAL_GOVERNOR
from vscaf.simulate.scenarios.curves import load_curve, shipped_curves
from vscaf.simulate.scenarios.expansion import expanded, scenarios_of
from vscaf.simulate.scenarios.files import load_scenario, shipped_scenarios
from vscaf_policies.registry import GROUP

EXPECTED = {
    "cg-lu", "three-way", "oracle-sp-lu", "oracle-cg-ft", "oracle-lu-bt", "oracle-ft-lu", "thatcher-lm",
    "thatcher-lsss", "thatcher-lmmm", "thatcher-llll", "hpx-hierarchy", "liar", "silent", "crash",
    "numa", "smt", "fleet-day", "nine-pairs",
}  # fmt: skip
POLICIES = sorted(
    {one.name for one in entry_points(group=GROUP) if one.value.startswith("vscaf_policies.") and one.name != "static"}
    | {STEAL_GOVERNOR}
)
NINE = ("bt", "cg", "ep", "ft", "is", "lu", "mg", "sp", "ua")


def test_everything_is_shipped() -> None:
    assert set(shipped_scenarios()) >= EXPECTED
    assert {f"{name}-t2" for name in NINE} <= set(shipped_curves())


@pytest.mark.parametrize("name", shipped_curves())
def test_a_curve_says_where_it_is_from_and_what_is_assumed(name: str) -> None:
    curve = load_curve(name)
    assert curve.name == name
    assert curve.title
    assert any(author in curve.source for author in ("Creech 2015", "Thatcher 2016", "Raj 2014"))
    assert curve.assumed  # none of them is published in full


def test_every_shipped_curve_is_used_by_a_shipped_scenario() -> None:
    used = set()
    for name in shipped_scenarios():
        for one in scenarios_of(load_scenario(name)):
            for plan in expanded(one):
                used |= {plan.curve.name, plan.unmanaged_curve.name}
    assert used >= set(shipped_curves())


@pytest.mark.parametrize("name", shipped_curves())
def test_no_curve_is_faster_than_its_threads_or_slower_than_one(name: str) -> None:
    curve = load_curve(name)
    most = int(max(cpus for cpus, _speedup in curve.points + curve.assumed_points))
    for cpus in range(1, most + 9):
        assert 1.0 <= curve.speedup(cpus) <= cpus + 1e-9


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("cg-tilegx36", ((1, 1.0), (4, 4.0), (18, 17.0), (36, 28.9))),  # Creech 2015, Tables 2.1 and 4.1
        ("lu-tilegx36", ((1, 1.0), (18, 12.0), (32, 20.0), (36, 22.4))),
        ("cg-tilegx36-with-ft", ((1, 1.0), (35, 27.0))),  # section 7.3.1: 28.0 at 35 + 1
        ("cg-t2", ((1, 1.0), (64, 50.0))),  # section 7.2
        ("lu-t2-three-way", ((1, 1.0), (21, 13.0), (64, 27.5))),  # section 7.2 and Table 7.2
        ("hpx-hierarchy16", ((1, 1.0), (4, 1.645), (8, 1.612), (16, 1.92))),  # Raj 2014, Table 6.1
        ("hpx-local16", ((1, 1.0), (4, 1.758), (8, 2.106), (16, 2.544))),
        ("bt-t2", ((1, 1.0),)),  # no number of it is published
    ],
)
def test_published_points_are_what_the_source_says(name: str, points: tuple[tuple[float, float], ...]) -> None:
    assert load_curve(name).points == points
    for cpus, speedup in points:
        assert load_curve(name).speedup(cpus) == pytest.approx(speedup)


def test_the_hierarchy_scheduler_is_slower_on_8_cores_than_on_4() -> None:
    curve = load_curve("hpx-hierarchy16")
    assert curve.speedup(8) < curve.speedup(4)


@pytest.mark.parametrize(
    ("scenario", "splits"),
    [
        ("cg-lu", {(18, 18): 29.0, (4, 32): 24.0, (25, 11): 31.2}),  # Table 4.3
        ("oracle-sp-lu", {(18, 18): 25.0, (5, 31): 26.7}),  # section 7.3.1
        ("oracle-cg-ft", {(30, 6): 25.6, (35, 1): 28.0}),
        ("oracle-lu-bt", {(10, 6): 10.1}),  # section 7.3.2
        ("oracle-ft-lu", {(6, 10): 10.3, (3, 13): 10.6}),
    ],
)
def test_published_sums_are_what_the_curves_come_to(scenario: str, splits: dict[tuple[int, int], float]) -> None:
    curves = [plan.curve for plan in expanded(load_scenario(scenario))]
    for split, published in splits.items():
        total = sum(curve.speedup(cpus) for curve, cpus in zip(curves, split, strict=True))
        assert total == pytest.approx(published, abs=0.02)


def test_three_way_starts_as_the_thesis_has_it() -> None:
    """Creech 2015, section 7.2: cg.C at 0 s, sp.B at 10 s, lu.B at 20 s, on 64 contexts."""
    scenario = load_scenario("three-way")
    assert [(plan.name, plan.start_s) for plan in expanded(scenario)] == [("cg", 0.0), ("sp", 10.0), ("lu", 20.0)]
    assert scenario.host.pcpus == 64


@pytest.mark.slow
def test_three_way_under_equal_shares_comes_to_what_was_published() -> None:
    """Creech 2015, Table 7.2: speedups 15.5, 12.2 and 13.0 over each program's run. The last one ends at 390.8 s."""
    run = simulate(load_scenario("three-way"), "equipartition")
    assert [guest.speedup for guest in run.guests] == pytest.approx([15.5, 12.2, 13.0], rel=0.02)
    assert max(guest.end_s or math.inf for guest in run.guests) == pytest.approx(10.0 + 380.8, rel=0.01)


def test_coming_and_going_is_as_thatcher_has_it() -> None:
    """Thatcher 2016, section 5.8: the second comes 3 s after the first, then one every 2 s. The work is each tree's
    time alone (section 5.2)."""
    plans = expanded(load_scenario("thatcher-lsss"))
    assert [plan.start_s for plan in plans] == [0.0, 3.0, 5.0, 7.0]
    alone_s = [plan.work_s / plan.curve.speedup(8) for plan in plans if plan.work_s]
    assert alone_s == pytest.approx([9.242, 0.189, 0.189, 0.189], rel=1e-3)


def test_a_day_of_the_fleet_has_guests_that_stay_and_jobs_that_come() -> None:
    scenario = load_scenario("fleet-day")
    plans = expanded(scenario)
    assert (scenario.host.pcpus, scenario.seconds) == (512, 24 * 3600.0)
    assert sum(plan.start_s == 0.0 for plan in plans) == 125
    assert len(plans) > 450


def test_all_pairs_of_nine_curves_are_shipped() -> None:
    each = scenarios_of(load_scenario("nine-pairs"))
    assert len({frozenset(guest.name for guest in one.guests) for one in each}) == 36
    assert {guest.name for one in each for guest in one.guests} == {f"{name}-t2" for name in NINE}
    # Creech 2015, section 7.1: the second program starts 10 s after the first.
    assert all([plan.start_s for plan in expanded(one)] == [0.0, 10.0] for one in each)


def shortened(name: str) -> object:
    """A few seconds of a scenario. All guests come soon, and of a fleet only some come."""
    scenario = scenarios_of(load_scenario(name))[0]
    if scenario.arrivals:
        arrivals = tuple(msgspec.structs.replace(one, at_start=10, per_hour=0.0) for one in scenario.arrivals)
        host = msgspec.structs.replace(scenario.host, pcpus=128)
        return msgspec.structs.replace(
            scenario, arrivals=arrivals, host=host, seconds=120.0, period_ms=5000, newcomer_ms=10_000
        )
    guests = tuple(
        msgspec.structs.replace(guest, start_s=guest.start_s / 10.0, crash_s=guest.crash_s and 3.0)
        for guest in scenario.guests
    )
    return msgspec.structs.replace(scenario, guests=guests, seconds=5.0, settle_s=0.0, newcomer_ms=500)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_scenario_runs_under_every_policy_without_a_broken_law(name: str, policy: str) -> None:
    scenario = shortened(name)
    run = simulate(scenario, policy)  # type: ignore[arg-type]
    counted = all(plan.curve.ipc is not None for plan in expanded(scenario)) and name != "silent"
    if policy == "max-ipc" and not counted:
        assert run.violations and all("no instructions per cycle are known" in one for one in run.violations)
    else:
        assert run.violations == ()
    assert run.decisions > 0
    assert run.sum_of_speedups > 0.0
    if policy not in ("unmanaged", STEAL_GOVERNOR):
        assert all(sum(moment.allocations.values()) <= run.pcpus for moment in run.moments)


def test_max_ipc_loses_as_in_the_thesis() -> None:
    """Creech 2015, Table 4.3: 4 + 32 CPUs, and speedups of 4.0 + 20.0 = 24.0. Equal shares have 29.0."""
    run = simulate(load_scenario("cg-lu"), "max-ipc")
    assert run.violations == ()
    assert run.moments[-1].allocations == {"cg": 4, "lu": 32}
    assert {guest.name: round(guest.speedup, 1) for guest in run.guests} == {"cg": 4.0, "lu": 20.0}
    assert round(run.sum_of_speedups, 1) == 24.0


def curve_file(directory: Path, text: str) -> Path:
    path = directory / "one.toml"
    path.write_text(f'name = "one"\nsource = "none"\n{text}\n', encoding="utf-8")
    return path


def test_assumed_points_shape_the_curve_and_stay_apart_from_published_ones(tmp_path: Path) -> None:
    path = curve_file(
        tmp_path, 'points = [[1, 1.0], [8, 4.0]]\nassumed_points = [[4, 3.5]]\nassumed = "some"\nbetween = "linear"'
    )
    curve = load_curve(path)
    assert curve.points == ((1.0, 1.0), (8.0, 4.0))
    assert curve.assumed_points == ((4.0, 3.5),)
    assert curve.speedup(6) == pytest.approx(3.75)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("points = [[1, 1.0]]\nassumed_points = [[4, 3.5]]", "assumed: is missing"),
        ('points = [[1, 1.0], [4, 3.0]]\nassumed_points = [[4, 3.5]]\nassumed = "x"', "4 threads are in points too"),
        ('points = [[1, 1.0]]\nassumed_points = [[4, 3.5], [2, 2.0]]\nassumed = "x"', "assumed_points: threads do not"),
    ],
)
def test_assumed_points_that_cannot_be_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_curve(curve_file(tmp_path, text))
