"""An event loop with virtual time: when nothing is ready, it moves its time to the next timer instead of waiting."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

RESOLUTION_S = 1e-9
"""A timer may fire this much before its time."""


class StuckError(RuntimeError):
    """All tasks wait and no timer is set, so nothing would ever happen again."""


class _Sleeper:
    """Replaces the selector: a wait is over at once, and its time has passed."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout_s: float | None) -> list[object]:
        if timeout_s is None:
            raise StuckError("nothing is ready and no timer is set")
        if timeout_s > 0.0:
            self.now_s += timeout_s
        return []

    def close(self) -> None:
        """Closes nothing."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """time() starts at 0 and moves only from timer to timer. There are no sockets, signals or threads.

    A call in an executor runs at once, in the loop's own thread, so the order is always the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Sleeper()
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._selector.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        """Calls *func* at once and returns a future that is done."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  the future passes on whatever it is
            future.set_exception(error)
        return future

    def call_soon_threadsafe(  # type: ignore[override]  # the same type, written more simply
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As call_soon, because there is no other thread."""
        return self.call_soon(callback, *args, context=context)

    def _process_events(self, event_list: list[object]) -> None:
        """Does nothing: there are no such events."""

    def _write_to_self(self) -> None:
        """Does nothing: no other thread waits."""


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Runs *main* in virtual time, from 0, until it returns; tasks that it leaves behind are cancelled."""
    loop = VirtualTimeLoop()
    try:
        try:
            return loop.run_until_complete(main)
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()
