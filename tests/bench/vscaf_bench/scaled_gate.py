"""The gate of the scaled machine: what must hold before figures from it mean anything, measured at each start.

EP has almost no barriers, so it must be nearly k times as fast on k slow CPUs. Two programs on one slow CPU must halve
each other. A barrier's cost, bounded loosely, shows how long a team waits for CPUs that their quotas have stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from vscaf.bench.intervals import median_interval
from vscaf.bench.places.place import PlaceError
from vscaf.bench.samples import REFERENCE_PACE_NS
from vscaf.bench.workloads.shipped import shipped

from .scaled_guest import NAME
from .scaled_place import ScaledPlace

EP = "ep.S"
LEAST_EFFICIENCY = 0.9
SPINNER = "i=0; while [ $i -lt {turns} ]; do i=$((i + 1)); done"
TURNS, ROUNDS = 40_000, 3
HALVES = (1.8, 2.2)  # how much longer each of two spinners takes on one slow CPU
BARRIER, BARRIERS = "barrier.S", 20_000
MOST_BARRIER_US = 2000.0
DEADLINE_S = 600.0


class GateError(Exception):
    """The scaled machine is not one. The message says which part failed."""


@dataclass(frozen=True)
class Gate:
    """What was measured. ep_speedup: of EP by the number of slow CPUs. halves: how many times as long each of two
    spinners takes on one slow CPU as one alone. barrier_us: of a team on all slow CPUs, in microseconds."""

    ep_speedup: Mapping[int, float]
    halves: float
    barrier_us: float

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
            f"gate: a barrier of {max(self.ep_speedup)} threads takes {self.barrier_us:.0f} us"
        )

    def as_json(self) -> dict[str, object]:
        """For the report."""
        return asdict(self) | {"failures": self.failures()}


def measure_gate(place: ScaledPlace) -> Gate:
    """Measures all parts. Raises PlaceError if a program fails."""
    rates = {cpus: 1 / ep_seconds(place, cpus) for cpus in range(1, place.cpus + 1)}
    return Gate({cpus: rate / rates[1] for cpus, rate in rates.items() if cpus > 1}, spinners(place), barrier_us(place))


def ep_seconds(place: ScaledPlace, cpus: int) -> float:
    """Steady seconds of EP's timed part on so many slow CPUs. It must be right."""
    output, steady_s = run(place, [f"taskset -c 0-{cpus - 1} {EP}"])
    (workload,) = shipped([EP])
    if not workload.verified(0, output):
        raise PlaceError(f"gate: {EP} was wrong: {output[-300:]}")
    return steady_s


def spinners(place: ScaledPlace) -> float:
    """How many times as long two spinners on one slow CPU take as one alone: the median of ROUNDS."""
    spinner = f"taskset -c 0 sh -c '{SPINNER.format(turns=TURNS)}'"
    return median_interval([run(place, [spinner] * 2)[1] / run(place, [spinner])[1] for _ in range(ROUNDS)])[0]


def barrier_us(place: ScaledPlace) -> float:
    """Steady microseconds a barrier of a team on all slow CPUs, the start of the program included."""
    return 1e6 * run(place, [BARRIER])[1] / BARRIERS


def run(place: ScaledPlace, commands: Sequence[str]) -> tuple[str, float]:
    """The first command's output, and the steady seconds until all that were started together had ended."""
    with place.arrange("passive", ()), place.watch(()) as watch:
        begin_s = time.monotonic()
        started = [place.start(place.members[0], command, {}) for command in commands]
        ended = [one.wait(DEADLINE_S) for one in started]
        end_s = time.monotonic()
    for command, one in zip(commands, ended, strict=True):
        if one.status != 0:
            raise PlaceError(f"gate: `{command}` failed: {one.output[-300:]}")
    return ended[0].output, watch.watched().steady(NAME, begin_s, end_s, REFERENCE_PACE_NS)
