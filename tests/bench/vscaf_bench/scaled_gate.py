"""The gate of the scaled machine: what must hold before figures from it mean anything, measured at each start.

EP has almost no barriers, so it must be nearly k times as fast on k slow CPUs. Two programs on one slow CPU must halve
each other. A barrier's cost, bounded loosely, shows how long a team waits for CPUs that their quotas have stopped.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from vscaf.bench.barriers import BARRIERS
from vscaf.bench.observe.host_load import ATTEMPTS, MOST_LOST
from vscaf.bench.places.place import PlaceError
from vscaf.bench.samples import REFERENCE_PACE_NS
from vscaf.bench.workloads.shipped import shipped

from .scaled_guest import NAME
from .scaled_place import ScaledPlace

EP = "ep.S"
LEAST_EFFICIENCY = 0.9
SPINNER = "i=0; while [ $i -lt 40000 ]; do i=$((i + 1)); done"
ROUNDS = 3
HALVES = (1.8, 2.2)  # how much longer each of two spinners takes on one slow CPU
BARRIER = "barrier.S"
MOST_BARRIER_US = 2000.0
DEADLINE_S = 600.0


class GateError(Exception):
    """The scaled machine is not one. The message says which part failed."""


@dataclass(frozen=True)
class Gate:
    """What was measured. ep_speedup: of EP, by the number of slow CPUs. halves: how many times as long as one alone
    each of two spinners takes on one slow CPU. barrier_us: of a team on all slow CPUs, in microseconds. lost: the
    largest part of a measurement's CPU time that other processes of the host had."""

    ep_speedup: Mapping[int, float]
    halves: float
    barrier_us: float
    lost: float

    def failures(self) -> list[str]:
        """The parts that failed, in words."""
        found = [
            f"EP on {cpus} slow CPUs has a speedup of {speedup:.2f}: at least {LEAST_EFFICIENCY * cpus:.2f} is needed"
            for cpus, speedup in sorted(self.ep_speedup.items())
            if speedup < LEAST_EFFICIENCY * cpus
        ]
        if not HALVES[0] <= self.halves <= HALVES[1]:
            found.append(
                f"of two spinners on one slow CPU each takes {self.halves:.2f} times as long, and {HALVES[0]} to "
                f"{HALVES[1]} is needed"
            )
        if self.barrier_us > MOST_BARRIER_US:
            found.append(f"a barrier takes {self.barrier_us:.0f} us, and at most {MOST_BARRIER_US:.0f} us are allowed")
        return found

    def text(self) -> str:
        """The lines for people."""
        speedups = ", ".join(f"{cpus}: {speedup:.2f}" for cpus, speedup in sorted(self.ep_speedup.items()))
        return (
            f"gate: speedup of EP by slow CPUs: {speedups}\n"
            f"gate: two spinners on one slow CPU take {self.halves:.2f} times as long\n"
            f"gate: a barrier of {max(self.ep_speedup)} threads takes {self.barrier_us:.0f} us\n"
            f"gate: other processes of this machine had {self.lost:.0%} of the CPU time at most"
        )

    def as_json(self) -> dict[str, object]:
        """For the report."""
        return asdict(self) | {"failures": self.failures()}


def measure_gate(place: ScaledPlace) -> Gate:
    """Measures all parts. Raises PlaceError if a program fails."""
    ep = {cpus: run(place, [f"taskset -c 0-{cpus - 1} {EP}"]) for cpus in range(1, place.cpus + 1)}
    (workload,) = shipped([EP])
    for one in ep.values():
        if not workload.verified(0, one.output):
            raise PlaceError(f"gate: {EP} was wrong: {one.output[-300:]}")
    spinner = f"taskset -c 0 sh -c '{SPINNER}'"
    spun = [(run(place, [spinner]), run(place, [spinner] * 2)) for _ in range(ROUNDS)]
    barriers = run(place, [BARRIER])
    return Gate(
        {cpus: ep[1].steady_s / one.steady_s for cpus, one in ep.items() if cpus > 1},
        statistics.median(two.steady_s / one.steady_s for one, two in spun),
        1e6 * barriers.steady_s / BARRIERS[BARRIER],
        max(one.lost for one in (*ep.values(), *itertools.chain(*spun), barriers)),
    )


@dataclass(frozen=True)
class Run:
    """Programs that were started together: the output of the first, the steady seconds until all had ended, and the
    part of the CPU time that other processes of the host had."""

    output: str
    steady_s: float
    lost: float


def run(place: ScaledPlace, commands: Sequence[str]) -> Run:
    """Starts programs together and waits for all. A disturbed run is repeated, and the least disturbed one counts.

    Raises PlaceError if a program fails.
    """
    runs: list[Run] = []
    while len(runs) < ATTEMPTS and all(one.lost > MOST_LOST for one in runs):
        runs.append(run_once(place, commands))
    return min(runs, key=lambda one: one.lost)


def run_once(place: ScaledPlace, commands: Sequence[str]) -> Run:
    """Starts programs together and waits for all. Raises PlaceError if one fails."""
    with place.arrange("passive", ()), place.watch(()) as watch:
        begin_s = time.monotonic()
        started = [place.start(place.members[0], command, {}) for command in commands]
        ended = [one.wait(DEADLINE_S) for one in started]
        end_s = time.monotonic()
    for command, one in zip(commands, ended, strict=True):
        if one.status != 0:
            raise PlaceError(f"gate: `{command}` failed: {one.output[-300:]}")
    watched = watch.watched()
    steady_s = watched.steady(NAME, begin_s, end_s, REFERENCE_PACE_NS)
    return Run(ended[0].output, steady_s, watched.load(begin_s, end_s).lost)
