"""What the daemon says: its state when asked, and its events as they come, also after it was away."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from vscaf.control.client import follow, get_as
from vscaf.errors import VscafError
from vscaf.events import Kind
from vscaf.top.domains import State

RECONNECT_S = 1.0
REMEMBERED = 2000  # events: more than a daemon keeps


class Seen:
    """Tells new events from those that were shown before the connection broke. Numbers alone do not: each daemon
    starts at 1."""

    def __init__(self) -> None:
        self._keys: deque[tuple[object, ...]] = deque(maxlen=REMEMBERED)
        self._known: set[tuple[object, ...]] = set()

    def is_new(self, event: Mapping[str, Any]) -> bool:
        """Whether *event* was not given before."""
        key = (event["number"], event["time"], event["kind"])
        if key in self._known:
            return False
        if len(self._keys) == REMEMBERED:
            self._known.discard(self._keys[0])
        self._keys.append(key)
        self._known.add(key)
        return True


async def state(path: Path) -> State:
    """The state of the daemon at *path*. VscafError if there is no answer."""
    return await get_as(path, "/v1/status", State)


async def events(path: Path, reconnect_s: float = RECONNECT_S) -> AsyncIterator[dict[str, Any]]:
    """The events that the daemon still knows, and then each new one, without end. It waits for a daemon that is away;
    state() tells why."""
    seen = Seen()
    while True:
        try:
            first = True
            async for event in follow(path, 0):
                # We ask for all, and always miss those that are no longer kept.
                if seen.is_new(event) and not (first and event["kind"] == Kind.LOST):
                    yield event
                first = False
        except VscafError:
            pass
        await asyncio.sleep(reconnect_s)
