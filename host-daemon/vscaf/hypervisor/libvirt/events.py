"""libvirt's event loop on asyncio, usable while other threads make libvirt calls.

libvirtaio calls the loop's methods from the thread that libvirt runs in. asyncio allows such calls only from its own
thread, but vscaf makes libvirt calls in worker threads. So changes to handles and timers are handed to the loop's
thread, in order. libvirt only needs each change to take effect some time later. So no thread waits for the loop, and
there can be no deadlock with libvirt's own locks.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import libvirtaio


class ThreadSafeEvents(libvirtaio.virEventAsyncIOImpl):  # type: ignore[misc]
    """libvirtaio's implementation, with every change made on the loop's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._thread = threading.get_ident()

    def _on_loop(self, change: Callable[..., Any], *args: Any) -> None:
        if self.loop.is_closed():  # a connection may outlive the loop, and then needs no changes
            return
        if threading.get_ident() == self._thread:
            change(*args)
        else:
            self.loop.call_soon_threadsafe(change, *args)

    def _add_handle(self, fd: int, event: int, cb: Any, opaque: Any) -> int:
        # The number must be returned at once. So the callback object is made here, and it starts to watch on the loop.
        callback = libvirtaio.FDCallback(self, cb, opaque, descriptor=self.descriptors[fd], event=event)
        self._pending_inc()
        self.callbacks[callback.iden] = callback
        self._on_loop(self._watch, fd, callback)
        return int(callback.iden)

    def _watch(self, fd: int, callback: Any) -> None:
        callback.descriptor = self.descriptors[fd]  # an earlier removal may have dropped the former object
        callback.descriptor.add_handle(callback)

    def _update_handle(self, watch: int, event: int) -> None:
        self._on_loop(super()._update_handle, watch, event)

    def _remove_handle(self, watch: int) -> int:
        self._on_loop(super()._remove_handle, watch)
        return 0

    def _add_timeout(self, timeout: int, cb: Any, opaque: Any) -> int:
        callback = libvirtaio.TimeoutCallback(self, cb, opaque)
        self._pending_inc()
        self.callbacks[callback.iden] = callback
        self._on_loop(callback.update, timeout)
        return int(callback.iden)

    def _update_timeout(self, timer: int, timeout: int) -> None:
        self._on_loop(super()._update_timeout, timer, timeout)

    def _remove_timeout(self, timer: int) -> int:
        self._on_loop(super()._remove_timeout, timer)
        return 0


_registered: ThreadSafeEvents | None = None


def register_events() -> None:
    """Makes the running asyncio loop libvirt's event loop. libvirt allows only one in a process.

    RuntimeError if another loop was registered before.
    """
    global _registered  # noqa: PLW0603  (libvirt's registration is a process-wide fact)
    loop = asyncio.get_running_loop()
    if _registered is None:
        _registered = ThreadSafeEvents(loop)
        _registered.register()
    elif _registered.loop is not loop:
        raise RuntimeError("libvirt's events are bound to another asyncio loop: use one loop a process")
