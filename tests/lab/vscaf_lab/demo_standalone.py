"""The demo without guests: two programs share two CPUs of this machine (`make demo-standalone`).

A program starts. While it computes, the same program starts again. The result is the sum of their speedups while both
compute, each relative to the program alone on one thread, in steady seconds as in `make demo` (vscaf_lab.pairs).

`unmanaged` is the machine without vscaf: plain programs with one thread for each CPU. Teams that spin at barriers then
become very slow. `static` is the reference: each program on a CPU of its own, by taskset, with one thread. Under the
other policies the programs are started by `vscaf-run`, and `vscaf-agent --standalone` decides. It needs no root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from vscaf.bench.observe.measure import Run, overlap, parse_marks
from vscaf.bench.observe.watch import Watch
from vscaf.lab.errors import LabError
from vscaf.lab.processes import all_threads, end_child

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

TEXTS = PairTexts(
    "programs",
    "name",
    "program",
    "Two programs on two CPUs of this machine",
    "which program computed on which CPU",
)
DEADLINE_S = 300.0
PROGRAMS = ("cg.A", "ep.W")
ALONE_S, QUICK_ALONE_S = 6.0, 2.0  # the time of a program's repetitions, alone on one thread


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
        end_s = time.monotonic() + 10
        while not self.socket.exists():
            if self._process.poll() is not None or time.monotonic() > end_s:
                raise LabError(f"the agent did not start: see {self.log}")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            end_child(self._process, 5.0)

    @property
    def pid(self) -> int:
        """The agent's pid. LabError if it does not run."""
        if self._process is None:
            raise LabError("the agent does not run: start it first")
        return self._process.pid

    def status(self) -> dict[str, Any]:
        """The output of `vscaf-agent --status`."""
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
        """Its result. LabError if the program could not run at all."""
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
    """One demo on this machine."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.build = Path(os.environ.get("VSCAF_BUILD", "build/meson"))
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            raise LabError("the demo needs two CPUs: give this machine another one")
        self.cpus = cpus[:2]
        os.sched_setaffinity(0, self.cpus)  # programs and agent inherit that
        self._runs = 0

    def start(self, pair: Pair, policy: str, place: int, agent: Agent | None = None) -> Started:
        """Starts the pair's program under the policy, as the first or the second."""
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
        logs = self.report.logs
        name = f"{pair.program}-{policy}-{NAMES[place]}"
        marks = logs / f"{name}.marks"
        marks.unlink(missing_ok=True)
        return Started(command, environment, marks, logs / f"{name}.log")

    def calibrate(self, program: str, alone_s: float) -> Pair:
        """A pair whose program takes about *alone_s* on one thread of this machine."""
        once = self.start(Pair(program, 1, 0.0), "alone", 0).finish(program, 1.0).run.seconds
        return Pair.lasting(program, alone_s, once)

    def pair(self, pair: Pair) -> None:
        """Runs a pair and reports on it."""
        self.report.run(pair, lambda: self.alone(pair), lambda policy, alone: self.run(pair, policy, alone))

    def alone(self, pair: Pair) -> Alone:
        """The program alone on one thread."""
        with Watch(self.cpus, {}, threads_of=all_threads) as watch:
            started = self.start(pair, "alone", 0)
            watch.add(NAMES[0], started.process.pid)
            result = started.finish(NAMES[0], 1.0)
        if not result.verified:
            raise VerificationFailed(f"{pair.program} alone on one thread: its verification failed")
        return Alone(result.run, NAMES[0], watch.watched())

    def run(self, pair: Pair, policy: str, alone: Alone) -> PolicyRun:
        """One run of the pair under a policy."""
        if policy in MANAGED:
            with Agent(self.build, self.report.output, policy) as agent:
                return self._both(pair, policy, alone, agent)
        return self._both(pair, policy, alone, None)

    def _both(self, pair: Pair, policy: str, alone: Alone, agent: Agent | None) -> PolicyRun:
        helpers = [] if agent is None else [agent.pid]
        with Watch(self.cpus, {}, helpers, threads_of=all_threads) as watch:
            started = [self.start(pair, policy, 0, agent)]
            try:
                watch.add(NAMES[0], started[0].process.pid)
                time.sleep(pair.delay_s)
                if started[0].process.poll() is not None:
                    raise LabError(f"{pair.name}: the first program ended before the second began: more repeats")
                started.append(self.start(pair, policy, 1, agent))
                watch.add(NAMES[1], started[1].process.pid)
                results = [one.finish(name, alone.run.seconds) for name, one in zip(NAMES, started, strict=True)]
            finally:
                for one in started:
                    one.kill()
        window = overlap([result.run for result in results])
        if window is None:
            raise LabError(f"{pair.name}: the two programs never computed at the same time: more repeats")
        return PolicyRun(results, alone, watch.watched(), 0, window)


def measure(report: Report) -> None:
    """Runs all pairs, with an amount of work that fits this machine."""
    demo = Demo(report)
    for program in PROGRAMS:
        demo.pair(demo.calibrate(program, QUICK_ALONE_S if report.given.quick else ALONE_S))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status is run_demo's."""
    given = read_command("make demo-standalone", __doc__.splitlines()[0], "build/demo-standalone", arguments)
    return run_demo(given, TEXTS, measure)


if __name__ == "__main__":
    sys.exit(main())
