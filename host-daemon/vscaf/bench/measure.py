"""Makes the runs of a bench: from its options to its report."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from vscaf.bench.figures import Figures, figures
from vscaf.bench.machine import build_identity, machine
from vscaf.bench.options import RunOptions
from vscaf.bench.places.choice import choose
from vscaf.bench.places.place import BASELINES
from vscaf.bench.plan import equal_split, round_of_runs, splits
from vscaf.bench.report.context import ReportContext, baseline_commands, save_context
from vscaf.bench.report.files import print_report, write_report
from vscaf.bench.report.timelines import TIMELINES, Timelines
from vscaf.bench.samples import SampleFile
from vscaf.bench.session import Session, Timing
from vscaf.bench.workloads.gather import gather
from vscaf.bench.workloads.options import Sources
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError
from vscaf.journal import BENCH_PATIENCE_S, Lock
from vscaf.lab.processes import no_child_left, signals_exit

NPB_CACHE = Path("build/npb")
QUICK_GROUPS = 2


@dataclass(frozen=True, slots=True)
class Design:
    """What a command of `vscaf bench` measures.

    groups: of all workloads by name, those that compute together; raises UsageError. arrangements: by default; `static`
    only if each program can have a CPU. every_split: `static` is measured with all splits of the CPUs, not with equal
    shares alone. starts_s: each program is executed once, and they start at these times, in order; None: they run again
    and again.
    """

    groups: Callable[[Mapping[str, Workload]], Sequence[tuple[str, ...]]]
    arrangements: tuple[str, ...]
    every_split: bool = False
    starts_s: tuple[float, ...] | None = None

    def default_arrangements(self, members: int, cpus: int) -> tuple[str, ...]:
        """The arrangements for so many programs at once, on so many CPUs."""
        return tuple(name for name in self.arrangements if name != "static" or members <= cpus)


def run(design: Design, sources: Sources, options: RunOptions) -> int:
    """Runs a bench; returns its exit status: 1 if a verification failed. Raises UsageError, PlaceError or LabError."""
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    found = measure(design, sources, options, console)
    print_report(found, options.output, console)
    return 0 if found.verified else 1


@signals_exit()
@no_child_left()
def measure(
    design: Design, sources: Sources, options: RunOptions, console: Console, command: str | None = None
) -> Figures:
    """Makes the runs that have no sample yet, and writes the report after each round. Returns the figures.

    No other bench writes to the output directory meanwhile: its UsageError says that this one runs. command: the
    command line, for the report; None: that of `vscaf`. Raises UsageError, PlaceError or LabError.
    """

    def print_line(text: str) -> None:
        console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    every = gather(sources, NPB_CACHE, lambda text: print_line(escape(text)))
    groups = list(design.groups(every))[: QUICK_GROUPS if options.quick else None]
    workloads = {name: every[name] for group in groups for name in group}
    count = max(len(group) for group in groups)
    here = machine()  # before the guests are a load
    chosen = choose(options.place, options.image, options.output, count)
    settings = {
        **_times(design, options),
        **chosen.settings,
        "build": build_identity(options.image, no_vm=options.place.no_vm),
        "workloads": {name: one.fingerprint() for name, one in sorted(every.items())},
    }
    arrangements = options.arrangements or design.default_arrangements(count, chosen.cpus)
    if count > chosen.cpus and "static" in arrangements:
        raise UsageError(
            f"static: {count} programs cannot have a CPU each of {chosen.cpus}: leave it out of --arrangements"
        )
    options.output.mkdir(parents=True, exist_ok=True)
    with closing(Lock(options.output / "lock", "bench", f"--output {options.output}", BENCH_PATIENCE_S)):
        timelines = Timelines(options.output / TIMELINES)
        path = options.output / "samples.jsonl"
        if options.restart:
            path.unlink(missing_ok=True)
            timelines.remove()
        samples = SampleFile(path, settings)
        split = equal_split(chosen.cpus, count)

        def allocations(members: int) -> list[tuple[int, ...]]:
            return splits(chosen.cpus, members) if design.every_split else [equal_split(chosen.cpus, members)]

        plan = [
            key
            for number in range(1, options.rounds + 1)
            for key in round_of_runs(number, groups, arrangements, allocations)
        ]

        def report() -> Figures:
            found = figures(samples.samples, BASELINES)
            write_report(options.output, samples.samples, found, context)
            return found

        print_line("starting what the programs run in")
        with chosen.open(list(workloads.values()), arrangements) as place:
            print_line(place.description)
            context = ReportContext(
                command=command or shlex.join(["vscaf", *sys.argv[1:]]),
                place=place.description,
                cpus=place.cpus,
                settings={**settings, "rounds": options.rounds, "arrangements": ", ".join(arrangements)},
                baselines=baseline_commands(place, arrangements, split),
                quick=options.quick,
                machine=here,
            )
            save_context(context, options.output)
            timing = _timing(design, options, count)
            session = Session(place, workloads, samples, lambda key: timing, print_line, on_run=timelines.keep)
            session.run(plan, report)
        return report()


def _times(design: Design, options: RunOptions) -> dict[str, object]:
    """The times of all runs, as settings."""
    if design.starts_s is not None:
        return {"starts_s": design.starts_s}
    return {"seconds": options.seconds, "delay_s": options.delay_s}


def _timing(design: Design, options: RunOptions, count: int) -> Timing:
    if design.starts_s is not None:
        return Timing(None, design.starts_s)
    return Timing(options.seconds, [number * options.delay_s for number in range(count)])
