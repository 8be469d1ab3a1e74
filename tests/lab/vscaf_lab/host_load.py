"""Whether a host was busy with something else while programs were measured on it.

The pace of a CPU (vscaf_lab.pace) does not show that: a process that shares a CPU leaves its pace as it is. Two
figures together do, over the time in which the programs computed:

- *foreign*: CPU time of the pool that processes outside the demo had, which is what the kernel counted as busy
  (/proc/stat) without the CPU time of all processes of the demo (/proc/PID/stat).
- *delay*: how long the measured threads (QEMU's, or the programs') and the pace meters were ready and did not run
  (/proc/PID/task/*/schedstat).

Neither is enough alone. Two guests on the same pCPUs delay each other: that is delay without foreign time, and what a
policy is measured for. A process that computes on a pCPU that no guest wants takes nothing away: that is foreign time
without delay. Where CPU time is lost to others a thread waits while somebody else runs, which is both. So what was lost
is at most the smaller of the two; it is compared with all that the measured processes had or lost.
"""

from __future__ import annotations

import bisect
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from vscaf_lab.processes import thread_ids

INTERVAL_S = 0.25
# Part of the wanted CPU time. A bar that is met by 5% on a host that is left alone is not missed for this.
MOST_LOST = 0.03
ATTEMPTS = 3  # a disturbed run is repeated twice

T = TypeVar("T")


class Reading(NamedTuple):
    """Sums so far, in seconds; they only grow."""

    at_s: float  # CLOCK_MONOTONIC
    busy_s: float  # the pool's CPUs ran something
    demo_s: float  # CPU time on the pool of all processes of the demo
    run_s: float  # CPU time of the measured processes, part of demo_s
    delay_s: float  # the measured threads were ready and did not run


@dataclass(frozen=True)
class HostLoad:
    """What happened on the pool while something was measured, in CPU seconds."""

    run_s: float
    delay_s: float
    foreign_s: float

    @property
    def lost(self) -> float:
        """Part of the CPU time that the measured processes wanted which others had (at most), 0 to 1."""
        lost_s = min(self.delay_s, self.foreign_s)
        return lost_s / (self.run_s + lost_s) if lost_s > 0 else 0.0

    @property
    def disturbed(self) -> bool:
        """Whether figures that were measured meanwhile say too little about what was measured."""
        return self.lost > MOST_LOST


def host_load(readings: Sequence[Reading], window: tuple[float, float]) -> HostLoad:
    """The load from one time to another, linear between readings. ValueError where there are fewer than two."""
    if len(readings) < 2:
        raise ValueError("the host's load was not read twice: what was measured was too short")
    start, end = (_at(readings, at_s) for at_s in window)
    return HostLoad(
        run_s=end.run_s - start.run_s,
        delay_s=end.delay_s - start.delay_s,
        foreign_s=max(0.0, (end.busy_s - start.busy_s) - (end.demo_s - start.demo_s)),
    )


def _at(readings: Sequence[Reading], at_s: float) -> Reading:
    after = min(max(1, bisect.bisect_right(readings, at_s, key=lambda one: one.at_s)), len(readings) - 1)
    low, high = readings[after - 1], readings[after]
    part = min(1.0, max(0.0, (at_s - low.at_s) / (high.at_s - low.at_s)))
    return Reading(*(one + (other - one) * part for one, other in zip(low, high, strict=True)))


def attempts(once: Callable[[], T], load: Callable[[T], HostLoad]) -> tuple[T, list[T]]:
    """Does something until a time in which the host was left alone, ATTEMPTS times at most.

    Returns what counts, the first that was not disturbed, else the one that lost least, and all.
    """
    done: list[T] = []
    while len(done) < ATTEMPTS and (not done or load(done[-1]).disturbed):
        done.append(once())
    return min(done, key=lambda one: load(one).lost), done


class HostLoadMeter:
    """Context manager: reads the load of *pool* every INTERVAL_S until its end; then `readings` is complete.

    measured: pids of what is measured, and of the pace meters. helpers: pids of the demo's other processes; this
    process is one. A process's CPU time is on the pool where its main thread was last seen there.
    """

    def __init__(self, pool: Iterable[int], measured: Iterable[int], helpers: Iterable[int] = ()) -> None:
        self._pool = frozenset(pool)
        self._measured = set(measured)
        self._helpers = {os.getpid(), *helpers}
        self._cpu_s: dict[int, float] = {}  # by pid, as last read
        self._delay_ns: dict[int, int] = {}  # by thread
        self._demo_s = self._run_s = 0.0
        self._stop = threading.Event()
        self._runner = threading.Thread(target=self._run, name="host load", daemon=True)
        self._error: Exception | None = None
        self.readings: list[Reading] = []

    def __enter__(self) -> HostLoadMeter:
        self.readings.append(self._read())
        self._runner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._runner.join()
        if self._error is not None and kind is None:
            raise self._error

    def add(self, pid: int) -> None:
        """One more process that is measured, from its start."""
        self._cpu_s[pid] = 0.0
        self._measured.add(pid)

    def _run(self) -> None:
        try:
            while not self._stop.wait(INTERVAL_S):
                self.readings.append(self._read())
            self.readings.append(self._read())
        except Exception as error:  # noqa: BLE001  handed to whoever waits for the readings: a thread cannot raise
            self._error = error

    def _read(self) -> Reading:
        measured = set(self._measured)
        for pid in measured | self._helpers:
            self._take_cpu_time(pid, pid in measured)
        for pid in measured:
            self._take_delays(pid)
        at_s, busy_s = time.monotonic(), sum(busy_seconds(self._pool).values())
        return Reading(at_s, busy_s, self._demo_s, self._run_s, sum(self._delay_ns.values()) / 1e9)

    def _take_cpu_time(self, pid: int, measured: bool) -> None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return  # it has ended: what it had is counted
        now_s = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        more_s = now_s - self._cpu_s.get(pid, now_s)
        self._cpu_s[pid] = now_s
        if measured:
            self._run_s += more_s
        if int(stat[36]) in self._pool:
            self._demo_s += more_s

    def _take_delays(self, pid: int) -> None:
        for thread in thread_ids(pid):
            try:
                text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended since it was listed: what it waited is counted
            self._delay_ns[thread] = int(text.split()[1])


def busy_seconds(cpus: Iterable[int]) -> Mapping[int, float]:
    """Seconds since boot in which each of these CPUs ran a thread (the kernel's interrupts are not counted)."""
    wanted = {f"cpu{cpu}": cpu for cpu in cpus}
    rows = (line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines())
    user, system = 1, 3  # and nice between them: proc(5)
    return {
        wanted[row[0]]: sum(map(int, row[user : system + 1])) / os.sysconf("SC_CLK_TCK")
        for row in rows
        if row and row[0] in wanted
    }
