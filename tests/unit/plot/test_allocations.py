"""Allocations over time, from events and the status."""

import math
from typing import Any

import msgspec
import pytest
from vscaf.occupancy.sampler import Sample
from vscaf.occupancy.timeline import Bins, Track
from vscaf.plot import session
from vscaf.plot.allocations import Change, allocated, from_event, from_state, sizes
from vscaf.plot.recording import Recording
from vscaf.top.domains import State

AT_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def event(kind: str, to: object = None, domain: str | None = "a") -> dict[str, Any]:
    return {"kind": kind, "domain": domain, "from": None, "to": to, "time": "2026-01-01T00:00:02.500Z", "number": 1}


@pytest.mark.parametrize(
    ("kind", "to", "cpus"),
    [
        ("allocation", "2-3,5", {2, 3, 5}),
        ("allocation", "rest", set()),
        ("adopted", "rests", set()),
        ("adopted", "4", {4}),
        ("allocation", "0,2,4,…", None),
        ("gone", None, None),
        ("released", None, None),
        ("given-back", None, None),
    ],
)
def test_events_that_change_an_allocation(kind: str, to: object, cpus: set[int] | None) -> None:
    change = from_event(event(kind, to), clock_offset_s=100.0 - AT_S)
    assert change == Change(102.5, "a", None if cpus is None else frozenset(cpus))


def test_other_events_change_none() -> None:
    assert from_event(event("vcpus", 4), 0.0) is None
    assert from_event(event("allocation", "2", domain=None), 0.0) is None


def test_what_the_status_says() -> None:
    domains = [
        {"name": "a", "state": "growing", "partition": "2-3"},
        {"name": "b", "state": "resting", "partition": ""},
    ]
    others = {"policy": "", "pool": "", "reserve": "", "managing": True, "unknown": False, "transitions": 0}
    state = msgspec.convert(
        {**others, "exploring": [], "violations": [], "domains": [*domains, {"name": "c", "state": "not running"}]},
        State,
    )
    assert from_state(state, 1.0) == [
        Change(1.0, "a", frozenset({2, 3})),
        Change(1.0, "b", frozenset()),
        Change(1.0, "c", None),
    ]


CHANGES = [Change(1.0, "a", frozenset({2, 3})), Change(2.0, "b", frozenset({4})), Change(3.0, "a", None)]


def test_an_allocation_holds_until_the_next() -> None:
    assert [allocated(CHANGES, "a", at_s) for at_s in (0.5, 1.0, 2.9, 3.0)] == [None, {2, 3}, {2, 3}, None]


def test_an_unknown_number_is_not_zero() -> None:
    times, counts = sizes(CHANGES, "a", 4.0)
    assert times == [1.0, 3.0, 4.0] and counts[0] == 2.0 and all(math.isnan(one) for one in counts[1:])
    assert sizes(CHANGES, "c", 4.0) == ([], [])


def test_a_recording_keeps_changes_in_order_and_only_changes() -> None:
    recording = Recording(0.25, ["a"])
    for change in (CHANGES[2], CHANGES[0], CHANGES[1], Change(1.5, "a", frozenset({2, 3}))):
        recording.change(change)
    assert recording.changes == [CHANGES[0], CHANGES[2]] and recording.domains == ["a"]


def test_what_was_forgotten_still_holds() -> None:
    recording = Recording(0.25)
    for at_s, cpu in ((1.0, 1), (2.0, 2), (5.0, 5)):
        recording.change(Change(at_s, "a", frozenset({cpu})))
    recording.forget(3.0)
    assert [one.at_s for one in recording.changes] == [2.0, 5.0]
    assert allocated(recording.changes, "a", 3.0) == {2}


def test_domains_that_are_gone_are_forgotten() -> None:
    recording = Recording(0.25)
    recording.change(Change(1.0, "a", frozenset({1})))
    recording.change(Change(2.0, "a", None))
    recording.forget(3.0)
    assert recording.changes == [] and recording.domains == []


def test_a_redraw_costs_what_fits_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    recording, width, drawn = Recording(0.25), 80, list[int]()
    began_s = recording.bins.start_s
    for number in range(2):
        at_s = began_s + number * 86400
        recording.bins.add([Sample(at_s, at_s, "a", 0, 1, frozenset({0}), 0, number, 0)])
    track = Bins.track

    def counted(bins: Bins, first: int = 0) -> Track:
        shares = track(bins, first)
        drawn.extend(len(values) for by_domain in shares.shares.values() for values in by_domain.values())
        return shares

    monkeypatch.setattr(Bins, "track", counted)
    assert "a a: has ?" in session._lines(recording, width, None).plain
    assert drawn == [width + 1]
