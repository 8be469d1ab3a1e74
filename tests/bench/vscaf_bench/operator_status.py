"""A control server for benchmarks of the operator's tools: a daemon with many domains that change every second.

    python -m vscaf_bench.operator_status SOCKET NUMBER

Every second each domain that computes has another use, and one domain in a hundred another allocation, with an event.
It prints "ready", and ends when its standard input ends.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Any, cast

import msgspec
from vscaf.control.messages import DomainStatus, ProcessStatus, RulesStatus, SpeedupStatus, Status
from vscaf.control.server import ControlServer, ControlTarget
from vscaf.events import EventLog, Kind
from vscaf.values import State

from .daemon_cpu import stop_requested
from .simulated_guests import PROGRAMS, VCPUS

VARIANTS = 4
"""How many states there are; they take turns."""


def domain_status(number: int, allocation: int, rng: random.Random) -> DomainStatus:
    """A domain with three programs. One in two computes."""
    computes = number % 2 == 0
    first = number * VCPUS
    partition = f"{first}-{first + allocation - 1}" if allocation > 1 else str(first)
    parts = {"useful": 0.85, "inflation": 0.02, "fork": 0.01, "dispatch": 0.01, "barrier": 0.09, "steal": 0.02}
    return DomainStatus(
        name=f"d{number:04}",
        state=State.COOPERATING if computes else State.RESTING,
        partition=partition if computes else "",
        allocation=allocation if computes else 0,
        demand=VCPUS if computes else 0,
        busy_cpus=round(rng.uniform(0.8, 1.0) * allocation, 3) if computes else 0.0,
        steal_s=round(rng.uniform(0.0, 100.0), 4),
        speedup=round(rng.uniform(0.8, 1.0) * allocation, 4) if computes else None,
        paused=False,
        suspended=False,
        vcpus=VCPUS,
        vcpus_maximum=VCPUS,
        online=list(range(VCPUS)),
        agent="connected",
        agent_version="vscaf-agent 0.1.0",
        report_age_s=round(rng.uniform(0.0, 0.25), 3),
        rules=RulesStatus(minimum=None, maximum=None, weight=None, priority=None, rest=None),
        processes=[
            ProcessStatus(
                pid=1000 + program, name=("cg.W.x", "mg.W.x", "simulate")[program], team=allocation, running=computes,
                malleable="full", override=False, long_section=False, contained=False, own=None,
                points=[
                    SpeedupStatus(p=p, speedup=round(rng.uniform(0.8, 0.9) * p, 4), standard_error=0.021)
                    for p in range(1, VCPUS + 1)
                ],
                learning={"cost": 0.35, "budget": 0.01, "used": 0.0072, "metric": "rate", "counters": True},
                decomposition={**parts, "idle_rate": round(rng.uniform(0.1, 0.12), 4), "section_ms": 1.2},
            )
            for program in range(PROGRAMS)
        ],
    )  # fmt: skip


def states(number: int) -> list[dict[str, Any]]:
    """The states that take turns."""
    rng = random.Random(11)
    out = []
    for variant in range(VARIANTS):
        shown = Status(
            configured_at="2026-01-01T00:00:00.000Z",
            policy="max-speedup-fitted",
            policy_options={},
            policy_previous=None,
            weights_count=True,
            pool=f"0-{number * VCPUS - 1}",
            reserve="",
            managing=True,
            unknown=False,
            transitions=variant,
            transition_s=0.1,
            exploring=[],
            exploration_cost=0.0,
            exploration_lost_s=0.0,
            optimum_speedup=None,
            lost_speedup=None,
            violations=[],
            domains=[domain_status(one, 1 + (one % 100 == variant) + one % 3, rng) for one in range(number)],
        )
        out.append(msgspec.to_builtins(shown))
    return out


class Daemon:
    """What the control server asks."""

    def __init__(self, number: int) -> None:
        self._states = states(number)

    def status(self) -> dict[str, Any]:
        """The state of this second."""
        return self._states[int(time.monotonic()) % VARIANTS]


async def serve(path: Path, number: int) -> None:
    """Serves until standard input ends."""
    events = EventLog()
    server = ControlServer(path, cast(ControlTarget, Daemon(number)), events)
    await server.start()

    async def decide() -> None:
        while True:
            for one in range(0, number, 100):
                events.record(Kind.ALLOCATION, f"d{one:04}", before="0-1", after="0-2", why="the policy's new answer")
            await asyncio.sleep(1.0)

    deciding = asyncio.create_task(decide())
    print("ready", flush=True)
    await stop_requested()
    deciding.cancel()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
