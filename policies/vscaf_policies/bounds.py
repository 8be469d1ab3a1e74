"""The bounds of a domain, in whole chunks, and a partition of the pool within them."""

import math
from collections.abc import Callable, Mapping

from vscaf_policies.intpart import integer_partition, partition_chunks
from vscaf_policies.state import DomainState, Options, PolicyError, PoolState, SomePolicy

MOST_OF_EQUAL = "most_of_equal"
"""Option of policies that use the speedup that guests report: see claim_limits."""


def competes(domain: DomainState) -> bool:
    """Whether the domain wants CPUs now: it has demand, or may not rest."""
    return domain.demand > 0 or not domain.may_rest


def whole_chunks(cpus: int, chunk: int) -> int:
    """CPUs rounded up to whole chunks, in CPUs, at least one chunk: another domain cannot use the rest of a core."""
    return max(1, -(-cpus // chunk)) * chunk


def smallest(domain: DomainState, chunk: int) -> int:
    """The least CPUs that the domain gets while it competes, in CPUs of whole chunks."""
    return whole_chunks(min(domain.minimum, domain.maximum), chunk)


def largest(domain: DomainState, chunk: int) -> int:
    """The most CPUs that the domain can be given now: min(maximum, max(demand, minimum)), rounded up to chunks."""
    return whole_chunks(min(domain.maximum, max(domain.demand, domain.minimum)), chunk)


def limits(domain: DomainState, chunk: int) -> tuple[int, int]:
    """smallest and largest in one call, for callers that need them for many domains."""
    minimum, maximum, demand = domain.minimum, domain.maximum, domain.demand
    # A call of min or max takes as long as everything else here.
    most = maximum if demand > maximum or minimum > maximum else demand if demand > minimum else minimum
    least = maximum if minimum > maximum else minimum
    low, high = -(-least // chunk) * chunk, -(-most // chunk) * chunk
    return (low if low > 0 else chunk), (high if high > 0 else chunk)


def bounded_partition(pool: PoolState, shares: Mapping[str, float]) -> dict[str, int]:
    """CPUs for every domain of the pool. Those that compete split it by their shares within their bounds; others get 0.

    shares must name every domain that competes. CPUs that one domain cannot use go to the others by their shares.
    """
    chunk, chunks = pool.chunk, pool.cpus // pool.chunk
    allocations = {domain.name: 0 for domain in pool.domains}
    bounds = {domain.name: limits(domain, chunk) for domain in pool.domains if domain.demand > 0 or not domain.may_rest}
    names = sorted(bounds)
    asked = [shares[name] for name in names]
    if not names or len(names) > chunks or not all(map(math.isfinite, asked)) or min(asked) < 0:
        allocations.update(integer_partition({name: shares[name] for name in names}, pool.cpus, chunk))
        return allocations
    low, high = ([bounds[name][which] // chunk for name in names] for which in (0, 1))
    for name, part in zip(names, partition_chunks(asked, chunks, low, high), strict=True):
        allocations[name] = part * chunk
    return allocations


def equal_partition(pool: PoolState) -> dict[str, int]:
    """CPUs for every domain of the pool: equal shares for those that compete, within their bounds."""
    return bounded_partition(pool, {domain.name: 1.0 for domain in pool.domains})


def most_of_equal(policy: str, options: Options, default: float = 0.0) -> float:
    """options["most_of_equal"], else the default. 0: no limit. PolicyError if it is neither 0 nor at least 1."""
    most = options.get(MOST_OF_EQUAL, default)
    if isinstance(most, bool) or not isinstance(most, int | float) or not (most == 0 or 1.0 <= most < math.inf):
        raise PolicyError(
            f"policy {policy}: option {MOST_OF_EQUAL} is {most!r}: give a number of at least 1, or 0 for no limit"
        )
    return float(most)


def limiting_claims(most: float) -> Callable[[SomePolicy], SomePolicy]:
    """Decorator: *most* is the default of the policy's option, which exploring must know too.

    It sets the attribute `most_of_equal`, which vscaf reads.
    """

    def limited(policy: SomePolicy) -> SomePolicy:
        policy.most_of_equal = most  # type: ignore[attr-defined]  # as in state.exploring
        return policy

    return limited


def claim_limits(
    pool: PoolState, most: float, *, by_weight: bool = True, equal: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The most CPUs of each competing domain: `most` times its equal share. Empty: there is no limit (most is 0).

    The host cannot tell a guest that computes from one that only keeps its CPUs busy. If guests are not trusted to
    report true figures, this limits what a lie brings. An honest domain that deserves more loses by it. The equal share
    is that of equipartition, which gives CPUs that some domains cannot use to the others. by_weight: a domain whose
    share by the users' weights is larger has its limit from that share, because weights are no claim of the guest.
    equal: equal_partition(pool), if the caller knows it.
    """
    if most == 0:
        return {}
    shares = equal_partition(pool) if equal is None else equal
    if by_weight and len({domain.weight for domain in pool.domains}) > 1:
        weighted = bounded_partition(pool, {domain.name: domain.weight for domain in pool.domains})
        shares = {name: max(share, weighted[name]) for name, share in shares.items()}
    chunk, cpus = pool.chunk, pool.cpus
    return {
        name: max(share, int(min(most * share, cpus)) // chunk * chunk) for name, share in shares.items() if share > 0
    }
