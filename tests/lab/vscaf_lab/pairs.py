"""The pairs of programs of a demo, the figures of their runs, and the report.

The first program starts. While it computes, the second starts. The result is the sum of their speedups while both
compute, each relative to the program alone on one thread, in steady seconds (vscaf.bench.observe.pace) and by the
clock.

A run in which the host was busy with something else (vscaf.bench.observe.host_load) is repeated at most twice. If each
try was disturbed, the run is marked, and its figures are not judged. The verification of its programs still counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from vscaf.bench.machine import machine
from vscaf.bench.observe.host_load import HostLoad, attempts
from vscaf.bench.observe.measure import Run
from vscaf.bench.observe.pace import full_pace
from vscaf.bench.observe.timeline import draw
from vscaf.bench.observe.watch import Watched
from vscaf.lab.errors import LabError

NAMES = ("first", "second")
POLICIES = ("unmanaged", "static", "equipartition", "max-speedup")
MANAGED = ("equipartition", "max-speedup")  # by vscaf: programs are started by `vscaf-run`

# The second program starts after this part of the time alone. By then the first has not done half of its work, even at
# full speed on two CPUs.
DELAY = 0.2

# What must hold, by program: the least ratio of the sum of speedups under max-speedup to that under static and under
# unmanaged. EP has almost no barriers, so on two CPUs there is nothing to gain or lose.
BARS = {"cg": {"static": 0.95, "unmanaged": 1.3}, "ep": {"static": 0.95, "unmanaged": 0.95}}


@dataclass(frozen=True)
class PairTexts:
    """A demo's texts: names for what runs its two programs."""

    members: str  # in the report: "guests"
    name: str  # of one member: "domain"
    column: str  # in the table: "guest"
    title: str  # of the table
    picture: str  # what a timeline shows


@dataclass(frozen=True)
class Pair:
    """A program (`cg.A`) that runs twice. Each run does its work *repeat* times. The second starts *delay_s* later."""

    program: str
    repeat: int
    delay_s: float

    @property
    def name(self) -> str:
        return f"{self.program}+{self.program}"

    @classmethod
    def lasting(cls, program: str, alone_s: float, once_s: float) -> Pair:
        """The pair whose program takes about *alone_s* on one thread here, where doing its work once takes *once_s*."""
        repeat = max(1, round(alone_s / once_s))
        return cls(program, repeat, DELAY * repeat * once_s)


@dataclass
class Result:
    """One program in one run."""

    domain: str
    run: Run
    verified: bool


@dataclass
class Alone:
    """The program alone on one thread."""

    run: Run
    domain: str
    watched: Watched

    @property
    def load(self) -> HostLoad:
        """The host's load while it computed."""
        return self.watched.load(self.run.marks[0][1], self.run.marks[-1][1])

    def steady(self, full_ns: float) -> float:
        return self.watched.steady(self.domain, self.run.marks[0][1], self.run.marks[-1][1], full_ns)


@dataclass
class PolicyRun:
    """One run of a pair under a policy. `window`: start and end of the time in which both computed. `repeated`: the
    disturbed runs of the same round that this run replaces."""

    results: list[Result]
    alone: Alone
    watched: Watched
    transitions: int
    window: tuple[float, float]
    repeated: list[PolicyRun] = field(default_factory=list)

    @property
    def load(self) -> HostLoad:
        """The host's load while both computed."""
        return self.watched.load(*self.window)

    @property
    def disturbed(self) -> bool:
        """Whether its figures cannot be used: the host was busy with something else in this run or in the run alone."""
        return self.load.disturbed or self.alone.load.disturbed

    def verified(self, place: int) -> bool:
        """Whether all results of one program were right, including those of the runs that do not count."""
        return all(run.results[place].verified for run in (self, *self.repeated))

    def both(self, result: Result, full_ns: float | None) -> float:
        """A program's speedup while both compute, in steady seconds; by the clock if no full pace is given."""
        start_s, end_s = self.window
        work = result.run.work_between(start_s, end_s)
        if full_ns is None:
            return work * self.alone.run.seconds / (end_s - start_s)
        return work * self.alone.steady(full_ns) / self.watched.steady(result.domain, start_s, end_s, full_ns)

    def sum_of_speedups(self, full_ns: float | None) -> float:
        return sum(self.both(one, full_ns) for one in self.results)


def read_command(program: str, about: str, output: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """A demo's command line: `output`, `rounds`, `quick`, `policies` (default: all). If it is wrong, prints the error
    and exits with 2.
    """

    def some_of(text: str) -> list[str]:
        named = text.split(",")
        if unknown := sorted(set(named) - set(POLICIES)):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: policies are {', '.join(POLICIES)}")
        return named

    def at_least_one(text: str) -> int:
        if int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text}: give at least one round")
        return int(text)

    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--output", type=Path, default=Path(output), help="directory for report, pictures and logs")
    parser.add_argument("--rounds", type=at_least_one, default=2, help="rounds; medians are reported (default: 2)")
    parser.add_argument("--quick", action="store_true", help="little work, one round: a preview, not a measurement")
    parser.add_argument("--policies", type=some_of, default=list(POLICIES), help="which policies, separated by commas")
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


def ratio(rounds: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], key: str) -> tuple[float, bool]:
    """The median of the ratios of each round, so that changes of the machine affect both sides. It is over the
    undisturbed rounds. If there are none, it is over all rounds, and the second value is False: do not judge by it.
    """
    pairs = list(zip(rounds, others, strict=True))
    judged = [(one, other) for one, other in pairs if not (one["disturbed"] or other["disturbed"])]
    return statistics.median(one[key] / other[key] for one, other in judged or pairs), bool(judged)


def report_pair(pair: Pair, texts: PairTexts, runs: Mapping[str, Sequence[PolicyRun]]) -> dict[str, Any]:
    """The report of one pair: medians over the rounds, and the rounds."""
    first = next(iter(runs.values()))
    rounds = [row for row in first if not row.alone.load.disturbed] or first
    full_ns = full_pace(
        [one.alone.watched.paces for one in first] + [row.watched.paces for rows in runs.values() for row in rows]
    )
    policies: dict[str, Any] = {}
    for policy, every in runs.items():
        rows = [row for row in every if not row.disturbed] or every
        policies[policy] = {
            texts.members: [
                {
                    texts.name: name,
                    "program": pair.program,
                    "seconds": statistics.median(row.results[place].run.seconds for row in rows),
                    "speedup": statistics.median(row.both(row.results[place], full_ns) for row in rows),
                    "speedup_by_the_clock": statistics.median(row.both(row.results[place], None) for row in rows),
                    "verified": all(row.verified(place) for row in every),
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
                    "disturbed": row.disturbed,
                    "lost_to_others": row.load.lost,
                    "alone_lost_to_others": row.alone.load.lost,
                    "repeated": [
                        {"sum_of_speedups": one.sum_of_speedups(full_ns), "lost_to_others": one.load.lost}
                        for one in row.repeated
                    ],
                }
                for row in every
            ],
        }
    for policy in policies.values():
        for reference in ("unmanaged", "static"):
            if reference in policies:
                rounds_of = (policy["rounds"], policies[reference]["rounds"])
                for ending in ("", "_by_the_clock"):
                    policy[f"ratio_to_{reference}{ending}"], judged = ratio(*rounds_of, f"sum_of_speedups{ending}")
                    policy[f"ratio_to_{reference}_disturbed"] = not judged
    return {
        "name": pair.name,
        "repeat": pair.repeat,
        "alone_one_thread_s": statistics.median(one.alone.run.seconds for one in rounds),
        "alone_one_thread_steady_s": statistics.median(one.alone.steady(full_ns) for one in rounds),
        "policies": policies,
    }


def tables(pairs: Iterable[Mapping[str, Any]], texts: PairTexts) -> Table:
    """The report as a table for people."""
    table = Table(title=f"{texts.title}. Speedups while both compute, relative to each alone on one thread.")
    for column in (
        "pair",
        "policy",
        texts.column,
        "seconds",
        "speedup",
        "sum",
        "by the clock",
        "to unmanaged",
        "to static",
        "disturbed",
    ):
        table.add_column(column, justify="left" if column in ("pair", "policy", texts.column) else "right")
    for pair in pairs:
        for policy, result in pair["policies"].items():
            for place, one in enumerate(result[texts.members]):
                failed = "" if one["verified"] else " [red]verification FAILED[/]"
                row = [pair["name"], policy] if place == 0 else ["", ""]
                row += [f"{one[texts.name]}{failed}", f"{one['seconds']:.1f}", f"{one['speedup']:.2f}"]
                if place == 0:
                    ratios = [result.get(f"ratio_to_{name}") for name in ("unmanaged", "static")]
                    sums = [result["sum_of_speedups"], result["sum_of_speedups_by_the_clock"], *ratios]
                    row += ["" if figure is None else f"{figure:.2f}" for figure in sums]
                    disturbed = sum(one["disturbed"] for one in result["rounds"])
                    row.append(f"[yellow]{disturbed} of {len(result['rounds'])} rounds[/]" if disturbed else "")
                table.add_row(*row, end_section=place == 1 and policy == list(pair["policies"])[-1])
    return table


class VerificationFailed(LabError):
    """A program's results are wrong when it runs alone, so nothing can be compared with that run."""


class Verdict(StrEnum):
    """Whether a bar is met."""

    MET = "met"
    MISSED = "MISSED"
    DISTURBED = "too disturbed to judge"


COLOURS = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.DISTURBED: "yellow"}


def judge(pairs: Iterable[Mapping[str, Any]], texts: PairTexts) -> list[tuple[Verdict, str]]:
    """One line for each bar. Verification is judged in every run, a figure only if the host was not disturbed."""
    lines = []
    for pair in pairs:
        results = [one for result in pair["policies"].values() for one in result[texts.members]]
        verified = all(one["verified"] for one in results)
        lines.append((Verdict.MET if verified else Verdict.MISSED, f"{pair['name']}: every verification successful"))
        result = pair["policies"].get("max-speedup", {})
        for reference, bar in BARS[pair["name"].split(".")[0]].items():
            found = result.get(f"ratio_to_{reference}")
            if found is not None:
                text = f"{pair['name']}: sum of speedups, max-speedup to {reference}: {found:.2f} (at least {bar:.2f})"
                verdict = Verdict.MET if found >= bar else Verdict.MISSED
                lines.append((Verdict.DISTURBED if result[f"ratio_to_{reference}_disturbed"] else verdict, text))
    return lines


def lost(load: HostLoad) -> str:
    """Text about a run in which the host was busy with something else; empty for others."""
    return f" [yellow]disturbed: others had {load.lost:.0%} of the CPU time[/]" if load.disturbed else ""


class Report:
    """The results of a demo so far: on the terminal, in `report.json`, and in a picture for each pair."""

    def __init__(self, given: argparse.Namespace, texts: PairTexts, console: Console) -> None:
        self.given = given
        self.texts = texts
        self.console = console
        self.output: Path = given.output
        self.logs = self.output / "logs"
        self.path = self.output / "report.json"
        self.machine = machine()
        self.pairs: list[dict[str, Any]] = []

    def print_line(self, text: str) -> None:
        """A line of progress."""
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    def run(self, pair: Pair, alone: Callable[[], Alone], under: Callable[[str, Alone], PolicyRun]) -> None:
        """Runs a pair: in each round the program *alone*, then both *under* each policy in turn. Disturbed runs are
        repeated."""
        runs: dict[str, list[PolicyRun]] = {policy: [] for policy in self.given.policies}
        for number in range(1, self.given.rounds + 1):
            prefix = f"{pair.name}, round {number} of {self.given.rounds}:"

            reference, _ = attempts(partial(self._alone_once, prefix, alone), lambda one: one.load)
            for policy in self.given.policies:
                run, every = attempts(partial(self._once, prefix, policy, under, reference), lambda one: one.load)
                run.repeated = [one for one in every if one is not run]
                runs[policy].append(run)
        path = draw_last_round(self.output, pair, f"{pair.name}: {self.texts.picture}", runs)
        self.print_line(f"{pair.name}: wrote {path}")
        self.add(report_pair(pair, self.texts, runs))

    def _alone_once(self, prefix: str, alone: Callable[[], Alone]) -> Alone:
        one = alone()
        self.print_line(f"{prefix} alone on one thread {one.run.seconds:.1f} s{lost(one.load)}")
        return one

    def _once(self, prefix: str, policy: str, under: Callable[[str, Alone], PolicyRun], reference: Alone) -> PolicyRun:
        run = under(policy, reference)
        seconds = " and ".join(f"{one.run.seconds:.1f} s" for one in run.results)
        full_ns = full_pace([reference.watched.paces, run.watched.paces])
        self.print_line(
            f"{prefix} {policy:13} {seconds}, sum of speedups {run.sum_of_speedups(full_ns):.2f} "
            f"(by the clock {run.sum_of_speedups(None):.2f}){lost(run.load)}"
        )
        return run

    def add(self, pair: dict[str, Any]) -> None:
        """Adds the report of a pair and writes all reports, so that an interrupted demo keeps its results."""
        self.pairs.append(pair)
        content = {
            "machine": self.machine,
            "quick": self.given.quick,
            "rounds": self.given.rounds,
            "pairs": self.pairs,
        }
        self.path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def run_demo(given: argparse.Namespace, texts: PairTexts, measure: Callable[[Report], None]) -> int:
    """A demo from its command line to its exit status; *measure* fills the report.

    Exit status: 0 no bar missed (bars with disturbed figures are not judged), 1 a bar missed or a verification failed,
    2 the demo could not run.
    """
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    report = Report(given, texts, console)
    report.logs.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    try:
        measure(report)
    except (LabError, TimeoutError) as error:
        console.print(f"demo: {error}; the logs are in {report.logs}", highlight=False, markup=False)
        return 1 if isinstance(error, VerificationFailed) else 2
    console.print(tables(report.pairs, texts))
    verdict = judge(report.pairs, texts)
    for found, text in verdict:
        console.print(f"[{COLOURS[found]}]{found:6}[/] {text}", highlight=False)
    if any(found is Verdict.DISTURBED for found, _ in verdict):
        console.print("The host was busy with something else in every try: run the demo again when the host is idle.")
    minutes = (time.monotonic() - started_s) / 60
    console.print(f"{minutes:.1f} minutes; {report.path}, pictures and logs in the same directory", highlight=False)
    return 1 if any(found is Verdict.MISSED for found, _ in verdict) else 0
