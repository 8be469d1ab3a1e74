"""Connections to libvirt: one for events, and others that each serve one call at a time.

libvirtd stops reading from a client that has five unanswered requests. It was also seen that replies on a connection
with a hanging call stay unread until the next request. So each call has a connection to itself, and a call that hangs
keeps it. Drivers inside this process (libvirt's test driver) have no such limits, and each of their connections may be
a separate host. With them, one connection serves all calls.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import libvirt

from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable, NotSupported
from vscaf.hypervisor.libvirt.calls import Call

log = logging.getLogger(__name__)

KEEPALIVE_INTERVAL_S = 5
KEEPALIVE_COUNT = 3
CONNECTIONS = 8  # the most calls under way at once; libvirtd has 20 threads for all its clients
HUNG_CONNECTIONS = 64  # the most hanging calls in addition

NOT_SUPPORTED = {
    libvirt.VIR_ERR_NO_SUPPORT,
    libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
    libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
}
NOT_PERMITTED = {libvirt.VIR_ERR_OPERATION_DENIED, libvirt.VIR_ERR_ACCESS_DENIED}
UNAUTHENTICATED = {
    libvirt.VIR_ERR_AUTH_FAILED,
    libvirt.VIR_ERR_AUTH_CANCELLED,
    libvirt.VIR_ERR_AUTH_UNAVAILABLE,
}
UNREACHABLE = UNAUTHENTICATED | {
    libvirt.VIR_ERR_NO_CONNECT,
    libvirt.VIR_ERR_INVALID_CONN,
    libvirt.VIR_ERR_RPC,
    libvirt.VIR_ERR_NO_SERVER,
}


def is_unreachable(error: libvirt.libvirtError) -> bool:
    """Whether libvirt could not be asked, or did not answer. The call may have been made all the same.

    If a connection breaks during a call, the error has the code of any failed system call. What tells it apart is the
    part of libvirt that raised it. The connection may still say that it is alive.
    """
    return error.get_error_code() in UNREACHABLE or error.get_error_domain() == libvirt.VIR_FROM_RPC


def _quiet(_context: object, _error: object) -> None:
    """Replaces libvirt's default handler, which prints every error to stderr. Errors are also raised as exceptions."""


libvirt.registerErrorHandler(_quiet, None)


class Connections:
    """The open connections to the libvirt at *uri*. Safe to use from any thread.

    `opener` opens one connection (`libvirt.open`). `on_events` is called with each new connection for events.
    """

    def __init__(self, uri: str, opener: Callable[[str], Any], on_events: Callable[[Any], None]) -> None:
        self.uri = uri
        self._opener = opener
        self._on_events = on_events
        self._changed = threading.Condition()
        self._events_lock = threading.Lock()
        self._events: Any = None
        self._shared = False  # whether the connection for events also serves the calls
        self._idle: list[Any] = []
        self._in_use: set[Call] = set()

    def listen(self) -> Any:
        """The connection for events. Opens one if there is none that is alive; libvirtError if that fails."""
        with self._events_lock:
            if self._events is None or not self._events.isAlive():
                self._events = None
                connection, remote = self._open()
                self._shared = not remote
                self._on_events(connection)
                self._events = connection
            return self._events

    @contextlib.contextmanager
    def connection(self, call: Call) -> Iterator[Any]:
        """A connection for *call* alone, or the shared one of a driver in this process.

        libvirtError if none can be opened.
        """
        if self._events is None or self._shared:
            events = self.listen()
            if self._shared:
                call.check()
                yield events
                return
        connection = self._take(call)
        try:
            if connection is None:
                connection, _remote = self._open()
            call.check()
            yield connection
        finally:
            with self._changed:
                self._in_use.discard(call)
                if connection is not None and not call.given_up and connection.isAlive():
                    self._idle.append(connection)
                self._changed.notify()

    def close(self) -> None:
        """Closes all connections that no call uses. Harmless when called twice."""
        with self._changed:
            connections, self._idle = self._idle, []
        if self._events is not None:
            connections.append(self._events)
            self._events = None
        for connection in connections:
            try:
                connection.close()
            except libvirt.libvirtError as error:
                log.debug("closing a connection to libvirt: %s", error)

    def translated(self, error: libvirt.libvirtError, subject: str) -> HypervisorError:
        """The vscaf error for libvirt's *error* about *subject*. Its text does not matter."""
        code, message = error.get_error_code(), error.get_error_message() or str(error)
        if code == libvirt.VIR_ERR_NO_DOMAIN:
            return DomainGone(f"{subject}: {message}")
        if code in NOT_PERMITTED:
            return NotSupported(
                f"{subject}: {message}: vscaf needs a connection that may write to libvirt at {self.uri}"
            )
        if code in NOT_SUPPORTED:
            return NotSupported(f"{subject}: {message}")
        if code == libvirt.VIR_ERR_OPERATION_TIMEOUT:  # the domain's lock is held by a call that hangs
            why = "another job of libvirt holds it and did not end in time"
            return HypervisorUnreachable(f"{subject}: {why}: {message}")
        if is_unreachable(error) or self._events is None or not self._events.isAlive():
            return HypervisorUnreachable(
                f"{subject}: libvirt at {self.uri}: {message}: check that libvirtd runs and that you may use it"
            )
        return HypervisorError(f"{subject}: {message}")

    def _take(self, call: Call) -> Any:
        """An idle connection. None: the caller may open one more."""
        with self._changed:
            while True:
                call.check()
                self._idle = [connection for connection in self._idle if connection.isAlive()]
                hung = sum(other.given_up for other in self._in_use)
                if len(self._in_use) - hung < CONNECTIONS and hung < HUNG_CONNECTIONS:
                    self._in_use.add(call)
                    return self._idle.pop() if self._idle else None
                if hung >= HUNG_CONNECTIONS:
                    raise HypervisorUnreachable(f"libvirt at {self.uri}: {hung} calls hang: restart libvirtd")
                self._changed.wait(0.1)  # polls, because giving up a call makes room but notifies nothing

    def _open(self) -> tuple[Any, bool]:
        """A new connection, and whether its libvirt runs in another process."""
        begun_s = time.monotonic()
        connection = self._opener(self.uri)
        try:
            remote = connection.setKeepAlive(KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT) == 0
        except libvirt.libvirtError as error:
            if error.get_error_code() not in NOT_SUPPORTED:  # there is no peer to probe
                raise
            remote = False
        log.debug("libvirt at %s: connected in %.0f ms", self.uri, (time.monotonic() - begun_s) * 1000)
        return connection, remote
