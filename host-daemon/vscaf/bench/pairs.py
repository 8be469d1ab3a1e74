"""`vscaf bench pairs`: from its arguments to its report."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from vscaf.bench.figures import Figures, all_verified, figures
from vscaf.bench.machine import machine
from vscaf.bench.places.lab import lab_place
from vscaf.bench.places.place import BASELINES, Place
from vscaf.bench.plan import all_pairs, equal_split, round_of_runs
from vscaf.bench.report.context import ReportContext, baseline_commands, save_context
from vscaf.bench.report.files import print_report, write_report
from vscaf.bench.samples import SampleFile
from vscaf.bench.session import Session, Timing
from vscaf.bench.workloads.gather import gather, known
from vscaf.bench.workloads.options import Sources
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

POOL_CPUS = 2
NPB_CACHE = Path("build/npb")
NAMES = ("first", "second")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The command's arguments, as `command.pairs` describes them."""

    sources: Sources
    pairs: tuple[str, ...]
    arrangements: tuple[str, ...]
    rounds: int
    seconds: float
    delay_s: float
    quick: bool
    image: Path
    output: Path
    restart: bool


def run(arguments: Arguments) -> int:
    """Runs the bench; returns its exit status. Raises UsageError, PlaceError or LabError."""
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)

    def print_line(text: str) -> None:
        console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    every = gather(arguments.sources, NPB_CACHE, lambda text: print_line(escape(text)))
    groups = _pairs(arguments, every)
    workloads = {name: every[name] for pair in groups for name in pair}
    here = machine()  # before the guests are a load
    path = arguments.output / "samples.jsonl"
    if arguments.restart:
        path.unlink(missing_ok=True)
    settings = {
        "seconds": arguments.seconds,
        "delay_s": arguments.delay_s,
        "guests": POOL_CPUS,
        "workloads": {name: one.fingerprint() for name, one in sorted(every.items())},
    }
    samples = SampleFile(path, settings)
    split = equal_split(POOL_CPUS, len(NAMES))
    plan = [
        key
        for number in range(1, arguments.rounds + 1)
        for key in round_of_runs(number, groups, arguments.arrangements, [split])
    ]

    def report() -> Figures:
        found = figures(samples.samples, BASELINES)
        write_report(arguments.output, samples.samples, found, context)
        return found

    print_line("booting the guests")
    with lab_place(NAMES, list(workloads.values()), arguments.image, POOL_CPUS, arguments.output) as place:
        print_line(place.description)
        timing = Timing(arguments.seconds, arguments.delay_s)
        context = _context(arguments, settings, place, split, here)
        save_context(context, arguments.output)
        Session(place, workloads, samples, timing, print_line).run(plan, report)
    found = report()
    print_report(found, arguments.output, console)
    return 0 if all_verified(found) else 1


def _context(
    arguments: Arguments,
    settings: Mapping[str, object],
    place: Place,
    split: tuple[int, ...],
    here: Mapping[str, object],
) -> ReportContext:
    pool = sorted(os.sched_getaffinity(0))[: place.cpus]
    return ReportContext(
        command=shlex.join(["vscaf", *sys.argv[1:]]),
        place=place.description,
        cpus=place.cpus,
        settings={**settings, "rounds": arguments.rounds, "arrangements": ", ".join(arguments.arrangements)},
        baselines=baseline_commands(arguments.arrangements, pool, place.cpus, split, place.members),
        quick=arguments.quick,
        machine=here,
    )


def _pairs(arguments: Arguments, workloads: dict[str, Workload]) -> list[tuple[str, ...]]:
    """The pairs that the arguments name, else all. Raises UsageError."""
    if not arguments.pairs:
        every: list[tuple[str, ...]] = list(all_pairs(list(workloads)))
        return every[:2] if arguments.quick else every
    groups = [tuple(known(name, workloads) for name in text.split("+")) for text in arguments.pairs]
    for group in groups:
        if len(group) != len(NAMES):
            raise UsageError(f"{'+'.join(group)}: not a pair: give two workloads, as in cg.W+lu.S")
    return groups
