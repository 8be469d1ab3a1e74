"""What the host daemon costs, how it grows, and how fast it separates guests.

`decide`: from what is observed to a plan. `cpu`: the daemon with simulated guests, and the messages that it decodes.
`separation`: from a second guest's first computation to disjoint pCPUs, with real guests (root).
"""

from __future__ import annotations

from contextlib import nullcontext

from . import daemon_cpu, daemon_decide, daemon_separation
from .report import run_benchmark

PARTS = {
    "decide": daemon_decide.measure,
    "cpu": daemon_cpu.measure,
    "separation": daemon_separation.measure,
}


def main() -> None:
    run_benchmark("daemon", __doc__, {}, lambda options: nullcontext(options.quick), PARTS)


if __name__ == "__main__":
    main()
