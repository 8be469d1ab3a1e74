"""From the state of the pool to allocations: the policy's answer within the bounds, changed only for a gain."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vscaf_policies import DomainState, Options, Policy, PolicyError, PoolState, SpeedupPoint
from vscaf_policies.bounds import competes, largest, smallest, whole_chunks
from vscaf_policies.intpart import integer_partition

from vscaf.core.model import predicted_speedup


@dataclass(frozen=True, slots=True)
class Damping:
    """threshold: relative gain in the predicted sum of speedups that pays for a change (0.03: 3%)."""

    threshold: float = 0.03


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What had been learned of a domain when the present allocations were decided."""

    scaf_weight: float | None
    newcomer: bool
    points: tuple[SpeedupPoint, ...]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a change is always worth for, once it differs: the pool and each domain's bounds and demand, in CPUs.

    bounds: (name, least, most it can be given) of each domain that competes, by name. newcomers: their names.
    """

    cpus: int
    chunk: int
    bounds: tuple[tuple[str, int, int], ...]
    newcomers: frozenset[str]

    def same_as(self, former: "Circumstances | None") -> bool:
        """Whether nothing calls for action since: a newcomer that is none any more does not."""
        return former is not None and self == replace(former, newcomers=self.newcomers & former.newcomers)


@dataclass(frozen=True, slots=True)
class DecideMemory:
    """What decide hands to its next call. Empty: nothing was decided yet, and the next decision acts at once."""

    circumstances: Circumstances | None = None
    knowledge: Mapping[str, Knowledge] = field(default_factory=dict)
    target: Mapping[str, int] = field(default_factory=dict)
    sharing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """allocations: CPUs by name, whole chunks, 0: rests; every domain of the pool is named.

    sharing: domains that share one chunk by time because there are more that compete than chunks; each is said to
    have that chunk, so it counts once in the sum. reasons: for each domain that changes, "from -> to: why".
    managed: False where the policy leaves everything alone; allocations are then the present ones.
    """

    allocations: Mapping[str, int]
    sharing: frozenset[str]
    reasons: Mapping[str, str]
    managed: bool
    memory: DecideMemory


def decide(
    pool: PoolState,
    policy: Policy,
    options: Options,
    memory: DecideMemory = DecideMemory(),
    damping: Damping = Damping(),
) -> Decision:
    """Ask the policy and hold its answer to the bounds. DomainState.allocation is what each domain has at present.

    Laws, whatever the policy says: a domain without demand that may rest has 0; every other is within its bounds in
    whole chunks (bounds rounded up to chunks); the sum is at most the pool. An answer that obeys this stands, also
    where it leaves chunks over. Minima that do not fit are cut, the largest first, to one chunk; where even that does
    not fit, the domains of least weight share the last chunk.

    Damping: the present allocations stay while they obey the laws, the circumstances (bounds, demand, newcomers,
    pool) are those they were decided in, and the policy would only change them for what was learned since, unless
    that is worth damping.threshold. A policy that changes its mind for another reason (its options, the time) acts
    at once; to tell, it is asked a second time with the former knowledge: it has to be pure.

    Raises PolicyError where the policy refuses its options or answers with something else than CPUs by name;
    ValueError for a pool without one whole chunk or with two domains of one name.
    """
    _check(pool)
    present = {domain.name: domain.allocation for domain in pool.domains}
    competing = tuple(domain for domain in pool.domains if competes(domain))
    answer = policy(replace(pool, domains=competing), options)
    if answer is None:
        return Decision(present, frozenset(), {}, False, DecideMemory())

    target, sharing = _within_bounds(pool, competing, answer, memory.sharing)
    circumstances = _circumstances(pool, competing)
    gain = _relative_gain(competing, present, target)
    if (
        target != present
        and circumstances.same_as(memory.circumstances)
        and _keeps_laws(pool, competing, present, target)
    ):
        former = policy(replace(pool, domains=tuple(_as_known(domain, memory) for domain in competing)), options)
        only_learned = (
            former is not None and _within_bounds(pool, competing, former, memory.sharing)[0] == memory.target
        )
        if only_learned and gain <= damping.threshold:
            return Decision(present, frozenset(), {}, True, memory)

    knowledge = {domain.name: Knowledge(domain.scaf_weight, domain.newcomer, domain.points) for domain in competing}
    decided = DecideMemory(circumstances, knowledge, target, sharing)
    return Decision(target, sharing, _reasons(pool, target, memory, decided, gain), True, decided)


def _check(pool: PoolState) -> None:
    if pool.chunk < 1 or pool.cpus < pool.chunk:
        raise ValueError(f"pool of {pool.cpus} CPUs in chunks of {pool.chunk}: give it at least one whole chunk")
    names = [domain.name for domain in pool.domains]
    doubles = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if doubles:
        raise ValueError(f"domain {doubles[0]!r} is in the pool twice: name each domain once")


def _circumstances(pool: PoolState, competing: tuple[DomainState, ...]) -> Circumstances:
    chunks = pool.cpus // pool.chunk * pool.chunk
    bounds = sorted(
        (domain.name, smallest(domain, pool.chunk), min(chunks, largest(domain, pool.chunk))) for domain in competing
    )
    newcomers = frozenset(domain.name for domain in competing if domain.newcomer)
    return Circumstances(pool.cpus, pool.chunk, tuple(bounds), newcomers)


def _within_bounds(
    pool: PoolState, competing: tuple[DomainState, ...], answer: Mapping[str, int], sharing_before: frozenset[str]
) -> tuple[dict[str, int], frozenset[str]]:
    """The policy's answer held to the laws: allocations of all domains, and who shares the last chunk."""
    shares: dict[str, float] = {}
    names = {domain.name for domain in pool.domains}
    for name, cpus in answer.items():
        if name not in names:
            raise PolicyError(
                f"the policy gave CPUs to {name!r}, which is not in the pool: return names of its domains"
            )
        if isinstance(cpus, bool) or not isinstance(cpus, int) or cpus < 0:
            raise PolicyError(f"the policy gave {name!r} {cpus!r} CPUs: return a whole number >= 0")
    for domain in competing:
        shares[domain.name] = float(answer.get(domain.name, domain.allocation))
    allocations = {domain.name: 0 for domain in pool.domains}
    chunks = pool.cpus // pool.chunk
    if len(competing) > chunks:
        # Who has a chunk of its own keeps it, so that nothing moves while nothing changes.
        order = sorted(
            competing,
            key=lambda d: (-d.weight, d.name in sharing_before or d.allocation == 0, -shares[d.name], d.name),
        )
        allocations.update({domain.name: pool.chunk for domain in competing})
        return allocations, frozenset(domain.name for domain in order[chunks - 1 :])
    low = {domain.name: smallest(domain, pool.chunk) for domain in competing}
    high = {domain.name: largest(domain, pool.chunk) for domain in competing}
    asked = {
        name: min(high[name], max(low[name], whole_chunks(math.floor(share), pool.chunk)))
        for name, share in shares.items()
    }
    if sum(asked.values()) <= chunks * pool.chunk:
        # What the policy leaves over, it leaves over: it may save power, or hold a split that was set by hand.
        allocations.update(asked)
    else:
        allocations.update(integer_partition(shares, pool.cpus, pool.chunk, low, high))
    return allocations, frozenset()


def _keeps_laws(
    pool: PoolState, competing: tuple[DomainState, ...], present: Mapping[str, int], target: Mapping[str, int]
) -> bool:
    """Whether the present allocations could stay: whole chunks, within bounds, no less used, nobody sharing."""
    chunks = pool.cpus // pool.chunk
    if len(competing) > chunks:
        return False
    low = sum(smallest(domain, pool.chunk) for domain in competing)
    minima_fit = low <= chunks * pool.chunk
    for domain in competing:
        least = smallest(domain, pool.chunk) if minima_fit else pool.chunk
        if present[domain.name] % pool.chunk or not least <= present[domain.name] <= largest(domain, pool.chunk):
            return False
    rests = all(present[domain.name] == 0 for domain in pool.domains if not competes(domain))
    return rests and sum(target.values()) <= sum(present.values()) <= chunks * pool.chunk


def _as_known(domain: DomainState, memory: DecideMemory) -> DomainState:
    """The domain with what was known of it when the present allocations were decided."""
    known = memory.knowledge.get(domain.name)
    if known is None:
        return domain
    return replace(domain, scaf_weight=known.scaf_weight, newcomer=known.newcomer, points=known.points)


def _relative_gain(competing: tuple[DomainState, ...], present: Mapping[str, int], target: Mapping[str, int]) -> float:
    """Gain of target over present in the predicted sum of speedups, relative to present; inf from nothing."""
    before = math.fsum(predicted_speedup(domain.scaf_weight, present[domain.name]) for domain in competing)
    after = math.fsum(predicted_speedup(domain.scaf_weight, target[domain.name]) for domain in competing)
    return (after - before) / before if before > 0 else math.inf


def _reasons(
    pool: PoolState, target: Mapping[str, int], memory: DecideMemory, decided: DecideMemory, gain: float
) -> dict[str, str]:
    """One phrase for each domain that changes. decided: the memory that the new decision leaves behind."""
    former, circumstances, sharing = memory.circumstances, decided.circumstances, decided.sharing
    assert circumstances is not None  # a decision was made
    bounds_before = {name: (low, high) for name, low, high in former.bounds} if former else {}
    bounds_now = {name: (low, high) for name, low, high in circumstances.bounds}
    moved = sorted(name for name in {*bounds_before, *bounds_now} if bounds_before.get(name) != bounds_now.get(name))
    reasons = {}
    for domain in pool.domains:
        name, before, after = domain.name, domain.allocation, target[domain.name]
        was_sharing, is_sharing = name in memory.sharing, name in sharing
        if before == after and was_sharing == is_sharing:
            continue
        if after == 0:
            why = "no demand, it rests"
        elif is_sharing:
            why = f"more domains than chunks, it shares the last one with {len(sharing) - 1} more"
        elif was_sharing:
            why = "there is a chunk of its own again"
        elif before == 0:
            why = f"it shows demand for {domain.demand}"
        elif former is None:
            why = "first decision"
        elif (former.cpus, former.chunk) != (circumstances.cpus, circumstances.chunk):
            why = f"the pool is now {circumstances.cpus} CPUs in chunks of {circumstances.chunk}"
        elif name in moved:
            why = f"it could now use {bounds_now[name][1]} (demand {domain.demand}, maximum {domain.maximum})"
        elif moved:
            why = f"demand or bounds changed of {', '.join(moved[:3])}{' and more' if len(moved) > 3 else ''}"
        elif circumstances.newcomers - former.newcomers:
            why = f"equal shares for {', '.join(sorted(circumstances.newcomers - former.newcomers)[:3])}"
        else:
            why = f"predicted sum of speedups {gain:+.1%}"
        reasons[name] = f"{before} -> {after}: {why}"
    return reasons
