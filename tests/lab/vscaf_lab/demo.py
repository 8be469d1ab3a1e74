"""The demo: a preset of `vscaf bench pairs`, and what must hold for it (`make demo`, `make demo-standalone`).

Two guests of two vCPUs run on two pCPUs. A program computes in the first guest, and the same program in the second,
which starts later. The result is the sum of their speedups while both compute, each relative to the program alone on
one thread. With --no-vm the programs are plain processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from vscaf.bench.designs import together
from vscaf.bench.figures import Figures
from vscaf.bench.intervals import Figure
from vscaf.bench.machine import machine
from vscaf.bench.measure import measure
from vscaf.bench.options import RunOptions
from vscaf.bench.places.options import PlaceOptions
from vscaf.bench.report.context import load_context
from vscaf.bench.report.files import print_report
from vscaf.bench.samples import read_samples
from vscaf.bench.workloads.options import Sources
from vscaf.errors import VscafError

from vscaf_lab.demo_report import pair_reports

ARRANGEMENTS = ("passive", "static", "unmanaged", "pinned", "equipartition", "max-speedup")
PROGRAMS, QUICK_PROGRAMS = ("cg.A", "ep.W"), ("cg.W", "ep.S")
SECONDS, QUICK_SECONDS = 10.0, 3.0
DELAYED = 0.2  # the second program starts after this part of the time in which both compute
JUDGED = "max-speedup"
# What must hold, by program: the ratio of the sum of speedups under JUDGED to that under static and under unmanaged.
# First the bar, then the least value that a single round can have by chance. EP has almost no barriers, so on two CPUs
# there is nothing to gain or lose.
BARS = {
    "cg": {"static": (0.95, 0.85), "unmanaged": (1.3, 1.2)},
    "ep": {"static": (0.95, 0.8), "unmanaged": (0.95, 0.8)},
}


class Verdict(StrEnum):
    """Whether a bar is met. OPEN: more rounds are needed to tell."""

    MET = "met"
    MISSED = "MISSED"
    OPEN = "open"
    DISTURBED = "too disturbed to judge"


COLOURS = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.OPEN: "yellow", Verdict.DISTURBED: "yellow"}


def judge(figures: Figures) -> list[tuple[Verdict, str]]:
    """One line for each bar. Verification is judged in every run, a figure only if the host was not disturbed.

    A ratio misses its bar if it does so in each of two or more rounds, or if it is below the least value: the same
    ratio differs by a tenth from round to round. `make bench-pairs` judges pairs by the upper end of the interval, too.
    """
    right = Verdict.MET if figures.verified else Verdict.MISSED
    lines = [(right, "every verification successful")]
    for group in figures.groups:
        name = "+".join(group.workloads)
        found = {one.arrangement: one for one in group.arrangements}
        for reference, (bar, least) in BARS[group.workloads[0].split(".")[0]].items():
            if not {JUDGED, reference} <= found.keys():
                continue
            ratio = found[JUDGED].ratios.get(reference)
            text = f"{name}: sum of speedups, {JUDGED} to {reference}"
            if ratio is None:
                lines.append((Verdict.DISTURBED, text))
            else:
                lines.append((_compare(ratio, bar, least), f"{text}: {_rounds(ratio)} (at least {bar:.2f})"))
    return lines


def _compare(ratio: Figure, bar: float, least: float) -> Verdict:
    if ratio.value >= bar:
        return Verdict.MET
    missed = ratio.value < least or (ratio.n > 1 and ratio.high < bar)
    return Verdict.MISSED if missed else Verdict.OPEN


def _rounds(ratio: Figure) -> str:
    return f"{ratio.value:.2f}, {ratio.low:.2f} to {ratio.high:.2f}" if ratio.n > 1 else f"{ratio.value:.2f}"


def run(given: argparse.Namespace, console: Console) -> int:
    """The demo; its exit status. Raises VscafError if it cannot run."""
    started_s = time.monotonic()
    programs = QUICK_PROGRAMS if given.quick else PROGRAMS
    seconds = QUICK_SECONDS if given.quick else SECONDS
    options = RunOptions(
        arrangements=given.arrangements,
        rounds=given.rounds,
        seconds=seconds,
        delay_s=DELAYED * seconds,
        quick=given.quick,
        place=PlaceOptions(no_vm=given.no_vm, cpus=2),
        image=Path(os.environ.get("VSCAF_IMAGE", "build/image/current")),
        output=given.output,
        restart=True,
    )
    command = "make demo-standalone" if given.no_vm else "make demo"
    here = machine()  # before the guests are a load
    design = together([f"{program}+{program}" for program in programs], 2, no_vm=given.no_vm)
    figures = measure(design, Sources(shipped=programs), options, console, command)
    report = {
        "machine": {**here, "guests": load_context(given.output).place},
        "quick": given.quick,
        "rounds": given.rounds,
        "pairs": pair_reports(figures.groups, read_samples(given.output / "samples.jsonl"), no_vm=given.no_vm),
    }
    path = given.output / "report.json"
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print_report(figures, given.output, console)
    verdicts = judge(figures)
    for found, text in verdicts:
        console.print(f"[{COLOURS[found]}]{found:6}[/] {text}", highlight=False)
    if any(found is Verdict.DISTURBED for found, _ in verdicts):
        console.print("The host was busy with something else in every try: run the demo again when the host is idle.")
    if any(found is Verdict.OPEN for found, _ in verdicts):
        console.print(f"Open: more rounds are needed to tell: {command} ARGS='--rounds 5'", highlight=False)
    minutes = (time.monotonic() - started_s) / 60
    console.print(f"{minutes:.1f} minutes; {path}, pictures and logs in the same directory", highlight=False)
    return 1 if any(found is Verdict.MISSED for found, _ in verdicts) else 0


def read_command(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line. If it is wrong, prints the error and exits with 2."""

    def some_of(text: str) -> tuple[str, ...]:
        named = tuple(text.split(","))
        if unknown := sorted(set(named) - set(ARRANGEMENTS)):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose among {', '.join(ARRANGEMENTS)}")
        return named

    def at_least_one(text: str) -> int:
        if int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text}: give at least one round")
        return int(text)

    parser = argparse.ArgumentParser(prog="demo", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="directory for report, pictures, logs")
    parser.add_argument("--rounds", type=at_least_one, default=2, help="rounds; medians are reported (default: 2)")
    parser.add_argument("--quick", action="store_true", help="little work, one round: a preview, not a measurement")
    parser.add_argument("--no-vm", action="store_true", help="no guests: plain programs on this machine")
    parser.add_argument(
        "--arrangements", type=some_of, default=ARRANGEMENTS, help="which arrangements, separated by commas"
    )
    given = parser.parse_args(arguments)
    if given.quick:
        given.rounds = 1
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 no bar missed (a bar that is open, or whose figures are disturbed, is not), 1 a bar
    missed or a verification failed, 2 the demo could not run."""
    given = read_command(arguments)
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    try:
        return run(given, console)
    except (VscafError, TimeoutError) as error:
        console.print(f"demo: {error}; the logs are in {given.output / 'logs'}", highlight=False, markup=False)
        return 2


if __name__ == "__main__":
    sys.exit(main())
