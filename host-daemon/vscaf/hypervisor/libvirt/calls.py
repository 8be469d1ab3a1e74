"""Runs blocking calls in threads of their own. Any of them may hang for ever.

Each call has its own thread instead of one of a pool: calls that hang would use up a pool's threads, and Python waits
for a pool's threads when it exits.
"""

import asyncio
import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from vscaf.errors import HypervisorUnreachable

log = logging.getLogger(__name__)
T = TypeVar("T")


class GivenUp(HypervisorUnreachable):
    """The caller has given this call up, so it must not change anything."""


class Call:
    """One blocking call. Its caller may give it up. Its thread may be stuck for ever."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.begun_s = time.monotonic()
        self.given_up = False
        self.acted = False
        """It may have changed something, or may still do so."""

    def proceed(self) -> None:
        """As check(). Must be called right before each step that changes something."""
        self.acted = True  # set before the check: who gives the call up, and then reads False, knows that it never acts
        self.check()

    def check(self) -> None:
        """Raises GivenUp if the call was given up."""
        if self.given_up:
            raise GivenUp(f"libvirt took too long to {self.operation}: the call was given up; look at libvirtd's log")


def collect_garbage() -> None:
    """Collects cyclic garbage in this thread, when it is due, and from now on no thread does so by itself.

    Freeing an unused virDomain resets the last libvirt error of the thread that frees it. If that is a thread whose
    call has just failed, the error is lost before libvirt-python reads it, and its libvirtError has no code.
    """
    gc.disable()
    for generation in (2, 1, 0):  # each includes the ones below it
        if gc.get_count()[generation] > gc.get_threshold()[generation]:
            gc.collect(generation)
            break


def start(call: Call, work: Callable[[Call], T]) -> "asyncio.Future[T]":
    """Begins *work* in its own thread. The future gets the result or the exception on the running loop.

    HypervisorUnreachable if no more threads can be started.
    """
    collect_garbage()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
            future.exception()  # marks it as retrieved: a caller that has given up does not ask
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where T is

    def run() -> None:
        result, failure = None, None
        try:
            result = work(call)
        except BaseException as error:  # noqa: BLE001  (any exception is passed on to the caller)
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended: there is no caller any more
            loop.call_soon_threadsafe(settle, result, failure)

    try:
        threading.Thread(target=run, name=f"libvirt {call.operation}", daemon=True).start()
    except RuntimeError as error:
        raise HypervisorUnreachable(
            f"no thread to {call.operation} in ({error}): "
            "raise the limit of processes and threads (TasksMax, ulimit -u)"
        ) from error
    return future


class Line:
    """Calls that must not overlap, for example those to one domain. While one of them is stuck, others fail at once.

    `on_late` is called when a call returns that was given up: its caller has not seen its effect.
    """

    def __init__(self, name: str, on_late: Callable[[], None]) -> None:
        self.name = name
        self._on_late = on_late
        self._free = asyncio.Lock()
        self._under_way: Call | None = None
        self._stuck: asyncio.Future[Any] | None = None

    @property
    def stuck(self) -> bool:
        """Whether a call that was given up has not returned yet."""
        return self._stuck is not None and not self._stuck.done()

    async def run(self, operation: str, work: Callable[[Call], T], timeout_s: float) -> T:
        """The result of *work*, run after the earlier calls.

        HypervisorUnreachable after *timeout_s*, or at once while a call is stuck.
        """
        try:
            self._refuse_while_stuck()
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise self._still_waiting() from error
        try:
            self._refuse_while_stuck()
            return await self._run(Call(operation), work, timeout_s)
        finally:
            self._free.release()

    async def _run(self, call: Call, work: Callable[[Call], T], timeout_s: float) -> T:
        self._under_way = call
        future = start(call, work)
        try:
            await asyncio.wait({future}, timeout=timeout_s)
        finally:  # also if the caller was cancelled
            if not future.done():
                call.given_up = True
                self._stuck = future
                future.add_done_callback(lambda _future: self._came_back(call))
        if not future.done():
            raise self._still_waiting()
        return future.result()

    def _came_back(self, call: Call) -> None:
        log.info("%s: the call to %s returned after %.1f s", self.name, call.operation, time.monotonic() - call.begun_s)
        self._on_late()

    def _refuse_while_stuck(self) -> None:
        if self.stuck:
            raise self._still_waiting()

    def _still_waiting(self) -> HypervisorUnreachable:
        call = self._under_way
        age = f", begun {time.monotonic() - call.begun_s:.1f} s ago" if call is not None else ""
        return HypervisorUnreachable(
            f"{self.name}: still waiting for libvirt ({call.operation if call else 'a call'}{age}): "
            "its QEMU or libvirtd hangs: look at `virsh domcontrol` and libvirtd's log"
        )
