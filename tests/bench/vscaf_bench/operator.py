"""The cost of the operator's tools with 1,000 domains.

top: `vscaf top` in a terminal of 160 x 50. page: the Cockpit page in a headless Chromium, 1,280 x 900. first_paint:
until the first domain is on the screen, from the start of `vscaf top`, or from the opening of the page in a browser
that runs. cpu: the CPU time of `vscaf top`, or of the browser, while every figure changes once a second.
The page shows them every 4 s. All are compared with the same view of ten domains.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from cockpit_host import missing
from vscaf.bench.intervals import median_interval

from . import operator_page
from .agent import cpu_seconds
from .daemon_cpu import child
from .pseudo_terminal import Terminal, in_terminal
from .report import Report, Result, run_benchmark

DOMAINS, FEW = 1000, 10
COLUMNS, ROWS = 160, 50
SETTLING_S = 3.0


@contextmanager
def served(number: int) -> Iterator[Path]:
    """A control socket with so many domains."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as name:
        path = Path(name) / "control.sock"
        with child("vscaf_bench.operator_status", str(path), str(number)):
            yield path


@contextmanager
def top(path: Path) -> Iterator[Terminal]:
    """`vscaf top` in a terminal."""
    with in_terminal("top", "--socket", str(path), columns=COLUMNS, rows=ROWS) as terminal:
        yield terminal


def first_paint_s(path: Path) -> float:
    """Seconds until the first domain is on the screen."""
    began_s = time.monotonic()
    with top(path) as terminal:
        terminal.wait_for("d0000", poll_s=0.002)
        return time.monotonic() - began_s


def cpu_shares(path: Path, seconds: int) -> list[float]:
    """Its CPU time in each second, in % of a core."""
    with top(path) as terminal:
        terminal.wait_for("d0000")
        read_for(terminal, SETTLING_S)
        shares = []
        for _ in range(seconds):
            before, began_s = cpu_seconds(terminal.process.pid), time.monotonic()
            read_for(terminal, 1.0)
            shares.append(100.0 * (cpu_seconds(terminal.process.pid) - before) / (time.monotonic() - began_s))
        return shares


def read_for(terminal: Terminal, seconds: float) -> None:
    """Reads what it draws, so that it never waits for the terminal."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        terminal.shows("")
        time.sleep(0.05)


def measure_top(quick: bool, report: Report) -> None:
    """top.first_paint and top.cpu."""
    measure("top", quick, report, lambda path, _: first_paint_s(path), lambda path, _, time_s: cpu_shares(path, time_s))


def measure_page(quick: bool, report: Report) -> None:
    """page.first_paint and page.cpu. Leaves them out, and says so, if a program is not installed."""
    if missing():
        print(f"page: not measured, because {', '.join(missing())} is not installed", file=sys.stderr)
        return
    measure("page", quick, report, operator_page.first_paint_s, operator_page.cpu_shares)


def measure(
    tool: str,
    quick: bool,
    report: Report,
    paint_s: Callable[[Path, int], float],
    shares_of: Callable[[Path, int, int], list[float]],
) -> None:
    """Measures a tool at a control socket with many domains, and at one with few."""
    paints: dict[int, list[float]] = {DOMAINS: [], FEW: []}
    shares: dict[int, list[float]] = {}
    with served(DOMAINS) as many, served(FEW) as few:
        paths = {DOMAINS: many, FEW: few}
        for _ in range(3 if quick else 9):  # in turns
            for number, path in paths.items():
                paints[number].append(paint_s(path, number))
        for number, path in paths.items():
            shares[number] = shares_of(path, number, 5 if quick else 20)
    for name, unit, values, bar in (
        (f"{tool}.first_paint", "s", paints, "<= 1 s"),
        (f"{tool}.cpu", "%", shares, "<= 5% of a core"),
    ):
        value, low, high = median_interval(values[DOMAINS])
        base = median_interval(values[FEW])[0]
        report.add(
            Result(f"{name}.{DOMAINS}_domains", unit, value, low, high, len(values[DOMAINS]), f"{FEW}_domains", base,
                   value / base, bar)
        )  # fmt: skip
        report.details[name] = {str(number): some for number, some in values.items()}


PARTS = {"top": measure_top, "page": measure_page}


def main() -> None:
    run_benchmark("operator", __doc__, {}, lambda options: nullcontext(options.quick), PARTS)


if __name__ == "__main__":
    main()
