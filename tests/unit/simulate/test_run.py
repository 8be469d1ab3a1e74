"""Laws of simulated runs: the result of a scenario follows from its curves and rules, and is the same each time."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vscaf.errors import UsageError
from vscaf.simulate.engine.guest import Guest as GuestOfRun
from vscaf.simulate.engine.result import Run
from vscaf.simulate.engine.run import simulate
from vscaf.simulate.report.oracle import best_dynamic
from vscaf.simulate.scenarios.curves import Amdahl, Log, Perfect
from vscaf.simulate.scenarios.files import load_scenario
from vscaf.simulate.scenarios.scenario import (
    Arrivals,
    Guest,
    Host,
    LatencySeconds,
    Noise,
    Phase,
    Scenario,
    WeightedCurve,
)
from vscaf_policies import PoolState, load_policy
from vscaf_policies.equipartition import equipartition

PERFECT = Perfect()
AMDAHL = Amdahl(serial=0.02)


def scenario(*guests: Guest, **keys: Any) -> Scenario:
    keys.setdefault("host", Host(pcpus=8))
    keys.setdefault("seconds", 12.0)
    return Scenario(name="test", guests=guests, **keys)


def run(scene: Scenario, policy: str = "equipartition", **options: Any) -> Run:
    result = simulate(scene, policy, **options)
    assert result.violations == ()
    return result


def work_s(result: Run) -> dict[str, float]:
    return {guest.name: guest.work_s for guest in result.guests}


def test_nobody_loses_time_when_alone() -> None:
    result = run(scenario(Guest(name="a", curve=AMDAHL)))
    assert result.guests[0].speedup == pytest.approx(AMDAHL.speedup(8))
    assert result.sum_of_speedups == pytest.approx(AMDAHL.speedup(8))
    assert result.efficiency == pytest.approx(AMDAHL.speedup(8) / 8)
    assert [moment.allocations for moment in result.moments] == [{"a": 8}]
    assert result.guests[0].claimed is None  # without competition nothing is measured


def test_two_guests_of_perfect_curves_get_half_each() -> None:
    result = run(scenario(Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT), settle_s=3.0))
    assert {guest.name: guest.speedup for guest in result.guests} == {
        "a": pytest.approx(4.0),
        "b": pytest.approx(4.0),
    }
    assert result.moments[-1].allocations == {"a": 4, "b": 4}
    assert result.converged_periods is not None and result.converged_periods <= 12


def test_the_same_seed_gives_an_equal_run_and_another_seed_another() -> None:
    scene = scenario(
        Guest(name="a", curve=AMDAHL, count=2, phases=(Phase(seconds=0.7), Phase(seconds=0.4, idle=True))),
        Guest(name="b", curve=Log(weight=1.5), behaviour="silent", start_s=1.0, end_s=9.0),
        noise=Noise(speedup=0.2),
        arrivals=(
            Arrivals(name="c", curves=(WeightedCurve(curve=AMDAHL),), vcpus=(2, 4), per_hour=2000.0, work_median_s=3.0),
        ),
    )
    first, again, other = (run(scene, "max-speedup", seed=seed) for seed in (3, 3, 4))
    assert replace(first, wall_s=0.0) == replace(again, wall_s=0.0)
    assert replace(first, wall_s=0.0) != replace(other, wall_s=0.0, seed=3)


def test_a_run_is_the_same_in_every_process() -> None:
    code = (
        "from vscaf.simulate.engine.run import simulate;"
        "from vscaf.simulate.scenarios.files import load_scenario; import msgspec;"
        "s = msgspec.structs.replace(load_scenario('cg-lu'), seconds=14.0, settle_s=11.0);"
        "r = simulate(s, 'max-speedup'); print(r.guests, r.moments, r.sum_of_speedups)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_work_is_conserved() -> None:
    """The work in all windows together is the work in the whole run, and the guests' work adds up to the run's."""
    scene = scenario(
        Guest(name="a", curve=AMDAHL, phases=(Phase(work_s=3.0), Phase(seconds=0.5, serial=True))),
        Guest(name="b", curve=Log(weight=2.0), start_s=2.5),
    )
    whole = run(scene)
    assert sum(work_s(whole).values()) == pytest.approx(whole.sum_of_speedups * scene.seconds)
    late = run(msgspec.structs.replace(scene, settle_s=5.0))
    assert work_s(late) == work_s(whole)
    early = run(msgspec.structs.replace(scene, seconds=5.0))
    assert late.sum_of_speedups * 7.0 + early.sum_of_speedups * 5.0 == pytest.approx(whole.sum_of_speedups * 12.0)


def test_a_guest_ends_when_its_work_is_done() -> None:
    result = run(scenario(Guest(name="a", curve=PERFECT, work_s=40.0), Guest(name="b", curve=PERFECT, vcpus=2)))
    done = result.guests[0]
    assert done.work_s == pytest.approx(40.0)
    assert done.end_s is not None and 40.0 / 8 < done.end_s < 40.0 / 4
    assert result.moments[-1].allocations == {"b": 2}


def test_a_crash_frees_the_cpus_within_a_period() -> None:
    scene = scenario(
        Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT, behaviour="crashes", crash_s=6.1), seconds=8.0
    )
    result = run(scene)
    assert result.guests[1].end_s == 6.1
    after = [moment for moment in result.moments if moment.allocations.get("a") == 8 and moment.time_s > 6.0]
    assert after and after[0].time_s <= 6.1 + scene.period_ms / 1000
    assert result.converged_periods is not None and result.converged_periods <= 1


def test_a_silent_guest_is_contained() -> None:
    """All its vCPUs float over its half of the pool, and it harms only itself."""
    scene = scenario(Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT, behaviour="silent"), settle_s=4.0)
    result = run(scene)
    good, silent = result.guests
    assert good.speedup == pytest.approx(4.0)
    assert silent.speedup == pytest.approx(8.0 / 2 / 2.4)
    assert silent.claimed is None


def test_a_guest_that_lies_says_what_it_claims_and_gains_no_true_speed() -> None:
    poor = Amdahl(serial=0.5)
    scene = scenario(
        Guest(name="a", curve=poor, behaviour="lies"), Guest(name="b", curve=PERFECT), settle_s=4.0, seconds=14.0
    )
    liar = run(scene).guests[0]
    assert liar.claimed == 4.0
    assert liar.speedup == pytest.approx(poor.speedup(4))
    shy = msgspec.structs.replace(scene, guests=(msgspec.structs.replace(scene.guests[0], claims=0.5), scene.guests[1]))
    assert run(shy).guests[0].claimed == 2.0


@pytest.mark.parametrize(("behaviour", "first"), [("lies", {"a": 4, "b": 4}), ("honest", {"a": 0, "b": 8})])
def test_a_liar_says_that_it_could_use_cpus_though_it_idles(behaviour: Any, first: dict[str, int]) -> None:
    idle = Guest(name="a", curve=PERFECT, behaviour=behaviour, phases=(Phase(seconds=99.0, idle=True),))
    scene = scenario(idle, Guest(name="b", curve=PERFECT), host=Host(pcpus=8, reserve=2), seconds=6.0)
    assert run(scene).moments[0].allocations == first


def test_a_serial_stretch_uses_one_cpu_and_waits_for_nobody() -> None:
    turns = Guest(name="a", curve=PERFECT, phases=(Phase(seconds=1.0, serial=True), Phase(seconds=1.0)))
    assert run(scenario(turns)).guests[0].speedup == pytest.approx((1.0 + 8.0) / 2)
    serial = Guest(name="a", curve=PERFECT, phases=(Phase(seconds=1.0, serial=True),))
    alone, among = run(scenario(serial, Guest(name="b", curve=PERFECT)), "unmanaged").guests
    # Nine threads are on eight pCPUs. The team of eight waits for its threads that have no CPU.
    assert alone.speedup == pytest.approx(8 / 9)
    assert among.speedup == pytest.approx(8 * (8 / 9) ** (1 + math.log2(2.4)))


def test_a_stretch_may_have_a_curve_of_its_own() -> None:
    guest = Guest(name="a", curve=PERFECT, phases=(Phase(seconds=1.0, curve=Perfect(most=2)), Phase(seconds=2.0)))
    assert run(scenario(guest)).guests[0].speedup == pytest.approx((2.0 + 8.0 + 8.0) / 3)


def test_loss_is_what_half_a_cpu_for_each_thread_costs() -> None:
    result = run(scenario(Guest(name="a", curve=PERFECT, loss=4.0, count=2)), "unmanaged")
    assert result.guests[0].speedup == pytest.approx(8 / 2 / 4.0)


@pytest.mark.parametrize(("granularity", "least"), [("fine", 2.2), ("coarse", 0.95)])
def test_unmanaged_is_slower_where_the_work_is_fine_grained(granularity: Any, least: float) -> None:
    scene = scenario(
        Guest(name="a", curve=PERFECT, granularity=granularity),
        Guest(name="b", curve=PERFECT, granularity=granularity),
        settle_s=4.0,
    )
    ratio = run(scene).sum_of_speedups / run(scene, "unmanaged").sum_of_speedups
    assert least <= ratio <= 1.1 * least + 0.05


@pytest.mark.parametrize(("spins", "share"), [(None, 1.0), (False, 1.0), (True, 0.5)])
def test_threads_that_wait_leave_their_cpus_to_others_unless_they_spin(spins: bool | None, share: float) -> None:
    """So two unmanaged guests that do not spin have more than under any partition."""
    curve = Amdahl(serial=0.2)
    scene = scenario(Guest(name="a", curve=curve, count=2, granularity="coarse", spins=spins))
    found = run(scene, "unmanaged").sum_of_speedups
    assert found == pytest.approx(2 * share * curve.speedup(8))
    assert (found > best_dynamic(scene).sum_of_speedups) == (not spins)


def test_threads_that_yield_leave_their_cpus_to_others_while_unmanaged() -> None:
    curve = Amdahl(serial=0.2)
    scene = scenario(Guest(name="a", curve=curve, count=2, yields=True))
    assert run(scene, "unmanaged").sum_of_speedups == pytest.approx(2 * curve.speedup(8))


def test_threads_that_yield_keep_cpus_of_their_own_busy() -> None:
    """Else the daemon would see that they use little, and would give them no more when somebody leaves."""
    guests = Guest(name="a", curve=Amdahl(serial=0.5), count=2, yields=True), Guest(name="b", curve=PERFECT, end_s=6.0)
    assert run(scenario(*guests)).moments[-1].allocations == {"a-0": 4, "a-1": 4}


def test_an_unmanaged_curve_counts_until_vscaf_gives_cpus() -> None:
    scene = scenario(Guest(name="a", curve=PERFECT, unmanaged_curve=Perfect(most=3.0)), settle_s=4.0)
    assert run(scene, "unmanaged").guests[0].speedup == pytest.approx(3.0)
    assert run(scene).guests[0].speedup == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("policy", "rules", "split"),
    [
        ("equipartition", {"minimum": 6}, (2, 6)),
        ("equipartition", {"maximum": 2}, (6, 2)),
        ("priority", {"weight": 3.0}, (2, 6)),
        ("fair", {"weight": 3.0}, (2, 6)),
    ],
)
def test_a_guest_has_its_rules(policy: str, rules: dict[str, Any], split: tuple[int, int]) -> None:
    guests = Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT, **rules)
    assert run(scenario(*guests), policy).moments[-1].allocations == dict(zip("ab", split, strict=True))


@pytest.mark.parametrize(("first", "split"), [("a", {"a": 8, "b": 0}), ("b", {"a": 0, "b": 8})])
def test_of_two_whose_minima_do_not_fit_the_priority_says_who_waits(first: str, split: dict[str, int]) -> None:
    guests = [Guest(name=name, curve=PERFECT, minimum=6, priority=int(name == first)) for name in "ab"]
    assert run(scenario(*guests), "priority").moments[-1].allocations == split


def test_max_speedup_learns_who_scales() -> None:
    scene = scenario(
        Guest(name="good", curve=PERFECT),
        Guest(name="bad", curve=Amdahl(serial=0.6)),
        noise=Noise(speedup=0.05),
        host=Host(pcpus=16),
        seconds=40.0,
        settle_s=30.0,
    )
    result = run(scene, "max-speedup")
    assert result.moments[-1].allocations["good"] > 12
    assert result.guests[0].claimed == pytest.approx(result.guests[0].speedup, rel=0.1)
    assert result.sum_of_speedups > run(scene).sum_of_speedups


def test_a_newcomer_has_an_equal_share_for_as_long_as_the_scenario_says() -> None:
    guests = (Guest(name="good", curve=PERFECT), Guest(name="bad", curve=Amdahl(serial=0.6)))
    scene = scenario(*guests, host=Host(pcpus=16), newcomer_ms=6000, seconds=9.0)
    moments = run(scene, "max-speedup").moments
    assert moments[0].allocations == {"good": 8, "bad": 8}
    assert 6.0 < moments[1].time_s < 7.0


def test_who_is_late_is_waited_for_until_the_deadline_of_the_scenario() -> None:
    guests = (Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT, start_s=4.0))
    scene = scenario(*guests, latencies=LatencySeconds(online_s=2.0), deadline_ms=100)
    patient = msgspec.structs.replace(scene, deadline_ms=3000)
    assert work_s(run(scene))["a"] != pytest.approx(work_s(run(patient))["a"], abs=0.1)


def test_claims_are_as_uncertain_as_the_scenario_says() -> None:
    """Over many seeds the claims have the right mean, and their spread is neither too small nor too large."""
    scene = scenario(
        Guest(name="a", curve=AMDAHL), Guest(name="b", curve=AMDAHL), noise=Noise(speedup=0.2), seconds=6.0
    )
    claims = [claim for seed in range(12) for guest in run(scene, seed=seed).guests if (claim := guest.claimed)]
    true = AMDAHL.speedup(4)
    assert len(claims) == 24
    mean = math.fsum(claims) / len(claims)
    spread = math.sqrt(sum((claim - mean) ** 2 for claim in claims) / (len(claims) - 1))
    assert mean == pytest.approx(true, rel=0.05)
    assert 0.02 < spread / true < 0.1  # about 18 comparisons at 20% noise give 0.047


def test_an_idle_guest_lends_its_cpus_and_has_them_back() -> None:
    sleeper = Guest(name="a", curve=PERFECT, phases=(Phase(seconds=4.0), Phase(seconds=4.0, idle=True)))
    result = run(scenario(sleeper, Guest(name="b", curve=PERFECT), host=Host(pcpus=8, reserve=2), seconds=11.0))
    states = [tuple(moment.allocations.get(name) for name in "ab") for moment in result.moments]
    assert (4, 4) in states and states.index((0, 8)) > states.index((4, 4)) and states[-1] == (4, 4)


def test_a_short_pause_costs_nobody_their_cpus() -> None:
    breather = Guest(name="a", curve=PERFECT, phases=(Phase(seconds=1.0), Phase(seconds=0.3, idle=True)))
    result = run(scenario(breather, Guest(name="b", curve=PERFECT), host=Host(pcpus=8, reserve=2), settle_s=3.0))
    assert result.moments[-1].allocations == {"a": 4, "b": 4} and result.moments[-1].time_s < 2.0


def test_what_goes_wrong_in_a_timer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(GuestOfRun, "_work_done", broken)
    violations = simulate(scenario(Guest(name="a", curve=PERFECT, work_s=8.0)), "unmanaged").violations
    assert violations == ("RuntimeError('broken')",)


def test_with_a_long_period_ends_wait_for_it() -> None:
    guests = (Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT, end_s=50.0))
    result = run(scenario(*guests, period_ms=20_000, seconds=100.0))
    grown = [moment.time_s for moment in result.moments if moment.allocations == {"a": 8}]
    assert 55.0 < grown[-1] < 70.0
    assert result.decisions < 12


def test_a_rigid_guest_keeps_its_team() -> None:
    scene = scenario(Guest(name="a", curve=PERFECT, rigid=True), Guest(name="b", curve=PERFECT), settle_s=4.0)
    result = run(scene)
    assert result.guests[0].speedup == pytest.approx(4.0 / 2.4)
    assert result.guests[1].speedup == pytest.approx(4.0)
    assert result.guests[0].claimed is None


def test_vcpus_are_plugged_where_a_guest_can_use_more() -> None:
    result = run(scenario(Guest(name="a", curve=PERFECT, vcpus_at_start=2), settle_s=4.0))
    assert result.guests[0].speedup == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("what", "seconds", "least", "most"),
    [
        ("call_s", 0.05, 0.5, 4.0),
        ("plug_s", 0.5, 0.99, 1.01),  # two vCPUs come half a second later
        ("resize_s", 0.5, 2.0, 8.0),
        ("online_s", 0.5, 2.0, 8.0),
    ],
)
def test_each_latency_costs_time(what: str, seconds: float, least: float, most: float) -> None:
    at_once = LatencySeconds(call_s=0.0, plug_s=0.0, unplug_s=0.0, resize_s=0.0, online_s=0.0)
    slow = msgspec.structs.replace(at_once, **{what: seconds})
    guests = [Guest(name="a", curve=PERFECT, work_s=16.0), Guest(name="b", curve=PERFECT, vcpus_at_start=6)]
    fast, late = (work_s(run(scenario(*guests, latencies=latencies)))["b"] for latencies in (at_once, slow))
    assert least < fast - late < most


def test_smt_and_numa_take_their_part() -> None:
    smt = run(scenario(Guest(name="a", curve=PERFECT), host=Host(pcpus=8, threads_per_core=2, smt_yield=0.65)))
    assert smt.guests[0].speedup == pytest.approx(8 * 0.65)
    numa = Host(pcpus=8, nodes=2, remote_penalty=0.25)
    wide = run(scenario(Guest(name="a", curve=PERFECT), host=numa))
    assert wide.guests[0].speedup == pytest.approx(6.0)
    pair = run(scenario(Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT), host=numa, settle_s=4.0))
    assert pair.sum_of_speedups == pytest.approx(8.0)


@pytest.mark.parametrize(("homes", "speedups"), [((0, 1), (4.0, 4.0)), ((1, 0), (4.0, 4.0)), ((1, 1), (4.0, 3.0))])
def test_guests_run_where_their_memory_is_as_far_as_there_is_room(
    homes: tuple[int, int], speedups: tuple[float, float]
) -> None:
    guests = [Guest(name=name, curve=PERFECT, home_node=home) for name, home in zip("ab", homes, strict=True)]
    scene = scenario(*guests, host=Host(pcpus=8, nodes=2, remote_penalty=0.25), settle_s=4.0)
    assert tuple(guest.speedup for guest in run(scene).guests) == pytest.approx(speedups)


def test_a_long_period_makes_no_report_stale() -> None:
    guests = [Guest(name="a", curve=PERFECT), Guest(name="b", curve=Amdahl(serial=0.6))]
    scene = scenario(*guests, host=Host(pcpus=16), period_ms=60_000, seconds=3600.0, settle_s=1800.0)
    result = run(scene, "max-speedup")
    assert result.decisions < 100
    assert result.moments[-1].allocations["a"] > 12
    assert result.guests[0].speedup == pytest.approx(result.moments[-1].allocations["a"])


def test_a_policy_function_decides_in_place_of_an_installed_one() -> None:
    def all_but_one(pool: PoolState, options: Any) -> dict[str, int]:
        shares = equipartition(pool, {})
        assert shares is not None and options == {"to": "a"}
        return {name: 7 if name == "a" else 1 for name in shares}

    scene = scenario(Guest(name="a", curve=PERFECT), Guest(name="b", curve=PERFECT))
    result = run(scene, "mine", policy_function=all_but_one, options={"to": "a"})
    assert result.policy == "mine"
    assert result.moments[-1].allocations == {"a": 7, "b": 1}
    with pytest.raises(UsageError, match="no policy is named 'mine'"):
        simulate(scene, "mine")


def test_programs_whose_curves_say_it_have_instructions_per_cycle() -> None:
    guests = (Guest(name="a", curve=Perfect(ipc=0.3)), Guest(name="b", curve=Amdahl(serial=0.05, ipc=0.6)))
    result = run(scenario(*guests, host=Host(pcpus=16)), "max-ipc")
    assert result.moments[-1].allocations == {"a": 4, "b": 12}
    pauses = (Phase(seconds=1.0), Phase(seconds=0.4, idle=True))
    guests = (msgspec.structs.replace(guests[0], phases=pauses), guests[1])
    run(scenario(*guests, host=Host(pcpus=16)), "max-ipc")  # which checks that nothing was refused


def test_a_curve_without_instructions_per_cycle_refuses_max_ipc() -> None:
    guests = (Guest(name="a", curve=Perfect(ipc=0.3)), Guest(name="b", curve=PERFECT))
    result = simulate(scenario(*guests), "max-ipc")
    assert any("known of b:" in violation for violation in result.violations)
    assert set(result.moments[-1].allocations.values()) == {4}


def test_a_policy_that_fails_is_said() -> None:
    def broken(pool: PoolState, options: Any) -> dict[str, int]:
        raise RuntimeError("no idea")

    result = simulate(scenario(Guest(name="a", curve=PERFECT)), "broken", policy_function=broken)
    assert any("no idea" in violation for violation in result.violations)


def test_progress_is_told() -> None:
    progress: list[float] = []
    run(scenario(Guest(name="a", curve=PERFECT)), on_progress=progress.append)
    assert progress == sorted(progress) and progress[-1] == 1.0


curves = st.sampled_from([PERFECT, AMDAHL, Amdahl(serial=0.4), Log(weight=0.5)])
phases = st.sampled_from(
    [
        (),
        (Phase(seconds=0.9), Phase(seconds=0.8, idle=True)),
        (Phase(work_s=2.0), Phase(seconds=0.3, serial=True)),
        (Phase(seconds=2.0, idle=True), Phase(seconds=1.0, curve=Amdahl(serial=0.7))),
    ]
)
guests = st.builds(
    Guest,
    name=st.just("g"),
    curve=curves,
    count=st.integers(1, 3),
    vcpus=st.integers(1, 8),
    start_s=st.floats(0.0, 3.0),
    work_s=st.none() | st.floats(0.5, 20.0),
    minimum=st.integers(1, 3),
    weight=st.sampled_from([1.0, 2.0]),
    behaviour=st.sampled_from(["honest", "silent", "lies"]),
    rigid=st.booleans(),
    granularity=st.sampled_from(["fine", "coarse"]),
    spins=st.booleans(),
    phases=phases,
)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    many=st.lists(guests, min_size=1, max_size=4),
    policy=st.sampled_from(["equipartition", "max-speedup", "unmanaged", "gang", "priority", "fair", "efficiency"]),
    threads=st.sampled_from([1, 2]),
    nodes=st.sampled_from([1, 2]),
    reserve=st.sampled_from([0, 2]),
    noise=st.sampled_from([0.0, 0.3]),
)
def test_no_scenario_breaks_a_law(  # noqa: PLR0917 (what scenarios differ in)
    many: list[Guest], policy: str, threads: int, nodes: int, reserve: int, noise: float
) -> None:
    named = [msgspec.structs.replace(guest, name=f"g{number}") for number, guest in enumerate(many)]
    host = Host(
        pcpus=8,
        threads_per_core=threads,
        nodes=nodes,
        reserve=reserve,
        smt_yield=1.0 / threads**0.5,
        remote_penalty=0.2,
    )
    result = run(scenario(*named, host=host, noise=Noise(speedup=noise), seconds=6.0, settle_s=1.0), policy)
    for moment in result.moments:
        assert all(0 <= cpus <= 8 for cpus in moment.allocations.values())
    assert sum(guest.work_s for guest in result.guests) <= 8 * 6.0 + 1e-6
    assert 0.0 <= result.efficiency <= 1.0 + 1e-9


@settings(max_examples=15)
@given(
    many=st.lists(
        st.builds(
            Guest,
            name=st.just("g"),
            curve=curves,
            vcpus=st.integers(1, 8),
            start_s=st.floats(0.0, 3.0),
            end_s=st.none() | st.floats(3.5, 5.5),
            behaviour=st.sampled_from(["honest", "silent", "lies"]),
            phases=st.sampled_from([(), (Phase(seconds=0.9), Phase(seconds=0.8, idle=True))]),
        ),
        min_size=1,
        max_size=3,
    ),
    policy=st.sampled_from(["equipartition", "max-speedup", "max-speedup-fitted", "fair", "efficiency"]),
)
def test_no_partition_has_more_than_the_oracle(many: list[Guest], policy: str) -> None:
    scene = scenario(
        *[msgspec.structs.replace(guest, name=f"g{number}") for number, guest in enumerate(many)],
        noise=Noise(speedup=0.1),
        seconds=6.0,
    )
    best = best_dynamic(scene)
    assert best.exact
    assert run(scene, policy).sum_of_speedups <= best.sum_of_speedups * (1.0 + 1e-6)


def test_a_policy_that_is_handed_over_explores_like_one_that_is_named() -> None:
    scenario = load_scenario("oracle-cg-ft")
    named = simulate(scenario, "max-speedup-fitted")
    handed = simulate(scenario, "max-speedup-fitted", policy_function=load_policy("max-speedup-fitted"))
    assert replace(named, wall_s=0.0) == replace(handed, wall_s=0.0)
    assert handed.exploration_cost > 0
