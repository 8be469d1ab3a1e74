"""The form of all benchmark results, and their statistics."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from vscaf.bench.intervals import median_interval
from vscaf.bench.machine import ABSENT, first_line, machine

B = TypeVar("B")


@dataclass(frozen=True)
class Result:
    """One figure: a median and its 95% interval, with its baseline from the same run.

    `ratio` is the value, or the figure behind it, divided by the baseline (a slowdown of 1% has ratio 1.01).
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    n: int
    baseline_name: str = ""
    baseline_value: float | None = None
    ratio: float | None = None
    bar: str = ""  # its target, and maybe whether that was met

    def as_json(self) -> dict[str, object]:
        out: dict[str, object] = {
            "name": self.name,
            "unit": self.unit,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
        }
        if self.baseline_value is not None:
            out["baseline"] = {"name": self.baseline_name, "value": self.baseline_value}
        if self.ratio is not None:
            out["ratio"] = self.ratio
        if self.bar:
            out["bar"] = self.bar
        return out


@dataclass
class Report:
    """Collects results, prints them, writes them."""

    benchmark: str
    results: list[Result] = field(default_factory=list)
    details: dict[str, object] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.results.append(result)

    def compare(
        self,
        name: str,
        unit: str,
        measured: Sequence[float],
        baseline: Sequence[float],
        *,
        baseline_name: str,
        figure: Callable[[float, float], float],
        bar: str = "",
    ) -> Result:
        """A result from interleaved pairs: the median of `figure(measured, baseline)` over the pairs."""
        value, low, high = median_interval([figure(one, other) for one, other in zip(measured, baseline, strict=True)])
        ratio = statistics.median(one / other for one, other in zip(measured, baseline, strict=True))
        result = Result(
            name, unit, value, low, high, len(measured), baseline_name, statistics.median(baseline), ratio, bar
        )
        self.add(result)
        return result

    def table(self) -> str:
        """The results as a table for people."""
        rows = [("result", "value", "95% interval", "n", "baseline", "ratio", "bar")]
        for result in self.results:
            baseline = (
                f"{result.baseline_name} {result.baseline_value:.4g}" if result.baseline_value is not None else ""
            )
            rows.append(
                (
                    result.name,
                    f"{result.value:.4g} {result.unit}",
                    f"{result.low:.4g} .. {result.high:.4g}" if result.n > 1 else "",
                    str(result.n),
                    baseline,
                    f"{result.ratio:.3f}" if result.ratio is not None else "",
                    result.bar,
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )

    def write(self, directory: Path) -> Path:
        """Writes DIRECTORY/NAME.json and returns its path."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.benchmark}.json"
        document = {
            "benchmark": self.benchmark,
            "machine": machine(),
            "versions": versions(),
            "commit": commit(),
            "results": [result.as_json() for result in self.results],
            "details": self.details,
        }
        path.write_text(json.dumps(document, indent=1) + "\n")
        return path


def versions() -> dict[str, str]:
    return {"gcc": first_line(["gcc", "--version"]), "python": platform.python_version()}


def commit() -> str:
    """The measured commit, with a mark if the tree has uncommitted changes."""
    head = first_line(["git", "rev-parse", "HEAD"])
    changed = first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return head if changed == ABSENT else f"{head}+changes"


def run_benchmark(
    name: str,
    about: str,
    paths: Mapping[str, tuple[str, str]],
    prepare: Callable[[argparse.Namespace], AbstractContextManager[B]],
    parts: Mapping[str, Callable[[B, Report], None]],
) -> None:
    """A benchmark from its command line to its table and NAME.json.

    *paths*: additional options by name: default and help. All benchmarks have `--output`, `--quick` (or QUICK=1) and,
    if there are several parts, `--only`. *prepare*: a context manager that gives the parts what they need.
    """
    parser = argparse.ArgumentParser(prog=f"bench-{name}", description=about)
    for option, (default, text) in paths.items():
        parser.add_argument(f"--{option}", type=Path, default=Path(default), help=text)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help=f"directory for {name}.json")
    parser.add_argument(
        "--quick", action="store_true", default=os.environ.get("QUICK") == "1", help="fewer repetitions"
    )
    if len(parts) > 1:
        parser.add_argument("--only", choices=sorted(parts), action="append", help="only this part; may be repeated")
    else:
        parser.set_defaults(only=None)
    options = parser.parse_args()
    report = Report(name)
    with prepare(options) as bench:
        for part, measure in parts.items():
            if options.only and part not in options.only:
                continue
            print(f"bench-{name}: {part} ...", flush=True)
            measure(bench, report)
    print(report.table())
    print(f"written to {report.write(options.output)}")
