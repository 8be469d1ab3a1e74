"""Records a run: decisions, broken laws, and the figures that they give at the end."""

import itertools
import logging
import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from vscaf.core.decide.decision import Decision
from vscaf.domains.domain import ManagedDomain
from vscaf.events import Event, EventLog, Kind
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.simulate.engine.result import Moment
from vscaf.values import DomainKey, State

FEW_GUESTS, MOST_MOMENTS = 32, 1000
"""With more than FEW_GUESTS guests, a run records at most MOST_MOMENTS changes."""

MOST_VIOLATIONS = 100

CLOSE_SHARE, CLOSING_SHARE = 0.05, 0.1
"""An allocation has converged when it stays within CLOSE_SHARE of its final value. If it does so only in the last tenth
of the time (CLOSING_SHARE), it has not converged."""

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_NO_EVENT = Event(number=0, time="", kind="")
_SETTLED = frozenset({State.COOPERATING, State.CONTAINED})


class Recorder(EventLog):
    """The daemon's events. It keeps only what a run's result needs.

    `violations`: broken laws and refusals, each once. `allocations`: as they were decided last.
    """

    def __init__(self, now_s: Callable[[], float], seconds: float, guests: int, chunk: int) -> None:
        super().__init__(capacity=1, now=lambda: _EPOCH)
        self.violations: dict[str, None] = {}
        self.decisions = 0
        self.moved_cpus = 0
        self.allocations: dict[str, int] = {}
        self._now_s = now_s
        self._gap_s = 0.0 if guests <= FEW_GUESTS else seconds / MOST_MOMENTS
        self._chunk = chunk
        self._moments: list[Moment] = []
        self._changed_s = math.inf
        self._presence_changed_s = 0.0
        self._since: dict[str, list[tuple[float, int]]] = {}

    def record(
        self,
        kind: str,
        domain: str | None,
        *,
        before: object = None,
        after: object = None,
        why: str = "",
        **fields: object,
    ) -> Event:
        """Notes refusals; nothing is logged."""
        if kind == Kind.REFUSED:
            self.violate(why)
        return _NO_EVENT

    def decided(self, decision: Decision) -> None:
        """Notes the allocations that were decided just now."""
        self.decisions += 1
        before, after = self.allocations, decision.allocations
        if not decision.managed or after == before:
            return
        now_s = self._now_s()
        self._note(now_s)  # the change before this one is complete
        self._changed_s = now_s
        self.allocations = dict(after)
        for name, cpus in after.items():
            if before.get(name) != cpus:
                self.moved_cpus += max(0, cpus - before.get(name, 0))
                self._since.setdefault(name, [(self._presence_changed_s, 0)]).append((now_s, cpus))

    def violate(self, words: str) -> None:
        """Notes a broken law, once."""
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.setdefault(words)

    def presence_changed(self, name: str, *, gone: bool) -> None:
        """A guest has arrived or has gone: allocations must converge again."""
        now_s = self._now_s()
        if gone and name in self.allocations:
            self._note(now_s)
            self._changed_s = now_s
            self.allocations = {one: cpus for one, cpus in self.allocations.items() if one != name}
        self._presence_changed_s = now_s
        self._since = {one: [(now_s, cpus)] for one, cpus in self.allocations.items()}

    def _note(self, now_s: float) -> None:
        """Records the last change, unless it happened at this moment."""
        if self._changed_s < now_s and (not self._moments or self._changed_s - self._moments[-1].time_s >= self._gap_s):
            self._moments.append(Moment(self._changed_s, self.allocations))

    def moments(self) -> tuple[Moment, ...]:
        """All changes so far."""
        last = self._moments[-1] if self._moments else None
        if self._changed_s < math.inf and (last is None or last.time_s < self._changed_s):
            return (*self._moments, Moment(self._changed_s, self.allocations))
        return tuple(self._moments)

    def converged_s(self, present: Iterable[str], until_s: float) -> float | None:
        """Seconds from the last arrival or departure until all allocations stay near their last values; None: never."""
        since_s = self._presence_changed_s
        settled_s = since_s
        for name in present:
            changes = self._since.get(name, [])
            if not changes:
                continue
            final = changes[-1][1]
            close = max(self._chunk, CLOSE_SHARE * final)
            for (_at_s, cpus), (until, _next) in itertools.pairwise(changes):
                if abs(cpus - final) > close:
                    settled_s = max(settled_s, until)
        if settled_s > since_s and until_s - settled_s < CLOSING_SHARE * (until_s - since_s):
            return None
        return settled_s - since_s


class Laws:
    """The laws that a host must keep at every change, checked from outside the daemon, until `over` is set."""

    def __init__(self, host: SimulatedHost, pool: frozenset[int], recorder: Recorder) -> None:
        self.managed: Callable[[], dict[DomainKey, ManagedDomain]] = dict
        self.sharing: Callable[[], frozenset[str]] = frozenset
        self.over = False
        self._host = host
        self._pool = pool
        self._recorder = recorder

    def check(self, key: DomainKey) -> None:
        """A settled domain runs only on pCPUs of the pool that it holds and where no other settled domain runs."""
        managed = self.managed()
        reach = self._reach(managed.get(key))
        if reach is None or self.over:
            return
        name = managed[key].name
        if not reach <= self._pool:
            self._recorder.violate(f"{name} runs outside the pool, on {sorted(reach - self._pool)}")
        claim = managed[key].held
        if not reach <= claim:
            self._recorder.violate(f"{name} runs on {sorted(reach - claim)}, which it does not hold")
        sharing = self.sharing()
        for other in sorted(self._host.neighbours(key)):
            theirs = self._reach(managed.get(other))
            if theirs is not None and not reach.isdisjoint(theirs):
                names = sorted((name, managed[other].name))
                if not sharing.issuperset(names):
                    self._recorder.violate(f"{names[0]} and {names[1]} run on the same pCPUs")

    def _reach(self, domain: ManagedDomain | None) -> frozenset[int] | None:
        """The pCPUs that a settled domain's vCPUs may run on; None for any other domain."""
        if domain is None or domain.state not in _SETTLED or domain.transition is None or domain.transition.moving:
            return None
        simulated = self._host.domains.get(domain.seen.key)
        if simulated is None:
            return None
        return frozenset().union(*{simulated.pins[vcpu] for vcpu in range(simulated.vcpus)})


class ErrorRecorder(logging.Handler):
    """Notes errors that the daemon logs."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(logging.ERROR)
        self._recorder = recorder

    def emit(self, record: logging.LogRecord) -> None:
        """An error counts as a broken law, because nothing may go wrong in a simulation."""
        self._recorder.violate(record.getMessage())
