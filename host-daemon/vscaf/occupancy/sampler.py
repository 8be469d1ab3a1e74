"""Samples for each vCPU thread, from the kernel's accounting: where it may run, where it last ran, and its CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

from vscaf.occupancy.qemu import vcpu_threads
from vscaf.worker_thread import WorkerThread

INTERVAL_S = 0.02
RESCAN_S = 0.25  # how often new threads are looked for; for so long after a process was added: each time


@dataclass(frozen=True, slots=True)
class Sample:
    """One vCPU thread, read between `asked_s` and `monotonic_s`. `run_ns` and `wait_ns` only grow."""

    asked_s: float
    monotonic_s: float
    domain: str
    vcpu: int
    thread: int
    affinity: frozenset[int]
    last_cpu: int
    run_ns: int
    wait_ns: int  # ready to run but not running


class _Thread:
    """The open /proc files of one thread."""

    def __init__(self, domain: str, vcpu: int, thread: int) -> None:
        self.domain, self.vcpu, self.thread = domain, vcpu, thread
        self.stat = os.open(f"/proc/{thread}/task/{thread}/stat", os.O_RDONLY)
        try:
            self.schedstat = os.open(f"/proc/{thread}/task/{thread}/schedstat", os.O_RDONLY)
        except OSError:
            os.close(self.stat)
            raise

    def sample(self) -> Sample:
        """Raises OSError if the thread is gone."""
        asked_s = time.monotonic()
        run, wait, _ = os.pread(self.schedstat, 128, 0).split()
        last_cpu = int(os.pread(self.stat, 1024, 0).rpartition(b")")[2].split()[36])  # field 39 of proc(5)
        affinity = frozenset(os.sched_getaffinity(self.thread))
        now_s = time.monotonic()
        return Sample(asked_s, now_s, self.domain, self.vcpu, self.thread, affinity, last_cpu, int(run), int(wait))

    def close(self) -> None:
        os.close(self.stat)
        os.close(self.schedstat)


class Sampler:
    """Context manager: samples every vCPU thread of some QEMU processes every `interval_s`, in a thread.

    `domains`: domain name -> QEMU's pid. `samples` grows meanwhile, and is complete after the end; without `keep` it
    stays empty. `on_round`, if given, is called with each round's samples, in the sampling thread.
    `threads_of`: the sampled threads of a process, number -> thread id.
    """

    def __init__(
        self,
        domains: Mapping[str, int],
        interval_s: float = INTERVAL_S,
        on_round: Callable[[list[Sample]], None] | None = None,
        threads_of: Callable[[int], Mapping[int, int]] = vcpu_threads,
        *,
        keep: bool = True,
    ) -> None:
        self._keep = keep
        self._threads_of = threads_of
        self._domains = {pid: domain for domain, pid in domains.items()}
        self._often_until_s = 0.0
        self._interval_s = interval_s
        self._on_round = on_round
        self._threads: dict[int, _Thread] = {}
        self._worker = WorkerThread(self._run, "sampler")
        self.samples: list[Sample] = []

    def __enter__(self) -> Sampler:
        self._worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._worker.end(raises=kind is None)
        finally:
            for thread in self._threads.values():
                thread.close()

    def add(self, domain: str, pid: int) -> None:
        """Adds a process to sample from now on. A domain may have several, also at the same time."""
        self._domains[pid] = domain
        self._often_until_s = time.monotonic() + RESCAN_S

    def remove(self, pid: int) -> None:
        """Forgets a process that has ended."""
        self._domains.pop(pid, None)

    def _scan(self) -> None:
        for pid, domain in list(self._domains.items()):
            for vcpu, thread in self._threads_of(pid).items():
                if thread not in self._threads:
                    try:
                        self._threads[thread] = _Thread(domain, vcpu, thread)
                    except (FileNotFoundError, ProcessLookupError):
                        continue  # it has ended since the scan

    def _round(self) -> list[Sample]:
        taken = []
        for thread in list(self._threads.values()):
            try:
                taken.append(thread.sample())
            except OSError:
                # The thread has ended, with its vCPU or its domain.
                thread.close()
                del self._threads[thread.thread]
        return taken

    def _run(self) -> None:
        next_scan_s = next_round_s = time.monotonic()
        stop = self._worker.stop
        while not stop.is_set():
            now_s = time.monotonic()
            if now_s >= next_scan_s or now_s < self._often_until_s:
                self._scan()
                next_scan_s = now_s + RESCAN_S
            taken = self._round()
            if self._keep:
                self.samples += taken
            if self._on_round is not None:
                self._on_round(taken)
            next_round_s = max(next_round_s + self._interval_s, time.monotonic())
            stop.wait(next_round_s - time.monotonic())
