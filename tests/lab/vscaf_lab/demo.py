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

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from vscaf_lab import Guest, LabError, PrivateLibvirt, Sampler, accelerator
from vscaf_lab.daemon import DaemonProcess
from vscaf_lab.measure import Run, overlap, parse_marks
from vscaf_lab.pace import PaceMeter, full_pace
from vscaf_lab.pairs import (
    NAMES,
    Alone,
    Pair,
    PolicyRun,
    Result,
    Watched,
    Words,
    draw_last_round,
    judge,
    machine,
    read_command,
    report_pair,
    tables,
)
from vscaf_lab.runner import Command
from vscaf_lab.timeline import track

POLICIES = ("unmanaged", "static", "equipartition", "max-speedup")
MANAGED = ("equipartition", "max-speedup")
PROGRAM_DEADLINE_S = 300.0
BIN_S = 0.1
WORDS = Words("guests", "domain", "guest", "Two guests on two pCPUs")

# What has to hold, by pair: sum of speedups under max-speedup against that under static and under unmanaged.
BARS = {"cg": {"static": 0.95, "unmanaged": 1.3}, "ep": {"static": 0.95, "unmanaged": 0.95}}


PAIRS = (Pair("cg.A", 1, 5.0), Pair("ep.W", 2, 6.0))
QUICK_PAIRS = (Pair("cg.W", 3, 2.0), Pair("ep.S", 2, 3.0))


def command(pair: Pair, policy: str, run: int) -> str:
    """The shell command that runs the pair's program; its progress goes to a file of this run."""
    launcher = "vscaf-run " if policy in MANAGED else ""
    threads = "OMP_NUM_THREADS=1 " if policy == "alone" else ""
    return f"{threads}NPB_REPEAT={pair.repeat} NPB_PROGRESS=/tmp/marks.{run} {launcher}{pair.program}"


def finished(guest: Guest, started: Command, run: int, alone_s: float) -> Result:
    """The result of a program that was started. LabError where it says that it could not run at all."""
    done = started.wait(PROGRAM_DEADLINE_S)
    verified = done.status == 0 and "SUCCESSFUL" in done.text and "UNSUCCESSFUL" not in done.text
    marks = guest.run(f"cat /tmp/marks.{run}; rm -f /tmp/marks.{run}")
    if marks.status != 0 or not marks.output.strip():
        raise LabError(f"guest {guest.name}: `{started.text}` left no progress marks: {done.text[-500:]}")
    return Result(guest.name, Run(parse_marks(marks.text, guest.clock_offset().seconds), alone_s), verified)


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
            Guest(self.lab, NAMES[0], self.image, vcpus=2, cpuset=pinned) as first,
            Guest(self.lab, NAMES[1], self.image, vcpus=2, cpuset=pinned) as second,
        ):
            guests = (first, second)
            for number in range(1, rounds + 1):
                alone = self.alone(guests, pair)
                self.say(f"{pair.name}, round {number} of {rounds}: alone on one thread {alone.run.seconds:.1f} s")
                for policy in policies:
                    run = self.run(guests, pair, policy, alone)
                    runs[policy].append(run)
                    seconds = " and ".join(f"{guest.run.seconds:.1f} s" for guest in run.results)
                    full_ns = full_pace([alone.watched.paces, run.watched.paces])
                    self.say(
                        f"{pair.name}, round {number} of {rounds}: {policy:13} {seconds}, sum of speedups "
                        f"{run.sum_of_speedups(full_ns):.2f} (by the clock {run.sum_of_speedups(None):.2f})"
                    )
        self.draw(pair, runs)
        return report_pair(pair, WORDS, runs)

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
        path = draw_last_round(self.output, pair, f"{pair.name}: which domain computed on which pCPU", runs)
        self.say(f"{pair.name}: wrote {path}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 all bars met, 1 some bar missed or a verification failed, 2 it could not be run."""
    given = read_command("make demo", __doc__.splitlines()[0], "build/demo", POLICIES, arguments)
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    image = Path(os.environ.get("VSCAF_IMAGE", "build/image/current"))
    output: Path = given.output
    output.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    report: dict[str, Any] = {"machine": machine(), "quick": given.quick, "rounds": given.rounds, "pairs": []}
    try:
        with PrivateLibvirt(logs=output / "logs", cache=Path("build/lab/cache")) as lab:
            report["machine"]["guests"] = accelerator.domain_type(image, lab.cache)
            demo = Demo(lab, image, output, console)
            for pair in QUICK_PAIRS if given.quick else PAIRS:
                report["pairs"].append(demo.pair(pair, given.policies, given.rounds))
                (output / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except (LabError, TimeoutError) as error:
        console.print(f"demo: {error}; the logs are in {output / 'logs'}", highlight=False, markup=False)
        return 2
    console.print(tables(report["pairs"], WORDS))
    verdict = judge(report["pairs"], WORDS, BARS)
    for good, text in verdict:
        console.print(f"{'[green]met   [/]' if good else '[red]MISSED[/]'} {text}", highlight=False)
    minutes = (time.monotonic() - started_s) / 60
    console.print(f"{minutes:.1f} minutes; {output / 'report.json'}, pictures and logs beside it", highlight=False)
    return 0 if all(good for good, _ in verdict) else 1


if __name__ == "__main__":
    sys.exit(main())
