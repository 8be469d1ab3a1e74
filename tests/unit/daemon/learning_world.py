"""A small closed loop at four periods a second: true curves, noisy reports, memory, policy, exploration, decision."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise

from vscaf.core.decide.decision import DecideMemory
from vscaf.core.decide.explore import ExploreSettings
from vscaf.core.model.curve_memory import CurveMemory, recall, remember, renewed
from vscaf.daemon.decider import Decider
from vscaf_policies import DomainState, PoolState, SpeedupPoint
from vscaf_policies.max_speedup_fitted import max_speedup_fitted

PERIOD_S, REPORT_S, ARRIVAL_S, NEWCOMER_S = 0.25, 1.0, 0.5, 2.0

NOISE = 0.10
"""The relative standard deviation of a report."""

Curve = Callable[[float], float]


def amdahl(serial: float) -> Curve:
    return lambda p: 1.0 / (serial + (1.0 - serial) / p)


def logarithmic(weight: float) -> Curve:
    return lambda p: 1.0 + weight * math.log(p)


def usl(contention: float, coherence: float) -> Curve:
    return lambda p: p / (1.0 + contention * (p - 1) + coherence * p * (p - 1))


def knee(at: float, after: float) -> Curve:
    """Linear up to *at* CPUs. Each CPU more adds *after*."""
    return lambda p: p if p <= at else max(0.5, at + after * (p - at))


def through(*points: tuple[float, float]) -> Curve:
    """Straight lines between points."""

    def curve(p: float) -> float:
        for (left, low), (right, high) in pairwise(points):
            if p <= right:
                return low + (high - low) * (p - left) / (right - left)
        return points[-1][1]

    return curve


CURVES: dict[str, Curve] = {
    "linear": lambda p: 0.95 * p if p > 1 else 1.0,
    "amdahl-3%": amdahl(0.03),
    "amdahl-15%": amdahl(0.15),
    "log-6": logarithmic(6.0),
    "log-2": logarithmic(2.0),
    "usl-peak-20": usl(0.03, 0.0024),
    "knee-12-flat": knee(12, 0.0),
    "knee-12-falls": knee(12, -0.2),
    "cg": through((1, 1.0), (4, 4.0), (18, 17.0), (27, 23.2), (36, 28.9), (64, 40.0)),
    "lu": through((1, 1.0), (9, 8.0), (18, 12.0), (32, 20.0), (36, 22.4), (64, 28.0)),
    "slower-on-8": through((1, 1.0), (4, 3.2), (8, 2.6), (16, 7.0), (32, 12.0), (64, 16.0)),
}


def best_split(curves: Mapping[str, Curve], cpus: int) -> float:
    """The largest sum of speedups of a static split. It may leave CPUs idle, because more make some programs slower."""
    best = [0.0] + [-math.inf] * cpus
    for curve in curves.values():
        values = [0.0, *(curve(p) for p in range(1, cpus + 1))]
        best = [max((best[c - k] + values[k] for k in range(1, c + 1)), default=-math.inf) for c in range(cpus + 1)]
    return max(best)


@dataclass
class Outcome:
    """One run. sums and allocations: the true sum of speedups and the allocations of each period. best: of a static
    split. lost_s: the cost of exploration."""

    sums: list[float]
    allocations: list[dict[str, int]]
    best: float
    lost_s: float = 0.0

    def gap(self, from_s: float) -> float:
        """How far the mean sum after *from_s* is below the best static split, as a fraction of it."""
        window = self.sums[int(from_s / PERIOD_S) :]
        return 1.0 - sum(window) / len(window) / self.best

    def transitions(self, from_s: float = 0.0) -> int:
        window = self.allocations[int(from_s / PERIOD_S) :]
        return sum(1 for before, after in pairwise(window) if before != after)


def run(
    curves: Mapping[str, Curve],
    cpus: int,
    *,
    seconds: float = 40.0,
    seed: int = 1,
    explores: bool = True,
) -> Outcome:
    """Runs the daemon's Decider with max-speedup-fitted. All domains start at 0 s and compute all the time."""
    chance = random.Random(seed)
    names = sorted(curves)
    memories = dict.fromkeys(names, CurveMemory())
    points: dict[str, tuple[SpeedupPoint, ...]] = dict.fromkeys(names, ())
    has = dict.fromkeys(names, 0)
    arrived: dict[str, tuple[float, int, int]] = dict.fromkeys(names, (0.0, 0, 0))  # when, CPUs before, CPUs now
    decider, decided = Decider(ExploreSettings().steady if explores else 0.0), DecideMemory()
    outcome = Outcome([], [], best_split(curves, cpus))
    for period in range(int(seconds / PERIOD_S)):
        now_s = period * PERIOD_S
        if period % round(REPORT_S / PERIOD_S) == 2:
            for name in names:
                since_s, _before, size = arrived[name]
                if size > 1 and now_s - since_s >= ARRIVAL_S:
                    measured = max(0.05, curves[name](size) * (1.0 + chance.gauss(0.0, NOISE)))
                    report = SpeedupPoint(size, measured, NOISE * measured, 8)
                    memories[name] = remember(memories[name], (report,), now_s, size)
                    points[name] = renewed(points[name], recall(memories[name], now_s))
        pool = PoolState(
            cpus,
            1,
            now_s,
            tuple(
                DomainState(
                    name=name, minimum=1, maximum=cpus, weight=1.0, demand=cpus, allocation=has[name], may_rest=True,
                    scaf_weight=None, newcomer=now_s < NEWCOMER_S, points=points[name],
                )
                for name in names
            ),
        )  # fmt: skip
        decision = decider.decide(pool, max_speedup_fitted, {}, decided)
        decided, allocations = decision.memory, dict(decision.allocations)
        assert sum(allocations.values()) <= cpus
        for name in names:
            if allocations[name] != has[name]:
                arrived[name] = (now_s, has[name], allocations[name])
        has = allocations
        speeds = 0.0
        for name in names:
            since_s, before, size = arrived[name]
            cpus_now = size if now_s - since_s >= ARRIVAL_S or not before else min(before, size)
            speeds += curves[name](cpus_now)
        outcome.sums.append(speeds)
        outcome.allocations.append(allocations)
    outcome.lost_s = decider.lost_s
    return outcome


def pairs() -> list[tuple[str, str]]:
    return list(combinations_with_replacement(sorted(CURVES), 2))


def named(*names: str) -> dict[str, Curve]:
    """The curves by unique names, so that one curve may occur twice."""
    return {f"{number}-{name}": CURVES[name] for number, name in enumerate(names)}
