"""Runs the programs of a run, again and again, until each has computed long enough together with the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from vscaf.bench.places.place import Ended, Place, PlaceError, Started, raise_also
from vscaf.bench.samples import Execution
from vscaf.bench.workloads.workload import Workload

EXECUTION_DEADLINE_S = 3600.0  # for one execution that hangs; large classes take long on one thread


@dataclass(frozen=True, slots=True)
class Member:
    """A program and the member of the place that runs it. start_s: when it starts, after the begin. clock_ahead_s: how
    far the member's clock is ahead of this host's; None if that is not known."""

    name: str
    workload: Workload
    command: str
    environment: Mapping[str, str]
    start_s: float
    clock_ahead_s: float | None = None


class _Together:
    """The commands of a run. Executions of programs that have no more that count are padding."""

    def __init__(self, count: int) -> None:
        self._computing = count
        self._running: list[tuple[Started, bool]] = []  # and whether it is padding
        self._ended = False
        self._lock = threading.Lock()

    def start(self, place: Place, member: Member, *, padding: bool) -> Started | None:
        """Starts the program; None if the run has ended, or if padding is not needed any more."""
        with self._lock:
            if self._ended or (padding and self._computing == 0):
                return None
            started = place.start(member.name, member.command, member.environment)
            self._running.append((started, padding))
            return started

    def ended(self, started: Started) -> None:
        """A command has ended."""
        with self._lock:
            self._running = [one for one in self._running if one[0] is not started]

    def done(self) -> None:
        """One program has no more executions that count. If it was the last, all padding is ended."""
        with self._lock:
            self._computing -= 1
            if self._computing == 0:
                _kill([started for started, padding in self._running if padding])

    def end(self) -> None:
        """Ends all whose end is not known; nothing more is started."""
        with self._lock:
            self._ended = True
            running, self._running = self._running, []
            _kill([started for started, _ in running])

    @contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        """An error or an interruption ends all; the error then says what could not be ended."""
        try:
            yield
        except BaseException as error:
            try:
                self.end()
            except PlaceError as left:
                raise_also(error, str(left))
            raise


def _kill(commands: Sequence[Started]) -> None:
    """Kills all, whether or not one of them cannot be. Raises PlaceError then."""
    errors = []
    for started in commands:
        try:
            started.kill()
        except PlaceError as error:
            errors.append(str(error))
    if errors:
        raise PlaceError(f"{len(errors)} of the programs could not be ended, and may still run: {'; '.join(errors)}")


def execute(place: Place, members: Sequence[Member], seconds: float | None) -> list[list[Execution]]:
    """Runs all programs over and over for *seconds* from the start of the last; None: each once. Returns the executions
    of each.

    Unless each runs once, who has done its last one goes on until all others have, so that nobody's last execution has
    the CPUs for itself. Executions begun only for that are ended and do not count. Raises PlaceError if a program
    cannot be run at all; an error or an interruption ends all programs.
    """
    begin_s = time.monotonic()
    end_s = begin_s + max(member.start_s for member in members) + (seconds or 0.0)
    together = _Together(len(members))

    def run(member: Member) -> list[Execution]:
        executions: list[Execution] = []
        try:
            with together.ended_by_errors():
                time.sleep(max(0.0, begin_s + member.start_s - time.monotonic()))
                while not executions or (seconds is not None and time.monotonic() < end_s):
                    one = _once(place, member, together)
                    if one is None:
                        break
                    executions.append(one)
        finally:
            together.done()
        with together.ended_by_errors():
            while seconds is not None and (started := together.start(place, member, padding=True)) is not None:
                _wait(member, started, together)
        return executions

    with ThreadPoolExecutor(len(members)) as pool, together.ended_by_errors():
        return list(pool.map(run, members))


def _once(place: Place, member: Member, together: _Together) -> Execution | None:
    """One execution; None if the run was ended before it began."""
    start_s = time.monotonic()
    started = together.start(place, member, padding=False)
    if started is None:
        return None
    ended = _wait(member, started, together)
    end_s = time.monotonic()
    if ended.status in (126, 127):
        raise PlaceError(f"{member.name}: `{member.command}` cannot be run there: {ended.output[-300:]}")
    verified = member.workload.verified(ended.status, ended.output)
    marks = member.workload.marks(start_s, ended.pieces, member.clock_ahead_s)
    if verified and len(marks) == 1:
        raise PlaceError(
            f"{member.workload.name}: no line of its output shows its progress; it last printed: {ended.output[-300:]}"
        )
    return Execution(start_s, end_s, verified, ended.status, marks)


def _wait(member: Member, started: Started, together: _Together) -> Ended:
    """The end of an execution. Raises PlaceError if it hangs, or if nobody can tell whether it has ended; then it still
    belongs to the commands that `together` ends."""
    try:
        ended = started.wait(EXECUTION_DEADLINE_S)
    except TimeoutError as error:
        raise PlaceError(
            f"{member.name}: {member.workload.name}: {error}: if it does not hang, run a smaller class of it"
        ) from None
    together.ended(started)
    return ended
