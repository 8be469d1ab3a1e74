"""Watches the scaled machine while programs run: the pace of the host's CPUs, and what others took from its vCPUs.

A vCPU that its quota has stopped counts as delayed in /proc/PID/task/TID/schedstat. That is what makes it slow, and not
a disturbance. So only the CPU time is lost that a vCPU should have had by its quota while it was ready, and had not.
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
from vscaf.worker_thread import WorkerThread

INTERVAL_S = 2.0  # many periods of the quota, since a vCPU may have more than its part for one


class ScaledWatched(Watched):
    """What was watched. lost: (CLOCK_MONOTONIC, CPU time that all vCPUs have lost so far), in seconds."""

    lost: Sequence[tuple[float, float]] = ()
    guest_name = ""

    def steady(self, domain: str, start_s: float, end_s: float, full_ns: float) -> float:
        return super().steady(self.guest_name, start_s, end_s, full_ns)

    def load(self, start_s: float, end_s: float) -> HostLoad:
        start, end = np.interp((start_s, end_s), [at_s for at_s, _ in self.lost], [s for _, s in self.lost])
        return replace(super().load(start_s, end_s), delay_s=float(end - start))


class ScaledWatch(Watch):
    """Context manager: watches the pCPUs and the guest; `watched()` after its end. part: of a pCPU, that a vCPU has."""

    def __init__(self, pcpus: Sequence[int], guest: Guest, part: float) -> None:
        super().__init__(pcpus, {guest.name: guest.qemu_pid}, [guest.lab.libvirtd_pid])
        self._guest_name = guest.name
        self._part = part
        self._vcpus = [Path(f"/proc/{thread}/task/{thread}/schedstat") for thread in guest.vcpu_threads.values()]
        self._lost: list[tuple[float, float]] = []
        self._worker = WorkerThread(self._read, "lost CPU time")

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
        before, lost_s, more = self._times(), 0.0, True
        self._lost.append((time.monotonic(), lost_s))
        while more:
            more = not self._worker.stop.wait(INTERVAL_S)
            now = self._times()
            for (run, delay), (run_before, delay_before) in zip(now, before, strict=True):
                lost_s += lost_seconds(run - run_before, delay - delay_before, self._part)
            before = now
            self._lost.append((time.monotonic(), lost_s))

    def _times(self) -> list[tuple[float, float]]:
        """For how many seconds each vCPU has run, and was ready and has not run."""
        texts = [path.read_text().split() for path in self._vcpus]
        return [(int(run_ns) / 1e9, int(delay_ns) / 1e9) for run_ns, delay_ns, _ in texts]

    def watched(self) -> ScaledWatched:
        watched = super().watched()
        scaled = ScaledWatched(watched.track, watched.paces, watched.readings)
        scaled.lost, scaled.guest_name = self._lost, self._guest_name
        return scaled


def lost_seconds(run_s: float, delay_s: float, part: float) -> float:
    """CPU time that a vCPU has lost to others. run_s, delay_s: it ran, and it was ready and did not run. part: of a
    pCPU, that it has by its quota."""
    return max(0.0, part * (run_s + delay_s) - run_s)
