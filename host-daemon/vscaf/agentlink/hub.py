"""All channels to guests on one asyncio loop, served together.

A wake-up of the loop costs more than a message. So the channels have their own epoll set, which the loop watches as one
descriptor. When data arrives, one turn reads everything that is there. Then the hub does not read for a while, longer
with more links. A few guests are served at once. With a hundred guests there are about twenty turns a second, however
many messages arrive.

The work of one turn is bounded, for all links together and for each link. The unit of work is a short line, or 4 KiB.
So guests that flood are served one after the other, and other tasks of the loop run in between.
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
    """The methods of a link that the hub calls."""

    paused: bool
    """The guest has used up its allowance: what it sends now has to wait."""

    def serve(self, now_s: float, most: float) -> tuple[float, bool]:
        """Processes up to *most* units of work. Returns how many, and whether more can be processed now."""
        ...

    def flush(self) -> None:
        """Sends the data that could not be sent before."""
        ...

    def hung_up(self) -> None:
        """The other end has closed the channel."""
        ...

    def broken(self, error: Exception) -> None:
        """A method of the link raised an unexpected error: its connection is closed."""
        ...


class AgentHub:
    """Serves links on the running loop. It has an epoll descriptor while it has any link."""

    def __init__(self) -> None:
        self.turns = 0
        self.most_work = 0.0
        """The largest amount of work that one turn took."""
        self._epoll: select.epoll | None = None
        self._links: dict[int, Served] = {}
        self._due: dict[int, None] = {}  # descriptors with data, in the order in which they are served
        self._watched = False  # whether the loop watches _epoll; if not, a timer begins the next turn
        self._timer: asyncio.TimerHandle | None = None

    def add(self, descriptor: int, link: Served) -> None:
        """Serves *link* whenever there is data to read at *descriptor*. OSError if there can be no more links."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._next_turn(None)
        self._epoll.register(descriptor, select.EPOLLIN)
        self._links[descriptor] = link

    def remove(self, descriptor: int) -> None:
        """Stops serving a descriptor. Must be called before the descriptor is closed."""
        assert self._epoll is not None
        self._epoll.unregister(descriptor)
        del self._links[descriptor]
        self._due.pop(descriptor, None)
        if not self._links:
            self._stop_watching()
            self._epoll.close()
            self._epoll = None

    def watch(self, descriptor: int, *, reading: bool, writing: bool) -> None:
        """Sets what to wait for. A link that reads again may already hold data, so it gets a turn."""
        assert self._epoll is not None
        self._epoll.modify(descriptor, (select.EPOLLIN if reading else 0) | (select.EPOLLOUT if writing else 0))
        if reading:
            self._due[descriptor] = None
            if self._watched:
                self._next_turn(0.0)

    def _next_turn(self, delay_s: float | None) -> None:
        """Begins the next turn after *delay_s*. None: when data arrives."""
        assert self._epoll is not None
        self._stop_watching()
        loop = asyncio.get_running_loop()
        if delay_s is None:
            loop.add_reader(self._epoll.fileno(), self._turn)
            self._watched = True
        else:
            self._timer = loop.call_later(delay_s, self._turn)

    def _stop_watching(self) -> None:
        if self._watched and self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._watched = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        """One turn. Whatever a link does, the other links are served and a next turn follows."""
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
            if work >= WORK_A_TURN or not self._due:  # a message of one link may have closed others
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
        """The result of *work* for one link. If it raises, only that link is closed, and the result is None."""
        link = self._links.get(descriptor)
        try:
            return work(*args, **options)
        except Exception as error:  # noqa: BLE001  any error concerns only this link
            try:
                if link is not None:
                    link.broken(error)
            except Exception as again:  # as above
                log.error("unexpected error, please report this: %r", again, exc_info=again)
            if link is not None and self._links.get(descriptor) is link:  # it failed before it was removed
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
