"""Structured events: what the daemon did, and why.

A bounded ring keeps them, each is one line of the log, and clients can follow them live.
"""

import asyncio
import json
import logging
import math
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

log = logging.getLogger(__name__)

Scalar = str | int | float | bool | None

MOST_FIELDS = 16
MOST_CHARACTERS = 500
MOST_KINDS = 64
_NO_NAME = re.compile(r"[^a-z0-9_]")
_UNQUOTED = re.compile(r"[\w.,:+/%@()-]+", re.ASCII)


class Kind(StrEnum):
    """The kinds of events that the daemon records."""

    STARTED = "started"
    STOPPED = "stopped"
    APPEARED = "appeared"
    GONE = "gone"
    ADOPTED = "adopted"
    ALLOCATION = "allocation"
    VCPUS = "vcpus"
    QUEUED = "queued"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    RULES = "rules"
    FOREIGN = "foreign"
    UNMANAGED = "unmanaged"
    MANAGED = "managed"
    RELEASED = "released"
    GIVEN_BACK = "given-back"
    POLICY = "policy"
    RELOADED = "reloaded"
    UNKNOWN = "unknown"
    KNOWN = "known"
    REFUSED = "refused"
    POOL = "pool"
    RECORDING = "recording"
    FAULT = "fault"
    RECOVERED = "recovered"
    LOST = "lost"


WARNINGS = frozenset({Kind.UNKNOWN, Kind.REFUSED, Kind.FOREIGN, Kind.UNMANAGED, Kind.FAULT})
"""Events that need attention: they are logged as warnings."""


class Event(msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """One thing that happened.

    `number` counts up from 1 since the daemon started. `domain` is None if the event is not about one domain.
    `before` and `after` (in JSON: `from`, `to`) are pCPU lists, states, counts or names, depending on the kind.
    """

    number: int
    time: str
    """UTC, ISO 8601, to the millisecond."""
    kind: str
    domain: str | None = None
    before: Scalar = None
    after: Scalar = None
    why: str = ""
    fields: dict[str, Scalar] = {}

    def line(self) -> str:
        """The line for the daemon's log: key=value, with values that contain spaces or quotes as JSON strings."""
        named: dict[str, Scalar] = {"event": self.kind, "number": self.number, "domain": self.domain}
        named |= {"from": self.before, "to": self.after, **self.fields, "why": self.why or None}
        return " ".join(f"{key}={_value(value)}" for key, value in named.items() if value is not None)


class EventLog:
    """The newest *capacity* events.

    A follower holds a number and no events, so a follower that never reads costs nothing. If the ring has dropped
    events meanwhile, it gets one event of the kind "lost". Strings are cut at 500 characters and fields at 16, so a
    guest's text cannot grow the log. Only for tasks of one loop.
    """

    def __init__(self, capacity: int = 1000, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.capacity = capacity
        self.counts: Counter[str] = Counter()
        self._ring: deque[Event] = deque(maxlen=capacity)
        self._now = now
        self._last = 0
        self._news = asyncio.Event()
        self._closed = False

    def time(self) -> str:
        """The present time, as events have it."""
        return _iso(self._now())

    @property
    def last(self) -> int:
        """The newest event's number; 0: there is none yet."""
        return self._last

    def record(
        self,
        kind: str,
        domain: str | None,
        *,
        before: object = None,
        after: object = None,
        why: str = "",
        **fields: object,
    ) -> Event:
        """Adds an event, logs it, and wakes the followers. Values that are not scalars are kept as text."""
        self._last += 1
        event = Event(
            number=self._last,
            time=_iso(self._now()),
            kind=_cut(str(kind)),
            domain=None if domain is None else _cut(domain),
            before=_scalar(before),
            after=_scalar(after),
            why=_cut(why),
            fields={_NO_NAME.sub("_", key)[:40]: _scalar(fields[key]) for key in list(fields)[:MOST_FIELDS]},
        )
        self._ring.append(event)
        self.counts[event.kind if event.kind in self.counts or len(self.counts) < MOST_KINDS else "other"] += 1
        log.log(logging.WARNING if kind in WARNINGS else logging.INFO, "%s", event.line())
        self._wake()
        return event

    def since(self, number: int) -> list[Event]:
        """Events after *number*, oldest first. If some are no longer kept, the first one has the kind "lost".

        A number above the newest comes from an earlier daemon. Then all kept events are returned.
        """
        events = []
        number = self._known(number)
        while (event := self._after(number)) is not None:
            events.append(event)
            number = event.number
        return events

    async def follow(self, number: int) -> AsyncIterator[Event]:
        """Events after *number*, and then each new one, until close()."""
        number = self._known(number)
        while True:
            news = self._news
            event = self._after(number)
            if event is not None:
                number = event.number
                yield event
            elif self._closed:
                return
            else:
                await news.wait()

    def _known(self, number: int) -> int:
        return number if 0 <= number <= self._last else 0

    def _after(self, number: int) -> Event | None:
        """The event that a reader gets next after *number*."""
        if number >= self._last:
            return None
        first = self._last - len(self._ring) + 1
        if number + 1 >= first:
            return self._ring[number + 1 - first]
        gone = first - 1 - number
        return Event(
            number=first - 1,
            time=_iso(self._now()),
            kind=Kind.LOST,
            why=f"{gone} events from number {number + 1} on are no longer kept",
            fields={"count": gone},
        )

    def close(self) -> None:
        """Ends all followers once they have read all events."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair could not be sent as JSON
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


def _scalar(value: object) -> Scalar:
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has neither
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        value = ",".join(str(one) for one in value)
    return _cut(str(value))


def _value(value: Scalar) -> str:
    if isinstance(value, bool) or not isinstance(value, str):
        return json.dumps(value)
    return value if _UNQUOTED.fullmatch(value) else json.dumps(value)
