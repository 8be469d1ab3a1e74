"""Makes the runs of a plan in a place, and keeps their samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from vscaf.bench.executions import Member, execute
from vscaf.bench.observe.host_load import ATTEMPTS
from vscaf.bench.observe.watch import Watched
from vscaf.bench.places.place import Arranged, Place, PlaceError
from vscaf.bench.plan import equal_split
from vscaf.bench.samples import ALONE, REFERENCE_PACE_NS, ProgramSample, RunKey, Sample, SampleFile
from vscaf.bench.speed import span, window
from vscaf.bench.workloads.workload import Workload

CLOCK_SLACK_S, CLOCK_DRIFT = 0.05, 0.01  # clocks are read within milliseconds, and drift by less than a thousandth


@dataclass(frozen=True, slots=True)
class Timing:
    """When each of the programs that run together starts, in order. seconds: how long they compute together after the
    last has started; None: each is executed once."""

    seconds: float | None
    starts_s: Sequence[float]


@dataclass
class Progress:
    """How far a bench is: for a line before each run."""

    total: int
    done: int
    spent_s: float = 0.0
    measured: int = 0

    def left_s(self) -> float | None:
        """Seconds that are left at the pace so far; None before the first run."""
        if not self.measured:
            return None
        return self.spent_s / self.measured * (self.total - self.done)


class Session:
    """A bench in one place."""

    def __init__(
        self,
        place: Place,
        workloads: Mapping[str, Workload],
        samples: SampleFile,
        timing: Callable[[RunKey], Timing],
        print_line: Callable[[str], None],
        *,
        on_run: Callable[[Sample, Watched], object] = lambda sample, watched: None,
        attempts: Callable[[RunKey], int] = lambda key: ATTEMPTS,
    ) -> None:
        """timing: of each run. on_run: called after each run, with its sample and what was observed meanwhile.
        attempts: how often a run is made at most, if it is disturbed."""
        self._place = place
        self._workloads = workloads
        self._samples = samples
        self._timing = timing
        self._print_line = print_line
        self._on_run = on_run
        self._attempts = attempts

    def run(self, plan: Sequence[RunKey], between_rounds: Callable[[], object] = lambda: None) -> None:
        """Makes the runs that have no sample yet. A disturbed run is repeated.

        between_rounds is called when a round is complete and another one follows.
        """
        left = [key for key in plan if not self._complete(key)]
        progress = Progress(len(plan), len(plan) - len(left))
        if progress.done:
            self._print_line(f"{progress.done} of {progress.total} runs were measured before")
        for number, key in enumerate(left, start=1):
            started_s = time.monotonic()
            while not self._complete(key):
                sample = self._once(key, len(self._samples.of(key)) + 1)
                self._samples.add(sample)
                self._report(sample, progress)
            progress.done += 1
            progress.measured += 1
            progress.spent_s += time.monotonic() - started_s
            if number < len(left) and left[number].round != key.round:
                between_rounds()

    def _complete(self, key: RunKey) -> bool:
        made = self._samples.of(key)
        return len(made) >= self._attempts(key) or any(not one.disturbed for one in made)

    def _report(self, sample: Sample, progress: Progress) -> None:
        left_s = progress.left_s()
        ahead = f", about {left_s / 60:.0f} min left" if left_s is not None else ""
        wrong = [one.workload for one in sample.programs if not all(run.verified for run in one.executions)]
        failed = f" [red]verification of {', '.join(wrong)} FAILED[/]" if wrong else ""
        lost = f" [yellow]disturbed: others had {sample.lost:.0%} of the CPU time[/]" if sample.disturbed else ""
        counts = " and ".join(str(len(one.executions)) for one in sample.programs)
        self._print_line(
            f"{progress.done + 1} of {progress.total}{ahead}: round {sample.key.round}, {sample.key.name}: "
            f"{counts} executions{failed}{lost}"
        )

    def _once(self, key: RunKey, attempt: int) -> Sample:
        together, timing = len(key.workloads), self._timing(key)
        arrangement = "unmanaged" if key.arrangement == ALONE else key.arrangement
        allocations = key.allocations or equal_split(self._place.cpus, together)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._place.arrange(arrangement, allocations) as arranged:
            members = [self._member(key, number, arranged, timing.starts_s[number]) for number in range(together)]
            with self._place.watch(arranged.helpers) as watch:
                begin_s = time.monotonic()
                executions = execute(self._place, members, timing.seconds)
                self._check_clocks(members, time.monotonic() - begin_s)
            transitions = arranged.transitions()
        once = timing.seconds is None
        both = span(executions) if once else window(executions)
        if both is None:
            raise PlaceError(f"{key.name}: the programs never computed at the same time: give more --seconds")
        watched = watch.watched()
        load = watched.load(*both)
        programs = tuple(
            ProgramSample(
                member.workload.name, member.name, tuple(done), watched.steady(member.name, *both, REFERENCE_PACE_NS)
            )
            for member, done in zip(members, executions, strict=True)
        )
        sample = Sample(key, attempt, at, both, programs, transitions, load.lost, load.disturbed, once)
        self._on_run(sample, watched)
        return sample

    def _check_clocks(self, members: Sequence[Member], elapsed_s: float) -> None:
        """PlaceError if a member's clock runs at another pace than the host's: the times of its marks are wrong."""
        for member in members:
            ahead_s = self._place.clock_ahead_s(member.name)
            if member.clock_ahead_s is None or ahead_s is None:
                continue
            gained_s = ahead_s - member.clock_ahead_s
            if abs(gained_s) > CLOCK_SLACK_S + CLOCK_DRIFT * elapsed_s:
                raise PlaceError(
                    f"the clock of guest {member.name} went {elapsed_s + gained_s:.2f} s in {elapsed_s:.2f} s, so the "
                    "times of its programs are wrong: the host was too busy while the guest booted, and its kernel "
                    "misjudged its time stamp counter: run the bench again while the host is idle"
                )

    def _member(self, key: RunKey, number: int, arranged: Arranged, start_s: float) -> Member:
        workload = self._workloads[key.workloads[number]]
        name = self._place.members[number]
        ahead_s = self._place.clock_ahead_s(name)
        threads = {"OMP_NUM_THREADS": str(key.threads)} if key.threads else {}
        # A program that does not obey OMP_NUM_THREADS is on one CPU too.
        launcher = self._place.on_one_cpu if key.threads == 1 else arranged.launcher
        return Member(
            name,
            workload,
            launcher + workload.command,
            {**workload.environment, **(workload.marks_environment if ahead_s is not None else {}), **threads},
            start_s,
            ahead_s,
        )
