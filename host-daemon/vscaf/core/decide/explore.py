"""Exploration: varies allocations on purpose, a little, so that curves are known around and beyond the present split.

A split can only be as good as the knowledge of the sizes that it does not use. So chunks are moved between two domains
for a while if the resulting split could be better. This is judged by its expected improvement, from the estimates and
their errors (Jones, Schonlau and Welch 1998, eq. 15). If the curves are known, no other split can be better by enough,
and nothing moves. The losses are charged to an account, so they are bounded even if the estimates are wrong.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from vscaf_policies import DomainState, PoolState
from vscaf_policies.bounds import claim_limits, limits
from vscaf_policies.estimates import Worth, worth

from vscaf.core.decide.decision import Decision

Numbers = NDArray[np.float64]

ALIKE = 1.0
"""Errors of two sizes are correlated, less with their distance: the correlation is 1/e at this distance in ln p."""

UNUSED = ""
"""Stands for the unused CPUs, as giver or as taker. A taker, because more CPUs make some programs slower."""


@dataclass(frozen=True, slots=True)
class ExploreSettings:
    """How much is varied. Losses and gains are shares of the predicted sum of weighted speedups."""

    steady: float = 0.01
    """The share that may be lost on average."""
    steady_most_s: float = 0.3
    """How much of that can be saved up, in seconds of the whole sum."""
    startup_s: float = 2.0
    """The allowance after the set of competing domains has changed, in the same unit."""
    startup_again_s: float = 60.0
    """A spent allowance is restored over this time."""
    least_gain: float = 0.002
    """The least expected improvement that is worth a variation."""
    step: float = 4.0
    """The largest factor between a domain's size and a size that is tried."""
    dwell_s: float = 2.5
    """How long a variation lasts from its decision. It is then covered by two or three reports."""
    horizon_s: float = 60.0
    """How long the result of a variation is useful."""
    transition_s: float = 0.5
    """How long a domain takes to change to another size."""
    measurement_error: float = 0.06
    """The relative error of the result of one variation."""
    unforeseen: float = 0.4
    """The relative error of a curve for each factor of e from the nearest measured size, in addition to the error of
    the fit itself."""
    far: float = 0.78
    """Some size from this share of a domain's maximum on should be known. A fit cannot predict a step in the curve, and
    sizes that are cheap to try are rarely that large."""
    far_error: float = 0.2
    """The relative error of a curve at those sizes, in addition to the other errors, while none of them is known."""
    domains: int = 16
    """The most domains that are considered in one call."""
    consider_s: float = 0.5
    """The time between searches for a variation."""
    most_of_equal: float = 0.0
    """The most that a variation gives a domain, in equal shares (bounds.claim_limits). 0: no limit."""


@dataclass(frozen=True, slots=True)
class ExploreMemory:
    """What explore passes to its next call. Empty: nothing was varied yet.

    base: the decision that is varied now. varied: the allocations that differ from it, CPUs by name; both are empty if
    nothing is varied. whole: the predicted sum of the base. since_s: the time when the variation began. at_s: the time
    of the last call. considered_at_s: the time of the last search for a variation. exhausted_knowledge: the knowledge
    (and the duration of a transition, which is a part of the cost) with which that search found none, or none that
    costs less than enough_s. account_s: what may still be lost, in seconds of the whole sum. granted_at_s: the time of
    the last start-up allowance. competing: the domains that competed in the last call. lost_s: the cost of exploring so
    far. watched_s: the time in which that cost arose. charged_s: the cost charged for the present variation.
    """

    base: Mapping[str, int] = field(default_factory=dict)
    varied: Mapping[str, int] = field(default_factory=dict)
    whole: float = 0.0
    since_s: float = 0.0
    at_s: float | None = None
    considered_at_s: float = -math.inf
    exhausted_knowledge: tuple[object, ...] = ()
    enough_s: float = math.inf
    account_s: float = 0.0
    granted_at_s: float = -math.inf
    competing: frozenset[str] = frozenset()
    lost_s: float = 0.0
    watched_s: float = 0.0
    charged_s: float = 0.0

    @property
    def cost(self) -> float:
        """The share of the sum of speedups that exploring has cost on average since it began."""
        return self.lost_s / self.watched_s if self.watched_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Exploration:
    """allocations: CPUs by name, for every domain of the decision. reasons: for domains that are varied from now on.

    cost: ExploreMemory.cost.
    """

    allocations: Mapping[str, int]
    reasons: Mapping[str, str]
    memory: ExploreMemory
    cost: float


def unvaried(pool: PoolState, memory: ExploreMemory) -> PoolState:
    """The pool for decide(): varied domains have the allocation that was decided for them."""
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
    """The decision, with chunks moved between two domains, or between one and the unused CPUs, if that is worth trying.

    pool: as it was given to decide(). Laws: every domain stays within its bounds and in whole chunks. No domain begins
    or stops to rest. The sum is at most the pool; if chunks go from one domain to another, it is the decision's sum.
    Nothing is varied while fewer than two domains compete, while domains share a chunk, and while the account is empty.
    Newcomers and domains without a known curve are not varied. In any time t at most steady x t + steady_most_s +
    startup_s x (1 + t / startup_again_s) is spent, except for the cost of a variation beyond its expected cost.
    """
    domains = {domain.name: domain for domain in pool.domains}
    memory = _passed(pool, domains, decision, memory, settings)
    if memory.varied and pool.time_s - memory.since_s < settings.dwell_s:
        return _exploration(decision, memory)
    if memory.varied:
        memory = _settled(pool, domains, memory)
    elif pool.time_s - memory.considered_at_s < settings.consider_s:
        return _exploration(decision, memory)
    if decision.sharing or not decision.managed or len(memory.competing) < 2 or memory.account_s <= 0.0:
        return _exploration(decision, memory)
    memory = replace(memory, considered_at_s=pool.time_s)
    curves = _curves(pool, decision, settings.most_of_equal)
    about = [(curve.worth, curve.domain.weight, curve.low, curve.high) for curve in curves]
    knowledge = (pool.cpus, decision.allocations, settings.transition_s, *about)
    if memory.exhausted_knowledge == knowledge and memory.account_s < memory.enough_s:
        return _exploration(decision, memory)
    whole = math.fsum([curve.at(curve.size) for curve in curves])
    if whole <= 0:
        return _exploration(decision, memory)
    move, enough_s = _best_move(pool, decision, curves, whole, memory.account_s, settings)
    if move is None:
        return _exploration(decision, replace(memory, exhausted_knowledge=knowledge, enough_s=enough_s))
    return _begun(pool, decision, move, whole, memory, settings)


@dataclass(frozen=True, slots=True)
class _Curve:
    """A domain that can be varied. low, high, size: in chunks. chunk: in CPUs."""

    domain: DomainState
    worth: Worth
    low: int
    high: int
    size: int
    chunk: int

    def at(self, size: int) -> float:
        """The expected weighted speedup."""
        expected = self.worth.expected
        return self.domain.weight * float(expected[min(max(size, 1), len(expected)) - 1])


def _curve(pool: PoolState, domain: DomainState, allocation: int) -> _Curve | None:
    """The domain's curve. None: it is not known, or the domain has no CPU."""
    known = worth(domain, pool) if allocation > 0 else None
    if known is None:
        return None
    low, high = limits(domain, pool.chunk)
    most = min(high // pool.chunk, len(known.expected))
    return _Curve(domain, known, max(1, low // pool.chunk), most, allocation // pool.chunk, pool.chunk)


def _curves(pool: PoolState, decision: Decision, most_of_equal: float) -> list[_Curve]:
    found = [_curve(pool, domain, decision.allocations.get(domain.name, 0)) for domain in pool.domains]
    curves = [curve for curve in found if curve is not None]
    most = claim_limits(pool, most_of_equal)
    if not most:
        return curves
    highest = [most.get(curve.domain.name, pool.cpus) // pool.chunk for curve in curves]
    return [replace(one, high=high) if high < one.high else one for one, high in zip(curves, highest, strict=True)]


def _passed(
    pool: PoolState,
    domains: Mapping[str, DomainState],
    decision: Decision,
    memory: ExploreMemory,
    settings: ExploreSettings,
) -> ExploreMemory:
    """*memory* after the time since the last call: the account gets its income and is charged the losses."""
    now_s = pool.time_s
    elapsed_s = max(0.0, now_s - memory.at_s) if memory.at_s is not None else 0.0
    lost_s = elapsed_s * _loss_rate(pool, domains, memory)
    account_s, granted_at_s = memory.account_s, memory.granted_at_s
    if account_s < settings.steady_most_s:
        account_s = min(settings.steady_most_s, account_s + settings.steady * elapsed_s)
    competing = frozenset([name for name, cpus in decision.allocations.items() if cpus])
    if competing != memory.competing and len(competing) > 1:
        account_s += settings.startup_s * min(1.0, (now_s - granted_at_s) / settings.startup_again_s)
        account_s = min(account_s, settings.startup_s + settings.steady_most_s)
        granted_at_s = now_s
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
    if memory.varied and (memory.base != decision.allocations or decision.sharing or not decision.managed):
        return replace(memory, base={}, varied={}, charged_s=0.0)
    return memory


def _loss_rate(pool: PoolState, domains: Mapping[str, DomainState], memory: ExploreMemory) -> float:
    """The share of the sum that the present variation costs, by the curves as known now. Never below 0."""
    losses = []
    for name, cpus in memory.varied.items():
        curve = _curve(pool, domains[name], memory.base[name]) if name in domains else None
        if curve is None:
            return 0.0
        losses.append(curve.at(curve.size) - curve.at(cpus // pool.chunk))
    return max(0.0, math.fsum(losses) / memory.whole) if memory.whole > 0 else 0.0


def _settled(pool: PoolState, domains: Mapping[str, DomainState], memory: ExploreMemory) -> ExploreMemory:
    """*memory* after the variation has ended. Its cost is corrected to the curves as known now."""
    more_s = (pool.time_s - memory.since_s) * _loss_rate(pool, domains, memory) - memory.charged_s
    return replace(
        memory,
        base={},
        varied={},
        account_s=memory.account_s - more_s,
        lost_s=max(0.0, memory.lost_s + more_s),
        charged_s=0.0,
    )


def _exploration(decision: Decision, memory: ExploreMemory, reasons: Mapping[str, str] = {}) -> Exploration:
    allocations = {**decision.allocations, **memory.varied} if memory.varied else decision.allocations
    return Exploration(allocations, reasons, memory, memory.cost)


@dataclass(frozen=True, slots=True)
class _Move:
    """Moves *chunks* from giver to taker. One of the two may be UNUSED. worth_s: its worth in seconds of the sum."""

    giver: str
    taker: str
    chunks: int
    improvement: float
    worth_s: float


def _begun(  # noqa: PLR0917 (what it depends on)
    pool: PoolState,
    decision: Decision,
    move: _Move,
    whole: float,
    memory: ExploreMemory,
    settings: ExploreSettings,
) -> Exploration:
    cpus = move.chunks * pool.chunk
    base = dict(decision.allocations)
    varied = {name: base[name] + more for name, more in ((move.giver, -cpus), (move.taker, cpus)) if name != UNUSED}
    why = f"exploring, {move.improvement:.1%} of the sum of speedups may be gained"
    reasons = {name: f"{base[name]} -> {to}: {why}" for name, to in varied.items()}
    on_the_way_s = 2 * settings.transition_s * cpus / pool.cpus
    memory = replace(
        memory,
        base=base,
        varied=varied,
        whole=whole,
        since_s=pool.time_s,
        account_s=memory.account_s - on_the_way_s,
        lost_s=memory.lost_s + on_the_way_s,
        charged_s=0.0,
    )
    return _exploration(decision, memory, reasons)


def _best_move(  # noqa: PLR0917 (what it depends on)
    pool: PoolState,
    decision: Decision,
    curves: list[_Curve],
    whole: float,
    account_s: float,
    settings: ExploreSettings,
) -> tuple[_Move | None, float]:
    """The move with the largest worth: its expected improvement over the horizon, minus the cost of trying it.

    None: there is no move with positive worth that the account can pay. Also returns the account balance that the
    cheapest move with positive worth needs.

    The cost of a CPU during the two transitions, to the variation and back, is that of the mean CPU.
    """
    listed = sorted(
        curves, key=lambda curve: (-curve.domain.weight * float(curve.worth.error.max()), curve.domain.name)
    )
    listed = listed[: settings.domains]
    spare = (pool.cpus - sum(decision.allocations.values())) // pool.chunk
    nothing = (np.zeros(0), np.zeros(0))
    givers = {curve.domain.name: _differences(curve, -1, settings) for curve in listed}
    takers = {curve.domain.name: _differences(curve, +1, settings) for curve in listed}
    givers[UNUSED] = (np.zeros(spare), np.zeros(spare)) if spare > 0 else nothing
    most = max([len(change) for change, _ in givers.values()], default=0)
    takers[UNUSED] = (np.zeros(most), np.zeros(most))
    best: _Move | None = None
    enough_s = math.inf
    for giver, (loss, loss_variance) in givers.items():
        for taker, (gain, gain_variance) in takers.items():
            steps = min(len(loss), len(gain))
            if giver == taker or steps == 0:
                continue
            change = (loss[:steps] + gain[:steps]) / whole
            error = np.sqrt(loss_variance[:steps] + gain_variance[:steps]) / whole
            improvement = expected_improvement(change, error)
            moved = np.arange(1, steps + 1) * pool.chunk / pool.cpus
            cost_s = settings.dwell_s * np.maximum(0.0, -change) + 2 * settings.transition_s * moved
            worth_s = improvement * settings.horizon_s - cost_s
            worth_s[improvement < settings.least_gain] = -1.0
            enough_s = min(enough_s, float(np.min(cost_s, where=worth_s > 0, initial=math.inf)))
            worth_s[cost_s > account_s] = -1.0
            step = int(np.argmax(worth_s))
            if worth_s[step] > 0 and (best is None or worth_s[step] > best.worth_s + 1e-12):
                best = _Move(giver, taker, step + 1, float(improvement[step]), float(worth_s[step]))
    return best, enough_s


def _differences(curve: _Curve, direction: int, settings: ExploreSettings) -> tuple[Numbers, Numbers]:
    """The change of the weighted speedup, and its variance, for 1, 2, ... chunks more (way 1) or less (way -1).

    The variance is that of the estimate after a measurement at that size, as predicted now. So uncertainty counts only
    as far as one variation can reduce it (the knowledge gradient: Frazier, Powell and Dayanik 2008).
    """
    size = curve.size
    if size > len(curve.worth.expected):
        return np.zeros(0), np.zeros(0)
    if direction > 0:
        sizes = np.arange(size + 1, min(curve.high, math.ceil(size * settings.step)) + 1)
    else:
        sizes = np.arange(size - 1, max(curve.low, math.floor(size / settings.step)) - 1, -1)
    if len(sizes) == 0:
        return np.zeros(0), np.zeros(0)
    expected, distance = curve.worth.expected, curve.worth.distance
    error = np.hypot(curve.worth.error, settings.unforeseen * distance * expected)
    far = math.ceil(settings.far * curve.high)
    # A team need not use all threads of its last core. So a size counts as measured if it is less than a chunk away.
    near_by = np.log1p((curve.chunk - 0.5) / (curve.chunk * np.arange(far, curve.high + 1)))
    if direction > 0 and (distance[far - 1 : curve.high] > near_by).all():  # none of them was measured
        error[far - 1 :] = np.hypot(error[far - 1 :], settings.far_error * expected[far - 1 :])
    present_error, errors = error[size - 1], error[sizes - 1]
    alike = np.exp(-np.abs(np.log(sizes / size)) / ALIKE)
    variance = (errors - present_error) ** 2 + 2 * present_error * errors * (1 - alike)
    observed_variance = variance + (settings.measurement_error * expected[sizes - 1]) ** 2
    learned = variance * np.divide(
        variance, observed_variance, out=np.zeros_like(observed_variance), where=observed_variance > 0
    )
    weight = curve.domain.weight
    return weight * (expected[sizes - 1] - expected[size - 1]), weight**2 * learned


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def expected_improvement(change: Numbers, error: Numbers) -> Numbers:
    """E max(0, X), where X is normal with mean *change* and standard deviation *error*."""
    error = np.maximum(error, 1e-12)
    ratio = change / error
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2.0 * math.pi)
    improvement: Numbers = change * 0.5 * (1.0 + _ERF(ratio / math.sqrt(2.0))) + error * density
    return improvement
