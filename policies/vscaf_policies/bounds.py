"""The bounds of a domain, in whole chunks, and a partition of the pool within them."""

import math
from collections.abc import Mapping
from dataclasses import replace

from vscaf_policies.intpart import integer_partition, partition_chunks
from vscaf_policies.state import DomainState, Options, PolicyError, PoolState

MOST_OF_EQUAL = "most_of_equal"
"""Option of policies that use the speedup that guests report: see limited_claims."""


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


def limited_claims(pool: PoolState, policy: str, options: Options) -> PoolState:
    """The pool with lower maxima: no domain can get more than options["most_of_equal"] times the equal share.

    The host cannot tell a guest that computes from one that only keeps its CPUs busy. If guests are not trusted to
    report true figures, this limits what a lie brings. An honest domain that deserves more loses by it. The equal share
    is that of equipartition, which gives CPUs that some domains cannot use to the others. Without the option, the pool
    is returned unchanged. Raises PolicyError if the option is not a number of at least 1.
    """
    most = options.get(MOST_OF_EQUAL)
    if most is None:
        return pool
    if isinstance(most, bool) or not isinstance(most, int | float) or not 1.0 <= most < math.inf:
        raise PolicyError(f"policy {policy}: option {MOST_OF_EQUAL} is {most!r}: give a number of at least 1")
    equal = bounded_partition(pool, {domain.name: 1.0 for domain in pool.domains})

    def limited(domain: DomainState) -> DomainState:
        share = equal[domain.name]
        claimed = max(share, int(min(most * share, pool.cpus)) // pool.chunk * pool.chunk)
        return replace(domain, maximum=min(domain.maximum, claimed)) if share else domain

    return replace(pool, domains=tuple(map(limited, pool.domains)))
