"""What vscaf adds to whole runs of a short program in a guest: lu.S under vscaf-run, with an agent, and plain.

A real guest (under KVM if that works, else TCG) has two vCPUs on two pCPUs, and its agent has no host. The verdict is
known: the image has it. The program runs in batches, and the two kinds take turns. The agent does not subtract the load
of programs that never joined: else the plain batch would take a CPU from the managed one after it. Needs root.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vscaf.lab import Guest

from .bench_guest import PATHS, bench_guest
from .report import Report, run_benchmark

PROGRAM = "/usr/local/libexec/vscaf/npb/lu.S"
RUNS = 10  # in a batch
VCPUS = 2


@dataclass(frozen=True)
class Bench:
    guest: Guest
    quick: bool


def batch_ms(guest: Guest, command: str) -> float:
    """Wall ms of one run, by a batch of them."""
    began_s = time.monotonic()
    guest.run(f"for i in $(seq {RUNS}); do {command} >/dev/null || exit 1; done", timeout_s=300)
    return 1e3 * (time.monotonic() - began_s) / RUNS


def measure(bench: Bench, report: Report) -> None:
    guest, pairs = bench.guest, 5 if bench.quick else 20
    report.details["guest"] = {"vcpus": VCPUS, "accelerator": guest.domain_type}
    plain: list[float] = []
    managed: list[float] = []
    batch_ms(guest, f"vscaf-run {PROGRAM}")  # the agent reads the image's record
    for number in range(pairs):
        turns = [(plain, PROGRAM), (managed, f"vscaf-run {PROGRAM}")]
        for walls_ms, command in turns if number % 2 == 0 else reversed(turns):
            walls_ms.append(batch_ms(guest, command))
    report.compare(
        "start.guest.lu_s.added",
        "%",
        managed,
        plain,
        baseline_name="plain, ms",
        figure=lambda one, other: 100.0 * (one / other - 1.0),
        bar="<= 2%",
    )


@contextmanager
def prepared(options: argparse.Namespace) -> Iterator[Bench]:
    with bench_guest("bench-guest-start", VCPUS, options) as (guest, _):
        agent = guest.start("exec vscaf-agent --no-background")
        try:
            guest.run("until vscaf-agent --status >/dev/null 2>&1; do usleep 50000; done", timeout_s=60)
            yield Bench(guest, options.quick)
        finally:
            agent.kill()


def main() -> None:
    run_benchmark("guest-start", __doc__, PATHS, prepared, {"start": measure})


if __name__ == "__main__":
    main()
