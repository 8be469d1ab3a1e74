"""Watches the scaled machine while programs run: the pace of the host's CPUs, and what others took from its vCPUs.

A vCPU that its quota has stopped counts as delayed in /proc/PID/task/TID/schedstat. That is what makes it slow, and not
a disturbance. So the time for which the quota stopped it (cpu.stat of its control group) is subtracted.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np
from vscaf.bench.observe.host_load import HostLoad
from vscaf.bench.observe.watch import Watch, Watched
from vscaf.lab import Guest
from vscaf.lab.cgroups import domain_directories
from vscaf.lab.errors import LabError
from vscaf.worker_thread import WorkerThread

INTERVAL_S = 0.5
NS_OF = {"throttled_time": 1, "throttled_usec": 1000}  # cgroup v1 and v2


class ScaledWatched(Watched):
    """What was watched. delays: (time, delay of all vCPUs by others so far), in seconds."""

    delays: Sequence[tuple[float, float]] = ()
    guest_name = ""

    def steady(self, domain: str, start_s: float, end_s: float, full_ns: float) -> float:
        return super().steady(self.guest_name, start_s, end_s, full_ns)

    def load(self, start_s: float, end_s: float) -> HostLoad:
        start, end = np.interp((start_s, end_s), [at_s for at_s, _ in self.delays], [s for _, s in self.delays])
        return replace(super().load(start_s, end_s), delay_s=float(end - start))


class ScaledWatch(Watch):
    """Context manager: watches the pCPUs and the guest; `watched()` after its end."""

    def __init__(self, pcpus: Sequence[int], guest: Guest) -> None:
        super().__init__(pcpus, {guest.name: guest.qemu_pid}, [guest.lab.libvirtd_pid])
        self._guest_name = guest.name
        self._vcpus = [
            (Path(f"/proc/{thread}/task/{thread}/schedstat"), _statistics(guest.qemu_pid, vcpu))
            for vcpu, thread in guest.vcpu_threads.items()
        ]
        self._delays: list[tuple[float, float]] = []
        self._worker = WorkerThread(self._read, "delays")

    def __enter__(self) -> ScaledWatch:
        super().__enter__()
        self._worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.end(raises=kind is None)
        super().__exit__(kind, error, trace)

    def _read(self) -> None:
        before, delay_ns = [self._stopped(one) for one in self._vcpus], 0
        self._delays.append((time.monotonic(), 0.0))
        more = True
        while more:
            more = not self._worker.stop.wait(INTERVAL_S)
            now = [self._stopped(one) for one in self._vcpus]
            delay_ns += sum(max(0, one - other) for one, other in zip(now, before, strict=True))
            before = now
            self._delays.append((time.monotonic(), delay_ns / 1e9))

    @staticmethod
    def _stopped(vcpu: tuple[Path, Path]) -> int:
        """Nanoseconds for which a vCPU was ready and did not run, but not by its quota."""
        schedstat, statistics = vcpu
        return int(schedstat.read_text().split()[1]) - throttled_ns(statistics.read_text())

    def watched(self) -> ScaledWatched:
        watched = super().watched()
        scaled = ScaledWatched(watched.track, watched.paces, watched.readings)
        scaled.delays, scaled.guest_name = self._delays, self._guest_name
        return scaled


def throttled_ns(text: str) -> int:
    """For how long a control group's quota has stopped it, in nanoseconds. text: its cpu.stat, of version 1 or 2."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name in NS_OF:
            return int(value) * NS_OF[name]
    raise ValueError(f"no time of throttling in {text!r}: is the cpu controller on?")


def _statistics(qemu_pid: int, vcpu: int) -> Path:
    """cpu.stat of a vCPU's control group. LabError if there is none."""
    for directory in domain_directories(qemu_pid):
        for path in directory.glob(f"**/vcpu{vcpu}/cpu.stat"):
            if any(name in path.read_text() for name in NS_OF):
                return path
    raise LabError(f"vCPU {vcpu} has no control group with a quota: is the cpu controller mounted?")
