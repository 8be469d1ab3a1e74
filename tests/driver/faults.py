"""Faults over a real connection of libvirt's test driver. A test can make any call fail as a libvirt in trouble would.

    faults = Faults()
    host = LibvirtHost(uri, 1.0, opener=faults.open)
    faults.inject("getAllDomainStats", error=libvirt.VIR_ERR_RPC)                 # the next one fails
    faults.inject("pinVcpu", "b", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)   # each one on domain b, until
    faults.clear()                                                                # ... here
    hung = faults.inject("XMLDesc", "b", hang=True)                               # waits ...
    hung.release()                                                                # ... until here, then goes on
    faults.inject("pinVcpu", acts=True, error=libvirt.VIR_ERR_RPC)                # done, but the answer is lost
    faults.inject("pinVcpu", skip=1, error=libvirt.VIR_ERR_OPERATION_FAILED)      # the first works, the second does not
    faults.inject("setVcpusFlags", arguments=lambda count, flags: (count + 1, flags))   # acts, but on less than asked
    faults.inject("getAllDomainStats", result=lambda rows: rows[:1])              # a partial listing
    faults.inject("schedulerParametersFlags", instead=lambda flags: {...})        # what the test driver does not know

If the domain ends while a call on it hangs, the call fails later. So it is never made on a later run of the domain.
`faults.real` is the connection below, for what a test does itself (start or destroy a domain, set its metadata).
Everything else is the real libvirt. A method that the layer does not know is refused, so that no call of vscaf
bypasses the layer.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import libvirt

CONNECTION_METHODS = {
    "close",
    "defineXMLFlags",
    "domainEventRegisterAny",
    "domainXMLToNative",
    "getAllDomainStats",
    "getCPUMap",
    "getCapabilities",
    "getLibVersion",
    "getType",
    "getVersion",
    "isAlive",
    "listAllDomains",
    "listDomainsID",
    "lookupByName",
    "lookupByUUIDString",
    "setKeepAlive",
}
DOMAIN_METHODS = {
    "ID",
    "UUIDString",
    "XMLDesc",
    "attachDeviceFlags",
    "connect",
    "controlInfo",
    "emulatorPinInfo",
    "hasManagedSaveImage",
    "info",
    "isActive",
    "isPersistent",
    "jobStats",
    "name",
    "pinEmulator",
    "pinIOThread",
    "pinVcpu",
    "resume",
    "schedulerParametersFlags",
    "setMetadata",
    "setSchedulerParametersFlags",
    "setVcpusFlags",
    "state",
    "suspend",
    "vcpuPinInfo",
    "vcpus",
    "vcpusFlags",
}


# The code of an error (libvirt.VIR_ERR_...), or its code and the part of libvirt that raises it (libvirt.VIR_FROM_...).
Code = int | tuple[int, int]
# libvirtd has ended, and the client notices only now.
BROKEN_PIPE = (libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_FROM_RPC)


def libvirt_error(code: Code, message: str = "made up") -> libvirt.libvirtError:
    """The error that libvirt raises with this code."""
    number, raised_by = code if isinstance(code, tuple) else (code, libvirt.VIR_FROM_TEST)
    error = libvirt.libvirtError(message)
    error.err = (number, raised_by, message, 2, "", "", "", 0, 0)
    return error


class _Waiting:
    """Context manager: marks the call of this thread as waiting on purpose."""

    threads: ClassVar[set[int]] = set()

    def __enter__(self) -> None:
        self.threads.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self.threads.discard(threading.get_ident())


_clock: list[Callable[[], float]] = [time.monotonic]


@contextmanager
def late_by(clock: Callable[[], float]) -> Iterator[None]:
    """Late calls are late by this clock."""
    _clock.append(clock)
    try:
        yield
    finally:
        _clock.remove(clock)


def waiting_threads() -> frozenset[int]:
    """The threads whose calls now wait on purpose: they hang or are late."""
    return frozenset(_Waiting.threads)


@dataclass(eq=False)
class Fault:
    """One kind of trouble. `hits` counts the calls that it has hit."""

    method: str
    domain: str | None
    times: int | None
    skip: int
    error: Code | None
    message: str
    hang: bool
    late_s: float
    acts: bool
    arguments: Callable[..., tuple[Any, ...]] | None
    result: Callable[[Any], Any] | None
    instead: Callable[..., Any] | None
    hits: int = 0
    affected: set[str | None] = field(default_factory=set)  # the names of the domains that it has hit
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Lets the calls that hang here go on."""
        self._released.set()

    def apply_to(self, call: Callable[..., Any], arguments: tuple[Any, ...], over: Callable[[], bool]) -> Any:
        """Makes the call with this trouble. over: whether the domain's run has ended since."""
        given = arguments if self.arguments is None else self.arguments(*arguments)
        call = self.instead or call
        result = call(*given) if self.acts else None
        with _Waiting():
            if self.hang:
                self._released.wait()
            begun_s = _clock[-1]()
            while _clock[-1]() - begun_s < self.late_s:
                time.sleep(0.002)
        if self.hang and over():
            raise libvirt_error(libvirt.VIR_ERR_OPERATION_INVALID, "domain is not running")
        if self.error is not None:
            raise libvirt_error(self.error, self.message)
        if not self.acts:
            result = call(*given)
        return result if self.result is None else self.result(result)


class Faults:
    """The faults of one test and the connections that have them. Usable from any thread."""

    def __init__(self) -> None:
        self.connections: list[Any] = []
        self.called: Counter[str] = Counter()
        self.callbacks: list[int] = []  # registered for events on the newest connection
        self.alive = True  # False: every connection says that it is dead
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    @property
    def real(self) -> Any:
        """The newest connection, without faults."""
        return self.connections[-1]

    def open(self, uri: str) -> "FaultyConnection":
        """As libvirt.open, with these faults. Opening again gives a new handle of the same host, as libvirtd would. (In
        the test driver each real connection is a separate host.)"""
        self.apply_to("open", None, lambda: None, ())
        if not self.connections:
            self.connections.append(libvirt.open(uri))
        if not self.alive:
            self.end_events()
            self.alive = True
        return FaultyConnection(self, self.real)

    def end_events(self) -> None:
        """Ends all events, as the end of a connection does: the real one lives on, and takes each callback once."""
        while self.callbacks:
            self.real.domainEventDeregisterAny(self.callbacks.pop())

    def inject(
        self,
        method: str,
        domain: str | None = None,
        *,
        times: int | None = 1,
        skip: int = 0,
        error: Code | None = None,
        message: str = "made up",
        hang: bool = False,
        late_s: float = 0.0,
        acts: bool = False,
        arguments: Callable[..., tuple[Any, ...]] | None = None,
        result: Callable[[Any], Any] | None = None,
        instead: Callable[..., Any] | None = None,
    ) -> Fault:
        """Causes trouble for *times* calls of *method* (None: all), after the next *skip* calls. *domain*: only for it.

        `error`: the code to raise. `hang`: until release(). `late_s`: seconds. `acts`: the call is made before the
        trouble, not after it or not at all. `arguments`, `result`: functions that change them. `instead`: answers in
        place of libvirt.
        """
        if method not in CONNECTION_METHODS | DOMAIN_METHODS | {"open"}:
            raise ValueError(f"{method} is no method of libvirt that the fault layer knows")
        fault = Fault(method, domain, times, skip, error, message, hang, late_s, acts, arguments, result, instead)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Ends all trouble. Calls that hang go on."""
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            fault.release()

    def apply_to(
        self,
        method: str,
        domain: str | None,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        over: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Makes the call with the first fault that applies to it. over: whether the domain's run has ended since."""
        with self._lock:
            self.called[method] += 1
            met = None
            for fault in self._faults:
                if fault.method != method or fault.domain not in (None, domain):
                    continue
                if fault.skip:
                    fault.skip -= 1
                elif fault.times is None or fault.hits < fault.times:
                    fault.hits += 1
                    fault.affected.add(domain)
                    met = fault
                    break
        return call(*arguments) if met is None else met.apply_to(call, arguments, over)


def reported_in(faults: Faults, name: str, state: int, reason: int) -> Fault:
    """From now on listings report the domain *name* in this state, for this reason."""

    def report(rows: list[tuple[Any, dict[str, Any]]]) -> list[tuple[Any, dict[str, Any]]]:
        other = {"state.state": state, "state.reason": reason}
        return [(domain, {**fields, **other} if domain.name() == name else fields) for domain, fields in rows]

    return faults.inject("getAllDomainStats", times=None, result=report)


class FaultyConnection:
    """A virConnect with faults."""

    def __init__(self, faults: Faults, real: Any) -> None:
        self._faults = faults
        self._real = real

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in CONNECTION_METHODS:
            raise AttributeError(f"the fault layer does not know virConnect.{method}: add it to CONNECTION_METHODS")
        return lambda *arguments: self._wrapped(
            self._faults.apply_to(method, None, getattr(self, f"_{method}", getattr(self._real, method)), arguments)
        )

    def _domainEventRegisterAny(self, *arguments: Any) -> int:  # noqa: N802  (libvirt's name)
        callback = int(self._real.domainEventRegisterAny(*arguments))
        self._faults.callbacks.append(callback)
        return callback

    def _close(self) -> int:
        self._faults.end_events()
        return 0  # the host below lives as long as the test

    def _isAlive(self) -> bool:  # noqa: N802  (libvirt's name)
        return self._faults.alive

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, libvirt.virDomain):
            return FaultyDomain(self._faults, self, value)
        if isinstance(value, list):
            return [self._wrapped(one) for one in value]
        if isinstance(value, tuple):
            return tuple(self._wrapped(one) for one in value)
        return value


def _no_job() -> dict[str, int]:
    """What QEMU's driver reports of a domain without a job. The test driver does not know this call."""
    return {"type": libvirt.VIR_DOMAIN_JOB_NONE}


class FaultyDomain:
    """A virDomain with faults."""

    def __init__(self, faults: Faults, connection: FaultyConnection, real: Any) -> None:
        self._faults = faults
        self._connection = connection
        self._real = real
        self._name = real.name()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in DOMAIN_METHODS:
            raise AttributeError(f"the fault layer does not know virDomain.{method}: add it to DOMAIN_METHODS")
        if method == "connect":
            return lambda: self._connection
        call = _no_job if method == "jobStats" else getattr(self._real, method)
        return lambda *arguments: self._faults.apply_to(method, self._name, call, arguments, self._over)

    def _over(self) -> bool:
        try:
            return bool(self._faults.real.lookupByUUIDString(self._real.UUIDString()).ID() != self._real.ID())
        except libvirt.libvirtError:  # it is no longer even defined
            return True
