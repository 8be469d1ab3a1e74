"""What the host daemon costs, how it grows, and how fast it separates guests.

Three parts, each its own module with a function measure(report, quick): `decide`, from what is observed to a plan;
`cpu`, the daemon with simulated guests and the messages that it decodes; `separation`, from a second guest's first
computation to disjoint pCPUs, with real guests (root).
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable
from pathlib import Path

from .report import Report

PARTS = {"decide": "daemon_decide", "cpu": "daemon_cpu", "separation": "daemon_separation"}


def part(name: str) -> Callable[[Report, bool], None] | None:
    """The function that measures a part; None where its module is not there. Any other error is the module's own."""
    module = f"{__package__}.{PARTS[name]}"
    try:
        measure: Callable[[Report, bool], None] = importlib.import_module(module).measure
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None
    return measure


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-daemon", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="where daemon.json goes")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="this part alone; may be repeated")
    options = parser.parse_args()
    quick = options.quick or os.environ.get("QUICK") == "1"
    report = Report("daemon")
    for name in PARTS:
        if options.only and name not in options.only:
            continue
        measure = part(name)
        if measure is None:
            report.details[name] = "not there"
            print(f"bench-daemon: {name}: not there", flush=True)
            continue
        print(f"bench-daemon: {name} ...", flush=True)
        measure(report, quick)
    print(report.table())
    print(f"written to {report.write(options.output)}")


if __name__ == "__main__":
    main()
