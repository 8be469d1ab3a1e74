"""The demo: two guests share two pCPUs and do the same work under each policy (`make demo`).

Two guests of two vCPUs run on a pool of two pCPUs. A program starts in the first guest. While it computes, the same
program starts in the second. The result is the sum of their speedups while both compute, each relative to the program
alone on one thread.

`unmanaged` is the machine without vscaf: plain programs, nothing pinned. `static` is the reference: each guest gets one
pCPU and one vCPU before its program starts, and the program is a plain one, too. Under the other policies the programs
are started by `vscaf-run`, and the daemon decides.

Speedups count steady seconds (vscaf.bench.observe.pace). On a machine that others slow down, a second on a pCPU at half
its pace counts as half a second. The report also has the same figures by the clock.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from vscaf.bench.observe.measure import Run, overlap, parse_marks
from vscaf.bench.observe.watch import Watch
from vscaf.lab import Guest, LabError, PrivateLibvirt, accelerator
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.runner import Command

from vscaf_lab.pairs import (
    MANAGED,
    NAMES,
    Alone,
    Pair,
    PairTexts,
    PolicyRun,
    Report,
    Result,
    VerificationFailed,
    read_command,
    run_demo,
)

PROGRAM_DEADLINE_S = 300.0
TEXTS = PairTexts("guests", "domain", "guest", "Two guests on two pCPUs", "which domain computed on which pCPU")
PROGRAMS, QUICK_PROGRAMS = ("cg.A", "ep.W"), ("cg.W", "ep.S")
ALONE_S, QUICK_ALONE_S = 20.0, 6.0  # the time of a program's repetitions, alone on one thread


def command(pair: Pair, policy: str, run: int) -> str:
    """The shell command that runs the pair's program and writes its progress to a file of this run."""
    launcher = "vscaf-run " if policy in MANAGED else ""
    threads = "OMP_NUM_THREADS=1 " if policy == "alone" else ""
    return f"{threads}NPB_REPEAT={pair.repeat} NPB_PROGRESS=/tmp/marks.{run} {launcher}{pair.program}"


def finished(guest: Guest, started: Command, run: int, alone_s: float) -> Result:
    """The result of a program that was started. LabError if the program could not run at all."""
    done = started.wait(PROGRAM_DEADLINE_S)
    verified = done.status == 0 and "SUCCESSFUL" in done.text and "UNSUCCESSFUL" not in done.text
    marks = guest.run(f"cat /tmp/marks.{run}; rm -f /tmp/marks.{run}")
    if marks.status != 0 or not marks.output.strip():
        raise LabError(f"guest {guest.name}: `{started.text}` left no progress marks: {done.text[-500:]}")
    return Result(guest.name, Run(parse_marks(marks.text, guest.clock_offset().seconds), alone_s), verified)


class Demo:
    """One demo in a lab."""

    def __init__(self, lab: PrivateLibvirt, image: Path, report: Report) -> None:
        self.lab = lab
        self.image = image
        self.report = report
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise LabError("the demo needs two CPUs: give this machine another one")
        self.pool = cpus[:2]
        self._runs = 0

    def pair(self, program: str, alone_s: float) -> None:
        """Runs the program as a pair in two guests and reports on it. It takes about *alone_s* on one thread."""
        once = Pair(program, 1, 0.0)
        self.report.print_line(f"[bold]{once.name}[/]: booting two guests of two vCPUs")
        pinned = ",".join(map(str, self.pool))
        with (
            Guest(self.lab, NAMES[0], self.image, vcpus=2, cpuset=pinned) as first,
            Guest(self.lab, NAMES[1], self.image, vcpus=2, cpuset=pinned) as second,
        ):
            guests = (first, second)
            once_s = finished(first, first.start(command(once, "alone", 0)), 0, 1.0).run.seconds
            pair = Pair.lasting(program, alone_s, once_s)
            self.report.run(
                pair,
                lambda: self.alone(guests, pair),
                lambda policy, alone: self.run(guests, pair, policy, alone),
            )

    def alone(self, guests: Sequence[Guest], pair: Pair) -> Alone:
        """Runs the program alone on one thread of the first guest, with the other guest idle."""
        self._runs += 1
        guest = guests[0]
        with Watch(self.pool, {one.name: one.qemu_pid for one in guests}, [self.lab.libvirtd_pid]) as watch:
            result = finished(guest, guest.start(command(pair, "alone", self._runs)), self._runs, 1.0)
        if not result.verified:
            raise VerificationFailed(f"{pair.program} alone on one thread: its verification failed")
        return Alone(result.run, guest.name, watch.watched())

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
            helpers = [self.lab.libvirtd_pid, daemon.pid]
            with Watch(self.pool, {guest.name: guest.qemu_pid for guest in guests}, helpers) as watch:
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
        return PolicyRun(results, alone, watch.watched(), transitions, window)


def measure(report: Report) -> None:
    """Runs all pairs in a lab of their own."""
    image = Path(os.environ.get("VSCAF_IMAGE", "build/image/current"))
    with PrivateLibvirt(logs=report.logs, cache=Path("build/lab/cache")) as lab:
        report.machine["guests"] = accelerator.domain_type(image, lab.cache)
        demo = Demo(lab, image, report)
        for program in QUICK_PROGRAMS if report.given.quick else PROGRAMS:
            demo.pair(program, QUICK_ALONE_S if report.given.quick else ALONE_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status is run_demo's."""
    return run_demo(read_command("make demo", __doc__.splitlines()[0], "build/demo", arguments), TEXTS, measure)


if __name__ == "__main__":
    sys.exit(main())
