"""Part of `make bench-workloads`: programs that keep their own number of threads on half of their CPUs, without guests.

`contained.vs_resized.NAME.WAITING`: the speed of a program that has a thread for each CPU and is kept to half of the
CPUs after its team has started, as the agent does. It is relative to the same program with half as many threads.
WAITING says how its threads wait: by libgomp's own rules, with a spin count, or asleep. Nothing is judged.
`alone.vs_default.NAME.WAITING`: the same program on all CPUs, relative to its speed when it waits by libgomp's rules.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

from vscaf.bench.c_programs import workload_directory

from .report import Report
from .workloads import NAMES

ROUNDS = 7
WAITING = {
    "default": {},
    "0": {"GOMP_SPINCOUNT": "0"},
    "1000": {"GOMP_SPINCOUNT": "1000"},
    "10000": {"GOMP_SPINCOUNT": "10000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
}
OWN = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC", "LD_PRELOAD")
SLOWEST = 20.0  # a run is ended after so many times the other one's time, and counts as that long
LEAST_S = 2.0
REPEAT_ALONE = 5  # times the work: in class S the differences are some ms
TIME = re.compile(r"^ Time in seconds = +([0-9.]+)", re.MULTILINE)


def keep(pid: int, threads: int, cpus: set[int]) -> None:
    """Waits until the team has started, and keeps every thread to these CPUs. Ends early if the program does."""
    tasks = Path(f"/proc/{pid}/task")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while len(list(tasks.iterdir())) < threads and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.0005)
        for task in tasks.iterdir():
            os.sched_setaffinity(int(task.name), cpus)


def run(
    program: Path,
    threads: int,
    cpus: set[int],
    half: set[int] | None,
    *,
    waiting: str,
    limit_s: float,
    repeat: int = 1,
) -> float:
    """Seconds of one run, as the program measured them; at most limit_s."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    with subprocess.Popen(
        ["taskset", "-c", ",".join(map(str, sorted(cpus))), program],
        env={**environment, **WAITING[waiting], "OMP_NUM_THREADS": str(threads), "NPB_REPEAT": str(repeat)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        if half is not None:
            keep(process.pid, threads, half)
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return limit_s
    if process.returncode != 0:
        raise SystemExit(f"{program.name} with {threads} threads ended with {process.returncode}:\n{output}")
    return max(float(TIME.findall(output)[0]), 0.001)  # it prints milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-contained", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="directory for contained.json")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK") == "1", help="fewer runs")
    parser.add_argument(
        "--class", dest="size", choices=("S", "W", "A"), default="W", help="of the programs (default: W)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of each kind (default: {ROUNDS})")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="these programs")
    given = parser.parse_args()
    size, rounds = ("S", 1) if given.quick else (given.size, given.rounds)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise SystemExit("it needs two CPUs")
    cpus = cpus[: len(cpus) // 2 * 2]
    half = set(cpus[: len(cpus) // 2])
    report = Report("contained")
    report.details = {"cpus": len(cpus), "class": size, "rounds": rounds, "slowest_that_is_measured": SLOWEST}
    for name in given.only:
        program = workload_directory() / f"{name}.{size}"
        resized: list[float] = []
        contained: dict[str, list[float]] = {waiting: [] for waiting in WAITING}
        alone: dict[str, list[float]] = {waiting: [] for waiting in WAITING}
        for _ in range(rounds):  # interleaved
            resized.append(run(program, len(half), half, None, waiting="default", limit_s=3600.0))
            for waiting, found in contained.items():
                limit_s = max(SLOWEST * resized[-1], LEAST_S)
                found.append(run(program, len(cpus), set(cpus), half, waiting=waiting, limit_s=limit_s))
                alone[waiting].append(
                    run(program, len(cpus), set(cpus), None, waiting=waiting, limit_s=3600.0, repeat=REPEAT_ALONE)
                )
        for waiting, found in contained.items():
            report.compare(
                f"contained.vs_resized.{name}.{waiting}",
                "x",
                found,
                resized,
                baseline_name=f"{name}.{size} with {len(half)} threads, s",
                figure=lambda one, other: other / one,
            )
        for waiting, found in alone.items():
            report.compare(
                f"alone.vs_default.{name}.{waiting}",
                "x",
                found,
                alone["default"],
                baseline_name=f"{name}.{size} with libgomp's rules, s",
                figure=lambda one, other: other / one,
            )
    print(report.table())
    print(f"written to {report.write(given.output)}")


if __name__ == "__main__":
    main()
