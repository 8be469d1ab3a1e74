"""The cost of taking CPUs from a guest and giving them back, by cpuset and by offlining them.

A real guest (under KVM if that works, else TCG) has four vCPUs on two pCPUs. In it a team of two computes all the time.
The two methods take turns. Needs root.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vscaf.bench.intervals import median_interval
from vscaf.lab import Guest
from vscaf_lab.agent_host import AgentHost

from .bench_guest import PATHS, bench_guest
from .report import Report, Result, run_benchmark

METHODS = ("cpuset", "offline")
VCPUS, KEPT = 4, 2


@dataclass(frozen=True)
class Bench:
    """The guest of all measurements."""

    guest: Guest
    pcpus: int
    quick: bool


@dataclass
class Figures:
    """The measurements of one method."""

    shrink_ms: list[float] = field(default_factory=list)
    grow_ms: list[float] = field(default_factory=list)
    longest_ms: list[float] = field(default_factory=list)
    quiet_longest_ms: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    quiet_turns: list[float] = field(default_factory=list)
    interrupts: list[float] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)


@contextmanager
def agent(guest: Guest, method: str) -> Iterator[AgentHost]:
    """The guest's agent with this method, and its host. Afterwards the guest has all CPUs again."""
    guest.run("touch /run/vscaf/agent.off; killall -q vscaf-agent; while pidof vscaf-agent; do usleep 10000; done")
    command = guest.start(f"exec vscaf-agent --park {method}")
    try:
        with AgentHost(guest.agent_socket) as host:
            host.allocate(VCPUS, VCPUS)
            yield host
            host.allocate(VCPUS, VCPUS)
    finally:
        command.kill()


def pulse(guest: Guest, seconds: float, host: AgentHost | None, figures: Figures) -> None:
    """A team of two for some seconds. If there is a host, CPUs are taken and given back meanwhile."""
    run = guest.start(f"team-pulse {KEPT} {seconds}")
    end_s = time.monotonic() + seconds * 0.9
    time.sleep(seconds * 0.1)
    while host is not None and time.monotonic() < end_s:
        figures.shrink_ms.append(1e3 * host.allocate(KEPT, VCPUS)[1])
        time.sleep(0.1)
        figures.grow_ms.append(1e3 * host.allocate(VCPUS, VCPUS)[1])
        time.sleep(0.1)
    fields = run.wait(seconds + 60).text.split()
    turns, longest_ms = float(fields[0]), float(fields[3]) / 1e3
    (figures.turns if host else figures.quiet_turns).append(turns / seconds)
    (figures.longest_ms if host else figures.quiet_longest_ms).append(longest_ms)


def interrupts(guest: Guest) -> tuple[dict[str, list[int]], list[int]]:
    """From /proc/interrupts, the counts of each line for all CPUs; from /proc/stat, the busy ticks of each CPU."""
    counts: dict[str, list[int]] = {}
    names: list[int] = []
    for line in guest.run("cat /proc/interrupts").text.splitlines():
        fields = line.split()
        if not counts and not names:
            names = [int(text[3:]) for text in fields]
            continue
        row = [0] * VCPUS
        for cpu, text in zip(names, fields[1:], strict=False):
            row[cpu] = int(text) if text.isdigit() else 0
        counts[fields[0].rstrip(":")] = row
    ticks = [0] * VCPUS
    for line in guest.run("cat /proc/stat").text.splitlines():
        fields = line.split()
        if fields[0].startswith("cpu") and fields[0] != "cpu":
            ticks[int(fields[0][3:])] = sum(int(fields[i]) for i in (1, 2, 3, 6, 7))
    return counts, ticks


def still_runs(guest: Guest, host: AgentHost, seconds: float, figures: Figures, details: dict[str, float]) -> None:
    """Interrupts and busy time on the parked CPUs while a team computes on the others."""
    host.allocate(KEPT, VCPUS)
    run = guest.start(f"team-pulse {KEPT} {seconds + 1}")
    before, ticks_before = interrupts(guest)
    time.sleep(seconds)
    after, ticks_after = interrupts(guest)
    cpus = run.wait(seconds + 60).text.split()[4:]
    if any(int(cpu) >= KEPT for cpu in cpus):
        raise SystemExit(f"the team ran on CPUs {' '.join(cpus)}, but {KEPT} and above are parked")
    total = 0
    for name, row in after.items():
        grown = sum(row[KEPT:]) - sum(before.get(name, [0] * VCPUS)[KEPT:])
        total += max(grown, 0)
        if grown > 0:
            details[name] = details.get(name, 0.0) + grown / seconds
    figures.interrupts.append(total / seconds)
    figures.ticks.append((sum(ticks_after[KEPT:]) - sum(ticks_before[KEPT:])) / seconds)
    host.allocate(VCPUS, VCPUS)


def add(report: Report, name: str, unit: str, values: list[float]) -> None:
    value, low, high = median_interval(values)
    report.add(Result(name, unit, value, low, high, len(values)))


def measure(bench: Bench, report: Report) -> None:
    guest = bench.guest
    rounds, seconds = (1, 4.0) if bench.quick else (6, 8.0)
    report.details["guest"] = {
        "vcpus": VCPUS,
        "pcpus": bench.pcpus,
        "accelerator": guest.domain_type,
        "kernel": guest.run("uname -r").text.strip(),
    }
    figures = {method: Figures() for method in METHODS}
    still: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    for number in range(rounds):
        for method in METHODS:
            print(f"bench-parking: {method}, round {number + 1} of {rounds} ...", flush=True)
            with agent(guest, method) as host:
                pulse(guest, seconds, None, figures[method])
                pulse(guest, seconds, host, figures[method])
                still_runs(guest, host, seconds / 2, figures[method], still[method])
    for method, found in figures.items():
        base = figures["offline"]
        for operation, times_ms, base_times_ms in (
            ("shrink", found.shrink_ms, base.shrink_ms),
            ("grow", found.grow_ms, base.grow_ms),
        ):
            value, low, high = median_interval(times_ms)
            base_median_ms = median_interval(base_times_ms)[0]
            report.add(
                Result(
                    f"{method}.{operation}_two_cpus",
                    "ms",
                    value,
                    low,
                    high,
                    len(times_ms),
                    "offline, ms",
                    base_median_ms,
                    value / base_median_ms,
                )
            )
        report.compare(
            f"{method}.longest_turn",
            "ms",
            found.longest_ms,
            found.quiet_longest_ms,
            baseline_name="no change, ms",
            figure=lambda one, _: one,
        )
        report.compare(
            f"{method}.slowdown",
            "%",
            found.quiet_turns,
            found.turns,
            baseline_name="turns/s with changes",
            figure=lambda quiet, changing: 100.0 * (quiet / changing - 1.0),
        )
        add(report, f"{method}.interrupts_left", "1/s", found.interrupts)
        add(report, f"{method}.busy_left", "ticks/s", found.ticks)
        report.details[f"{method}.interrupts_by_line_per_s"] = {
            name: round(value / rounds, 2) for name, value in still[method].items()
        }
        report.details[f"{method}.worst_ms"] = {"shrink": max(found.shrink_ms), "grow": max(found.grow_ms)}


@contextmanager
def prepared(options: argparse.Namespace) -> Iterator[Bench]:
    with bench_guest("bench-parking", VCPUS, options) as (guest, pcpus):
        yield Bench(guest, pcpus, options.quick)


def main() -> None:
    run_benchmark("parking", __doc__, PATHS, prepared, {"parking": measure})


if __name__ == "__main__":
    main()
