"""What a pair of programs is in a demo, what its runs were worth, and the report on them.

The first program starts; while it computes, the second does. What counts is the sum of their speedups while both
compute, each against itself alone on one thread, in steady seconds (vscaf_lab.pace) and by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vscaf_lab.errors import LabError
from vscaf_lab.measure import Run
from vscaf_lab.pace import Paces, full_pace, steady_seconds
from vscaf_lab.timeline import Track, draw

NAMES = ("first", "second")
POLICIES = ("unmanaged", "static", "equipartition", "max-speedup")
MANAGED = ("equipartition", "max-speedup")  # by vscaf: programs are started by `vscaf-run`
BIN_S = 0.1  # of a timeline

# What has to hold, by program: sum of speedups under max-speedup against that under static and under unmanaged. EP
# hardly has a barrier: there nothing is to be gained on two CPUs, and nothing to be lost.
BARS = {"cg": {"static": 0.95, "unmanaged": 1.3}, "ep": {"static": 0.95, "unmanaged": 0.95}}


@dataclass(frozen=True)
class Words:
    """How a demo calls what runs its two programs."""

    members: str  # in the report: "guests"
    name: str  # of one of them: "domain"
    column: str  # in the table: "guest"
    title: str  # of the table
    picture: str  # what a timeline shows


@dataclass(frozen=True)
class Pair:
    """A program (`cg.A`) to run twice; its work is done *repeat* times; the second starts *delay_s* later."""

    program: str
    repeat: int
    delay_s: float

    @property
    def name(self) -> str:
        return f"{self.program}+{self.program}"


@dataclass
class Result:
    """One program in one run."""

    domain: str
    run: Run
    verified: bool


@dataclass
class Watched:
    """What was seen of the host during a run: where the programs (or their domains) ran, and at what pace."""

    track: Track
    paces: Paces

    def steady(self, domain: str, start_s: float, end_s: float, full_ns: float) -> float:
        """Steady seconds of a domain from start to end."""
        return steady_seconds(domain, self.track, self.paces, full_ns, (start_s, end_s))


@dataclass
class Alone:
    """The program alone on one thread."""

    run: Run
    domain: str
    watched: Watched

    def steady(self, full_ns: float) -> float:
        return self.watched.steady(self.domain, self.run.marks[0][1], self.run.marks[-1][1], full_ns)


@dataclass
class PolicyRun:
    """One run of a pair under a policy. `window`: from when to when both computed."""

    results: list[Result]
    alone: Alone
    watched: Watched
    transitions: int
    window: tuple[float, float]

    def both(self, one: Result, full_ns: float | None) -> float:
        """A program's speedup while both compute, in steady seconds; by the clock where no full pace is given."""
        start_s, end_s = self.window
        work = one.run.work_between(start_s, end_s)
        if full_ns is None:
            return work * self.alone.run.seconds / (end_s - start_s)
        return work * self.alone.steady(full_ns) / self.watched.steady(one.domain, start_s, end_s, full_ns)

    def sum_of_speedups(self, full_ns: float | None) -> float:
        return sum(self.both(one, full_ns) for one in self.results)


def read_command(program: str, about: str, output: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """A demo's command line: `output`, `rounds`, `quick`, `policies` (all of them where none are named). Exits with 2
    after saying what is wrong with it.
    """

    def some_of(text: str) -> list[str]:
        named = text.split(",")
        if unknown := sorted(set(named) - set(POLICIES)):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: policies are {', '.join(POLICIES)}")
        return named

    def at_least_one(text: str) -> int:
        if int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text}: one round at least")
        return int(text)

    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--output", type=Path, default=Path(output), help="where report, pictures and logs go")
    parser.add_argument("--rounds", type=at_least_one, default=2, help="rounds; medians are reported (default: 2)")
    parser.add_argument("--quick", action="store_true", help="little work, one round: a look at it, no measurement")
    parser.add_argument("--policies", type=some_of, default=list(POLICIES), help="some of them, separated by commas")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rounds = 1
    return given


def draw_last_round(output: Path, pair: Pair, title: str, runs: Mapping[str, Sequence[PolicyRun]]) -> Path:
    """Draws the timeline of the last round into *output*; returns the picture's path."""
    path = output / f"timeline-{pair.program.replace('.', '-')}.png"
    last = {policy: rows[-1] for policy, rows in runs.items()}
    draw(
        path,
        title,
        {policy: run.watched.track for policy, run in last.items()},
        {
            policy: {one.domain: (one.run.marks[0][1], one.run.marks[-1][1]) for one in run.results}
            for policy, run in last.items()
        },
    )
    return path


def report_pair(pair: Pair, words: Words, runs: Mapping[str, Sequence[PolicyRun]]) -> dict[str, Any]:
    """A pair's part of the report: medians over the rounds, and the rounds."""
    rounds = next(iter(runs.values()))
    full_ns = full_pace(
        [one.alone.watched.paces for one in rounds] + [row.watched.paces for rows in runs.values() for row in rows]
    )
    policies: dict[str, Any] = {}
    for policy, rows in runs.items():
        policies[policy] = {
            words.members: [
                {
                    words.name: name,
                    "program": pair.program,
                    "seconds": statistics.median(row.results[place].run.seconds for row in rows),
                    "speedup": statistics.median(row.both(row.results[place], full_ns) for row in rows),
                    "speedup_by_the_clock": statistics.median(row.both(row.results[place], None) for row in rows),
                    "verified": all(row.results[place].verified for row in rows),
                }
                for place, name in enumerate(NAMES)
            ],
            "sum_of_speedups": statistics.median(row.sum_of_speedups(full_ns) for row in rows),
            "sum_of_speedups_by_the_clock": statistics.median(row.sum_of_speedups(None) for row in rows),
            "rounds": [
                {
                    "sum_of_speedups": row.sum_of_speedups(full_ns),
                    "sum_of_speedups_by_the_clock": row.sum_of_speedups(None),
                    "both_compute_s": row.window[1] - row.window[0],
                    "transitions": row.transitions,
                }
                for row in rows
            ],
        }
    for policy in policies.values():
        for reference in ("unmanaged", "static"):
            if reference in policies:
                for ending in ("", "_by_the_clock"):
                    key = f"sum_of_speedups{ending}"
                    # Round by round, so that what the machine does meanwhile hits both sides.
                    policy[f"ratio_to_{reference}{ending}"] = statistics.median(
                        one[key] / other[key]
                        for one, other in zip(policy["rounds"], policies[reference]["rounds"], strict=True)
                    )
    return {
        "name": pair.name,
        "repeat": pair.repeat,
        "alone_one_thread_s": statistics.median(one.alone.run.seconds for one in rounds),
        "alone_one_thread_steady_s": statistics.median(one.alone.steady(full_ns) for one in rounds),
        "policies": policies,
    }


def machine() -> dict[str, Any]:
    """What this ran on."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {
        "cpu": model[1] if model else platform.processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
    }


def tables(pairs: Iterable[Mapping[str, Any]], words: Words) -> Table:
    """The report as people read it."""
    table = Table(title=f"{words.title}. Speedups are against each alone on one thread, while both compute.")
    for column in (
        "pair",
        "policy",
        words.column,
        "seconds",
        "speedup",
        "sum",
        "by the clock",
        "to unmanaged",
        "to static",
    ):
        table.add_column(column, justify="left" if column in ("pair", "policy", words.column) else "right")
    for pair in pairs:
        for policy, result in pair["policies"].items():
            for place, one in enumerate(result[words.members]):
                failed = "" if one["verified"] else " [red]verification FAILED[/]"
                row = [pair["name"], policy] if place == 0 else ["", ""]
                row += [f"{one[words.name]}{failed}", f"{one['seconds']:.1f}", f"{one['speedup']:.2f}"]
                if place == 0:
                    ratios = [result.get(f"ratio_to_{name}") for name in ("unmanaged", "static")]
                    sums = [result["sum_of_speedups"], result["sum_of_speedups_by_the_clock"], *ratios]
                    row += ["" if figure is None else f"{figure:.2f}" for figure in sums]
                table.add_row(*row, end_section=place == 1 and policy == list(pair["policies"])[-1])
    return table


def judge(pairs: Iterable[Mapping[str, Any]], words: Words) -> list[tuple[bool, str]]:
    """Whether what has to hold holds, a line each."""
    lines = []
    for pair in pairs:
        results = [one for result in pair["policies"].values() for one in result[words.members]]
        verified = all(one["verified"] for one in results)
        lines.append((verified, f"{pair['name']}: every verification successful"))
        result = pair["policies"].get("max-speedup", {})
        for reference, bar in BARS[pair["name"].split(".")[0]].items():
            ratio = result.get(f"ratio_to_{reference}")
            if ratio is not None:
                text = f"{pair['name']}: sum of speedups, max-speedup to {reference}: {ratio:.2f} (at least {bar:.2f})"
                lines.append((ratio >= bar, text))
    return lines


class Report:
    """What a demo has found so far: on the terminal, in `report.json`, and in a picture for each pair."""

    def __init__(self, given: argparse.Namespace, words: Words, console: Console) -> None:
        self.given = given
        self.words = words
        self.console = console
        self.output: Path = given.output
        self.logs = self.output / "logs"
        self.path = self.output / "report.json"
        self.machine = machine()
        self.pairs: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        """A line of progress."""
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    def run(self, pair: Pair, alone: Callable[[], Alone], under: Callable[[str, Alone], PolicyRun]) -> None:
        """Runs a pair: in each round the program *alone*, then both *under* each policy in turn."""
        runs: dict[str, list[PolicyRun]] = {policy: [] for policy in self.given.policies}
        for number in range(1, self.given.rounds + 1):
            reference = alone()
            prefix = f"{pair.name}, round {number} of {self.given.rounds}:"
            self.say(f"{prefix} alone on one thread {reference.run.seconds:.1f} s")
            for policy in self.given.policies:
                run = under(policy, reference)
                runs[policy].append(run)
                seconds = " and ".join(f"{one.run.seconds:.1f} s" for one in run.results)
                full_ns = full_pace([reference.watched.paces, run.watched.paces])
                self.say(
                    f"{prefix} {policy:13} {seconds}, sum of speedups {run.sum_of_speedups(full_ns):.2f} "
                    f"(by the clock {run.sum_of_speedups(None):.2f})"
                )
        path = draw_last_round(self.output, pair, f"{pair.name}: {self.words.picture}", runs)
        self.say(f"{pair.name}: wrote {path}")
        self.add(report_pair(pair, self.words, runs))

    def add(self, pair: dict[str, Any]) -> None:
        """Takes a pair's part and writes all that there is, so that a demo that is broken off leaves what it found."""
        self.pairs.append(pair)
        content = {
            "machine": self.machine,
            "quick": self.given.quick,
            "rounds": self.given.rounds,
            "pairs": self.pairs,
        }
        self.path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def run_demo(given: argparse.Namespace, words: Words, measure: Callable[[Report], None]) -> int:
    """A demo from its command line to its exit status; *measure* fills the report.

    Exit status: 0 all bars met, 1 some bar missed or a verification failed, 2 it could not be run.
    """
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    report = Report(given, words, console)
    report.logs.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    try:
        measure(report)
    except (LabError, TimeoutError) as error:
        console.print(f"demo: {error}; the logs are in {report.logs}", highlight=False, markup=False)
        return 2
    console.print(tables(report.pairs, words))
    verdict = judge(report.pairs, words)
    for good, text in verdict:
        console.print(f"{'[green]met   [/]' if good else '[red]MISSED[/]'} {text}", highlight=False)
    minutes = (time.monotonic() - started_s) / 60
    console.print(f"{minutes:.1f} minutes; {report.path}, pictures and logs beside it", highlight=False)
    return 0 if all(good for good, _ in verdict) else 1
