"""`make bench-workloads`: of each shipped workload, its parallel regions and its speedup on two CPUs, without guests.

`regions.NAME`: parallel regions for each iteration that the program counts, from the calls of the runtime in one
repetition and in two. `speedup.NAME`: on two CPUs, relative to one thread. Nothing is judged.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from vscaf.bench.c_programs import workload_directory
from vscaf.bench.measure import Design, measure
from vscaf.bench.options import RunOptions
from vscaf.bench.places.options import PlaceOptions
from vscaf.bench.workloads.options import Sources

from .report import Report, Result

NPB = ("bt", "cg", "ep", "ft", "is", "lu", "lu-hp", "mg", "sp")
NAMES = (*NPB, "uts-binomial", "uts-geometric", "barrier", "serial-half")
ROUNDS, SECONDS = 5, 1.0
ITERATIONS = re.compile(r"^ Iterations += +(\d+)", re.MULTILINE)


def regions_in_an_iteration(program: Path, library: Path) -> float:
    """Parallel regions of one more repetition, divided by its iterations."""
    counts, iterations = [], []
    for repeat in ("1", "2"):
        with tempfile.TemporaryDirectory() as directory:
            written = Path(directory, "regions")
            variables = {"NPB_REPEAT": repeat, "NPB_REGIONS": str(written), "LD_PRELOAD": str(library)}
            environment = {**os.environ, **variables, "OMP_NUM_THREADS": "2"}
            done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
            counts.append(int(written.read_text()))
            iterations.append(int(ITERATIONS.findall(done.stdout)[0]))
    return (counts[1] - counts[0]) / (iterations[1] - iterations[0])


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-workloads", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="directory for workloads.json")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK") == "1", help="fewer runs")
    parser.add_argument(
        "--class", dest="size", choices=("S", "W", "A"), default="W", help="of the programs (default: W)"
    )
    parser.add_argument("--restart", action="store_true", help="remove the samples of an interrupted run")
    given = parser.parse_args()
    build = workload_directory()
    size = "S" if given.quick else given.size
    names = [f"{name}.{size}" for name in NAMES]
    options = RunOptions(
        arrangements=(),
        rounds=1 if given.quick else ROUNDS,
        seconds=SECONDS,
        delay_s=0.0,
        quick=False,
        place=PlaceOptions(no_vm=True, cpus=2),
        image=Path(),
        output=given.output / ("workloads-quick" if given.quick else f"workloads-{size}"),
        restart=given.restart,
    )
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    found = measure(
        Design(lambda every: [(name,) for name in every], ()),
        Sources(shipped=tuple(names)),
        options,
        console,
        "make bench-workloads",
    )
    report = Report("workloads")
    for name in names:
        regions = regions_in_an_iteration(build / name, build / "libcount-regions.so")
        report.add(Result(f"regions.{name}", "an iteration", regions, regions, regions, 1))
    for one in found.workloads:
        if one.speedup is not None:
            report.add(
                Result(f"speedup.{one.name}", "x", one.speedup.value, one.speedup.low, one.speedup.high, one.speedup.n)
            )
    print(report.table())
    print(f"written to {report.write(given.output)}")


if __name__ == "__main__":
    main()
