"""`make bench-libgomp`: the cost of the shim, how well it learns, and the effect of resizing.

Every figure and its baseline are measured alternately in one run; results are medians of pairs.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from .report import Report, Result, median_interval, run_benchmark

# Fine-grained ones first: LU-like regions of some 10 us.
ALONE = ("cg.A", "mg.W", "ssor.S")
STUDENT_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447}  # by degrees of freedom
ESTIMATED = ("cg.A", "mg.W", "ssor.W", "ft.W", "is.A", "ep.W", "tasks.S")


class Bench:
    """Runs commands plain or under the shim."""

    def __init__(self, meson: Path, quick: bool) -> None:
        self.shim = meson / "guest-libgomp" / "libvscaf-gomp.so"
        self.region = meson / "guest-libgomp" / "bench" / "bench-region"
        self.runner = meson / "guest-libgomp" / "bench" / "bench-run"
        self.npb = meson / "images" / "npb"
        self.quick = quick
        for path in (self.shim, self.region, self.runner):
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

    def shimmed(self, command: list[str], options: list[str], **extra: str) -> tuple[dict[str, Any], str]:
        """bench-run's figures of a run under the shim, and the command's standard output."""
        done = subprocess.run(
            [str(self.runner), *options, "--", *command],
            env=self.environment(VSCAF_BENCH_PRELOAD=str(self.shim.resolve()), **extra),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed ({done.returncode}): {done.stdout}{done.stderr}")
        return json.loads(done.stderr.splitlines()[-1]), done.stdout

    def program(self, name: str) -> str:
        path = self.npb / name
        if not path.exists():
            raise SystemExit(f"{path} is missing: build it with `make programs`")
        return str(path)


def regions(bench: Bench, report: Report) -> None:
    """Empty regions: plain, under the shim, and under the shim while it learns."""
    rounds, length = (6, "0.1") if bench.quick else (30, "0.3")
    for threads in (1, 2):
        plain: list[float] = []
        joined: list[float] = []
        learning: list[float] = []
        for _ in range(rounds):
            plain.append(float(bench.plain([str(bench.region), length], threads)[1].split()[0]))
            for figures, options in ((joined, []), (learning, ["--learn"])):
                _, out = bench.shimmed([str(bench.region), length], ["--team", str(threads), *options])
                figures.append(float(out.split()[0]))
        for label, figures in (("added", learning), ("added_without_learning", joined)):
            report.compare(
                f"region.empty.{threads}_thread{'s' if threads > 1 else ''}.{label}",
                "ns",
                figures,
                plain,
                baseline_name="libgomp alone",
                figure=lambda one, other: one - other,
                bar="<= 25 ns or 5%" if threads == 2 and label == "added" else "",
            )


def repeat_for(bench: Bench, name: str, seconds: float) -> int:
    """How often to repeat the timed work so that two threads take about *seconds*."""
    wall, _ = bench.plain([bench.program(name)], 2)
    if wall > seconds / 2:
        return 1
    longer = max(2, int(seconds / 8 / wall))
    more, _ = bench.plain([bench.program(name)], 2, NPB_REPEAT=str(longer))
    once = max((more - wall) / (longer - 1), 1e-4)
    return max(1, round((seconds - (wall - once)) / once))


def alone(bench: Bench, report: Report) -> None:
    """Complete programs, alone in their guest: no other guest competes, so learning is on but has nothing to do."""
    pairs, length = (2, 0.5) if bench.quick else (15, 2.0)
    worst: Result | None = None
    for name in ALONE:
        repeat = str(repeat_for(bench, name, length))
        plain: list[float] = []
        shimmed: list[float] = []
        for _ in range(pairs):
            plain.append(bench.plain([bench.program(name)], 2, NPB_REPEAT=repeat)[0])
            shimmed.append(bench.shimmed([bench.program(name)], ["--team", "2"], NPB_REPEAT=repeat)[0]["wall_seconds"])
        result = report.compare(
            f"alone.slowdown.{name}",
            "%",
            shimmed,
            plain,
            baseline_name="libgomp alone, s",
            figure=lambda one, other: 100.0 * (one / other - 1.0),
        )
        if worst is None or result.value > worst.value:
            worst = result
    if worst is not None:
        report.add(
            Result(
                "alone.slowdown",
                "%",
                worst.value,
                worst.low,
                worst.high,
                worst.n,
                worst.baseline_name,
                worst.baseline_value,
                worst.ratio,
                "<= 1%",
            )
        )


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean of two to seven values and half of its 95% interval, by Student's t."""
    deviation = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), STUDENT_975[len(values) - 1] * deviation


def speedup_of_two(bench: Bench, name: str, repeat: str) -> float:
    """S(2) of a program, from a run on one thread and then one on two threads."""
    one, two = (bench.plain([bench.program(name)], threads, NPB_REPEAT=repeat)[0] for threads in (1, 2))
    return one / two


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
        _, low, high = median_interval(errors)
        report.add(
            Result("estimate.mean_abs_error", "%", statistics.fmean(errors), low, high, len(errors), bar="<= 10%")
        )
        for what, count, bar in (("outside_95_interval", outside, "<= 10%"), ("apart_from_truth", apart, "")):
            share = 100.0 * count / known
            report.add(Result(f"estimate.{what}", "%", share, share, share, known, bar=bar))
    share = 100.0 * unknown / (known + unknown)
    report.add(Result("estimate.unknown", "%", share, share, share, known + unknown, bar="<= 17%"))
    value, low, high = median_interval([100.0 * cost for cost in costs])
    report.add(Result("estimate.cost_of_cpu_time", "%", value, low, high, len(costs), bar="<= 1%"))


def resizing(bench: Bench, report: Report) -> None:
    """A new team size, 1 to 4, four times per second, compared with the best constant one."""
    rounds, length, minute = (1, 0.8, 5.0) if bench.quick else (3, 5.0, 60.0)
    name = "cg.A"
    repeat = str(repeat_for(bench, name, length))
    resized: list[float] = []
    constant: dict[int, list[float]] = {size: [] for size in (1, 2, 3, 4)}
    for _ in range(rounds):
        options = ["--team", "2", "--resize", "4,1,4"]
        resized.append(bench.shimmed([bench.program(name)], options, NPB_REPEAT=repeat)[0]["wall_seconds"])
        for size, walls in constant.items():
            walls.append(bench.plain([bench.program(name)], size, NPB_REPEAT=repeat)[0])
    best = min(constant, key=lambda size: statistics.median(constant[size]))
    report.details["resize.constant_seconds"] = {str(k): statistics.median(v) for k, v in constant.items()}
    report.compare(
        "resize.4hz.slowdown",
        "%",
        resized,
        constant[best],
        baseline_name=f"{best} threads, s",
        figure=lambda one, other: 100.0 * (one / other - 1.0),
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


PARTS = {"region": regions, "alone": alone, "estimate": estimates, "resize": resizing}


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
