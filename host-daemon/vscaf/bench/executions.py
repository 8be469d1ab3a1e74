"""Runs the programs of a run, again and again, until each has computed long enough together with the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from vscaf.bench.places.place import Ended, Place, PlaceError, Started
from vscaf.bench.samples import Execution
from vscaf.bench.workloads.workload import Workload

EXECUTION_DEADLINE_S = 900.0  # for one execution that hangs


@dataclass(frozen=True, slots=True)
class Member:
    """A program and the member of the place that runs it. delay_s: when it starts, after the first. clock_ahead_s: how
    far the member's clock is ahead of this host's; None if that is not known."""

    name: str
    workload: Workload
    command: str
    environment: Mapping[str, str]
    delay_s: float
    clock_ahead_s: float | None = None


class _Together:
    """Who still has executions that count. Executions of those who have not are padding."""

    def __init__(self, count: int) -> None:
        self._computing = count
        self._padding: list[Started] = []
        self._lock = threading.Lock()

    def done(self) -> None:
        """One program has no more executions that count. If it was the last, all padding is ended."""
        with self._lock:
            self._computing -= 1
            if self._computing == 0:
                for started in self._padding:
                    started.kill()

    def pad(self, place: Place, member: Member) -> bool:
        """Runs the program once more, if others still compute. Returns whether it did."""
        with self._lock:
            if self._computing == 0:
                return False
            started = place.start(member.name, member.command, member.environment)
            self._padding.append(started)
        _wait(member, started)
        with self._lock:
            self._padding.remove(started)
        return True


def execute(place: Place, members: Sequence[Member], seconds: float) -> list[list[Execution]]:
    """Runs all programs over and over for *seconds* from the start of the last. Returns the executions of each.

    Who has done its last one goes on until all others have, so that nobody's last execution has the CPUs for itself.
    Executions begun only for that are ended and do not count. Raises PlaceError if a program cannot be run at all.
    """
    begin_s = time.monotonic()
    end_s = begin_s + max(member.delay_s for member in members) + seconds
    together = _Together(len(members))

    def run(member: Member) -> list[Execution]:
        executions: list[Execution] = []
        try:
            time.sleep(max(0.0, begin_s + member.delay_s - time.monotonic()))
            while not executions or time.monotonic() < end_s:
                executions.append(_once(place, member))
        finally:
            together.done()
        while together.pad(place, member):
            pass
        return executions

    with ThreadPoolExecutor(len(members)) as pool:
        return list(pool.map(run, members))


def _once(place: Place, member: Member) -> Execution:
    start_s = time.monotonic()
    started = place.start(member.name, member.command, member.environment)
    ended = _wait(member, started)
    end_s = time.monotonic()
    if ended.status == 127:
        raise PlaceError(f"{member.name}: `{member.command}` cannot be run there: {ended.output[-300:]}")
    verified = member.workload.verified(ended.status, ended.output)
    marks = member.workload.marks(start_s, ended.pieces, member.clock_ahead_s)
    if verified and len(marks) == 1:
        raise PlaceError(
            f"{member.workload.name}: no line of its output shows progress by --progress; it last printed: "
            f"{ended.output[-300:]}"
        )
    return Execution(start_s, end_s, verified, ended.status, marks)


def _wait(member: Member, started: Started) -> Ended:
    """The end of an execution. Raises PlaceError if it hangs; then it was killed."""
    try:
        return started.wait(EXECUTION_DEADLINE_S)
    except TimeoutError as error:
        started.kill()
        raise PlaceError(f"{member.name}: {member.workload.name}: {error}") from None
