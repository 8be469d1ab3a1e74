"""The demo without guests: two programs share two CPUs of this very machine (`make demo-standalone`).

A program starts; while it computes, the same starts again. What counts is the sum of their speedups while both compute,
each against itself alone on one thread, counted in steady seconds as `make demo` does (vscaf_lab.pairs).

`unmanaged` is what there is without vscaf: plain programs, each with a thread for each CPU; teams that spin at barriers
collapse then. `static` is the reference: each program on a CPU of its own, by taskset, with one thread. Under the other
policies the programs are started by `vscaf-run`, and `vscaf-agent --standalone` decides. Nothing here needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from vscaf_lab.errors import LabError
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
from vscaf_lab.processes import all_threads, end_child
from vscaf_lab.sampler import Sampler
from vscaf_lab.timeline import track

POLICIES = ("unmanaged", "static", "equipartition", "max-speedup")
MANAGED = ("equipartition", "max-speedup")
WORDS = Words("programs", "name", "program", "Two programs on two CPUs of this machine")
DEADLINE_S = 300.0
BIN_S = 0.1
DELAY = 0.2  # of the time alone: at full speed on two CPUs the first has not done half of its work then

# As in `make demo`, by pair: what max-speedup has to reach of static and of unmanaged. EP hardly has a barrier: there
# nothing is to be gained on two CPUs, and nothing to be lost.
BARS = {"cg": {"static": 0.95, "unmanaged": 1.3}, "ep": {"static": 0.95, "unmanaged": 0.95}}
PROGRAMS = ("cg.A", "ep.W")
ALONE_S, QUICK_ALONE_S = 6.0, 2.0  # what a program is repeated for, alone on one thread


class Agent:
    """Context manager: a stand-alone agent that splits this process's CPUs."""

    def __init__(self, build: Path, directory: Path, policy: str) -> None:
        self.program = build / "guest-agent" / "vscaf-agent"
        self.socket = directory / f"{policy}.sock"
        self.log = directory / "logs" / f"agent-{policy}.log"
        self.policy = policy
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Agent:
        self.log.parent.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self.program, "--standalone", "--policy", self.policy, "--socket", self.socket],
                stderr=log,
                env=environment,
            )
        end = time.monotonic() + 10
        while not self.socket.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise LabError(f"the agent did not start: see {self.log}")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            end_child(self._process, 5.0)

    def status(self) -> dict[str, Any]:
        """What `vscaf-agent --status` says."""
        command: list[str | Path] = [self.program, "--socket", self.socket, "--status", "--json"]
        found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=20).stdout)
        return found


class Started:
    """A program that was started."""

    def __init__(
        self, command: Sequence[str | Path], environment: Mapping[str, str], marks: Path, output: Path
    ) -> None:
        self.marks, self.output = marks, output
        plain = {
            name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "VSCAF_MALL"))
        }
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**plain, **environment, "NPB_PROGRESS": str(marks)},
            )

    def finish(self, name: str, alone_s: float) -> Result:
        """Its result. LabError where it says that it could not run at all."""
        try:
            status = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise LabError(f"the {name} program has not ended after {DEADLINE_S:.0f} s: see {self.output}") from None
        text = self.output.read_text()
        verified = status == 0 and "SUCCESSFUL" in text and "UNSUCCESSFUL" not in text
        if not self.marks.exists() or not self.marks.read_text().strip():
            raise LabError(f"the {name} program left no progress marks: see {self.output}")
        return Result(name, Run(parse_marks(self.marks.read_text(), 0.0), alone_s), verified)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Demo:
    """One demo, for some pairs, policies and rounds."""

    def __init__(self, output: Path, console: Console) -> None:
        self.output = output
        self.console = console
        self.build = Path(os.environ.get("VSCAF_BUILD", "build/meson"))
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise LabError("the demo needs two CPUs: give this machine another one")
        self.cpus = cpus[:2]
        os.sched_setaffinity(0, self.cpus)  # programs and agent inherit that
        self._runs = 0

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    def start(self, pair: Pair, policy: str, place: int, agent: Agent | None = None) -> Started:
        """Starts the pair's program as the policy has it, as the first or second."""
        self._runs += 1
        command: list[str | Path] = [self.build / "images" / "npb" / pair.program]
        environment = {"NPB_REPEAT": str(pair.repeat)}
        if policy in {"alone", "static"}:
            environment["OMP_NUM_THREADS"] = "1"
        if policy == "static":
            command = ["taskset", "-c", str(self.cpus[place]), *command]
        if agent is not None:
            command = [self.build / "guest-libgomp" / "vscaf-run", *command]
            environment["VSCAF_SOCKET"] = str(agent.socket)
        logs = self.output / "logs"
        name = f"{pair.program}-{policy}-{NAMES[place]}"
        marks = logs / f"{name}.marks"
        marks.unlink(missing_ok=True)
        return Started(command, environment, marks, logs / f"{name}.log")

    def calibrate(self, program: str, alone_s: float) -> Pair:
        """A pair that keeps one thread busy for about *alone_s*, on however fast a machine."""
        once = self.start(Pair(program, 1, 0.0), "alone", 0).finish(program, 1.0).run.seconds
        return Pair(program, max(1, round(alone_s / once)), DELAY * alone_s)

    def pair(self, pair: Pair, policies: Sequence[str], rounds: int) -> dict[str, Any]:
        """Runs a pair under each policy in turn, *rounds* times over; returns its part of the report."""
        runs: dict[str, list[PolicyRun]] = {policy: [] for policy in policies}
        for number in range(1, rounds + 1):
            alone = self.alone(pair)
            prefix = f"{pair.name}, round {number} of {rounds}:"
            self.say(f"{prefix} alone on one thread {alone.run.seconds:.1f} s")
            for policy in policies:
                run = self.run(pair, policy, alone)
                runs[policy].append(run)
                seconds = " and ".join(f"{one.run.seconds:.1f} s" for one in run.results)
                full_ns = full_pace([alone.watched.paces, run.watched.paces])
                self.say(
                    f"{prefix} {policy:13} {seconds}, sum of speedups {run.sum_of_speedups(full_ns):.2f} "
                    f"(by the clock {run.sum_of_speedups(None):.2f})"
                )
        self.draw(pair, runs)
        return report_pair(pair, WORDS, runs)

    def alone(self, pair: Pair) -> Alone:
        """The program alone on one thread."""
        with PaceMeter(self.cpus) as meter, Sampler({}, threads_of=all_threads) as sampler:
            started = self.start(pair, "alone", 0)
            sampler.add(NAMES[0], started.process.pid)
            result = started.finish(NAMES[0], 1.0)
        if not result.verified:
            raise LabError(f"{pair.program} alone on one thread: its verification failed")
        return Alone(result.run, NAMES[0], Watched(track(sampler.samples, BIN_S), meter.paces))

    def run(self, pair: Pair, policy: str, alone: Alone) -> PolicyRun:
        """One run of the pair under a policy."""
        if policy in MANAGED:
            with Agent(self.build, self.output, policy) as agent:
                return self._both(pair, policy, alone, agent)
        return self._both(pair, policy, alone, None)

    def _both(self, pair: Pair, policy: str, alone: Alone, agent: Agent | None) -> PolicyRun:
        with PaceMeter(self.cpus) as meter, Sampler({}, threads_of=all_threads) as sampler:
            started = [self.start(pair, policy, 0, agent)]
            try:
                sampler.add(NAMES[0], started[0].process.pid)
                time.sleep(pair.delay_s)
                if started[0].process.poll() is not None:
                    raise LabError(f"{pair.name}: the first program ended before the second began: more repeats")
                started.append(self.start(pair, policy, 1, agent))
                sampler.add(NAMES[1], started[1].process.pid)
                results = [one.finish(name, alone.run.seconds) for name, one in zip(NAMES, started, strict=True)]
            finally:
                for one in started:
                    one.kill()
        window = overlap([result.run for result in results])
        if window is None:
            raise LabError(f"{pair.name}: the two programs never computed at the same time: more repeats")
        return PolicyRun(results, alone, Watched(track(sampler.samples, BIN_S), meter.paces), 0, window)

    def draw(self, pair: Pair, runs: Mapping[str, Sequence[PolicyRun]]) -> None:
        """The timeline of the last round."""
        path = draw_last_round(self.output, pair, f"{pair.name}: which program computed on which CPU", runs)
        self.say(f"{pair.name}: wrote {path}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit status: 0 all bars met, 1 some bar missed or a verification failed, 2 it could not be run."""
    given = read_command("make demo-standalone", __doc__.splitlines()[0], "build/demo-standalone", POLICIES, arguments)
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    output: Path = given.output
    (output / "logs").mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    report: dict[str, Any] = {"machine": machine(), "quick": given.quick, "rounds": given.rounds, "pairs": []}
    try:
        demo = Demo(output, console)
        for program in PROGRAMS:
            pair = demo.calibrate(program, QUICK_ALONE_S if given.quick else ALONE_S)
            report["pairs"].append(demo.pair(pair, given.policies, given.rounds))
            (output / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except LabError as error:
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
