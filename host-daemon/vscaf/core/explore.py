"""Varying allocations on purpose, a little, so that curves are known around and beyond the present split.

A split is only ever as good as what is known of the sizes that it does not use. So chunks are moved between two domains
for a while, where the split that comes of it could be the better one: by its expected improvement, from the estimates
and their errors (Jones, Schonlau and Welch 1998, eq. 15). Where curves are known, nothing could be better by enough,
and nothing moves. What is lost on the way comes from an account, so it is bounded whatever the estimates say.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from vscaf_policies import PoolState
from vscaf_policies.bounds import limits
from vscaf_policies.estimates import Worth, worth

from vscaf.core.decide import Decision

Numbers = NDArray[np.float64]

ALIKE = 1.0
"""Errors of two sizes are of the same kind, the less the further they are apart: 1/e at this distance in ln p."""

NOBODY = ""
"""Whom CPUs come from that are left over, and go to that are to be: there are programs that more CPUs make slower."""


@dataclass(frozen=True, slots=True)
class ExploreSettings:
    """How much is varied. Losses and gains are of the predicted sum of weighted speedups.

    steady: share that may be lost on average. steady_most_s: what of it can be saved up, in seconds of the whole sum.
    startup_s: allowance for a change of circumstances, in the same unit; spent, it comes back over startup_again_s.
    least_gain: expected improvement that is worth looking for. step: factor between a domain's size and the next that
    is tried. dwell_s: how long a variation lasts, from when it is decided. horizon_s: for how long what is learned is
    of use. domains: the most that are looked at in one call.
    """

    steady: float = 0.01
    steady_most_s: float = 0.3
    startup_s: float = 1.5
    startup_again_s: float = 60.0
    least_gain: float = 0.001
    step: float = 2.0
    dwell_s: float = 2.5
    horizon_s: float = 60.0
    transition_s: float = 0.5
    measurement_error: float = 0.06
    unforeseen: float = 0.25
    domains: int = 16


@dataclass(frozen=True, slots=True)
class ExploreMemory:
    """What explore hands to its next call. Empty: nothing was varied yet.

    base: the decision that is varied now, and varied: what some have instead, CPUs by name; empty: nothing is varied. since_s: from when on. account_s: what may still be lost, in seconds of the
    whole sum. granted_at_s: of the last start-up allowance. competing: whose circumstances it was for. lost_s: what
    exploring has cost so far, watched_s: in how long, and charged_s: for the present variation. futile: the
    knowledge in which nothing was found worth trying.
    """

    base: Mapping[str, int] = field(default_factory=dict)
    varied: Mapping[str, int] = field(default_factory=dict)
    since_s: float = 0.0
    at_s: float | None = None
    account_s: float = 0.0
    granted_at_s: float = -math.inf
    competing: frozenset[str] = frozenset()
    lost_s: float = 0.0
    watched_s: float = 0.0
    charged_s: float = 0.0
    futile: tuple[object, ...] = ()

    @property
    def cost(self) -> float:
        """Share of the sum of speedups that exploring has cost on average since it was first asked for."""
        return self.lost_s / self.watched_s if self.watched_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Exploration:
    """allocations: CPUs by name, of every domain of the decision. reasons: of those that change by this."""

    allocations: Mapping[str, int]
    reasons: Mapping[str, str]
    memory: ExploreMemory
    cost: float


def unvaried(pool: PoolState, memory: ExploreMemory) -> PoolState:
    """The pool as decide() is to see it: what is varied has what was decided for it."""
    if not memory.varied:
        return pool
    domains = tuple(
        replace(domain, allocation=memory.base[domain.name])
        if memory.varied.get(domain.name) == domain.allocation
        else domain
        for domain in pool.domains
    )
    return replace(pool, domains=domains)


def explore(
    pool: PoolState, decision: Decision, memory: ExploreMemory, settings: ExploreSettings = ExploreSettings()
) -> Exploration:
    """The decision, with chunks moved between two domains where that is worth trying. pool: as decide() was given it.

    Laws: every domain stays within its bounds and in whole chunks, nobody gets to rest or to run, and the sum is the
    decision's. Nothing is varied where fewer than two domains are known and could change, where domains share a chunk,
    and while the account is empty. Over any time t at most steady x t + steady_most_s + startup_s x (1 + t /
    startup_again_s) is lost, as predicted.
    """
    curves = _curves(pool, decision)
    memory = _passed(pool, decision, curves, memory, settings)
    if memory.varied:
        if pool.time_s - memory.since_s < settings.dwell_s:
            return _varied(decision, memory, {})
        memory = _settled(pool, curves, memory, settings)
    if len(curves) < 2 or decision.sharing or not decision.managed:
        return _varied(decision, memory, {})
    knowledge = tuple(
        (name, domain_points, decision.allocations[name]) for name, (_w, _b, domain_points) in curves.items()
    )
    if memory.futile == knowledge or memory.account_s <= 0.0:
        return _varied(decision, memory, {})
    move = _best_move(pool, decision, curves, memory.account_s, settings)
    if move is None:
        return _varied(decision, replace(memory, futile=knowledge), {})
    giver, taker, cpus, gain = move
    ways = {giver: -cpus, taker: cpus}
    base = dict(decision.allocations)
    varied = {name: base[name] + cpus for name, cpus in ways.items() if name != NOBODY}
    why = f"exploring, it could gain {gain:.1%} of the sum of speedups"
    reasons = {name: f"{base[name]} -> {cpus}: {why}" for name, cpus in varied.items()}
    moved_s = 2 * settings.transition_s * cpus / pool.cpus
    memory = replace(
        memory,
        base=base,
        varied=varied,
        since_s=pool.time_s,
        account_s=memory.account_s - moved_s,
        lost_s=memory.lost_s + moved_s,
        charged_s=0.0,
    )
    return _varied(decision, memory, reasons)


_Curves = dict[str, tuple[Worth, tuple[int, int], tuple[object, ...]]]


def _curves(pool: PoolState, decision: Decision) -> _Curves:
    """Of the domains that can be varied: what they are worth, their bounds in chunks, and what is known of them."""
    curves: _Curves = {}
    for domain in pool.domains:
        if not decision.allocations.get(domain.name):
            continue
        known = worth(domain, pool)
        if known is not None:
            low, high = limits(domain, pool.chunk)
            bounds = (low // pool.chunk, min(high // pool.chunk, len(known.expected)))
            curves[domain.name] = (known, bounds, domain.points)
    return curves


def _passed(
    pool: PoolState, decision: Decision, curves: _Curves, memory: ExploreMemory, settings: ExploreSettings
) -> ExploreMemory:
    """*memory* after the time that went by since the last call: what came into the account, and what was lost."""
    now_s = pool.time_s
    elapsed_s = max(0.0, now_s - memory.at_s) if memory.at_s is not None else 0.0
    lost_s = elapsed_s * _loss_rate(pool, curves, memory)
    account_s = memory.account_s
    if account_s < settings.steady_most_s:
        account_s = min(settings.steady_most_s, account_s + settings.steady * elapsed_s)
    competing = frozenset(name for name, cpus in decision.allocations.items() if cpus)
    granted_at_s = memory.granted_at_s
    if competing != memory.competing and len(curves) > 1:
        account_s += settings.startup_s * min(1.0, (now_s - granted_at_s) / settings.startup_again_s)
        account_s = min(account_s, settings.startup_s + settings.steady_most_s)
        granted_at_s = now_s
    else:
        competing = memory.competing
    memory = replace(
        memory,
        at_s=now_s,
        account_s=account_s - lost_s,
        granted_at_s=granted_at_s,
        competing=competing,
        lost_s=memory.lost_s + lost_s,
        watched_s=memory.watched_s + elapsed_s,
        charged_s=memory.charged_s + lost_s,
    )
    if memory.varied and memory.base != decision.allocations:
        return replace(memory, base={}, varied={})
    return memory


def _loss_rate(pool: PoolState, curves: _Curves, memory: ExploreMemory) -> float:
    """Share of the sum that the present variation costs, as the curves are known now; never below 0."""
    if not memory.varied or any(name not in curves for name in memory.varied):
        return 0.0
    weights = {domain.name: domain.weight for domain in pool.domains}
    allocations = {domain.name: domain.allocation for domain in pool.domains}
    lost = math.fsum(
        weights[name] * (_at(curves, name, memory.base[name], pool) - _at(curves, name, cpus, pool))
        for name, cpus in memory.varied.items()
    )
    whole = math.fsum(
        weights[name] * _at(curves, name, memory.base.get(name, allocations[name]), pool) for name in curves
    )
    return max(0.0, lost / whole) if whole > 0 else 0.0


def _at(curves: _Curves, name: str, cpus: int, pool: PoolState) -> float:
    expected = curves[name][0].expected
    return expected[min(max(cpus // pool.chunk, 1), len(expected)) - 1]


def _settled(pool: PoolState, curves: _Curves, memory: ExploreMemory, settings: ExploreSettings) -> ExploreMemory:
    """The variation has ended: it has cost what is known of it by now, and not what was expected of it at first."""
    more_s = (pool.time_s - memory.since_s) * _loss_rate(pool, curves, memory) - memory.charged_s
    return replace(
        memory, base={}, varied={}, account_s=memory.account_s - more_s, lost_s=memory.lost_s + more_s, charged_s=0.0
    )


def _varied(decision: Decision, memory: ExploreMemory, reasons: Mapping[str, str]) -> Exploration:
    allocations = {**decision.allocations, **memory.varied} if memory.varied else decision.allocations
    return Exploration(allocations, reasons, memory, memory.cost)


def _best_move(
    pool: PoolState, decision: Decision, curves: _Curves, account_s: float, settings: ExploreSettings
) -> tuple[str, str, int, float] | None:
    """Who gives to whom how many CPUs, and the expected improvement as a share of the sum; None: nothing is worth it."""
    weights = {domain.name: domain.weight for domain in pool.domains}
    sizes = {name: decision.allocations[name] // pool.chunk for name in curves}
    whole = math.fsum(
        weights[name] * curves[name][0].expected[min(sizes[name], len(curves[name][0].expected)) - 1] for name in curves
    )
    if whole <= 0:
        return None
    names = sorted(curves, key=lambda name: (-weights[name] * max(curves[name][0].error), name))[: settings.domains]
    losses = {name: _differences(curves[name], weights[name], sizes[name], -1, pool, settings) for name in names}
    gains = {name: _differences(curves[name], weights[name], sizes[name], +1, pool, settings) for name in names}
    best: tuple[float, str, str, int, float] | None = None
    spare = sum(pool.cpus - cpus for cpus in [sum(decision.allocations.values())]) // pool.chunk
    anything = pool.cpus // pool.chunk
    for name, chunks in ((NOBODY, anything),):
        gains[name] = (np.zeros(chunks), np.zeros(chunks))
    losses[NOBODY] = (np.zeros(max(0, spare)), np.zeros(max(0, spare)))
    for giver in (*names, NOBODY):
        for taker in (*names, NOBODY):
            steps = min(len(losses[giver][0]), len(gains[taker][0]))
            if giver == taker or steps == 0:
                continue
            change = (losses[giver][0][:steps] + gains[taker][0][:steps]) / whole
            error = np.sqrt(losses[giver][1][:steps] + gains[taker][1][:steps]) / whole
            improvement = _expected_improvement(change, error)
            cost_s = settings.dwell_s * np.maximum(0.0, -change)
            cost_s += 2 * settings.transition_s * pool.chunk / pool.cpus * np.arange(1, steps + 1)
            worth_s = improvement * settings.horizon_s - cost_s
            worth_s[(improvement < settings.least_gain) | (cost_s > account_s)] = -1.0
            step = int(np.argmax(worth_s))
            if worth_s[step] > 0 and (best is None or worth_s[step] > best[0] + 1e-12):
                best = (float(worth_s[step]), giver, taker, (step + 1) * pool.chunk, float(improvement[step]))
    return best[1:] if best is not None else None


def _differences(
    curve: tuple[Worth, tuple[int, int], tuple[object, ...]],
    weight: float,
    size: int,
    way: int,
    pool: PoolState,
    settings: ExploreSettings,
) -> tuple[Numbers, Numbers]:
    """For 1, 2, ... chunks more (way 1) or less (way -1): change of the weighted speedup, and its variance."""
    known, (low, high), _points = curve
    if way > 0:
        reach = min(high, math.ceil(size * settings.step))
        sizes = np.arange(size + 1, reach + 1)
    else:
        reach = max(low, 1, math.floor(size / settings.step))
        sizes = np.arange(size - 1, reach - 1, -1)
    if len(sizes) == 0 or size > len(known.expected):
        return np.zeros(0), np.zeros(0)
    expected = np.array(known.expected)
    error = np.hypot(known.error, settings.unforeseen * np.array(known.distance) * expected)
    change = weight * (expected[sizes - 1] - expected[size - 1])
    here, there = error[size - 1], error[sizes - 1]
    alike = np.exp(-np.abs(np.log(sizes / size)) / ALIKE)
    variance = (there - here) ** 2 + 2 * here * there * (1 - alike)
    told = variance + (settings.measurement_error * expected[sizes - 1]) ** 2
    return change, weight**2 * variance * np.divide(variance, told, out=np.zeros_like(told), where=told > 0)


def _expected_improvement(change: Numbers, error: Numbers) -> Numbers:
    """E max(0, X) of X normal with mean *change* and standard deviation *error*."""
    error = np.maximum(error, 1e-12)
    ratio = change / error
    below = 0.5 * (1.0 + np.vectorize(math.erf)(ratio / math.sqrt(2.0)))
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2.0 * math.pi)
    improvement: Numbers = change * below + error * density
    return improvement
