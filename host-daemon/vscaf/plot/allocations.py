"""The allocations over time, from the daemon's status and its events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vscaf.cpulist import parse_cpu_list
from vscaf.events import Kind
from vscaf.top.domains import State

ENDS = frozenset({Kind.GONE, Kind.GIVEN_BACK, Kind.RELEASED, Kind.UNMANAGED})
RESTS = frozenset({None, "rest", "rests"})


@dataclass(frozen=True, slots=True)
class Change:
    """From at_s on (CLOCK_MONOTONIC) the domain has these pCPUs. None: vscaf does not say which."""

    at_s: float
    domain: str
    cpus: frozenset[int] | None


def from_state(state: State, at_s: float) -> list[Change]:
    """The allocations that the daemon has now."""
    return [
        Change(at_s, one.name, None if one.partition is None else parse_cpu_list(one.partition))
        for one in state.domains
    ]


def from_event(event: Mapping[str, Any], clock_offset_s: float) -> Change | None:
    """The change that an event tells; None: it tells none. clock_offset_s: CLOCK_MONOTONIC minus seconds since 1970."""
    if event["domain"] is None:
        return None
    at_s = datetime.fromisoformat(event["time"]).timestamp() + clock_offset_s
    if event["kind"] in ENDS:
        return Change(at_s, event["domain"], None)
    if event["kind"] not in {Kind.ALLOCATION, Kind.ADOPTED}:
        return None
    try:
        cpus = parse_cpu_list("" if event["to"] in RESTS else str(event["to"]))
    except ValueError:
        return Change(at_s, event["domain"], None)  # a long list was cut
    return Change(at_s, event["domain"], cpus)


def last_change(changes: Sequence[Change], domain: str, at_s: float) -> Change | None:
    """The change of a domain that holds at a time. changes: in order of time."""
    last = None
    for change in changes:
        if change.at_s > at_s:
            break
        if change.domain == domain:
            last = change
    return last


def allocated(changes: Sequence[Change], domain: str, at_s: float) -> frozenset[int] | None:
    """The pCPUs of a domain at a time. None: not known, or vscaf does not manage it. changes: in order of time."""
    last = last_change(changes, domain, at_s)
    return None if last is None else last.cpus


def sizes(changes: Iterable[Change], domain: str, end_s: float) -> tuple[list[float], list[float]]:
    """The times at which a domain's allocation changes, and how many pCPUs it has from then on, for a stepped line.

    It ends at end_s. A number that is not known is NaN, which draws no line.
    """
    times, counts = list[float](), list[float]()
    for change in changes:
        if change.domain == domain and change.at_s <= end_s:
            times.append(change.at_s)
            counts.append(float("nan") if change.cpus is None else float(len(change.cpus)))
    return ([*times, end_s], [*counts, counts[-1]]) if times else ([], [])
