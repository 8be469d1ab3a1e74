"""An event loop whose time is a number: when nothing is ready it goes to the next timer instead of waiting for it."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

RESOLUTION_S = 1e-9
"""A timer may go off so much before its time."""


class StuckError(RuntimeError):
    """Everybody waits and no timer is set: nothing would ever happen again."""


class _Sleeper:
    """In place of a selector: it has nothing to look at, so a wait is over at once and its time has passed."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout_s: float | None) -> list[object]:
        if timeout_s is None:
            raise StuckError("nothing is ready and no timer is set")
        if timeout_s > 0.0:
            self.now_s += timeout_s
        return []

    def close(self) -> None:
        """There is nothing to close."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """time() starts at 0 and moves only from timer to timer. There are no sockets, no signals and no threads.

    What is to run in an executor runs at once, in the loop's own thread: its order is then always the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Sleeper()
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._selector.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        """Calls *func* at once; the future that is returned is done."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  whatever it is, whoever awaits the future gets it
            future.set_exception(error)
        return future

    def call_soon_threadsafe(  # type: ignore[override]  # the same, said more simply
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As call_soon: there is no other thread."""
        return self.call_soon(callback, *args, context=context)

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There is nobody to wake."""


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
