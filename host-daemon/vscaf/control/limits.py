"""Limits how many connections an HTTP server accepts from each user, and for how long, before reading any byte."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Admission:
    """The owner of a connection, how many it may have at once, and how long one may last (None: no limit)."""

    owner: Hashable
    most: int
    lifetime_s: float | None = None


class ConnectionLimiter(asyncio.Protocol):
    """Passes a connection on to *handler*, or closes it at once if its owner has too many in *connections* already."""

    def __init__(
        self,
        handler: asyncio.Protocol,
        admit: Callable[[asyncio.BaseTransport], Admission],
        connections: Counter[Hashable],
    ) -> None:
        self._handler = handler
        self._admit = admit
        self._connections = connections
        self._owner: Hashable = None
        self._inside = False
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        admission = self._admit(transport)
        if self._connections[admission.owner] >= admission.most:
            transport.abort()
            return
        self._owner = admission.owner
        self._inside = True
        self._connections[self._owner] += 1
        if admission.lifetime_s is not None:
            self._end = asyncio.get_running_loop().call_later(admission.lifetime_s, transport.abort)
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._inside:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received() if self._inside else None

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._inside:
            return
        self._inside = False
        if self._end is not None:
            self._end.cancel()
        self._connections[self._owner] -= 1
        if self._connections[self._owner] == 0:
            del self._connections[self._owner]
        self._handler.connection_lost(error)
