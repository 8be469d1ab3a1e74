"""`make bench-libgomp`: the cost of the shim, how well it learns, and the effect of resizing.

Every figure and its baseline are measured alternately in one run; results are medians of pairs.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from vscaf.bench.intervals import median_interval

from .agent import Bench as AgentBench
from .policies_runs import mean_result
from .report import Report, Result, run_benchmark

# cg.S is fine-grained: sections of some 50 us on one thread.
ALONE = ("cg.S", "cg.A", "mg.W", "lu.S")
SHORT = ("cg.S", "mg.S", "is.S")
STUDENT_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447}  # by degrees of freedom
ESTIMATED = ("cg.A", "mg.W", "lu.W", "ft.W", "is.A", "ep.W", "uts-binomial.S")


class Bench:
    """Runs commands plain or under the shim."""

    def __init__(self, meson: Path, quick: bool) -> None:
        self.meson = meson
        self.shim = meson / "guest-libgomp" / "libvscaf-gomp.so"
        self.run = meson / "guest-libgomp" / "vscaf-run"
        self.switch = meson / "guest-libgomp" / "bench" / "libbench-switch.so"
        self.region = meson / "guest-libgomp" / "bench" / "bench-region"
        self.runner = meson / "guest-libgomp" / "bench" / "bench-run"
        self.npb = meson / "images" / "npb"
        self.quick = quick
        for path in (self.shim, self.run, self.switch, self.region, self.runner):
            if not path.exists():
                raise SystemExit(f"{path} is missing: build it with `make programs`")

    def environment(self, **extra: str) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "VSCAF_", "NPB_"))}
        return clean | extra

    def plain(self, command: list[str], threads: int, **extra: str) -> tuple[float, str]:
        """Wall seconds and standard output of a run without the shim."""
        began_s = time.monotonic()
        done = subprocess.run(
            command,
            env=self.environment(OMP_NUM_THREADS=str(threads), **extra),
            capture_output=True,
            text=True,
            check=False,
        )
        wall_s = time.monotonic() - began_s
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed ({done.returncode}): {done.stdout}{done.stderr}")
        return wall_s, done.stdout

    def run_quietly(self, command: list[str], environment: dict[str, str]) -> float:
        """Wall seconds of a run, from before the process is made until it is gone."""
        began_s = time.monotonic()
        pid = os.posix_spawn(
            command[0], command, environment, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        )
        _, status = os.waitpid(pid, 0)
        wall_s = time.monotonic() - began_s
        if status != 0:
            raise SystemExit(f"{' '.join(command)} failed ({os.waitstatus_to_exitcode(status)})")
        return wall_s

    def shimmed(
        self, command: list[str], options: list[str], preload: str = "", **extra: str
    ) -> tuple[dict[str, Any], str]:
        """bench-run's figures of a run under the shim, and the command's standard output."""
        done = subprocess.run(
            [str(self.runner), *options, "--", *command],
            env=self.environment(VSCAF_BENCH_PRELOAD=preload or str(self.shim.resolve()), **extra),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed ({done.returncode}): {done.stdout}{done.stderr}")
        return json.loads(done.stderr.splitlines()[-1]), done.stdout

    @contextmanager
    def blocks(self, options: list[str] | None, threads: int) -> Iterator[Callable[[], float]]:
        """A running bench-region, under the shim if there are options. Each call runs a block and gives its ns."""
        command, environment = [str(self.region)], self.environment(OMP_NUM_THREADS=str(threads))
        if options is not None:
            command = [str(self.runner), *options, "--", *command]
            environment = self.environment(VSCAF_BENCH_PRELOAD=str(self.shim.resolve()))
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            talk_in, talk_out = process.stdin, process.stdout

            def run_block() -> float:
                talk_in.write("\n")
                talk_in.flush()
                return float(talk_out.readline())

            yield run_block
            _, errors = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed ({process.returncode}): {errors}")

    def program(self, name: str) -> str:
        path = self.npb / name
        if not path.exists():
            raise SystemExit(f"{path} is missing: build it with `make programs`")
        return str(path)


def regions(bench: Bench, report: Report) -> None:
    """Empty regions: plain, under the shim, and under the shim while it learns.

    The three take turns, block by block. `.added` is the median of the differences. On a machine that also does other
    work, `.added.min` tells more: the difference of the fastest blocks.
    """
    processes, blocks = (2, 10) if bench.quick else (10, 30)
    for threads in (1, 2):
        kinds: dict[str, list[float]] = {"plain": [], "added": [], "added_without_learning": []}
        shimmed = ["--team", str(threads)]
        for _ in range(processes):
            with ExitStack() as stack:
                turns = [
                    (kinds["plain"], stack.enter_context(bench.blocks(None, threads))),
                    (kinds["added"], stack.enter_context(bench.blocks([*shimmed, "--learn"], threads))),
                    (kinds["added_without_learning"], stack.enter_context(bench.blocks(shimmed, threads))),
                ]
                for _ in range(blocks):
                    for figures, run_block in turns:
                        figures.append(run_block())
        plain = kinds.pop("plain")
        for label, figures in kinds.items():
            name = f"region.empty.{threads}_thread{'s' if threads > 1 else ''}.{label}"
            report.compare(
                name, "ns", figures, plain, baseline_name="libgomp alone", figure=lambda one, other: one - other
            )
            least, alone = min(figures), min(plain)
            report.add(
                Result(
                    f"{name}.min",
                    "ns",
                    least - alone,
                    *least_interval(figures, plain),
                    len(figures),
                    "libgomp alone",
                    alone,
                    least / alone,
                    "<= 15 ns" if label == "added" else "",
                )
            )


def least_interval(figures: Sequence[float], plain: Sequence[float]) -> tuple[float, float]:
    """The range of the difference of minima over five equal parts of the blocks, taken in turn."""
    differences = [min(figures[part::5]) - min(plain[part::5]) for part in range(5)]
    return min(differences), max(differences)


def repeat_for(bench: Bench, name: str, seconds: float) -> int:
    """How often to repeat the timed work so that two threads take about *seconds*."""
    wall, _ = bench.plain([bench.program(name)], 2)
    if wall > seconds / 2:
        return 1
    longer = max(2, int(seconds / 8 / wall))
    more, _ = bench.plain([bench.program(name)], 2, NPB_REPEAT=str(longer))
    once = max((more - wall) / (longer - 1), 1e-4)
    return max(1, round((seconds - (wall - once)) / once))


def cycle_of(bench: Bench, name: str) -> int:
    """How many sections one repetition of the program's timed work has."""
    few, many = (
        bench.shimmed([bench.program(name)], ["--team", "2"], NPB_REPEAT=repeat)[0]["end"]["started"]
        for repeat in ("2", "4")
    )
    return int(many - few) // 2


def alone(bench: Bench, report: Report) -> None:
    """Programs alone in their guest: no other guest competes, so learning is on but has nothing to do.

    Within one run, each section of the program goes to the shim in one repetition and directly to libgomp in the next,
    half of them in the opposite order (switch.c). So both see the same machine. The first and last pair of repetitions
    contain the program's start and end, and do not count.
    """
    runs, length = (1, 3.0) if bench.quick else (3, 15.0)
    worst: Result | None = None
    for name in ALONE:
        cycle = cycle_of(bench, name)
        repeat = str(max(12, repeat_for(bench, name, length)))
        pairs: list[list[int]] = []
        for _ in range(runs):
            with tempfile.NamedTemporaryFile(mode="r") as output:
                bench.shimmed(
                    [bench.program(name)],
                    ["--team", "2"],
                    preload=f"{bench.switch.resolve()}:{bench.shim.resolve()}",
                    OMP_NUM_THREADS="2",
                    NPB_REPEAT=repeat,
                    VSCAF_SWITCH_CYCLE=str(cycle),
                    VSCAF_SWITCH_OUTPUT=output.name,
                )
                lines = Path(output.name).read_text().splitlines()
            pairs += [[int(word) for word in line.split()] for line in lines][1:-1]
        result = report.compare(
            f"alone.slowdown.{name}",
            "%",
            [shim / 1e9 for shim, _ in pairs],
            [plain / 1e9 for _, plain in pairs],
            baseline_name="libgomp alone, s",
            figure=lambda one, other: 100.0 * (one / other - 1.0),
        )
        if worst is None or result.value > worst.value:
            worst = result
    if worst is not None:
        report.add(replace(worst, name="alone.slowdown", bar="<= 1%"))


def start(bench: Bench, report: Report) -> None:
    """Whole runs of short programs on one thread: under vscaf-run, with an agent, and plain. The two take turns."""
    pairs = 20 if bench.quick else 300
    worst: Result | None = None
    with tempfile.TemporaryDirectory() as directory:
        agents = AgentBench(bench.meson, Path(directory), bench.quick)
        with agents.agent(host=False) as agent:
            environment = bench.environment(OMP_NUM_THREADS="1", VSCAF_SOCKET=str(agent.socket))
            for name in SHORT:
                program = bench.program(name)
                kinds: tuple[tuple[list[str], list[float]], ...] = (([program], []), ([str(bench.run), program], []))
                for _ in range(pairs):
                    for command, walls_ms in kinds:
                        walls_ms.append(1e3 * bench.run_quietly(command, environment))
                (_, plain), (_, managed) = kinds
                label = f"start.added.{name}"
                baseline = "plain, ms"
                result = report.compare(
                    label, "ms", managed, plain, baseline_name=baseline, figure=lambda one, other: one - other
                )
                if worst is None or result.value > worst.value:
                    worst = result
                least, alone_ms = min(managed), min(plain)
                added = least - alone_ms
                interval = least_interval(managed, plain)
                report.add(Result(f"{label}.min", "ms", added, *interval, pairs, baseline, alone_ms, least / alone_ms))
    if worst is not None:
        report.add(replace(worst, name="start.added", bar="<= 0.7 ms"))


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean of two to seven values and half of its 95% interval, by Student's t."""
    deviation = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), STUDENT_975[len(values) - 1] * deviation


def speedup_of_two(bench: Bench, name: str, repeat: str) -> float:
    """S(2) of a program, from a run on one thread and then one on two threads."""
    one, two = (bench.plain([bench.program(name)], threads, NPB_REPEAT=repeat)[0] for threads in (1, 2))
    return one / two


def error_result(errors: Sequence[float]) -> Result:
    """The mean of errors in percent."""
    return mean_result("estimate.mean_abs_error", "%", errors, bar="<= 10%")


def estimates(bench: Bench, report: Report) -> None:
    """S(2) after 5 s of learning against S(2) from separate runs just before and after.

    `estimate.outside_95_interval` assumes that the truth is exact. But the truth is a mean of few runs on a machine
    whose CPUs change speed. So `estimate.apart_from_truth` counts estimates that differ by more than both errors.
    """
    length, short, runs = (2.5, 0.8, 1) if bench.quick else (20.0, 4.0, 2)
    after = 2.0 if bench.quick else 5.0
    programs = ESTIMATED[:2] if bench.quick else ESTIMATED
    errors: list[float] = []
    outside = apart = known = unknown = 0
    details: list[dict[str, object]] = []
    costs: list[float] = []
    for name in programs:
        repeat = str(repeat_for(bench, name, length))
        repeat_short = str(max(1, round(int(repeat) * short / length)))
        ratios: list[float] = []
        pages: list[dict[str, Any]] = []

        for _ in range(runs):
            ratios.append(speedup_of_two(bench, name, repeat_short))
            options = ["--team", "2", "--learn", "--estimate-after", str(after)]
            pages.append(bench.shimmed([bench.program(name)], options, NPB_REPEAT=repeat)[0])
            ratios.append(speedup_of_two(bench, name, repeat_short))
        measured_speedup = statistics.median(ratios)
        _, half = mean_interval(ratios)
        for page in pages:
            costs.append(page["end"]["learn_cost_seconds"] / page["cpu_seconds"])
            early = page["early"] or page["end"]
            point = next((e for e in early["estimates"] if e["p"] == 2), None)
            entry: dict[str, object] = {
                "program": name,
                "truth": measured_speedup,
                "ratios": ratios,
                "repeat": int(repeat),
            }
            entry["cost"] = costs[-1]
            if point is None:
                unknown += 1
                entry["estimate"] = None
            else:
                known += 1
                error = 100.0 * abs(point["speedup"] / measured_speedup - 1.0)
                errors.append(error)
                difference, own = abs(point["speedup"] - measured_speedup), 1.96 * point["standard_error"]
                outside += difference > own
                apart += difference > math.hypot(own, half)
                entry |= {
                    "estimate": point["speedup"],
                    "standard_error": point["standard_error"],
                    "samples": point["samples"],
                    "error_percent": error,
                    "outside": difference > own,
                }
            details.append(entry)
            print("  ", entry, flush=True)
    report.details["estimates"] = details
    if errors:
        report.add(error_result(errors))
        for what, count, bar in (("outside_95_interval", outside, "<= 10%"), ("apart_from_truth", apart, "")):
            share = 100.0 * count / known
            report.add(Result(f"estimate.{what}", "%", share, share, share, known, bar=bar))
    share = 100.0 * unknown / (known + unknown)
    report.add(Result("estimate.unknown", "%", share, share, share, known + unknown, bar="<= 17%"))
    value, low, high = median_interval([100.0 * cost for cost in costs])
    report.add(Result("estimate.cost_of_cpu_time", "%", value, low, high, len(costs), bar="<= 1%"))


def wall_expected(seconds_at: dict[str, float], constant_s: dict[int, float]) -> float:
    """Wall seconds at the mean of the rates of constant team sizes, each weighted by its time."""
    whole_s = sum(seconds_at.values())
    return whole_s / sum(seconds / constant_s[int(size)] for size, seconds in seconds_at.items() if seconds)


def resizing(bench: Bench, report: Report) -> None:
    """A new team size, 1 to 4, four times per second, compared with the constant sizes.

    The program cannot be faster than the mean of their rates, weighted by the time that it had each size.
    """
    rounds, length, minute = (1, 0.8, 5.0) if bench.quick else (5, 5.0, 60.0)
    name = "cg.A"
    repeat = str(repeat_for(bench, name, length))
    resized: list[float] = []
    expected: list[float] = []
    constant: dict[int, list[float]] = {size: [] for size in (1, 2, 3, 4)}
    for _ in range(rounds):
        for size, walls in constant.items():
            walls.append(bench.plain([bench.program(name)], size, NPB_REPEAT=repeat)[0])
        options = ["--team", "2", "--resize", "4,1,4"]
        page, _ = bench.shimmed([bench.program(name)], options, NPB_REPEAT=repeat)
        resized.append(page["wall_seconds"])
        expected.append(wall_expected(page["seconds_at"], {size: walls[-1] for size, walls in constant.items()}))
    report.details["resize.constant_seconds"] = {str(k): statistics.median(v) for k, v in constant.items()}
    report.compare(
        "resize.4hz.slowdown",
        "%",
        resized,
        expected,
        baseline_name="constant sizes, s",
        figure=lambda one, other: 100.0 * (one / other - 1.0),
        bar="<= 10%",
    )
    repeat = str(repeat_for(bench, name, minute))
    page, _ = bench.shimmed([bench.program(name)], ["--team", "2", "--resize", "4,1,4", "--leaks"], NPB_REPEAT=repeat)
    leaks = page["leaks"]
    if leaks is None:
        raise SystemExit(f"{name} ran for {page['wall_seconds']:.1f} s: too short to see leaks, give it more to do")
    report.details["resize.minute"] = {"wall_seconds": page["wall_seconds"], **leaks}
    for what, unit in (("threads", "threads"), ("descriptors", "descriptors"), ("memory", "KiB")):
        grown = float(leaks[what])
        report.add(Result(f"resize.4hz.minute.grown_{what}", unit, grown, grown, grown, 1, bar="0"))


PARTS = {"region": regions, "start": start, "alone": alone, "estimate": estimates, "resize": resizing}


def main() -> None:
    run_benchmark(
        "libgomp",
        __doc__,
        {"meson": ("build/meson", "build directory of the C parts")},
        lambda options: nullcontext(Bench(options.meson, options.quick)),
        PARTS,
    )


if __name__ == "__main__":
    main()
