"""All channels to guests on one asyncio loop, served together.

A wake-up of the loop costs more than a message does. So the channels have an epoll set of their own, which the loop
watches as one descriptor: when something comes, all that is there is taken, and then nobody looks for a while. The
more links there are, the longer: a few guests are heard at once, and with a hundred there are some twenty turns a
second, however many messages there are.

What one turn does is bounded, for all links together and for each. The unit of work is a short line, or 4 KiB of bytes.
So guests that flood get their turns one after the other, and whoever else runs on the loop runs in between.
"""

import asyncio
import logging
import select
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary

from vscaf import clock

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

HOLD_OFF_A_LINK_S = 0.0005
HOLD_OFF_MOST_S = 0.05
WORK_A_TURN = 256.0
WORK_A_LINK = 16.0  # in one turn
EVENTS_A_TURN = 256


class Served(Protocol):
    """What the hub asks of a link."""

    paused: bool
    """It has used up what it may send: what it sends has to wait."""

    def serve(self, now_s: float, most: float) -> tuple[float, bool]:
        """Takes up to *most* units of what came; returns how many, and whether it holds more that it could take."""
        ...

    def flush(self) -> None:
        """Sends what could not be sent before."""
        ...

    def hung_up(self) -> None:
        """The other end is gone."""
        ...

    def broken(self, error: Exception) -> None:
        """One of these failed in a way that nobody has foreseen: its connection is over."""
        ...


class AgentHub:
    """Serves links on the running loop. It holds a descriptor while it has any."""

    def __init__(self) -> None:
        self.turns = 0
        self.most_work = 0.0
        """The largest amount of work that one turn took."""
        self._epoll: select.epoll | None = None
        self._links: dict[int, Served] = {}
        self._due: dict[int, None] = {}  # in the order in which they get their turns
        self._watched = False  # by the loop; else a timer brings the next turn
        self._timer: asyncio.TimerHandle | None = None

    def add(self, descriptor: int, link: Served) -> None:
        """Serves *link* from when there is something to read at *descriptor*."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._next_turn(None)
        self._epoll.register(descriptor, select.EPOLLIN)  # OSError where there can be no more
        self._links[descriptor] = link

    def remove(self, descriptor: int) -> None:
        """Forgets a descriptor, before it is closed."""
        assert self._epoll is not None
        self._epoll.unregister(descriptor)
        del self._links[descriptor]
        self._due.pop(descriptor, None)
        if not self._links:
            self._look_away()
            self._epoll.close()
            self._epoll = None

    def watch(self, descriptor: int, *, reading: bool, writing: bool) -> None:
        """From here on looks for these; a link that reads again may hold something already, and gets a turn."""
        assert self._epoll is not None
        self._epoll.modify(descriptor, (select.EPOLLIN if reading else 0) | (select.EPOLLOUT if writing else 0))
        if reading:
            self._due[descriptor] = None
            if self._watched:
                self._next_turn(0.0)

    def _next_turn(self, delay_s: float | None) -> None:
        """After *delay_s*; None: when there is something."""
        assert self._epoll is not None
        self._look_away()
        loop = asyncio.get_running_loop()
        if delay_s is None:
            loop.add_reader(self._epoll.fileno(), self._turn)
            self._watched = True
        else:
            self._timer = loop.call_later(delay_s, self._turn)

    def _look_away(self) -> None:
        if self._watched and self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._watched = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        """Whatever a link does, the others get their turns, and there is a next one."""
        assert self._epoll is not None
        events: list[tuple[int, int]] = []
        try:
            events = self._epoll.poll(0, EVENTS_A_TURN)
            self._serve(events, clock.now_s())
        finally:
            if self._epoll is not None:
                hold_off_s = min(HOLD_OFF_MOST_S, len(self._links) * HOLD_OFF_A_LINK_S)
                self._next_turn(hold_off_s if events or self._due else None)

    def _serve(self, events: list[tuple[int, int]], now_s: float) -> None:
        for descriptor, mask in events:
            if mask == select.EPOLLIN:
                self._due[descriptor] = None
            else:
                self._alone(descriptor, self._other_event, descriptor, mask)
        work = 0.0
        for _ in range(len(self._due)):
            if work >= WORK_A_TURN or not self._due:  # what a link said may have ended others
                break
            descriptor = next(iter(self._due))
            del self._due[descriptor]
            link = self._links[descriptor]
            served = self._alone(descriptor, link.serve, now_s, WORK_A_LINK)
            done, more = served if served is not None else (WORK_A_LINK, False)
            work += done
            if more and self._links.get(descriptor) is link:
                self._due[descriptor] = None
        self.turns += 1
        self.most_work = max(self.most_work, work)

    def _alone(self, descriptor: int, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """What *work* of one link returns. Where it raises, that link is over, and nobody else."""
        link = self._links.get(descriptor)
        try:
            return work(*args, **options)
        except Exception as error:  # noqa: BLE001  whatever it is, it is this link's alone
            try:
                if link is not None:
                    link.broken(error)
            except Exception as again:  # as above
                log.error("please report this: %r", again, exc_info=again)
            if link is not None and self._links.get(descriptor) is link:  # it did not even come to leave
                self.remove(descriptor)
            return None

    def _other_event(self, descriptor: int, mask: int) -> None:
        link = self._links.get(descriptor)
        if link is not None and mask & select.EPOLLOUT:
            link.flush()
        if self._links.get(descriptor) is not link or link is None:
            return
        if link.paused:
            if mask & (select.EPOLLHUP | select.EPOLLERR):
                link.hung_up()
        elif mask & ~select.EPOLLOUT:
            self._due[descriptor] = None


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, AgentHub] = WeakKeyDictionary()


def running_hub() -> AgentHub:
    """The hub that links on the running loop share."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        hub = _hubs[loop] = AgentHub()
    return hub
