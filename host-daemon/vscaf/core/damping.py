"""Whether a change of allocations is worth what it costs, and the nearest one where the whole is not.

A change is worth its gain in the predicted sum of speedups for as long as it lasts, which is until circumstances change
again. It costs what the domains that change lose while they are on the way. Thatcher (2016, section 5.8) shows what
becomes of it otherwise: programs that come and go every two seconds (LSSS) made a partitioned machine slower than an
unpartitioned one, because each of them had all others repartitioned.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from vscaf_policies import DomainState, Policy, PoolState
from vscaf_policies.estimates import worth

from vscaf.core.model import predicted_speedup

TURNOVER_S = 20.0
"""How often circumstances change is a mean over about so long."""


@dataclass(frozen=True, slots=True)
class Damping:
    """threshold: relative gain in the predicted sum of speedups below which nothing changes (0.03: 3%).

    threshold_fitted: the same where the prediction is from curves that were fitted to measurements. transition_s: how
    long a domain that changes is on the way. horizon_s: for how long a change lasts, at most. moved: where a policy
    wants less speedup (for fairness, or power), the share of the pool that it has to move for that.
    """

    threshold: float = 0.03
    threshold_fitted: float = 0.01
    transition_s: float = 0.5
    horizon_s: float = 60.0
    moved: float = 0.05


@dataclass(frozen=True, slots=True)
class Turnover:
    """How often circumstances change: per_second as a mean over TURNOVER_S, at the time at_s."""

    per_second: float = 0.0
    at_s: float = 0.0

    def after(self, now_s: float, *, changed: bool) -> "Turnover":
        """The same at a later time, after one more change or none."""
        faded = self.per_second * math.exp(-max(0.0, now_s - self.at_s) / TURNOVER_S)
        return Turnover(faded + (1.0 / TURNOVER_S if changed else 0.0), now_s)

    def horizon_s(self, most_s: float) -> float:
        """How long what is decided now may be expected to last."""
        return most_s if self.per_second * most_s <= 1.0 else 1.0 / self.per_second


def learns(policy: Policy) -> bool:
    """Whether the policy decides by fitted curves: it says so by an attribute `explores` that is true."""
    return bool(getattr(policy, "explores", False))


SpeedupOf = Callable[[DomainState, int], float]


def logarithmic(domain: DomainState, cpus: int) -> float:
    """The predicted speedup of SCAF's model."""
    return predicted_speedup(domain.scaf_weight, cpus)


def fitted(pool: PoolState) -> SpeedupOf:
    """The predicted weighted speedup by the fitted curve; linear where there is none."""

    def speedup_of(domain: DomainState, cpus: int) -> float:
        if cpus < pool.chunk:
            return 0.0
        known = worth(domain, pool)
        if known is None:
            return domain.weight * cpus
        return domain.weight * known.cautious[min(cpus // pool.chunk, len(known.cautious)) - 1]

    return speedup_of


@dataclass(frozen=True, slots=True)
class Change:
    """A change of allocations. gain: relative, in the predicted sum. changing: share of that sum of those that change.

    moved: share of the pool's CPUs that go from one to another.
    """

    gain: float
    changing: float
    moved: float

    def pays(self, threshold: float, horizon_s: float, damping: Damping) -> bool:
        """Whether it is worth its cost. A gain below zero is no reason against it: the policy seeks something else."""
        if self.gain < -1e-6:
            return self.moved > damping.moved
        return self.gain > max(threshold, self.changing * damping.transition_s / horizon_s)


def change(
    pool: PoolState,
    competing: Iterable[DomainState],
    before: Mapping[str, int],
    after: Mapping[str, int],
    speedup_of: SpeedupOf,
) -> Change:
    """What going from one split to another would bring; all infinite where there was no speedup before."""
    whole, gains, changing, moved = [], [], [], 0
    for domain in competing:
        old, new = before[domain.name], after[domain.name]
        had = speedup_of(domain, old)
        whole.append(had)
        if old != new:
            gains.append(speedup_of(domain, new) - had)
            changing.append(had)
            moved += abs(new - old)
    total = math.fsum(whole)
    if total <= 0:
        return Change(math.inf, math.inf, math.inf)
    return Change(math.fsum(gains) / total, math.fsum(changing) / total, moved / 2 / pool.cpus)


def nearest(
    present: Mapping[str, int],
    target: Mapping[str, int],
    settled: frozenset[str],
) -> dict[str, int]:
    """The allocations nearest to the present ones in which all but *settled* have what they have in *target*.

    Those go from where they are towards their target as far as the others need it, or as CPUs would be idle that the
    target uses: those with the furthest to go first, so that few change. Sums to the target; settled domains have a
    multiple of the chunk within their bounds at present.
    """
    result = dict(target)
    result.update({name: present[name] for name in settled})
    over = sum(result.values()) - sum(target.values())
    way = [name for name in sorted(settled) if (present[name] - target[name]) * over > 0]
    for name in sorted(way, key=lambda name: -abs(present[name] - target[name])):
        step = min(abs(over), abs(present[name] - target[name]))
        result[name] += -step if over > 0 else step
        over += -step if over > 0 else step
    return result


def keeping(domain: DomainState, known: DomainState | None) -> DomainState:
    """The domain with what was known of it before."""
    if known is None:
        return domain
    weight, newcomer, points = known.scaf_weight, known.newcomer, known.points
    if domain.scaf_weight == weight and domain.newcomer == newcomer and domain.points == points:
        return domain
    return domain.knowing(weight, newcomer, points)


def with_allocations(pool: PoolState, allocations: Mapping[str, int]) -> PoolState:
    """The pool with other present allocations; domains that are not named have what they have."""
    return replace(
        pool,
        domains=tuple(
            [
                domain
                if allocations.get(domain.name, domain.allocation) == domain.allocation
                else replace(domain, allocation=allocations[domain.name])
                for domain in pool.domains
            ]
        ),
    )
