"""The demo: two guests share two pCPUs, the same work under each policy, side by side (`make demo`).

Two guests of two vCPUs on a pool of two pCPUs. A program starts in the first; while it computes, the same starts in the
second. What counts is the sum of their speedups while both compute, each against itself alone on one thread.

`unmanaged` is what there is without vscaf: plain programs, nothing pinned. `static` is the reference: each guest is
given one pCPU and one vCPU before its program starts, which then is a plain program again. Under the other policies the
programs are started by `vscaf-run`, and the daemon decides.

Speedups count steady seconds (vscaf_lab.pace): on a machine that others slow down, a second on a pCPU at half its pace
is half a second. The same figures by the clock are beside them in the report.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vscaf_lab import Guest, LabError, PrivateLibvirt, Sampler, accelerator
from vscaf_lab.daemon import DaemonProcess
from vscaf_lab.measure import Run, overlap, parse_marks
from vscaf_lab.pace import PaceMeter, Paces, full_pace, steady_seconds
from vscaf_lab.runner import Command
from vscaf_lab.timeline import Track, draw, track

DOMAINS = ("first", "second")
POLICIES = ("unmanaged", "static", "equipartition", "max-speedup")
MANAGED = ("equipartition", "max-speedup")
PROGRAM_DEADLINE_S = 300.0
BIN_S = 0.1

# What has to hold, by pair: sum of speedups under max-speedup against that under static and under unmanaged.
BARS = {"cg": {"static": 0.95, "unmanaged": 1.3}, "ep": {"static": 0.95, "unmanaged": 0.95}}


@dataclass(frozen=True)
class Pair:
    """A program (`cg.A`) to run in both guests; its work is done *repeat* times; the second starts *delay_s* later."""

    program: str
    repeat: int
    delay_s: float

    @property
    def name(self) -> str:
        return f"{self.program}+{self.program}"


PAIRS = (Pair("cg.A", 1, 5.0), Pair("ep.W", 2, 6.0))
QUICK_PAIRS = (Pair("cg.W", 3, 2.0), Pair("ep.S", 2, 3.0))


@dataclass
class GuestResult:
    """One guest's program in one run."""

    domain: str
    run: Run
    verified: bool


@dataclass
class Watched:
    """What was seen of the host during a run: where the domains ran, and at what pace."""

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

    guests: list[GuestResult]
    alone: Alone
    watched: Watched
    transitions: int
    window: tuple[float, float]

    def both(self, guest: GuestResult, full_ns: float | None) -> float:
        """A guest's speedup while both compute, in steady seconds; by the clock where no full pace is given."""
        start_s, end_s = self.window
        work = guest.run.work_between(start_s, end_s)
        if full_ns is None:
            return work * self.alone.run.seconds / (end_s - start_s)
        return work * self.alone.steady(full_ns) / self.watched.steady(guest.domain, start_s, end_s, full_ns)

    def sum_of_speedups(self, full_ns: float | None) -> float:
        return sum(self.both(guest, full_ns) for guest in self.guests)


def command(pair: Pair, policy: str, run: int) -> str:
    """The shell command that runs the pair's program; its progress goes to a file of this run."""
    launcher = "vscaf-run " if policy in MANAGED else ""
    threads = "OMP_NUM_THREADS=1 " if policy == "alone" else ""
    return f"{threads}NPB_REPEAT={pair.repeat} NPB_PROGRESS=/tmp/marks.{run} {launcher}{pair.program}"


def finished(guest: Guest, started: Command, run: int, alone_s: float) -> GuestResult:
    """The result of a program that was started. LabError where it says that it could not run at all."""
    done = started.wait(PROGRAM_DEADLINE_S)
    verified = done.status == 0 and "SUCCESSFUL" in done.text and "UNSUCCESSFUL" not in done.text
    marks = guest.run(f"cat /tmp/marks.{run}; rm -f /tmp/marks.{run}")
    if marks.status != 0 or not marks.output.strip():
        raise LabError(f"guest {guest.name}: `{started.text}` left no progress marks: {done.text[-500:]}")
    return GuestResult(guest.name, Run(parse_marks(marks.text, guest.clock_offset().seconds), alone_s), verified)


class Demo:
    """One demo in a lab, for some pairs, policies and rounds."""

    def __init__(self, lab: PrivateLibvirt, image: Path, output: Path, console: Console) -> None:
        self.lab = lab
        self.image = image
        self.output = output
        self.console = console
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise LabError("the demo needs two CPUs: give this machine another one")
        self.pool = cpus[:2]
        self._runs = 0

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    def pair(self, pair: Pair, policies: Sequence[str], rounds: int) -> dict[str, Any]:
        """Runs a pair under each policy in turn, *rounds* times over; returns its part of the report."""
        self.say(f"[bold]{pair.name}[/]: booting two guests of two vCPUs")
        pinned = ",".join(map(str, self.pool))
        runs: dict[str, list[PolicyRun]] = {policy: [] for policy in policies}
        with (
            Guest(self.lab, DOMAINS[0], self.image, vcpus=2, cpuset=pinned) as first,
            Guest(self.lab, DOMAINS[1], self.image, vcpus=2, cpuset=pinned) as second,
        ):
            guests = (first, second)
            for number in range(1, rounds + 1):
                alone = self.alone(guests, pair)
                self.say(f"{pair.name}, round {number} of {rounds}: alone on one thread {alone.run.seconds:.1f} s")
                for policy in policies:
                    run = self.run(guests, pair, policy, alone)
                    runs[policy].append(run)
                    seconds = " and ".join(f"{guest.run.seconds:.1f} s" for guest in run.guests)
                    full_ns = full_pace([alone.watched.paces, run.watched.paces])
                    self.say(
                        f"{pair.name}, round {number} of {rounds}: {policy:13} {seconds}, sum of speedups "
                        f"{run.sum_of_speedups(full_ns):.2f} (by the clock {run.sum_of_speedups(None):.2f})"
                    )
        self.draw(pair, runs)
        return report_pair(pair, runs)

    def alone(self, guests: Sequence[Guest], pair: Pair) -> Alone:
        """The program alone on one thread of the first guest, the other idle."""
        self._runs += 1
        guest = guests[0]
        with PaceMeter(self.pool) as meter, Sampler({one.name: one.qemu_pid for one in guests}) as sampler:
            result = finished(guest, guest.start(command(pair, "alone", self._runs)), self._runs, 1.0)
        if not result.verified:
            raise LabError(f"{pair.program} alone on one thread: its verification failed")
        return Alone(result.run, guest.name, Watched(track(sampler.samples, BIN_S), meter.paces))

    def run(self, guests: Sequence[Guest], pair: Pair, policy: str, alone: Alone) -> PolicyRun:
        """One run of the pair under a policy."""
        self._runs += 1
        run = self._runs
        options = {"allocations": {guest.name: 1 for guest in guests}} if policy == "static" else {}
        daemon = DaemonProcess(
            self.lab,
            ",".join(map(str, self.pool)),
            {guest.name: {"rest": "keep"} if policy == "static" else {} for guest in guests},
            policy=policy,
            options=options,
            name=f"{pair.program}-{policy}-{run}",
        )
        with daemon:
            if policy == "static":  # set before the programs start
                daemon.wait(
                    lambda domains: all(one["allocation"] == 1 and one["online"] == [0] for one in domains.values())
                )
            with PaceMeter(self.pool) as meter, Sampler({guest.name: guest.qemu_pid for guest in guests}) as sampler:
                text = command(pair, policy, run)
                one = guests[0].start(text)
                time.sleep(pair.delay_s)
                if one.done():
                    raise LabError(f"{pair.name}: the first program ended before the second began: more repeats")
                two = guests[1].start(text)
                results = [
                    finished(guest, started, run, alone.run.seconds)
                    for guest, started in zip(guests, (one, two), strict=True)
                ]
            transitions = int(daemon.status()["transitions"])
        window = overlap([result.run for result in results])
        if window is None:
            raise LabError(f"{pair.name}: the two programs never computed at the same time: more repeats")
        return PolicyRun(results, alone, Watched(track(sampler.samples, BIN_S), meter.paces), transitions, window)

    def draw(self, pair: Pair, runs: Mapping[str, Sequence[PolicyRun]]) -> None:
        """The timeline of the last round."""
        path = self.output / f"timeline-{pair.program.replace('.', '-')}.png"
        last = {policy: rows[-1] for policy, rows in runs.items()}
        draw(
            path,
            f"{pair.name}: which domain computed on which pCPU",
            {policy: run.watched.track for policy, run in last.items()},
            {
                policy: {one.domain: (one.run.marks[0][1], one.run.marks[-1][1]) for one in run.guests}
                for policy, run in last.items()
            },
        )
        self.say(f"{pair.name}: wrote {path}")


def report_pair(pair: Pair, runs: Mapping[str, Sequence[PolicyRun]]) -> dict[str, Any]:
    """A pair's part of the report: medians over the rounds, and the rounds."""
    rounds = next(iter(runs.values()))
    full_ns = full_pace(
        [one.alone.watched.paces for one in rounds] + [row.watched.paces for rows in runs.values() for row in rows]
    )
    policies: dict[str, Any] = {}
    for policy, rows in runs.items():
        policies[policy] = {
            "guests": [
                {
                    "domain": name,
                    "program": pair.program,
                    "seconds": statistics.median(row.guests[place].run.seconds for row in rows),
                    "speedup": statistics.median(row.both(row.guests[place], full_ns) for row in rows),
                    "speedup_by_the_clock": statistics.median(row.both(row.guests[place], None) for row in rows),
                    "verified": all(row.guests[place].verified for row in rows),
                }
                for place, name in enumerate(DOMAINS)
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


def tables(pairs: Iterable[Mapping[str, Any]]) -> Table:
    """The report as people read it."""
    table = Table(title="Two guests on two pCPUs. Speedups are against each alone on one thread, while both compute.")
    for column in ("pair", "policy", "guest", "seconds", "speedup", "sum", "by the clock", "to unmanaged", "to static"):
        table.add_column(column, justify="left" if column in ("pair", "policy", "guest") else "right")
    for pair in pairs:
        for policy, result in pair["policies"].items():
            for place, guest in enumerate(result["guests"]):
                failed = "" if guest["verified"] else " [red]verification FAILED[/]"
                row = [pair["name"], policy] if place == 0 else ["", ""]
                row += [f"{guest['domain']}{failed}", f"{guest['seconds']:.1f}", f"{guest['speedup']:.2f}"]
                if place == 0:
                    ratios = [result.get(f"ratio_to_{name}") for name in ("unmanaged", "static")]
                    sums = [result["sum_of_speedups"], result["sum_of_speedups_by_the_clock"], *ratios]
                    row += ["" if one is None else f"{one:.2f}" for one in sums]
                table.add_row(*row, end_section=place == 1 and policy == list(pair["policies"])[-1])
    return table


def judge(pairs: Iterable[Mapping[str, Any]]) -> list[tuple[bool, str]]:
    """Whether what has to hold holds, a line each."""
    lines = []
    for pair in pairs:
        guests = [guest for result in pair["policies"].values() for guest in result["guests"]]
        verified = all(guest["verified"] for guest in guests)
        lines.append((verified, f"{pair['name']}: every verification successful"))
        result = pair["policies"].get("max-speedup", {})
        for reference, bar in BARS[pair["name"].split(".")[0]].items():
            ratio = result.get(f"ratio_to_{reference}")
            if ratio is not None:
                text = f"{pair['name']}: sum of speedups, max-speedup to {reference}: {ratio:.2f} (at least {bar:.2f})"
                lines.append((ratio >= bar, text))
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 all bars met, 1 some bar missed or a verification failed, 2 it could not be run."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="where report and pictures go")
    parser.add_argument("--rounds", type=int, default=2, help="rounds; medians are reported (default: 2)")
    parser.add_argument("--quick", action="store_true", help="small classes, one round: a look at it, no measurement")
    parser.add_argument("--policies", default=",".join(POLICIES), help="some of them, separated by commas")
    given = parser.parse_args(arguments)
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    policies = given.policies.split(",")
    unknown = sorted(set(policies) - set(POLICIES))
    if unknown or given.rounds < 1:
        console.print(f"demo: {unknown or given.rounds}: policies are {', '.join(POLICIES)}, rounds at least 1")
        return 2
    image = Path(os.environ.get("VSCAF_IMAGE", "build/image/current"))
    output: Path = given.output
    output.mkdir(parents=True, exist_ok=True)
    rounds = 1 if given.quick else given.rounds
    started_s = time.monotonic()
    report: dict[str, Any] = {"machine": machine(), "quick": given.quick, "rounds": rounds, "pairs": []}
    try:
        with PrivateLibvirt(logs=output / "logs", cache=Path("build/lab/cache")) as lab:
            report["machine"]["guests"] = accelerator.domain_type(image, lab.cache)
            demo = Demo(lab, image, output, console)
            for pair in QUICK_PAIRS if given.quick else PAIRS:
                report["pairs"].append(demo.pair(pair, policies, rounds))
                (output / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except (LabError, TimeoutError) as error:
        console.print(f"demo: {error}; the logs are in {output / 'logs'}", highlight=False, markup=False)
        return 2
    console.print(tables(report["pairs"]))
    verdict = judge(report["pairs"])
    for good, text in verdict:
        console.print(f"{'[green]met   [/]' if good else '[red]MISSED[/]'} {text}", highlight=False)
    minutes = (time.monotonic() - started_s) / 60
    console.print(f"{minutes:.1f} minutes; {output / 'report.json'}, pictures and logs beside it", highlight=False)
    return 0 if all(good for good, _ in verdict) else 1


if __name__ == "__main__":
    sys.exit(main())
