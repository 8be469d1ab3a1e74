"""An error with one domain never stops or slows the others. It is contained, reported once, and the work tried again.

The daemon does all work for a single domain inside Containment.around. An unexpected exception ends that piece of work
and puts the domain at fault. Work for the other domains goes on. (Expected errors, those of libvirt's calls, are
handled elsewhere: see core/reconcile/state.on_failed and core/backoff.)

A domain at fault is contained: its vCPUs float over its present partition, and its speedup does not count. Work for it
is tried as before. It is at fault until nothing has gone wrong for HOLD_S. If it is at fault again soon after, it stays
so for twice as long each time, up to HOLD_MOST_S.
"""

import logging
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol

from vscaf import clock
from vscaf.events import EventLog, Kind

log = logging.getLogger(__name__)

HOLD_S, HOLD_MOST_S = 10.0, 600.0

STEPS = "working out its next steps"
"""A domain that fails in this work is left out, and no steps are taken for it. Else no domain would get any steps."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a domain. It lasts until until_s, which is hold_s after the last error. over: it has ended.

    no_steps: no steps are taken for the domain, see STEPS.
    """

    until_s: float
    hold_s: float
    no_steps: bool = False
    over: bool = False


class MayFail(Protocol):
    """A domain, as far as containment needs it."""

    fault: Fault | None

    @property
    def name(self) -> str: ...

    def contain(self) -> None:
        """Ignores its agent from now on."""
        ...


class Around:
    """The context of Containment.around. A class, because it is entered for each domain at each look: a generator takes
    several times as long."""

    __slots__ = ("_containment", "_doing", "_domain")

    def __init__(self, containment: "Containment", domain: MayFail, doing: str) -> None:
        self._containment, self._domain, self._doing = containment, domain, doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._containment.failed(self._domain, self._doing, error)
        return True


class Containment:
    """Puts domains at fault, and ends faults."""

    def __init__(self, events: EventLog) -> None:
        self._events = events

    def around(self, domain: MayFail, doing: str) -> "Around":
        """An exception in this context affects only *domain*. doing: the work, in words for people."""
        return Around(self, domain, doing)

    def failed(self, domain: MayFail, doing: str, error: Exception) -> None:
        """Puts a domain at fault after an unexpected error."""
        now_s, former = clock.now_s(), domain.fault
        anew = former is None or former.over
        hold_s = HOLD_S
        if former is not None and now_s < former.until_s + former.hold_s:
            hold_s = min(HOLD_MOST_S, 2.0 * former.hold_s) if anew else former.hold_s
        no_steps = doing == STEPS or (former is not None and not anew and former.no_steps)
        domain.fault = Fault(now_s + hold_s, hold_s, no_steps)
        if anew:
            self._events.record(Kind.FAULT, domain.name, why=f"{doing} failed: {error!r}: contained until it works")
            log.error("domain %s: %s failed, please report this: %r", domain.name, doing, error, exc_info=error)
        domain.contain()

    def review(self, domain: MayFail) -> None:
        """Ends a fault that is over. Called once in each look."""
        fault = domain.fault
        if fault is not None and not fault.over and clock.now_s() >= fault.until_s:
            domain.fault = replace(fault, over=True, no_steps=False)
            self._events.record(Kind.RECOVERED, domain.name, why=f"nothing has failed for {fault.hold_s:g} s")
