"""Watches the host while two programs run: where they run, the pace of the CPUs, and the load by other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from vscaf.bench.observe.host_load import HostLoad, HostLoadMeter, Reading, host_load
from vscaf.bench.observe.pace import PaceMeter, Paces, steady_seconds
from vscaf.occupancy.qemu import vcpu_threads
from vscaf.occupancy.sampler import Sampler
from vscaf.occupancy.timeline import Track, track

BIN_S = 0.1  # of a timeline


@dataclass
class Watched:
    """Data about a run: where the programs (or their domains) ran, the pace of the pCPUs, and the host's load."""

    track: Track
    paces: Paces
    readings: Sequence[Reading]

    def steady(self, domain: str, start_s: float, end_s: float, full_ns: float) -> float:
        """Steady seconds of a domain from start to end."""
        return steady_seconds(domain, self.track, self.paces, full_ns, (start_s, end_s))

    def load(self, start_s: float, end_s: float) -> HostLoad:
        """The host's load from start to end."""
        return host_load(self.readings, (start_s, end_s))


class Watch:
    """Context manager: watches *pcpus* and the processes that run there; `watched()` after its end.

    processes: name -> pid of the measured processes. helpers: pids of the bench's other processes. threads_of: which of
    a process's threads the timeline shows.
    """

    def __init__(
        self,
        pcpus: Sequence[int],
        processes: Mapping[str, int],
        helpers: Iterable[int] = (),
        threads_of: Callable[[int], Mapping[int, int]] = vcpu_threads,
    ) -> None:
        self._pcpus = pcpus
        self._pace = PaceMeter(pcpus)
        self._sampler = Sampler(processes, threads_of=threads_of)
        self._measured = list(processes.values())
        self._helpers = helpers
        self._stack = ExitStack()
        self._load: HostLoadMeter | None = None

    def __enter__(self) -> Watch:
        with ExitStack() as stack:
            stack.enter_context(self._pace)
            stack.enter_context(self._sampler)
            self._load = HostLoadMeter(self._pcpus, [*self._measured, *self._pace.pids], self._helpers)
            stack.enter_context(self._load)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def add(self, name: str, pid: int) -> None:
        """Adds a measured process, from its start. A name may have several."""
        assert self._load is not None, "watch first"
        self._sampler.add(name, pid)
        self._load.add(pid)

    def end(self, pid: int, cpu_s: float) -> None:
        """Takes in a process that was added and has ended. cpu_s: its CPU time and its children's (wait4(2))."""
        assert self._load is not None, "watch first"
        self._sampler.remove(pid)
        self._load.end(pid, cpu_s)

    def watched(self) -> Watched:
        """The data of the watch."""
        assert self._load is not None, "watch first"
        return Watched(track(self._sampler.samples, BIN_S), self._pace.paces, self._load.readings)
