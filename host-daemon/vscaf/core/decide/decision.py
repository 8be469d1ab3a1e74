"""From the state of the pool to allocations: the policy's answer, held to the bounds and damped."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vscaf_policies import Answer, DomainState, Options, Policy, PolicyError, PoolState
from vscaf_policies.bounds import limits
from vscaf_policies.intpart import integer_partition

from vscaf.core.decide.damping import (
    Damping,
    PendingChanges,
    Turnover,
    change,
    fitted,
    keeping,
    learns,
    logarithmic,
    nearest,
)

__all__ = ["Circumstances", "Damping", "DecideMemory", "Decision", "decide"]

DAMPING = Damping()

LEAST_GAIN = 1e-6
"""A smaller gain in the predicted sum of speedups is rounding."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The facts whose change always justifies new allocations: the pool, and each domain's bounds and demand, in CPUs.

    bounds: the fewest and the most CPUs that each competing domain can get. newcomers: the names of the newcomers.
    queued, suspended: domains with demand to which the policy gives no CPUs. They are not in bounds.
    """

    cpus: int
    chunk: int
    bounds: Mapping[str, tuple[int, int]]
    newcomers: frozenset[str]
    queued: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()

    def same_as(self, former: "Circumstances | None") -> bool:
        """Whether nothing has changed that requires action. A domain that stopped being a newcomer does not."""
        return former is not None and self == replace(former, newcomers=self.newcomers & former.newcomers)


@dataclass(frozen=True, slots=True)
class DecideMemory:
    """What decide passes to its next call. Empty: nothing was decided yet, and the next decision acts at once.

    knowledge: the domains, with what was known of them when the present allocations were decided. asked: the policy,
    its options and the domains with that knowledge, once the policy gave the same answer about them again.
    """

    circumstances: Circumstances | None = None
    knowledge: Mapping[str, DomainState] = field(default_factory=dict)
    asked: tuple[object, ...] = ()
    target: Mapping[str, int] = field(default_factory=dict)
    sharing: frozenset[str] = frozenset()
    turnover: Turnover = field(default_factory=Turnover)
    pending: PendingChanges = field(default_factory=PendingChanges)


@dataclass(frozen=True, slots=True)
class Decision:
    """allocations: CPUs by name, in whole chunks, 0: it rests. Every domain of the pool is named.

    sharing: domains that share one chunk by time because more domains compete than there are chunks. The allocation of
    each is that chunk, which counts once in the sum. queued, suspended: domains with demand that get 0 from the policy,
    until they are admitted or resumed. reasons: for each domain that changes, "from -> to: why". managed: False if the
    policy changes nothing; allocations are then the present ones. answered: what the policy answered now, held to the
    bounds: the allocations without damping.
    """

    allocations: Mapping[str, int]
    sharing: frozenset[str]
    reasons: Mapping[str, str]
    managed: bool
    memory: DecideMemory
    queued: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()
    answered: Mapping[str, int] = field(default_factory=dict)


def decide(
    pool: PoolState,
    policy: Policy,
    options: Options,
    memory: DecideMemory = DecideMemory(),
    damping: Damping = DAMPING,
) -> Decision:
    """Ask the policy and hold its answer to the bounds. DomainState.allocation is each domain's present allocation.

    Laws, whatever the policy answers. A domain gets 0 if it has no demand and may rest, or if the policy queues or
    suspends it. Every other domain is within its bounds, in whole chunks (bounds are rounded up to chunks). The sum is
    at most the pool. An answer that obeys these laws is used unchanged, even if it leaves chunks unused. Minima that do
    not fit are cut, the largest first, to one chunk. If even that does not fit, the domains of least priority, then
    weight, share the last chunk.

    Damping. The present allocations stay if all of this holds: they obey the laws; the circumstances (bounds, demand,
    newcomers, pool) are those in which they were decided; the policy would change them only because of what was learned
    since; and that does not pay (core/decide/damping.py). Exception: a policy that does not explore keeps asking for
    the change, and there is some gain. Then the domains that waited long enough get their part of the change, and the
    others change as far as that needs. A policy that changes its answer for another reason (its options, the time) acts
    at once. To tell these cases apart, the policy is called a second time with the former knowledge, so it must be
    pure. A policy that declares that the time does not matter (`timeless`) is not asked the same again. If
    circumstances did change, the answer of a policy that uses fitted curves is carried out for the domains whose
    circumstances changed, and for the others as far as it pays.

    Raises PolicyError if the policy refuses its options or its answer is not CPUs by name; ValueError for a pool
    without one whole chunk or with two domains of the same name.
    """
    _check(pool)
    present = {domain.name: domain.allocation for domain in pool.domains}
    asking = tuple(domain for domain in pool.domains if domain.demand > 0 or not domain.may_rest)
    asked = replace(pool, domains=asking)
    policy_answer = policy(asked, options)
    if policy_answer is None:
        return Decision(present, frozenset(), {}, False, DecideMemory())
    answer, queued, suspended = _parts_of(policy_answer, asking)
    competing = tuple(one for one in asking if one.name not in queued | suspended) if queued or suspended else asking

    circumstances = replace(_circumstances(pool, competing), queued=queued, suspended=suspended)
    bounds = circumstances.bounds
    target, sharing = _within_bounds(pool, competing, bounds, answer, memory.sharing)
    answered = target
    gain, same = 0.0, circumstances.same_as(memory.circumstances)
    pending = memory.pending if same else PendingChanges()
    still_pending = pending.none()
    turnover = memory.turnover
    if memory.circumstances is not None and not same:
        turnover = turnover.after(pool.time_s, changed=True)
    if target != present and same:  # in the other cases the gain does not matter
        by_curves = learns(policy)
        speedup_of = fitted(asked) if by_curves else logarithmic
        change_now = change(pool, competing, present, target, speedup_of)
        gain = change_now.gain
        horizon_s = turnover.after(pool.time_s, changed=False).horizon_s(damping.horizon_s)
        pays = change_now.pays(damping.threshold_fitted if by_curves else damping.threshold, horizon_s, damping)
        if not pays and _keeps_laws(pool, competing, bounds, present, target):
            memory, repeats = _asked_again(pool, competing, bounds, asking, policy, options, memory)
            if repeats:  # only new knowledge changed the answer, and the change does not pay
                asking_on = not by_curves and gain > LEAST_GAIN
                pending = pending.after(present, target, pool, damping) if asking_on else pending.none()
                due = pending.due(pool.time_s, damping)
                if not due:
                    remembered = replace(memory, pending=pending)
                    return Decision(present, frozenset(), {}, True, remembered, queued, suspended, answered)
                target = nearest(present, target, frozenset(bounds) - due)
                still_pending = pending.followed(due)
    elif target != present and learns(policy) and memory.circumstances is not None and not sharing:
        target = _as_far_as_it_pays(asked, competing, circumstances, memory, target, damping, turnover)

    knowledge = {domain.name: domain for domain in competing}
    decided = DecideMemory(circumstances, knowledge, (), answered, sharing, turnover, still_pending)
    changed = (
        target != present or sharing != memory.sharing or _waiting(circumstances) != _waiting(memory.circumstances)
    )
    reasons = _reasons(pool, target, memory, decided, gain) if changed else {}
    return Decision(target, sharing, reasons, True, decided, queued, suspended, answered)


def _check(pool: PoolState) -> None:
    if pool.chunk < 1 or pool.cpus < pool.chunk:
        raise ValueError(f"pool of {pool.cpus} CPUs in chunks of {pool.chunk}: give it at least one whole chunk")
    names = [domain.name for domain in pool.domains]
    doubles = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if doubles:
        raise ValueError(f"domain {doubles[0]!r} is in the pool twice: name each domain once")


def _parts_of(
    policy_answer: Mapping[str, int] | Answer, asking: tuple[DomainState, ...]
) -> tuple[Mapping[str, int], frozenset[str], frozenset[str]]:
    """The policy's CPUs by name, and the domains that it queues and suspends. PolicyError if the answer is invalid."""
    cpus = policy_answer.cpus if isinstance(policy_answer, Answer) else policy_answer
    if not isinstance(cpus, Mapping):
        raise PolicyError(f"the policy answered with {cpus!r}: return CPUs by name, an Answer of that, or None")
    if not isinstance(policy_answer, Answer):
        return cpus, frozenset(), frozenset()
    may_rest = {domain.name: domain.may_rest for domain in asking}
    for name in sorted({*policy_answer.queued, *policy_answer.suspended}):
        if name not in may_rest:
            raise PolicyError(f"the policy keeps {name!r} waiting, which is not in the pool: name only its domains")
        if name in policy_answer.queued and not may_rest[name]:
            raise PolicyError(f"the policy queues {name!r}, which may not rest: give it CPUs, or suspend it")
    suspended = frozenset(policy_answer.suspended)
    return cpus, frozenset(policy_answer.queued) - suspended, suspended


def _circumstances(pool: PoolState, competing: tuple[DomainState, ...]) -> Circumstances:
    cpus = pool.cpus // pool.chunk * pool.chunk
    bounds = {domain.name: limits(domain, pool.chunk) for domain in competing}
    above = {name: (low if low < cpus else cpus, cpus) for name, (low, high) in bounds.items() if high > cpus}
    bounds.update(above)
    newcomers = frozenset([domain.name for domain in competing if domain.newcomer])
    return Circumstances(pool.cpus, pool.chunk, bounds, newcomers)


def _within_bounds(
    pool: PoolState,
    competing: tuple[DomainState, ...],
    bounds: Mapping[str, tuple[int, int]],
    answer: Mapping[str, int],
    sharing_before: frozenset[str],
) -> tuple[dict[str, int], frozenset[str]]:
    """The policy's answer held to the laws: the allocations of all domains, and those that share the last chunk."""
    chunk, chunks = pool.chunk, pool.cpus // pool.chunk
    allocations = {domain.name: 0 for domain in pool.domains}
    for name, cpus in answer.items():
        if type(cpus) is not int or cpus < 0 or name not in allocations:
            _check_answer(name, cpus, allocations)
    if len(competing) > chunks:
        # A domain with a chunk of its own keeps it, so that nothing moves while nothing changes.
        order = sorted(
            competing,
            key=lambda d: (
                -d.priority,
                -d.weight,
                d.name in sharing_before or d.allocation == 0,
                -answer.get(d.name, d.allocation),
                d.name,
            ),
        )
        allocations.update({domain.name: chunk for domain in competing})
        return allocations, frozenset(domain.name for domain in order[chunks - 1 :])
    for domain in competing:
        name = domain.name
        cpus = answer.get(name, domain.allocation)
        low, high = bounds[name]
        if cpus <= low:
            allocations[name] = low
        elif cpus >= high:
            allocations[name] = high
        else:
            allocations[name] = -(-cpus // chunk) * chunk
    # CPUs that the policy leaves unused stay unused: it may save power, or keep a split that was set by hand.
    if sum(allocations.values()) > chunks * chunk:
        shares = {domain.name: float(answer.get(domain.name, domain.allocation)) for domain in competing}
        low_of = {name: low for name, (low, _high) in bounds.items()}
        high_of = {name: high for name, (_low, high) in bounds.items()}
        allocations.update(integer_partition(shares, pool.cpus, chunk, low_of, high_of))
    return allocations, frozenset()


def _check_answer(name: str, cpus: object, allocations: Mapping[str, int]) -> None:
    """Raises PolicyError unless this is a valid answer for a domain."""
    if name not in allocations:
        raise PolicyError(f"the policy gave CPUs to {name!r}, which is not in the pool: return names of its domains")
    if isinstance(cpus, bool) or not isinstance(cpus, int) or cpus < 0:
        raise PolicyError(f"the policy gave {name!r} {cpus!r} CPUs: return a whole number >= 0")


def _keeps_laws(
    pool: PoolState,
    competing: tuple[DomainState, ...],
    bounds: Mapping[str, tuple[int, int]],
    present: Mapping[str, int],
    target: Mapping[str, int],
) -> bool:
    """Whether the present allocations could stay: whole chunks, within bounds, no fewer CPUs used, no sharing."""
    chunk, chunks = pool.chunk, pool.cpus // pool.chunk
    if len(competing) > chunks:
        return False
    minima_fit = sum([low for low, _high in bounds.values()]) <= chunks * chunk
    for name, (low, high) in bounds.items():
        cpus = present[name]
        if cpus % chunk or cpus > high or cpus < (low if minima_fit else chunk):
            return False
    if any(present[domain.name] for domain in pool.domains if domain.name not in bounds):
        return False
    return sum(target.values()) <= sum(present.values()) <= chunks * chunk


def _asked_again(  # noqa: PLR0917 (what it depends on)
    pool: PoolState,
    competing: tuple[DomainState, ...],
    bounds: Mapping[str, tuple[int, int]],
    asking: tuple[DomainState, ...],
    policy: Policy,
    options: Options,
    memory: DecideMemory,
) -> tuple[DecideMemory, bool]:
    """Whether the policy answers as before if nothing is known of the domains but what was known then.

    Also returns the memory with the domains that it was asked about. They are the same objects in the next period, if
    only what is known of them changes again.
    """
    knowledge = memory.knowledge
    former = tuple([keeping(domain, knowledge.get(domain.name)) for domain in asking])
    asked = (policy, dict(options), former)
    if asked == memory.asked and getattr(policy, "timeless", False):
        return memory, True
    answer = policy(replace(pool, domains=former), options)
    if answer is None:
        return memory, False
    formerly, _ = _within_bounds(pool, competing, bounds, _parts_of(answer, asking)[0], memory.sharing)
    if formerly != memory.target:
        return memory, False
    again = {domain.name: domain for domain in former if domain.name in knowledge}
    return replace(memory, knowledge=again, asked=asked), True


def _as_far_as_it_pays(  # noqa: PLR0917 (what it depends on)
    pool: PoolState,
    competing: tuple[DomainState, ...],
    circumstances: Circumstances,
    memory: DecideMemory,
    target: dict[str, int],
    damping: Damping,
    turnover: Turnover,
) -> dict[str, int]:
    """The target if it pays, else the allocations nearest to the present ones.

    In both, the domains whose circumstances have changed have their target.
    """
    assert memory.circumstances is not None  # there was a decision before
    former, chunk = memory.circumstances, pool.chunk
    new = circumstances.newcomers ^ former.newcomers
    present = {domain.name: domain.allocation for domain in pool.domains}
    settled = frozenset(
        name
        for name, (low, high) in circumstances.bounds.items()
        if name not in new
        and former.bounds.get(name) == (low, high)
        and low <= present[name] <= high
        and present[name] % chunk == 0
    )
    near = nearest(present, target, settled)
    extra = change(pool, competing, near, target, fitted(pool))
    horizon_s = turnover.horizon_s(damping.horizon_s)
    return target if near == target or extra.pays(damping.threshold_fitted, horizon_s, damping) else near


def _waiting(circumstances: Circumstances | None) -> frozenset[tuple[str, str]]:
    """The domains that the policy keeps waiting, each with "queued" or "suspended"."""
    if circumstances is None:
        return frozenset()
    queued = [("queued", name) for name in circumstances.queued]
    return frozenset([*queued, *(("suspended", name) for name in circumstances.suspended)])


def _reasons(
    pool: PoolState, target: Mapping[str, int], memory: DecideMemory, decided: DecideMemory, gain: float
) -> dict[str, str]:
    """One phrase for each domain that changes or begins to wait. decided: the memory after the decision."""
    former, circumstances, sharing = memory.circumstances, decided.circumstances, decided.sharing
    assert circumstances is not None  # a decision was made
    bounds_before = former.bounds if former else {}
    bounds_now = circumstances.bounds
    moved = sorted(name for name in {*bounds_before, *bounds_now} if bounds_before.get(name) != bounds_now.get(name))
    named = frozenset(moved)
    of_others = f"demand or bounds changed: {', '.join(moved[:3])}{' and more' if len(moved) > 3 else ''}"
    begin_to_wait = {name for _way, name in _waiting(circumstances) - _waiting(former)}
    reasons = {}
    for domain in pool.domains:
        name, before, after = domain.name, domain.allocation, target[domain.name]
        was_sharing, is_sharing = name in memory.sharing, name in sharing
        if before == after and was_sharing == is_sharing and name not in begin_to_wait:
            continue
        if name in circumstances.queued:
            why = f"queued: there is no room for its minimum of {domain.minimum}"
        elif name in circumstances.suspended:
            why = "suspended: others have the present slice of time"
        elif after == 0:
            why = "no demand, it rests"
        elif is_sharing:
            why = f"more domains than chunks, it shares the last chunk with {len(sharing) - 1} more"
        elif was_sharing:
            why = "it has a chunk of its own again"
        elif former is not None and name in former.queued:
            why = f"admitted: there is room for its minimum of {domain.minimum}"
        elif former is not None and name in former.suspended:
            why = "it has the present slice of time"
        elif before == 0:
            why = f"it now has a demand of {domain.demand}"
        elif former is None:
            why = "first decision"
        elif (former.cpus, former.chunk) != (circumstances.cpus, circumstances.chunk):
            why = f"the pool is now {circumstances.cpus} CPUs in chunks of {circumstances.chunk}"
        elif name in named:
            why = f"it could now use {bounds_now[name][1]} (demand {domain.demand}, maximum {domain.maximum})"
        elif moved:
            why = of_others
        elif circumstances.newcomers - former.newcomers:
            why = f"equal shares for {', '.join(sorted(circumstances.newcomers - former.newcomers)[:3])}"
        else:
            why = f"the policy's new answer, predicted sum of speedups {gain:+.1%}"
        reasons[name] = f"{before} -> {after}: {why}"
    return reasons
