"""Demand, with agents that tell the truth, lie or are silent."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.model.demand import (
    DemandMemory,
    DemandThresholds,
    HostUsage,
    after_window,
    demand_now,
    host_usage,
    sleeps_on,
    unserved_s,
)

PERIOD_S = 0.25
LIMITS = DemandThresholds()


def usage(busy_cpus):
    return HostUsage(busy_cpus * PERIOD_S, PERIOD_S)


def infer(agent, busy_cpus, allocation, vcpus, memory):
    """Demand and memory after a look. busy_cpus: of the window that the look ends; None: the look ends no window."""
    if busy_cpus is not None:
        memory = after_window(agent, usage(busy_cpus), allocation, vcpus, memory, LIMITS)
    return demand_now(agent, vcpus, memory, LIMITS), memory


def run(steps, vcpus=4, allocation=2):
    """The demand after each step. A step is (demand that the agent reports, busy CPUs that the host sees or None)."""
    memory, seen = DemandMemory(), []
    for says, busy_cpus in steps:
        demand, memory = infer(says, busy_cpus, allocation, vcpus, memory)
        seen.append(demand)
    return seen


def test_a_fresh_report_counts_at_once_clamped_to_the_vcpus():
    assert run([(3, 2.0), (0, 0.3), (99, 2.0)]) == [3, 0, 4]


def test_idle_is_not_believed_while_the_host_sees_work():
    assert run([(0, 0.9), (0, 1.9), (0, 0.5)]) == [1, 4, 0]


def test_a_first_report_of_idle_counts_at_the_end_of_a_window():
    """A quiet agent wakes before it knows of the program that the host has seen."""
    assert run([(None, 1.0), (0, None), (0, 0.9), (0, None), (1, None)]) == [1, 1, 1, 1, 1]
    assert run([(None, 1.0), (0, None), (0, 0.2), (0, None)]) == [1, 1, 0, 0]
    assert run([(None, 0.0)] * 4 + [(0, None)]) == [0] * 5


def test_busy_is_not_believed_for_ever_while_the_host_sees_nothing():
    seen = run([(2, 0.0)] * 12)
    assert seen == [2] * 7 + [0] * 5, "after 1.9 s"


def test_a_claim_that_was_not_believed_is_believed_once_it_is_seen_or_made_again():
    lie = [(2, 0.0)] * 10
    assert run([*lie, (2, 0.2)])[-1] == 2
    assert run([*lie, (0, 0.0), (2, 0.0)])[-1] == 2


def test_a_claim_that_was_not_believed_gets_another_chance():
    seen = run([(2, 0.0)] * 60, allocation=0)
    assert seen[7:48] == [0] * 40 + [2], "after 10 s"


def test_a_failed_listing_is_not_idleness():
    assert run([(2, 2.0), (None, None), (None, None)]) == [2, 4, 4], "without reports its use counts: it was saturated"
    assert run([(None, 1.2), (None, None), (None, None)]) == [2, 2, 2]
    assert run([(2, None)] * 12)[-1] == 2


def test_without_an_agent_use_is_demand_at_once_and_quiet_must_last():
    silent = [(None, 0.0)]
    assert run([(None, 0.14), (None, 0.16)]) == [0, 1]
    assert run([(None, 0.9), *silent * 5]) == [1, 1, 1, 1, 0, 0]
    assert run([(None, 0.9), *silent * 3, (None, 0.1), *silent * 3]) == [1] * 8


def test_without_an_agent_a_saturated_allocation_could_use_all_vcpus():
    assert run([(None, 1.6), (None, 1.7)]) == [2, 4]


def test_a_resting_domain_shows_demand_like_any_other():
    for allocation in (0, 1):
        assert infer(None, 0.1, allocation, 2, DemandMemory())[0] == 0
    assert infer(None, 0.2, 0, 2, DemandMemory())[0] == 2


def test_a_serial_phase_does_not_lower_the_demand_until_it_lasts():
    assert run([(None, 1.9), *[(None, 0.95)] * 5]) == [4, 4, 4, 4, 1, 1]


def test_a_serial_program_is_not_tried_with_every_vcpu_all_the_time():
    """The allocation follows the demand, as if one other domain computed. All vCPUs are tried again every 5 seconds."""
    memory, seen, allocation = DemandMemory(), [], 0
    for _ in range(80):
        allocation, memory = infer(None, 0.97, allocation, 2, memory)
        seen.append(allocation)
    changes = sum(a != b for a, b in itertools.pairwise(seen))
    assert changes <= 2 * 80 * PERIOD_S / LIMITS.settled_s
    assert seen.count(1) > seen.count(2)


def test_a_settled_demand_grows_at_once_when_more_is_used_or_after_a_rest():
    settled = [(None, 1.9), *[(None, 0.9)] * 4]
    assert run([*settled, (None, 1.3)])[-2:] == [1, 2]
    assert run([*settled, *[(None, 0.0)] * 4, (None, 1.9)])[-2:] == [0, 4]


def test_who_says_idle_and_computes_steadily_is_found_out_in_seconds():
    """Even little use counts, if it is more than an idle guest uses: the guest may compute on the pCPUs of others."""
    for busy_cpus, allocation, within_s in ((0.29, 0, 3.0), (0.49, 2, 3.0), (0.15, 0, 12.0)):
        seen = run([(0, busy_cpus)] * int(within_s / PERIOD_S), allocation=allocation)
        assert seen[0] == 0 and seen[-1] == 1
        assert sum(a != b for a, b in itertools.pairwise(seen)) == 1


def test_who_goes_back_to_idle_rests_again():
    seen = run([(0, 0.29)] * 20 + [(0, 0.03)] * 40)
    assert seen[19] == 1 and seen[-1] == 0
    assert sum(a != b for a, b in itertools.pairwise(seen)) == 2


def test_an_idle_guest_stays_at_rest():
    """Measured: guests of two and four vCPUs without KVM use 0.02 to 0.03 CPUs on average, at most 0.12 in a period."""
    ticks = [(0, 0.02), (0, 0.12), (0, 0.03), (0, 0.08)]
    assert run(ticks * 200, allocation=0) == [0] * 800
    assert run([*ticks * 20, (0, 0.28), *ticks * 20, (0, 0.28), (0, 0.28)], allocation=0) == [0] * 163, (
        "short peaks as of cron"
    )


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-5, 10**9),
            st.none() | st.floats(0, 64),
            st.integers(0, 8),
        ),
        max_size=40,
    ),
    st.integers(1, 8),
)
def test_whatever_an_agent_says_demand_is_within_the_vcpus(steps, vcpus):
    memory = DemandMemory()
    for says, busy_cpus, allocation in steps:
        before = memory
        demand, memory = infer(says, busy_cpus, allocation, vcpus, memory)
        assert 0 <= demand <= vcpus
        if busy_cpus is None:
            assert memory is before
            continue
        assert max(memory.use.quiet_s, memory.use.lower_s) <= LIMITS.quiet_s
        assert memory.use.settled_s <= LIMITS.settled_s
        assert memory.unseen_s < LIMITS.disbelief_s + LIMITS.retry_s


steps_of_a_guest = st.lists(
    st.tuples(st.none() | st.integers(0, 8), st.sampled_from([0.0, 0.03, 0.1, 0.3, 0.97, 1.9, 4.0]), st.integers(0, 4)),
    max_size=40,
)


@given(steps_of_a_guest)
def test_whatever_an_agent_said_before_it_fell_silent_its_domain_gets_what_one_without_an_agent_gets(steps):
    spoke, never_spoke = DemandMemory(), DemandMemory()
    for says, busy_cpus, allocation in steps:
        demand, spoke = infer(says, busy_cpus, allocation, 4, spoke)
        without_an_agent, never_spoke = infer(None, busy_cpus, allocation, 4, never_spoke)
        assert says is not None or demand == without_an_agent


@given(steps_of_a_guest)
def test_a_look_that_is_left_out_at_a_sleeper_would_have_changed_nothing(steps):
    memory = DemandMemory()
    for says, busy_cpus, allocation in steps:
        if sleeps_on(says, usage(busy_cpus), memory, LIMITS):
            assert after_window(says, usage(busy_cpus), allocation, 4, memory, LIMITS) == memory
            assert demand_now(says, 4, memory, LIMITS) == 0
        memory = after_window(says, usage(busy_cpus), allocation, 4, memory, LIMITS)


@pytest.mark.parametrize("says", [0, None])
def test_an_idle_domain_becomes_a_sleeper(says):
    memory = DemandMemory()
    for _ in range(8):
        memory = after_window(says, usage(0.02), 0, 4, memory, LIMITS)
    assert sleeps_on(says, usage(0.02), memory, LIMITS)
    assert not sleeps_on(says, usage(0.06), memory, LIMITS)


@pytest.mark.parametrize("window_s", [0.0, -1.0])
def test_an_empty_window_shows_no_use(window_s):
    assert HostUsage(3.0, window_s).busy_cpus == 0


@given(st.floats(0.001, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10))
def test_a_vcpu_is_served_in_full_if_it_never_waits_and_could_use_a_cpu_if_it_never_sleeps(
    used, waited, more, window_s
):
    """used, waited, more: shares of the window."""
    waited, more = waited * (1 - used), more * (1 - used)
    missing = unserved_s(used * window_s, waited * window_s, window_s)
    assert -1e-9 <= missing <= waited * window_s + 1e-9
    assert unserved_s(used * window_s, 0, window_s) == pytest.approx(0, abs=1e-9)
    assert unserved_s(used * window_s, window_s, window_s) == pytest.approx((1 - used) * window_s)
    assert missing <= unserved_s(used * window_s, max(waited, more) * window_s, window_s) + 1e-9
    assert unserved_s(0, waited * window_s, window_s) == 0


@given(
    st.dictionaries(st.integers(0, 7), st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1),
    st.floats(0.1, 10),
    st.floats(0, 1),
)
def test_waiting_shows_no_work_in_a_guest_that_uses_as_little_as_an_idle_one_and_sleeps(vcpus, window_s, part):
    """vcpus: a share of what may be used, and a share of the longest wait that leaves it more time to sleep."""
    most_s = 0.99 * LIMITS.idle_use * part * window_s / len(vcpus)
    used_s = {vcpu: most_s * used for vcpu, (used, _) in vcpus.items()}
    waited_s = {vcpu: 0.99 * (window_s - 2 * used_s[vcpu]) * waited for vcpu, (_, waited) in vcpus.items()}
    usage = host_usage(used_s, waited_s, window_s, LIMITS)
    assert usage.busy_cpus == pytest.approx(sum(used_s.values()) / window_s)
