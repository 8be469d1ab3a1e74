"""Whether a change of allocations is worth what it costs, and the nearest one where the whole is not.

A change is worth its gain in the predicted sum of speedups for as long as it lasts, which is until circumstances change
again. It costs what the domains that change lose while they are on the way. Thatcher (2016, section 5.8) shows what
becomes of it otherwise: programs that come and go every two seconds (LSSS) made a partitioned machine slower than an
unpartitioned one, because each of them had all others repartitioned.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from vscaf_policies import DomainState, Policy, PoolState

from vscaf.core.model.scaf import predicted_speedup

TURNOVER_S = 20.0
"""How often circumstances change is a mean over about so long."""


@dataclass(frozen=True, slots=True)
class Damping:
    """threshold: relative gain in the predicted sum of speedups below which nothing changes (0.03: 3%).

    threshold_fitted: the same where the prediction is from curves that were fitted to measurements. transition_s: how
    long a domain that changes is on the way. horizon_s: for how long a change lasts, at most. moved: where a policy
    wants less speedup (for fairness, or power), the share of the pool that it has to move for that.

    For policies that do not explore, whose gain by SCAF's model says little (it is flat about its optimum): much_share:
    of a domain's CPUs beyond which a change of it, of more than one chunk, is much. decisions: in how many in a row
    much is asked for before it is done. patience_s: for how long anything less is. See Asked.
    """

    threshold: float = 0.03
    threshold_fitted: float = 0.01
    transition_s: float = 0.5
    horizon_s: float = 60.0
    moved: float = 0.05
    much_share: float = 0.1
    decisions: int = 2
    patience_s: float = 4.0

    def much(self, more: int, cpus: int, chunk: int) -> bool:
        """Whether so many more CPUs, or fewer (below 0), are much for a domain that has *cpus*."""
        return abs(more) > max(chunk, self.much_share * cpus)


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


@dataclass(frozen=True, slots=True)
class Wish:
    """What the policy asks for a domain in one decision after the other. way: 1 for more CPUs, -1 for fewer.

    since_s: when it began to. much: in how many decisions in a row it was for much (Damping.much).
    """

    way: int
    since_s: float
    much: int


@dataclass(frozen=True, slots=True)
class Asked:
    """What a policy goes on asking for although its gain does not pay, by domain.

    SCAF carries out every answer of eq. 4.9, four times a second, and comes to its split in steps that hardly gain
    anything by its own model. A domain follows here once it was to change the same way for Damping.decisions, where
    that is much, or for Damping.patience_s; the patience doubles, up to horizon_s, each time that it is to go back.
    So a domain whose share lies between two sizes does not go to and fro with the noise: it turns at most once in each
    patience_s, 2 patience_s, 4 patience_s, ..., and then once in horizon_s.

    last: the way of each domain's last change that was made for it. turned: how often that was not the way of the one
    before.
    """

    wishes: Mapping[str, Wish] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)
    turned: Mapping[str, int] = field(default_factory=dict)

    def none(self) -> "Asked":
        """After a decision in which nothing was asked for."""
        return replace(self, wishes={}) if self.wishes else self

    def after(
        self, present: Mapping[str, int], target: Mapping[str, int], pool: PoolState, damping: Damping
    ) -> "Asked":
        """After a decision in which *target* was asked for."""
        wishes = {}
        for name, cpus in present.items():
            more = target[name] - cpus
            if more:
                way = 1 if more > 0 else -1
                before = self.wishes.get(name)
                if before is None or before.way != way:
                    before = Wish(way, pool.time_s, 0)
                much = before.much + 1 if damping.much(more, cpus, pool.chunk) else 0
                wishes[name] = Wish(way, before.since_s, much)
        return replace(self, wishes=wishes)

    def due(self, now_s: float, damping: Damping) -> frozenset[str]:
        """Those for which it was asked for long enough."""
        due = []
        for name, wish in self.wishes.items():
            patience_s = min(damping.patience_s * 2 ** min(self.turned.get(name, 0), 16), damping.horizon_s)
            if wish.much >= damping.decisions or now_s - wish.since_s >= patience_s:
                due.append(name)
        return frozenset(due)

    def followed(self, due: frozenset[str]) -> "Asked":
        """After those that were due had what was asked for; the others go on waiting.

        Who had much is taken to have become another program.
        """
        last, turned = dict(self.last), dict(self.turned)
        for name in due:
            wish = self.wishes[name]
            if wish.much:
                turned[name] = 0
            elif last.get(name, wish.way) != wish.way:
                turned[name] = turned.get(name, 0) + 1
            last[name] = wish.way
        return Asked({name: wish for name, wish in self.wishes.items() if name not in due}, last, turned)


def learns(policy: Policy) -> bool:
    """Whether the policy decides by fitted curves: it says so by an attribute `explores` that is true."""
    return bool(getattr(policy, "explores", False))


SpeedupOf = Callable[[DomainState, int], float]


def logarithmic(domain: DomainState, cpus: int) -> float:
    """The predicted speedup of SCAF's model."""
    return predicted_speedup(domain.scaf_weight, cpus)


def fitted(pool: PoolState) -> SpeedupOf:
    """The predicted weighted speedup by the fitted curve; linear where there is none."""
    from vscaf_policies.estimates import worth  # noqa: PLC0415  (numpy, which clients do without)

    def speedup_of(domain: DomainState, cpus: int) -> float:
        if cpus < pool.chunk:
            return 0.0
        known = worth(domain, pool)
        if known is None:
            return domain.weight * cpus
        return domain.weight * float(known.cautious[min(cpus // pool.chunk, len(known.cautious)) - 1])

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
