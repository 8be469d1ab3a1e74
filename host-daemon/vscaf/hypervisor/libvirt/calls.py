"""Blocking calls in threads of their own, of which any may hang for as long as it likes.

A thread per call and not a pool: a pool's threads are used up by calls that hang, and Python waits for them at its end.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from vscaf.errors import HypervisorUnreachable

log = logging.getLogger(__name__)
T = TypeVar("T")


class GivenUp(HypervisorUnreachable):
    """Nobody waits for this call any more, so it must not act."""


class Call:
    """One piece of blocking work. Whoever asked for it may give it up; its thread may be stuck for ever."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.begun_s = time.monotonic()
        self.given_up = False

    def proceed(self) -> None:
        """Raises GivenUp where nobody waits any more: to be called right before each step that changes something."""
        if self.given_up:
            raise GivenUp(f"libvirt took too long to {self.what}: it was given up; look at libvirtd's log")


def start(call: Call, work: Callable[[Call], T]) -> "asyncio.Future[T]":
    """Begins *work* in a thread of its own; the result or the exception comes to the loop that runs here.

    HypervisorUnreachable where there can be no more threads: as for any other call that cannot be made.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
            future.exception()  # marks it as seen: whoever gave up does not ask
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where T is

    def run() -> None:
        result, failure = None, None
        try:
            result = work(call)
        except BaseException as error:  # noqa: BLE001  (whatever ends the work belongs to whoever asked for it)
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
            loop.call_soon_threadsafe(settle, result, failure)

    try:
        threading.Thread(target=run, name=f"libvirt {call.what}", daemon=True).start()
    except RuntimeError as error:
        raise HypervisorUnreachable(
            f"no thread to {call.what} in ({error}): raise the limit of processes and threads (TasksMax, ulimit -u)"
        ) from error
    return future


class Line:
    """Calls that must not overlap, as those to one domain. While one of them is stuck, others fail at once.

    `on_late` is called when a call comes back that was given up: what it did was not seen by whoever asked.
    """

    def __init__(self, name: str, on_late: Callable[[], None]) -> None:
        self.name = name
        self._on_late = on_late
        self._free = asyncio.Lock()
        self._under_way: Call | None = None
        self._stuck: asyncio.Future[Any] | None = None

    @property
    def stuck(self) -> bool:
        """Whether a call that was given up has not come back yet."""
        return self._stuck is not None and not self._stuck.done()

    async def run(self, what: str, work: Callable[[Call], T], timeout_s: float) -> T:
        """The result of *work* in its turn. HypervisorUnreachable after *timeout_s*, or at once while one is stuck."""
        try:
            self._refuse_while_stuck()
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise self._still_waiting() from error
        try:
            self._refuse_while_stuck()
            return await self._run(Call(what), work, timeout_s)
        finally:
            self._free.release()

    async def _run(self, call: Call, work: Callable[[Call], T], timeout_s: float) -> T:
        self._under_way = call
        future = start(call, work)
        try:
            await asyncio.wait({future}, timeout=timeout_s)
        finally:  # also where whoever asked was cancelled
            if not future.done():
                call.given_up = True
                self._stuck = future
                future.add_done_callback(lambda _future: self._came_back(call))
        if not future.done():
            raise self._still_waiting()
        return future.result()

    def _came_back(self, call: Call) -> None:
        log.info("%s: %s came back after %.1f s", self.name, call.what, time.monotonic() - call.begun_s)
        self._on_late()

    def _refuse_while_stuck(self) -> None:
        if self.stuck:
            raise self._still_waiting()

    def _still_waiting(self) -> HypervisorUnreachable:
        call = self._under_way
        age = f", begun {time.monotonic() - call.begun_s:.1f} s ago" if call is not None else ""
        return HypervisorUnreachable(
            f"{self.name}: still waiting for libvirt ({call.what if call else 'a call'}{age}): "
            "its QEMU or libvirtd hangs; look at `virsh domcontrol` and libvirtd's log"
        )
