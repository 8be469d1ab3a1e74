"""Decides whether a change of allocations is worth its cost. If not, finds the smallest change that is needed.

The gain of a change is its gain in the predicted sum of speedups, for the time until circumstances change again. Its
cost is what the changing domains lose during the transition. Thatcher (2016, section 5.8) shows the effect without
damping: programs that came and went every two seconds (LSSS) made a partitioned machine slower than an unpartitioned
one, because each of them caused all others to be repartitioned.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from vscaf_policies import DomainState, Policy, PoolState

from vscaf.core.model.scaf import predicted_speedup

TURNOVER_S = 20.0
"""The mean rate at which circumstances change is taken over about this time."""


@dataclass(frozen=True, slots=True)
class Damping:
    """threshold: the relative gain in the predicted sum of speedups below which nothing changes (0.03: 3%).

    threshold_fitted: the same if the prediction comes from curves that were fitted to measurements. transition_s: the
    duration of a domain's transition. horizon_s: the longest time that a change is assumed to last. moved: if a policy
    wants less speedup (for fairness, or power), the share of the pool that it has to move for that.

    The rest is for policies that do not explore. The gain by SCAF's model says little about them, because the model is
    flat around its optimum. much_share: a change is large if it is more than this share of a domain's CPUs and more
    than one chunk. decisions: a large change is made if so many decisions in a row ask for it. patience_s: a smaller
    change is made if it is asked for that long. See PendingChanges.
    """

    threshold: float = 0.03
    threshold_fitted: float = 0.01
    transition_s: float = 0.5
    horizon_s: float = 60.0
    moved: float = 0.05
    much_share: float = 0.1
    decisions: int = 2
    patience_s: float = 4.0

    def is_large(self, more: int, cpus: int, chunk: int) -> bool:
        """Whether *more* CPUs (negative: fewer) are a large change for a domain that has *cpus*."""
        return abs(more) > max(chunk, self.much_share * cpus)


@dataclass(frozen=True, slots=True)
class Turnover:
    """How often circumstances change: per_second is a mean over TURNOVER_S, at the time at_s."""

    per_second: float = 0.0
    at_s: float = 0.0

    def after(self, now_s: float, *, changed: bool) -> "Turnover":
        """The turnover at the later time *now_s*. changed: circumstances have changed then."""
        faded = self.per_second * math.exp(-max(0.0, now_s - self.at_s) / TURNOVER_S)
        return Turnover(faded + (1.0 / TURNOVER_S if changed else 0.0), now_s)

    def horizon_s(self, most_s: float) -> float:
        """How long a decision made now is expected to last, at most *most_s*."""
        return most_s if self.per_second * most_s <= 1.0 else 1.0 / self.per_second


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """What the policy asks for one domain in successive decisions. direction: 1 for more CPUs, -1 for fewer.

    since_s: when it began to ask. large_count: how many decisions in a row asked for a large change (Damping.is_large).
    """

    direction: int
    since_s: float
    large_count: int


@dataclass(frozen=True, slots=True)
class PendingChanges:
    """Changes that a policy keeps asking for although their gain does not pay, by domain.

    SCAF carries out every answer of eq. 4.9, four times a second, and reaches its split in steps that gain almost
    nothing by its own model. Here a domain's change is made once the policy has asked for the same direction long
    enough: in Damping.decisions decisions in a row if the change is large, else for Damping.patience_s. The patience
    doubles, up to horizon_s, each time that the direction turns back. So a domain whose share lies between two sizes
    does not change back and forth with the noise: it turns at most once in each patience_s, 2 patience_s, 4 patience_s,
    ..., and then once in horizon_s.

    last: the direction of each domain's last change that was made in this way. turned: how often that direction
    differed from the one before.
    """

    requests: Mapping[str, ChangeRequest] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)
    turned: Mapping[str, int] = field(default_factory=dict)

    def none(self) -> "PendingChanges":
        """The state after a decision in which nothing was asked for."""
        return replace(self, requests={}) if self.requests else self

    def after(
        self, present: Mapping[str, int], target: Mapping[str, int], pool: PoolState, damping: Damping
    ) -> "PendingChanges":
        """The state after a decision in which *target* was asked for."""
        requests = {}
        for name, cpus in present.items():
            difference = target[name] - cpus
            if difference:
                direction = 1 if difference > 0 else -1
                before = self.requests.get(name)
                if before is None or before.direction != direction:
                    before = ChangeRequest(direction, pool.time_s, 0)
                large_count = before.large_count + 1 if damping.is_large(difference, cpus, pool.chunk) else 0
                requests[name] = ChangeRequest(direction, before.since_s, large_count)
        return replace(self, requests=requests)

    def due(self, now_s: float, damping: Damping) -> frozenset[str]:
        """The domains whose change was asked for long enough."""
        due = []
        for name, request in self.requests.items():
            patience_s = min(damping.patience_s * 2 ** min(self.turned.get(name, 0), 16), damping.horizon_s)
            if request.large_count >= damping.decisions or now_s - request.since_s >= patience_s:
                due.append(name)
        return frozenset(due)

    def followed(self, due: frozenset[str]) -> "PendingChanges":
        """The state after the domains that were *due* got their change. The others keep waiting.

        A domain with a large change counts as another program: its turns are forgotten.
        """
        last, turned = dict(self.last), dict(self.turned)
        for name in due:
            request = self.requests[name]
            if request.large_count:
                turned[name] = 0
            elif last.get(name, request.direction) != request.direction:
                turned[name] = turned.get(name, 0) + 1
            last[name] = request.direction
        return PendingChanges(
            {name: request for name, request in self.requests.items() if name not in due}, last, turned
        )


def learns(policy: Policy) -> bool:
    """Whether the policy decides by fitted curves. It declares this with a true attribute `explores`."""
    return bool(getattr(policy, "explores", False))


SpeedupOf = Callable[[DomainState, int], float]


def logarithmic(domain: DomainState, cpus: int) -> float:
    """The speedup that SCAF's model predicts."""
    return predicted_speedup(domain.scaf_weight, cpus)


def fitted(pool: PoolState) -> SpeedupOf:
    """A function for the predicted weighted speedup of the pool's domains that compete, by the fitted curve.

    It is linear if there is no curve.
    """
    from vscaf_policies.estimates import worths  # noqa: PLC0415  (imports numpy, which clients do not need)

    curves, chunk = worths(pool), pool.chunk

    def speedup_of(domain: DomainState, cpus: int) -> float:
        if cpus < chunk:
            return 0.0
        known = curves[domain.name]
        if known is None:
            return domain.weight * cpus
        cautious = known.cautious
        return domain.weight * float(cautious[min(cpus // chunk, len(cautious)) - 1])

    return speedup_of


@dataclass(frozen=True, slots=True)
class Change:
    """A change of allocations. gain: relative gain in the predicted sum of speedups.

    changing: the share of that sum that the changing domains have. moved: the share of the pool's CPUs that change
    hands.
    """

    gain: float
    changing: float
    moved: float

    def pays(self, threshold: float, horizon_s: float, damping: Damping) -> bool:
        """Whether it is worth its cost. A negative gain does not exclude it: the policy then seeks something else."""
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
    """The change from one split to another. All its values are infinite if there was no speedup before."""
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
    """The allocations nearest to the present ones in which all domains except *settled* have their *target*.

    Settled domains move towards their target only as far as the others need it, or as CPUs that the target uses would
    be idle. Those with the largest difference move first, so that few change. The sum is that of the target. Settled
    domains must have a multiple of the chunk within their bounds at present.
    """
    result = dict(target)
    result.update({name: present[name] for name in settled})
    over = sum(result.values()) - sum(target.values())
    candidates = [name for name in sorted(settled) if (present[name] - target[name]) * over > 0]
    for name in sorted(candidates, key=lambda name: -abs(present[name] - target[name])):
        step = min(abs(over), abs(present[name] - target[name]))
        result[name] += -step if over > 0 else step
        over += -step if over > 0 else step
    return result


def keeping(domain: DomainState, known: DomainState | None) -> DomainState:
    """The domain with its former knowledge: weight, newcomer and points. *known* itself if nothing else differs."""
    if known is None:
        return domain
    if (
        known.demand == domain.demand
        and known.allocation == domain.allocation
        and known.maximum == domain.maximum
        and known.minimum == domain.minimum
        and known.weight == domain.weight
        and known.priority == domain.priority
        and known.may_rest == domain.may_rest
        and known.ipc == domain.ipc
    ):
        return known
    weight, newcomer, points = known.scaf_weight, known.newcomer, known.points
    if domain.scaf_weight == weight and domain.newcomer == newcomer and domain.points == points:
        return domain
    return domain.knowing(weight, newcomer, points)


def with_allocations(pool: PoolState, allocations: Mapping[str, int]) -> PoolState:
    """The pool with other present allocations. Domains that are not named keep theirs."""
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
