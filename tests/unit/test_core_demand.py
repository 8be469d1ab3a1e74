"""Demand, from agents that tell the truth, lie or are silent."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.demand import AgentDemand, DemandMemory, DemandThresholds, HostUsage, infer_demand

PERIOD_S = 0.25
LIMITS = DemandThresholds()


def usage(busy_cpus):
    return HostUsage(busy_cpus * PERIOD_S, PERIOD_S)


def agent(demand, age_s=0.1):
    return AgentDemand(demand, float(demand), age_s)


def run(steps, vcpus=4, allocation=2):
    """Demand after each of the steps (agent, host's busy CPUs or None)."""
    memory, seen = DemandMemory(), []
    for report, busy_cpus in steps:
        demand, memory = infer_demand(
            report, None if busy_cpus is None else usage(busy_cpus), allocation, vcpus, memory, LIMITS
        )
        seen.append(demand)
    return seen


def test_a_fresh_report_counts_at_once_clamped_to_the_vcpus():
    assert run([(agent(3), 2.0), (agent(0), 0.3), (agent(99), 2.0)]) == [3, 0, 4]


def test_idle_is_not_believed_while_the_host_sees_work():
    assert run([(agent(0), 0.9), (agent(0), 1.9), (agent(0), 0.5)]) == [1, 4, 0]


def test_busy_is_not_believed_for_ever_while_the_host_sees_nothing():
    seen = run([(agent(2), 0.0)] * 12)
    assert seen == [2] * (LIMITS.disbelief_periods - 1) + [0] * (12 - LIMITS.disbelief_periods + 1)


def test_a_claim_that_was_not_believed_is_believed_once_it_is_seen_or_made_again():
    lie = [(agent(2), 0.0)] * 10
    assert run([*lie, (agent(2), 0.2)])[-1] == 2
    assert run([*lie, (agent(0), 0.0), (agent(2), 0.0)])[-1] == 2


def test_a_claim_that_was_not_believed_gets_another_chance():
    seen = run([(agent(2), 0.0)] * 60, allocation=0)
    again = LIMITS.disbelief_periods - 1 + LIMITS.retry_periods
    assert seen[again - 1 : again + 1] == [0, 2]


def test_a_failed_listing_is_not_idleness():
    assert run([(agent(2), 2.0), (None, None), (None, None)]) == [2, 2, 2]
    assert run([(agent(2), None)] * 12)[-1] == 2


def test_a_stale_report_is_no_report():
    assert run([(agent(3, age_s=0.8), 1.2)]) == [2]


def test_without_an_agent_use_is_demand_at_once_and_quiet_must_last():
    silent = [(None, 0.0)]
    assert run([(None, 0.14), (None, 0.16)]) == [0, 1]
    assert run([(None, 0.9), *silent * 5]) == [1, 1, 1, 1, 0, 0]
    assert run([(None, 0.9), *silent * 3, (None, 0.1), *silent * 3]) == [1] * 8


def test_without_an_agent_a_saturated_allocation_could_use_all_vcpus():
    assert run([(None, 1.6), (None, 1.7)]) == [2, 4]


def test_a_resting_domain_shows_demand_like_any_other():
    for allocation in (0, 1):
        assert infer_demand(None, HostUsage(0.1 * 0.25, 0.25), allocation, 2)[0] == 0
    assert infer_demand(None, HostUsage(0.2 * 0.25, 0.25), 0, 2)[0] == 2


def test_a_serial_phase_does_not_lower_the_demand_until_it_lasts():
    assert run([(None, 1.9), *[(None, 0.95)] * 5]) == [4, 4, 4, 4, 1, 1]


def test_a_serial_program_is_not_tried_with_every_vcpu_all_the_time():
    """The allocation follows the demand, as with one other domain that computes: it is tried again every 5 seconds."""
    memory, seen, allocation = DemandMemory(), [], 0
    for _ in range(80):
        allocation, memory = infer_demand(None, usage(0.97), allocation, 2, memory, LIMITS)
        seen.append(allocation)
    changes = sum(a != b for a, b in itertools.pairwise(seen))
    assert changes <= 2 * 80 / LIMITS.settled_periods
    assert seen.count(1) > seen.count(2)


def test_a_settled_demand_grows_at_once_when_more_is_used_or_after_a_rest():
    settled = [(None, 1.9), *[(None, 0.9)] * 4]
    assert run([*settled, (None, 1.3)])[-2:] == [1, 2]
    assert run([*settled, *[(None, 0.0)] * 4, (None, 1.9)])[-2:] == [0, 4]


@given(
    st.lists(
        st.tuples(
            st.none() | st.builds(AgentDemand, st.integers(-5, 10**9), st.floats(), st.floats(0, 5)),
            st.none() | st.floats(0, 64),
            st.integers(0, 8),
        ),
        max_size=40,
    ),
    st.integers(1, 8),
)
def test_whatever_an_agent_says_demand_is_within_the_vcpus(steps, vcpus):
    memory = DemandMemory()
    for report, busy_cpus, allocation in steps:
        demand, memory = infer_demand(
            report, None if busy_cpus is None else usage(busy_cpus), allocation, vcpus, memory, LIMITS
        )
        assert 0 <= demand <= vcpus
        assert memory.demand == demand
        assert max(memory.quiet_periods, memory.lower_periods) <= LIMITS.quiet_periods
        assert memory.settled_periods <= LIMITS.settled_periods
        assert memory.unseen_periods < LIMITS.disbelief_periods
        assert memory.disbelieved_periods <= LIMITS.retry_periods


@pytest.mark.parametrize("window_s", [0.0, -1.0])
def test_an_empty_window_shows_no_use(window_s):
    assert HostUsage(3.0, window_s).busy_cpus == 0
