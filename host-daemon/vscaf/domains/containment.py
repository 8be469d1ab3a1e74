"""One domain never stops or slows the others: what goes wrong with one is contained there, said once, and tried again.

Whatever the daemon does for a single domain it does inside Containment.around: an exception that nobody has foreseen
ends that piece of work, puts the domain at fault, and everybody else's go on. (Errors that are foreseen, those of
libvirt's calls, have ways of their own: see core/reconcile/state.on_failed and core/backoff.)

A domain at fault is contained: its vCPUs float over the partition that it has, and of its speedup nothing counts. All
that is done for it is tried as before. It is at fault until nothing has gone wrong for HOLD_S, and twice as long each
time that it comes to be at fault again soon after.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from vscaf import clock
from vscaf.events import EventLog, Kind

log = logging.getLogger(__name__)

HOLD_S, HOLD_MOST_S = 10.0, 600.0

STEPS = "working out its next steps"
"""What fails for it here has to be left out, or nothing is worked out for anybody: no steps are taken for it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """That something went wrong: at fault until until_s, hold_s after it did last. over: nothing has since."""

    until_s: float
    hold_s: float
    no_steps: bool = False
    over: bool = False


class MayFail(Protocol):
    """What a domain is here."""

    fault: Fault | None

    @property
    def name(self) -> str: ...

    def contain(self) -> None:
        """Nobody speaks for its guest any more."""
        ...


class Containment:
    """Puts domains at fault, and ends that."""

    def __init__(self, events: EventLog) -> None:
        self._events = events

    @contextmanager
    def around(self, domain: MayFail, doing: str) -> Iterator[None]:
        """An exception in here is the domain's alone. doing: in words, for people."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  this is the barrier: see the top of this page
            self.failed(domain, doing, error)

    def failed(self, domain: MayFail, doing: str, error: Exception) -> None:
        """Something went wrong with a domain."""
        now_s, former = clock.now_s(), domain.fault
        anew = former is None or former.over
        hold_s = HOLD_S
        if former is not None and now_s < former.until_s + former.hold_s:
            hold_s = min(HOLD_MOST_S, 2.0 * former.hold_s) if anew else former.hold_s
        no_steps = doing == STEPS or (former is not None and not anew and former.no_steps)
        domain.fault = Fault(now_s + hold_s, hold_s, no_steps)
        if anew:
            self._events.record(Kind.FAULT, domain.name, why=f"{doing} failed: {error!r}: contained until that works")
            log.error("domain %s: %s failed, please report this: %r", domain.name, doing, error, exc_info=error)
        domain.contain()

    def review(self, domain: MayFail) -> None:
        """Ends what is over; once a look."""
        fault = domain.fault
        if fault is not None and not fault.over and clock.now_s() >= fault.until_s:
            domain.fault = replace(fault, over=True, no_steps=False)
            self._events.record(Kind.RECOVERED, domain.name, why=f"nothing has failed for {fault.hold_s:g} s")
