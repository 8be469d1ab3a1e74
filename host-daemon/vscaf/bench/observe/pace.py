"""The pace of pCPUs during a run: how much a second is worth on a machine that others slow down.

A neighbour on the sibling thread halves the speed of a CPU for some seconds and then stops. Runs at different times
would be compared by their neighbours. So a fixed piece of work is timed all the time on each pCPU (host-daemon/pace.c),
and time is counted in *steady seconds*: a second on a pCPU at half its pace is half a steady second.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from vscaf.bench.c_programs import c_program_directory
from vscaf.lab.errors import LabError
from vscaf.occupancy.timeline import Track
from vscaf.worker_thread import WorkerThread

INTERVAL_MS = 20
PIPE_BYTES = 1 << 20
DRAIN_S = 60.0  # a pipe of this size is full after a quarter of an hour, and then its meter waits


@dataclass(frozen=True)
class Paces:
    """Nanoseconds of the fixed work by pCPU: (CLOCK_MONOTONIC seconds, nanoseconds), in order of time."""

    by_pcpu: Mapping[int, Sequence[tuple[float, float]]]


def steady_seconds(domain: str, where: Track, paces: Paces, full_ns: float, window: tuple[float, float]) -> float:
    """Steady seconds of *domain* in a window of time: each bin of *where* counts by the pace of the pCPUs that it used.

    A bin in which it did not run counts by the mean pace of all pCPUs, because waiting is not free.
    """
    start_s, end_s = window
    binned: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for pcpu, rows in paces.by_pcpu.items():
        for at_s, taken_ns in rows:
            binned[int((at_s - where.start_s) // where.bin_s)][pcpu].append(full_ns / taken_ns)
    pace: dict[int, float] = {pcpu: full_ns / statistics.median(ns for _, ns in r) for pcpu, r in paces.by_pcpu.items()}
    total = 0.0
    for index in range(int((start_s - where.start_s) // where.bin_s), int((end_s - where.start_s) // where.bin_s) + 1):
        low = max(start_s, where.start_s + index * where.bin_s)
        high = min(end_s, where.start_s + (index + 1) * where.bin_s)
        pace.update({pcpu: statistics.median(values) for pcpu, values in binned[index].items()})
        used = {pcpu: share(where, pcpu, domain, index) for pcpu in pace}
        weight = sum(used.values())
        mean = sum(pace[p] * used[p] for p in pace) / weight if weight > 0 else statistics.mean(pace.values())
        total += max(0.0, high - low) * mean
    return total


def share(where: Track, pcpu: int, domain: str, index: int) -> float:
    """CPU share of a domain on a pCPU in a bin; 0 if nothing was sampled."""
    values = where.shares.get(pcpu, {}).get(domain, [])
    return values[index] if 0 <= index < len(values) else 0.0


class PaceMeter:
    """Context manager: measures the pace of *pcpus* until its end; then `paces` is complete.

    At the end, raises LabError if a pCPU was not measured, unless another error is under way.
    """

    def __init__(self, pcpus: Sequence[int]) -> None:
        self._pcpus = pcpus
        self._meters: dict[int, subprocess.Popen[bytes]] = {}
        self._text: dict[int, bytes] = {}
        self._worker = WorkerThread(self._drain, "pace")
        self.paces = Paces({})

    def __enter__(self) -> PaceMeter:
        program = c_program_directory("host-daemon", ".") / "pace"
        if not program.exists():
            raise LabError(f"there is no {program}: build the C parts first (make programs)")
        for pcpu in self._pcpus:
            self._meters[pcpu] = subprocess.Popen(
                [program, str(pcpu), str(INTERVAL_MS)], stdout=subprocess.PIPE, pipesize=PIPE_BYTES
            )
        self._worker.start()
        return self

    @property
    def pids(self) -> list[int]:
        """The pids of the processes that measure."""
        return [meter.pid for meter in self._meters.values()]

    def _drain(self) -> None:
        while not self._worker.stop.wait(DRAIN_S):
            for pcpu, meter in self._meters.items():
                assert meter.stdout is not None
                self._text[pcpu] = self._text.get(pcpu, b"") + os.read(meter.stdout.fileno(), PIPE_BYTES)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for meter in self._meters.values():
            meter.terminate()
        self._worker.end(raises=error is None)
        taken: dict[int, list[tuple[float, float]]] = {}
        for pcpu, meter in self._meters.items():
            text = (self._text.get(pcpu, b"") + meter.communicate()[0]).decode()
            # The last line may be incomplete.
            rows = [line.split() for line in text.splitlines()[:-1]]
            # The kernel may count CPU time later than it is read. A time of 0 tells nothing and is left out.
            taken[pcpu] = [(float(at_s), float(taken_ns)) for at_s, taken_ns in rows if float(taken_ns) > 0]
        self.paces = Paces(taken)
        if error is not None:
            return
        for pcpu, meter in self._meters.items():
            if taken[pcpu]:
                continue
            if meter.returncode == -signal.SIGTERM:
                raise LabError(f"the pace of CPU {pcpu} was not measured: the run was too short: give more --seconds")
            raise LabError(
                f"the pace of CPU {pcpu} was not measured: its meter ended with status {meter.returncode}; it has said "
                "why above: choose CPUs that are online and that this process may run on"
            )
