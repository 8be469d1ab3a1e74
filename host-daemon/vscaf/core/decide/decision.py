"""From the state of the pool to allocations: the policy's answer within the bounds, changed only for a gain."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vscaf_policies import Answer, DomainState, Options, Policy, PolicyError, PoolState
from vscaf_policies.bounds import limits
from vscaf_policies.intpart import integer_partition

from vscaf.core.decide.damping import Asked, Damping, Turnover, change, fitted, keeping, learns, logarithmic, nearest

__all__ = ["Circumstances", "Damping", "DecideMemory", "Decision", "decide"]

DAMPING = Damping()

LEAST_GAIN = 1e-6
"""A smaller gain in the predicted sum of speedups is rounding."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a change is always worth for, once it differs: the pool and each domain's bounds and demand, in CPUs.

    bounds: the least and the most it can be given, of each domain that competes. newcomers: their names. queued,
    suspended: those that the policy gives none although they compete; they are not in bounds.
    """

    cpus: int
    chunk: int
    bounds: Mapping[str, tuple[int, int]]
    newcomers: frozenset[str]
    queued: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()

    def same_as(self, former: "Circumstances | None") -> bool:
        """Whether nothing calls for action since: a newcomer that is none any more does not."""
        return former is not None and self == replace(former, newcomers=self.newcomers & former.newcomers)


@dataclass(frozen=True, slots=True)
class DecideMemory:
    """What decide hands to its next call. Empty: nothing was decided yet, and the next decision acts at once.

    knowledge: the domains with what had been learned of them when the present allocations were decided.
    """

    circumstances: Circumstances | None = None
    knowledge: Mapping[str, DomainState] = field(default_factory=dict)
    target: Mapping[str, int] = field(default_factory=dict)
    sharing: frozenset[str] = frozenset()
    turnover: Turnover = field(default_factory=Turnover)
    asked: Asked = field(default_factory=Asked)


@dataclass(frozen=True, slots=True)
class Decision:
    """allocations: CPUs by name, whole chunks, 0: rests; every domain of the pool is named.

    sharing: domains that share one chunk by time because there are more that compete than chunks; each is said to
    have that chunk, so it counts once in the sum. queued, suspended: domains with demand that have 0 by the policy's
    word, until they are admitted, or run again. reasons: for each domain that changes, "from -> to: why".
    managed: False where the policy leaves everything alone; allocations are then the present ones.
    """

    allocations: Mapping[str, int]
    sharing: frozenset[str]
    reasons: Mapping[str, str]
    managed: bool
    memory: DecideMemory
    queued: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()


def decide(
    pool: PoolState,
    policy: Policy,
    options: Options,
    memory: DecideMemory = DecideMemory(),
    damping: Damping = DAMPING,
) -> Decision:
    """Ask the policy and hold its answer to the bounds. DomainState.allocation is what each domain has at present.

    Laws, whatever the policy says: a domain without demand that may rest has 0, as has one that the policy queues or
    suspends; every other is within its bounds in whole chunks (bounds rounded up to chunks); the sum is at most the
    pool. An answer that obeys this stands, also where it leaves chunks over. Minima that do not fit are cut, the
    largest first, to one chunk; where even that does not fit, the domains of least priority, then weight, share the
    last chunk.

    Damping: the present allocations stay while they obey the laws, the circumstances (bounds, demand, newcomers,
    pool) are those they were decided in, and the policy would only change them for what was learned since, unless
    that pays (core/decide/damping.py), or, with some gain, is what a policy that does not explore goes on asking for;
    then the domains that waited long enough have their part of it, and the others change as far as that needs. A policy
    that changes its mind for another reason (its options, the time) acts at once; to tell, it is asked a second time
    with the former knowledge: it has to be pure. Where circumstances did change, the answer of a policy that goes by
    fitted curves is carried out as far as it concerns those whose circumstances they are, and beyond that as far as it
    pays.

    Raises PolicyError where the policy refuses its options or answers with something else than CPUs by name;
    ValueError for a pool without one whole chunk or with two domains of one name.
    """
    _check(pool)
    present = {domain.name: domain.allocation for domain in pool.domains}
    asking = tuple(domain for domain in pool.domains if domain.demand > 0 or not domain.may_rest)
    said = policy(replace(pool, domains=asking), options)
    if said is None:
        return Decision(present, frozenset(), {}, False, DecideMemory())
    answer, queued, suspended = _taken_apart(said, asking)
    competing = tuple(one for one in asking if one.name not in queued | suspended) if queued or suspended else asking

    circumstances = replace(_circumstances(pool, competing), queued=queued, suspended=suspended)
    bounds = circumstances.bounds
    target, sharing = _within_bounds(pool, competing, bounds, answer, memory.sharing)
    answered = target
    gain, same = 0.0, circumstances.same_as(memory.circumstances)
    asked = memory.asked if same else Asked()
    still_asked = asked.none()
    turnover = memory.turnover
    if memory.circumstances is not None and not same:
        turnover = turnover.after(pool.time_s, changed=True)
    if target != present and same:  # else the gain is no reason for anything
        by_curves = learns(policy)
        speedup_of = fitted(pool) if by_curves else logarithmic
        change_now = change(pool, competing, present, target, speedup_of)
        gain = change_now.gain
        horizon_s = turnover.after(pool.time_s, changed=False).horizon_s(damping.horizon_s)
        pays = change_now.pays(damping.threshold_fitted if by_curves else damping.threshold, horizon_s, damping)
        if not pays and _keeps_laws(pool, competing, bounds, present, target):
            former = policy(replace(pool, domains=tuple(_as_known(domain, memory) for domain in asking)), options)
            if former is not None:
                formerly, _ = _within_bounds(pool, competing, bounds, _taken_apart(former, asking)[0], memory.sharing)
                if formerly == memory.target:  # it would change only for what was learned, and that is worth too little
                    asking_on = not by_curves and gain > LEAST_GAIN
                    asked = asked.after(present, target, pool, damping) if asking_on else asked.none()
                    due = asked.due(pool.time_s, damping)
                    if not due:
                        return Decision(present, frozenset(), {}, True, replace(memory, asked=asked), queued, suspended)
                    target = nearest(present, target, frozenset(bounds) - due)
                    still_asked = asked.followed(due)
    elif target != present and learns(policy) and memory.circumstances is not None and not sharing:
        target = _as_far_as_it_pays(pool, competing, circumstances, memory, target, damping, turnover)

    knowledge = {domain.name: domain for domain in competing}
    decided = DecideMemory(circumstances, knowledge, answered, sharing, turnover, still_asked)
    changed = (
        target != present or sharing != memory.sharing or _waiting(circumstances) != _waiting(memory.circumstances)
    )
    reasons = _reasons(pool, target, memory, decided, gain) if changed else {}
    return Decision(target, sharing, reasons, True, decided, queued, suspended)


def _check(pool: PoolState) -> None:
    if pool.chunk < 1 or pool.cpus < pool.chunk:
        raise ValueError(f"pool of {pool.cpus} CPUs in chunks of {pool.chunk}: give it at least one whole chunk")
    names = [domain.name for domain in pool.domains]
    doubles = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if doubles:
        raise ValueError(f"domain {doubles[0]!r} is in the pool twice: name each domain once")


def _taken_apart(
    said: Mapping[str, int] | Answer, asking: tuple[DomainState, ...]
) -> tuple[Mapping[str, int], frozenset[str], frozenset[str]]:
    """The policy's CPUs by name, and whom it queues and suspends. PolicyError where that cannot be."""
    cpus = said.cpus if isinstance(said, Answer) else said
    if not isinstance(cpus, Mapping):
        raise PolicyError(f"the policy answered with {cpus!r}: return CPUs by name, an Answer of that, or None")
    if not isinstance(said, Answer):
        return cpus, frozenset(), frozenset()
    may_rest = {domain.name: domain.may_rest for domain in asking}
    for name in sorted({*said.queued, *said.suspended}):
        if name not in may_rest:
            raise PolicyError(f"the policy keeps {name!r} waiting, which is not in the pool: name its domains")
        if name in said.queued and not may_rest[name]:
            raise PolicyError(f"the policy queues {name!r}, which may not rest: give it CPUs, or suspend it")
    suspended = frozenset(said.suspended)
    return cpus, frozenset(said.queued) - suspended, suspended


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
    """The policy's answer held to the laws: allocations of all domains, and who shares the last chunk."""
    chunk, chunks = pool.chunk, pool.cpus // pool.chunk
    allocations = {domain.name: 0 for domain in pool.domains}
    for name, cpus in answer.items():
        if type(cpus) is not int or cpus < 0 or name not in allocations:
            _check_answer(name, cpus, allocations)
    if len(competing) > chunks:
        # Who has a chunk of its own keeps it, so that nothing moves while nothing changes.
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
    # What the policy leaves over, it leaves over: it may save power, or hold a split that was set by hand.
    if sum(allocations.values()) > chunks * chunk:
        shares = {domain.name: float(answer.get(domain.name, domain.allocation)) for domain in competing}
        low_of = {name: low for name, (low, _high) in bounds.items()}
        high_of = {name: high for name, (_low, high) in bounds.items()}
        allocations.update(integer_partition(shares, pool.cpus, chunk, low_of, high_of))
    return allocations, frozenset()


def _check_answer(name: str, cpus: object, allocations: Mapping[str, int]) -> None:
    """Raise PolicyError unless the policy may have said this of a domain."""
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
    """Whether the present allocations could stay: whole chunks, within bounds, no less used, nobody sharing."""
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


def _as_known(domain: DomainState, memory: DecideMemory) -> DomainState:
    """The domain with what was known of it when the present allocations were decided."""
    return keeping(domain, memory.knowledge.get(domain.name))


def _as_far_as_it_pays(  # noqa: PLR0917 (what it depends on)
    pool: PoolState,
    competing: tuple[DomainState, ...],
    circumstances: Circumstances,
    memory: DecideMemory,
    target: dict[str, int],
    damping: Damping,
    turnover: Turnover,
) -> dict[str, int]:
    """The target, or the nearest to what is in which those whose circumstances have changed have their part of it."""
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
    """Those that the policy keeps waiting, each with the way it does."""
    if circumstances is None:
        return frozenset()
    queued = [("queued", name) for name in circumstances.queued]
    return frozenset([*queued, *(("suspended", name) for name in circumstances.suspended)])


def _reasons(
    pool: PoolState, target: Mapping[str, int], memory: DecideMemory, decided: DecideMemory, gain: float
) -> dict[str, str]:
    """One phrase for each domain that changes, or begins to wait. decided: the memory that the decision leaves."""
    former, circumstances, sharing = memory.circumstances, decided.circumstances, decided.sharing
    assert circumstances is not None  # a decision was made
    bounds_before = former.bounds if former else {}
    bounds_now = circumstances.bounds
    moved = sorted(name for name in {*bounds_before, *bounds_now} if bounds_before.get(name) != bounds_now.get(name))
    named = frozenset(moved)
    of_others = f"demand or bounds changed of {', '.join(moved[:3])}{' and more' if len(moved) > 3 else ''}"
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
            why = "suspended: others have this slice of time"
        elif after == 0:
            why = "no demand, it rests"
        elif is_sharing:
            why = f"more domains than chunks, it shares the last one with {len(sharing) - 1} more"
        elif was_sharing:
            why = "there is a chunk of its own again"
        elif former is not None and name in former.queued:
            why = f"admitted: there is room for its minimum of {domain.minimum}"
        elif former is not None and name in former.suspended:
            why = "it has this slice of time"
        elif before == 0:
            why = f"it shows demand for {domain.demand}"
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
