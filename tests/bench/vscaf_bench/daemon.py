"""The cost of the host daemon, how that grows, and how fast the daemon separates guests.

`decide`: from observations to a plan. `cpu`: the daemon with simulated guests, and the messages that it decodes.
`separation`: from a second guest's first computation to disjoint pCPUs, with real guests (needs root).
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
