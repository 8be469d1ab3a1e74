"""Tells whether a host was busy with something else while programs were measured on it.

The pace of a CPU (vscaf.bench.observe.pace) does not show that, because a process that shares a CPU does not change its
pace. Two figures show it together, over the time in which the programs computed:

- *foreign*: CPU time of the pool that processes outside the bench and interrupts used. It is the time in which its CPUs
  were not idle (/proc/stat) minus the CPU time of all processes of the bench (/proc/PID/stat).
- *delay*: how long the measured threads (QEMU's or the programs') and the pace meters were ready but did not run
  (/proc/PID/task/*/schedstat).

Neither is enough alone. Two guests on the same pCPUs delay each other. That is delay without foreign time, and a policy
is measured for it. A process that computes on a pCPU that no guest wants takes nothing away. That is foreign time
without delay. If CPU time is lost to others, a thread waits while another process runs, which is both. So the lost time
is at most the smaller of the two. It is compared with all CPU time that the measured processes had or lost.
"""

from __future__ import annotations

import bisect
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from vscaf.lab.processes import tree, tree_threads
from vscaf.occupancy.qemu import thread_ids
from vscaf.worker_thread import WorkerThread

INTERVAL_S = 0.25
# Part of the wanted CPU time. A smaller loss does not make a run miss a bar that it meets by 5% on an idle host.
MOST_LOST = 0.03
ATTEMPTS = 3  # a disturbed run is repeated twice


class Reading(NamedTuple):
    """Sums up to at_s, in seconds; they only grow, but for busy_s, which is exact to a hundredth for each CPU."""

    at_s: float  # CLOCK_MONOTONIC
    busy_s: float  # the pool's CPUs were not idle, since some point in time
    bench_s: float  # CPU time on the pool of all processes of the bench
    run_s: float  # CPU time of the measured processes, part of bench_s
    delay_s: float  # the measured threads were ready and did not run


@dataclass(frozen=True)
class HostLoad:
    """The load of the pool during a measurement, in CPU seconds."""

    run_s: float
    delay_s: float
    foreign_s: float

    @property
    def lost(self) -> float:
        """The part of the CPU time wanted by the measured processes that others used, at most; 0 to 1."""
        lost_s = min(self.delay_s, self.foreign_s)
        return lost_s / (self.run_s + lost_s) if lost_s > 0 else 0.0

    @property
    def disturbed(self) -> bool:
        """Whether others took so much CPU time that the measured figures cannot be used."""
        return self.lost > MOST_LOST


def host_load(readings: Sequence[Reading], window: tuple[float, float]) -> HostLoad:
    """The load in a window of time, linear between readings. ValueError if there are fewer than two readings."""
    if len(readings) < 2:
        raise ValueError("the host's load was not read twice: what was measured was too short")
    start, end = (_at(readings, at_s) for at_s in window)
    return HostLoad(
        run_s=end.run_s - start.run_s,
        delay_s=end.delay_s - start.delay_s,
        foreign_s=max(0.0, (end.busy_s - start.busy_s) - (end.bench_s - start.bench_s)),
    )


def _at(readings: Sequence[Reading], at_s: float) -> Reading:
    after = min(max(1, bisect.bisect_right(readings, at_s, key=lambda one: one.at_s)), len(readings) - 1)
    low, high = readings[after - 1], readings[after]
    part = min(1.0, max(0.0, (at_s - low.at_s) / (high.at_s - low.at_s)))
    return Reading(*(one + (other - one) * part for one, other in zip(low, high, strict=True)))


class HostLoadMeter:
    """Context manager: reads the load of *pool* every INTERVAL_S until its end; then `readings` is complete.

    measured: pids of the measured processes and of the pace meters; their children count as part of them. helpers: pids
    of the bench's other processes; this process is added. A measured process's CPU time counts as time on the pool if
    one of its threads was last seen there: its main thread may not be, because emulators are often pinned elsewhere. A
    helper's counts if its main thread was. Measured processes that end must be told to `end`: a process of less than
    INTERVAL_S may have ended before it was ever read. The delay of such a process is not seen.
    """

    def __init__(self, pool: Iterable[int], measured: Iterable[int], helpers: Iterable[int] = ()) -> None:
        self._pool = frozenset(pool)
        self._measured = set(measured)
        self._helpers = {os.getpid(), *helpers}
        self._cpu_s: dict[int, float] = {}  # by pid, as last read
        self._delay_ns: dict[int, int] = {}  # by thread, as last read
        self._bench_s = self._run_s = self._delay_s = 0.0
        self._lock = threading.Lock()
        self._worker = WorkerThread(self._run, "host load")
        self.readings: list[Reading] = []

    def __enter__(self) -> HostLoadMeter:
        self.readings.append(self._read())
        self._worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.end(raises=kind is None)

    def add(self, pid: int) -> None:
        """Adds a measured process, from its start."""
        with self._lock:
            self._cpu_s[pid] = 0.0
            self._measured.add(pid)

    def end(self, pid: int, cpu_s: float) -> None:
        """Takes in a measured process that has ended. cpu_s: its CPU time on the pool and its children's (wait4(2))."""
        with self._lock:
            self._measured.discard(pid)
            more_s = max(0.0, cpu_s - self._cpu_s.pop(pid, 0.0))
            self._run_s += more_s
            self._bench_s += more_s

    def _run(self) -> None:
        while not self._worker.stop.wait(INTERVAL_S):
            self.readings.append(self._read())
        self.readings.append(self._read())

    def _read(self) -> Reading:
        with self._lock:
            for pid in self._measured:
                self._take_cpu_time(pid, tree(pid), measured=True)
                self._take_delays(pid)
            for pid in self._helpers - self._measured:
                self._take_cpu_time(pid, [pid], measured=False)
            at_s, stat = time.monotonic(), Path("/proc/stat").read_text(encoding="ascii")
            busy_s = sum(busy_seconds(stat, self._pool, at_s).values())
            return Reading(at_s, busy_s, self._bench_s, self._run_s, self._delay_s)

    def _take_cpu_time(self, pid: int, processes: Sequence[int], *, measured: bool) -> None:
        """Takes in the CPU time of a process: of all these, which begin with itself, and of their ended children."""
        ticks = main_cpu = 0
        for one in processes:
            try:
                stat = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                if one == pid:
                    return  # it has ended: its CPU time up to the last reading is counted
                continue  # its parent has waited for it, but was read before
            ticks += sum(map(int, stat[11:15] if measured else stat[11:13]))
            if one == pid:
                main_cpu = int(stat[36])
        now_s = ticks / os.sysconf("SC_CLK_TCK")
        more_s = max(0.0, now_s - self._cpu_s.get(pid, now_s))
        self._cpu_s[pid] = max(now_s, self._cpu_s.get(pid, 0.0))
        if measured:
            self._run_s += more_s
        if main_cpu in self._pool or (measured and not self._pool.isdisjoint(last_cpus(processes))):
            self._bench_s += more_s

    def _take_delays(self, pid: int) -> None:
        for thread in tree_threads(pid):
            try:
                text = Path(f"/proc/{thread}/task/{thread}/schedstat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since it was listed: its delay up to the last reading is counted
            now_ns, before_ns = int(text.split()[1]), self._delay_ns.get(thread, 0)
            self._delay_s += (now_ns - before_ns if now_ns >= before_ns else now_ns) / 1e9  # else: another thread
            self._delay_ns[thread] = now_ns


def last_cpus(processes: Iterable[int]) -> Iterator[int]:
    """The CPU on which each thread of these processes was last seen."""
    for pid in processes:
        for thread in thread_ids(pid):
            try:
                stat = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since it was listed
            yield int(stat.rpartition(")")[2].split()[36])


def busy_seconds(stat: str, cpus: Iterable[int], now_s: float) -> Mapping[int, float]:
    """The time in which each of these CPUs was not idle, in seconds since some point in time, to a hundredth.

    stat: the text of /proc/stat. now_s: CLOCK_MONOTONIC when it was read. The result is the time less what counts there
    as idle, iowait and steal (proc(5)), so it includes interrupts. Kernels with NO_HZ measure idle time exactly. User
    and system time is sampled at ticks, which misses most of a thread that runs a little after each tick.
    """
    wanted = {f"cpu{cpu}": cpu for cpu in cpus}
    idle, iowait, steal = 4, 5, 8
    return {
        wanted[row[0]]: now_s - sum(int(row[one]) for one in (idle, iowait, steal)) / os.sysconf("SC_CLK_TCK")
        for row in map(str.split, stat.splitlines())
        if row and row[0] in wanted
    }
