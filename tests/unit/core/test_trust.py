"""Trust in guests: a liar's gain is bounded, and honest programs lose nothing."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.model.scaf import scaf_weight
from vscaf.core.model.trust import (
    SETTLED_S,
    TURNS_AT_ONCE,
    TURNS_PER_SECOND,
    VIEW_WINDOW_S,
    DemandHistory,
    DemandLimits,
    HostView,
    Steadiness,
    believed_demand,
    believed_online,
    believed_points,
    believed_processes,
    believed_weight,
    limited_demand,
    offline_as_reported,
    speedup_limit,
    steadiness,
    view_after,
)
from vscaf_policies import SpeedupPoint
from vscaf_policies.models.points import LEAST_SPEEDUP, MOST_EFFICIENCY

PERIOD_S = 0.25
VCPUS = 16
CPUS = st.integers(1, VCPUS)
FRACTION = st.floats(0.0, 1.0)


def point(cpus: int, speedup: float) -> SpeedupPoint:
    return SpeedupPoint(cpus, speedup, 0.02 * max(1.0, abs(speedup)), 50)


def view_of_use(
    host_view: HostView, cpus: int, busy_cpus: float, window_s: float, *, computing: bool = True
) -> HostView:
    """The view after a window in which no vCPU waited."""
    return view_after(host_view, cpus, {0: busy_cpus * window_s}, {}, window_s, computing=computing)


def seen(cpus: int, busy_cpus: float, periods: int = 40) -> HostView:
    host_view = HostView()
    for _ in range(periods):
        host_view = view_of_use(host_view, cpus, busy_cpus, PERIOD_S)
    return host_view


def amdahl(serial: float, cpus: int) -> float:
    return 1.0 / (serial + (1.0 - serial) / cpus)


# Speedup


@given(st.floats(0.0, 1.0), CPUS, st.floats(-0.04, 0.04))
def test_an_honest_programs_curve_is_kept_within_noise(serial: float, cpus: int, noise: float) -> None:
    host_view = seen(cpus, amdahl(serial, cpus))  # the use of a program that sleeps while it waits
    curve = [point(p, amdahl(serial, p) * (1 + noise)) for p in range(1, VCPUS + 1)]
    for claim, believed in zip(curve, believed_points(curve, host_view, VCPUS), strict=True):
        assert believed.cpus == claim.cpus
        assert believed.speedup <= claim.speedup
        assert believed.speedup >= amdahl(serial, claim.cpus) * (1 - abs(noise)) - 1e-9


@given(CPUS, st.floats(1.0, MOST_EFFICIENCY), st.floats(0.95, 1.0))
def test_super_linear_speedup_survives_full_use(cpus: int, efficiency: float, use: float) -> None:
    host_view = seen(cpus, use * cpus)
    claims = [point(p, efficiency * p * 0.94) for p in range(1, VCPUS + 1)]
    assert believed_points(claims, host_view, VCPUS) == tuple(claims)


@given(CPUS, FRACTION, st.lists(st.tuples(st.integers(-1, 5000), st.floats(allow_nan=True)), max_size=20))
def test_no_claim_is_believed_beyond_what_was_used(cpus: int, use: float, claims: list[tuple[int, float]]) -> None:
    host_view = seen(cpus, use * cpus)
    efficiency = MOST_EFFICIENCY if use > 0.8 else 1.0
    for believed in believed_points([point(p, s) for p, s in claims], host_view, VCPUS):
        assert 1 <= believed.cpus <= VCPUS
        assert not math.isnan(believed.speedup)
        assert believed.speedup <= max(1.0, efficiency * use * max(cpus, believed.cpus)) + 1e-6
        assert believed.speedup <= max(1.0, MOST_EFFICIENCY * believed.cpus) + 1e-6


@given(CPUS, st.floats(0.0, 0.79), st.integers(2, VCPUS), st.integers(1, 512))
def test_a_liars_weight_is_that_of_an_honest_program_with_its_use(
    cpus: int, use: float, at: int, processes: int
) -> None:
    """Claims of E = 1, at any one p and by any number of processes: no more weight than the use that was seen bears."""
    busy = use * cpus
    host_view = seen(cpus, busy)
    weight = believed_weight([[point(at, float(at))]] * processes, host_view, VCPUS, VCPUS)
    honest = [scaf_weight([point(p, max(1.0, use * p, min(p, busy)))]) for p in range(2, VCPUS + 1)]
    assert weight is not None
    assert weight <= max(w for w in honest if w is not None) * max(1, math.ceil(busy)) + 1e-9


@given(st.integers(2, VCPUS))
def test_a_liar_gains_at_most_a_bounded_share(cpus: int) -> None:
    """Beside an honest, perfectly scaling program, at the same p, in a pool that SCAF splits by weight (eq. 4.9)."""
    honest = believed_weight([[point(cpus, float(cpus))]], seen(cpus, float(cpus)), VCPUS, VCPUS)
    spins = believed_weight([[point(cpus, 1e6)]], seen(cpus, float(cpus)), VCPUS, VCPUS)
    sleeps = believed_weight([[point(cpus, 1e6)]], seen(cpus, 0.3), VCPUS, VCPUS)
    assert honest is not None and spins is not None and sleeps is not None
    assert spins / (spins + honest) <= (2 * cpus - 1) / (3 * cpus - 2) + 1e-9  # 3/4 at two CPUs, towards 2/3
    assert sleeps / (sleeps + honest) < 0.1
    # At the most CPUs that the domain may have, it gains nothing.
    assert believed_weight([[point(cpus, 1e6)]], seen(cpus, float(cpus)), cpus, cpus) == pytest.approx(honest)


@pytest.mark.parametrize("burst_cpus", [4.0, 32.0])
def test_a_burst_before_each_look_is_worth_its_own_time_on_its_own_cpus(burst_cpus: float) -> None:
    host_view = HostView()
    for period in range(160):
        host_view = view_of_use(host_view, 4, burst_cpus if period % 8 == 0 else 0.1, PERIOD_S)
    assert speedup_limit(host_view, 4, VCPUS) == 1.0


@pytest.mark.parametrize("phase_s", [0.25, 1.0, 2.0])
def test_serial_phases_do_not_make_a_program_a_liar(phase_s: float) -> None:
    periods = round(phase_s / PERIOD_S)
    host_view = HostView()
    for period in range(400):
        host_view = view_of_use(host_view, 4, 4.0 if period // periods % 2 else 1.0, PERIOD_S)
        if period > 64:
            assert speedup_limit(host_view, 4, VCPUS) > 0.85 * 2.5  # half of the time 4, half 1: S(4) = 2.5


def test_an_idle_domain_says_nothing_of_its_programs() -> None:
    host_view = seen(4, 4.0)
    for _ in range(400):
        host_view = view_of_use(host_view, 4, 0.0, PERIOD_S, computing=False)
    assert speedup_limit(host_view, 4, VCPUS) == 8.0


@given(CPUS, CPUS, FRACTION, FRACTION)
def test_a_new_allocation_is_no_amnesty(first: int, second: int, use: float, other: float) -> None:
    before = seen(first, use * first)
    host_view = before
    for period in range(1, 9):
        host_view = view_of_use(host_view, second, other * second, PERIOD_S)
        limits = [speedup_limit(host_view, p, VCPUS) for p in range(1, VCPUS + 1)]
        assert all(math.isfinite(limit) for limit in limits)
        if first != second and period * PERIOD_S < SETTLED_S:
            assert limits == [speedup_limit(before, p, VCPUS) for p in range(1, VCPUS + 1)]
    if first != second:
        assert host_view.known == (second, pytest.approx(other * second))


def test_nothing_seen_nothing_held_against_it() -> None:
    claims = [point(2, 1.9), point(4, 3.5)]
    assert believed_points(claims, HostView(), VCPUS) == tuple(claims)
    assert believed_points([replace(claims[0], speedup=math.nan)], HostView(), VCPUS) == ()
    assert view_of_use(HostView(), 0, 3.0, PERIOD_S) == HostView()


@given(st.lists(st.tuples(st.integers(0, VCPUS), st.floats(-1, 50), st.floats(0, 20), st.booleans()), max_size=60))
def test_sight_is_always_a_use_of_what_there_was(periods: list[tuple[int, float, float, bool]]) -> None:
    host_view = HostView()
    for cpus, busy, window_s, computing in periods:
        host_view = view_of_use(host_view, cpus, busy, window_s, computing=computing)
        assert 0.0 <= host_view.busy_cpus <= host_view.cpus + 1e-9
        assert 0.0 <= host_view.seen_s <= VIEW_WINDOW_S


@given(
    st.floats(0.02, 1.0),
    st.lists(st.floats(0.0, 1.0), min_size=8, max_size=8),
    st.integers(2, VCPUS),
)
def test_a_vcpu_that_never_sleeps_could_use_a_cpu_whenever_its_waits_are_counted(
    use: float, late: list[float], claimed: int
) -> None:
    """use: what it gets of its CPU, the rest it waits. late: how much of each wait the kernel counts a window later."""
    host_view, late_s = HostView(), 0.0
    for period in range(48):
        waited_s = (1.0 - use) * PERIOD_S + late_s
        late_s = late[period % len(late)] * waited_s
        used_s, counted_s = {0: use * PERIOD_S, 1: 0.0}, {0: waited_s - late_s, 1: 0.0}
        host_view = view_after(host_view, 1, used_s, counted_s, PERIOD_S, computing=True)
    if late_s < 0.25 * use * VIEW_WINDOW_S:  # else what is not counted yet is much beside what was used
        assert believed_demand(claimed, host_view, 1) == claimed


def test_processes_that_leave_cpus_idle_are_not_that_many() -> None:
    assert believed_processes(seen(4, 0.7), VCPUS) == 1
    assert believed_processes(seen(4, 2.2), VCPUS) == 3
    assert believed_processes(seen(4, 3.9), VCPUS) == VCPUS
    assert believed_processes(HostView(), VCPUS) == VCPUS


# Demand


@given(st.integers(0, 4096), CPUS, FRACTION)
def test_a_claim_is_never_believed_upwards(claimed: int, allocation: int, use: float) -> None:
    believed = believed_demand(claimed, seen(allocation, use * allocation), allocation)
    assert believed <= claimed
    assert believed == claimed or believed >= 1


@given(st.integers(2, VCPUS), st.floats(0.0, VCPUS))
def test_who_says_busy_and_uses_less_settles_where_it_is_well_used(claimed: int, could_use: float) -> None:
    allocation, history = claimed, []
    for _ in range(12):
        host_view = seen(allocation, min(could_use, allocation))
        allocation = believed_demand(claimed, host_view, allocation)
        history.append(allocation)
    assert len(set(history[4:])) == 1, "to and fro"
    assert min(could_use, allocation) >= 0.5 * allocation or allocation <= max(1, math.ceil(could_use / 0.7))
    assert allocation >= min(claimed, math.floor(could_use))


def test_a_claim_stands_where_little_was_seen() -> None:
    assert believed_demand(8, HostView(), 4) == 8
    assert believed_demand(8, seen(4, 0.0), 0) == 8
    assert believed_demand(8, seen(2, 0.0), 4) == 8
    assert believed_demand(8, seen(4, 0.0, periods=2), 4) == 8


@given(st.lists(st.tuples(st.integers(0, 64), st.floats(0.01, 2.0)), max_size=300), st.integers(1, 4))
def test_demand_changes_no_oftener_than_allowed(wants: list[tuple[int, float]], minimum: int) -> None:
    limits = DemandLimits()
    history, changes, time_s, before = DemandHistory(), 0, 0.0, 0
    for wanted, dt_s in wants:
        time_s += dt_s
        demand, history = limited_demand(wanted, minimum, dt_s, history)
        changes += demand != before
        before = demand
        assert changes <= limits.burst + limits.per_second * time_s + 1e-6
        most = max(want for want, _ in wants)
        assert 0 <= demand <= max(most, minimum)
        assert demand >= minimum or demand in {want for want, _ in wants} or demand == 0


@pytest.mark.slow
@given(st.integers(0, 64), st.integers(0, 64), st.integers(1, 4))
def test_who_changes_seldom_is_followed_at_once(first: int, second: int, minimum: int) -> None:
    history = DemandHistory()
    for wanted in [first, second] * 20:
        for _ in range(20):
            demand, history = limited_demand(wanted, minimum, PERIOD_S, history)
            assert demand == wanted


@given(st.integers(1, 64), st.integers(1, 4))
def test_who_flaps_every_period_is_held_and_keeps_its_minimum(high: int, minimum: int) -> None:
    history, changes, demands = DemandHistory(), 0, []
    for period in range(400):
        demand, history = limited_demand(high if period % 2 else 0, min(minimum, high), PERIOD_S, history)
        demands.append(demand)
    changes = sum(a != b for a, b in pairwise(demands[40:]))
    assert changes <= DemandLimits().per_second * 90 + 1
    assert changes < 0.3 * 360  # it changed its mind 360 times
    assert all(min(minimum, high) <= demand for demand in demands[40:] if demand)
    held = max(set(demands[40:]), key=demands[40:].count)
    assert min(minimum, high) <= held <= max(min(minimum, high), math.ceil(0.6 * high))


@given(st.lists(st.integers(0, 64), max_size=100), st.integers(0, 64))
def test_who_stops_flapping_is_followed_again(flaps: list[int], last: int) -> None:
    history = DemandHistory()
    for wanted in flaps:
        _, history = limited_demand(wanted, 1, PERIOD_S, history)
    for _ in range(40):  # 10 s
        demand, history = limited_demand(last, 1, PERIOD_S, history)
    assert demand == last


# CPUs


@pytest.mark.parametrize(
    ("online", "believed"),
    [
        ([0, 1], (0, 1)),
        ([3, 0], (0, 3)),
        (range(4096), None),
        ([4], None),
        ([0, 4], None),
        ([1, 2], None),
        ([], None),
        (None, None),
    ],
)
def test_cpus_that_cannot_be_online_are_not_believed(
    online: list[int] | None, believed: tuple[int, ...] | None
) -> None:
    assert believed_online(online, range(4)) == believed


def test_the_guest_numbers_its_cpus_in_the_order_in_which_they_came() -> None:
    """vCPUs 0 and 3 are its CPUs 0 and 1. vCPU 1 is plugged later and is its CPU 2."""
    assert believed_online((0, 1), (0, 3)) == (0, 3)
    assert believed_online((0, 2), (0, 3, 1)) == (0, 1)
    assert believed_online((0, 2), (0, 3)) is None


def test_a_guest_that_keeps_numbers_for_absent_vcpus_numbers_them_as_libvirt_does() -> None:
    assert believed_online((0, 3), (0, 3)) == (0, 3)
    assert believed_online((0, 1, 3), (0, 3, 1)) == (0, 1, 3)
    assert believed_online((0, 1, 2), (0, 3)) is None


def test_a_cpu_that_computes_is_not_offline() -> None:
    assert offline_as_reported((0, 1), {0: 1.0, 1: 0.9, 2: 0.01, 3: 0.0})
    assert not offline_as_reported((0, 1), {0: 1.0, 1: 0.9, 2: 0.5})


def test_no_speedup_is_believed_that_nothing_finite_can_be_made_of():
    reported = [SpeedupPoint(4, speedup, 0.0, 9) for speedup in (5e-324, 0.0, -1.0, 0.009)]
    assert {one.speedup for one in believed_points(reported, HostView(), 8)} == {LEAST_SPEEDUP}


# Turns


@given(st.lists(st.tuples(st.booleans(), st.floats(0.001, 5.0), st.integers(0, 2)), max_size=300))
def test_turns_that_are_acted_on_are_bounded(steps: list[tuple[bool, float, int]]) -> None:
    history, now_s, turns, credits = Steadiness(), 0.0, 0, 0
    for turned, dt_s, credit in steps:
        now_s += dt_s
        credits += credit
        believed = not history.unsteady
        history = steadiness(history, now_s, turned=turned, credit=credit)
        turns += turned and believed
        assert turns <= TURNS_AT_ONCE + TURNS_PER_SECOND * now_s + credits + 1e-6


def test_who_is_made_to_turn_by_plugs_stays_steady() -> None:
    """The CPUs of 60 plugged vCPUs come online one after the other, long after the guest has confirmed its size."""
    history = steadiness(Steadiness(), 0.0, turned=False, credit=60)
    for number in range(60):
        history = steadiness(history, number * PERIOD_S, turned=True)
        assert not history.unsteady


def test_who_is_unsteady_is_believed_again_once_half_of_its_turns_are_back() -> None:
    history = Steadiness()
    for _ in range(20):
        history = steadiness(history, 0.0, turned=True)
    assert history.unsteady
    half_s = TURNS_AT_ONCE / 2 / TURNS_PER_SECOND
    assert steadiness(history, half_s - 0.1, turned=False).unsteady
    assert not steadiness(history, half_s, turned=False).unsteady
