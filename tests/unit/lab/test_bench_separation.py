"""What the benchmark of separation reads from samples and from the daemon's log, with made-up ones."""

import datetime
import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.occupancy.sampler import Sample
from vscaf_bench.daemon_separation import (
    BURSTY,
    STEADY,
    computing_since,
    decided_at,
    first_change,
    quantile,
    separated_at,
)

A, B = frozenset({0}), frozenset({1})
BOTH = A | B


def samples(starts_s, left_s, pinned_s, last_cpu=1):
    """Rounds every 5 ms for a second. The bursty guest computes from starts_s on, the steady one leaves a pCPU at
    left_s, and the bursty one is pinned to that pCPU at pinned_s."""
    made, run_ns = [], 0
    for number in range(200):
        at_s = number * 0.005
        run_ns += 5_000_000 * (at_s > starts_s)
        made.append(Sample(at_s, at_s, STEADY, 0, 11, BOTH if at_s < left_s else A, 0, number * 5_000_000, 0))
        made.append(Sample(at_s, at_s, BURSTY, 0, 22, BOTH if at_s < pinned_s else B, last_cpu, run_ns, 0))
    return made


def test_begin_and_end_are_found():
    made = samples(0.2, 0.4, 0.5)
    assert computing_since(made, 0.0) == pytest.approx(0.2, abs=0.015)
    assert first_change(made, STEADY, 0.0, lambda cpus: cpus == 1) == pytest.approx(0.4)
    assert first_change(made, BURSTY, 0.0, lambda cpus: cpus == 1) == pytest.approx(0.5)
    assert separated_at(made, 0.2) == pytest.approx(0.5)


def test_who_never_computes_or_never_leaves_is_told():
    assert computing_since(samples(9.0, 0.4, 0.5), 0.0) is None
    assert separated_at(samples(0.2, 9.0, 9.0), 0.2) is None
    assert separated_at(samples(0.2, 0.4, 9.0), 0.2) is None
    assert separated_at(samples(0.2, 0.4, 0.95), 0.2) is None, "apart for too short a time to count"


def test_running_on_one_pcpu_is_not_apart_whatever_the_pins_say():
    assert separated_at(samples(0.2, 0.4, 0.5, last_cpu=0), 0.2) is None


def test_the_decision_is_found_in_the_log():
    first_s, now, second_s = time.monotonic(), datetime.datetime.now(), time.monotonic()

    def line(ago_s, message):
        return f"{(now - datetime.timedelta(seconds=ago_s)).strftime('%H:%M:%S.%f')[:-3]} INFO {message}\n"

    ours = f'event=allocation number=7 domain={STEADY} from=0-1 to=0 why="2 -> 1"'
    log = line(5, ours) + line(2, f"event=allocation number=8 domain={BURSTY} from=rest to=1") + line(1, ours)
    asked_s = time.monotonic()
    found_s = decided_at(log, first_s - 3)
    took_s = time.monotonic() - asked_s + 0.002  # the log has whole milliseconds
    assert first_s - 1 - took_s <= found_s <= second_s - 1 + took_s
    assert decided_at(log, time.monotonic() - 0.5) is None


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=150), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_lies_in_its_interval(values, share):
    value, low, high = quantile(values, share)
    assert min(values) <= low <= value <= high <= max(values)
    assert sum(one <= value for one in values) >= share * len(values)
    if share == 0.5 and len(values) % 2:
        assert value == statistics.median(values)
