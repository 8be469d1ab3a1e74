"""The bounds of a domain, in whole chunks, and a partition of the pool within them."""

from collections.abc import Mapping

from vscaf_policies.intpart import integer_partition
from vscaf_policies.state import DomainState, PoolState


def competes(domain: DomainState) -> bool:
    """Whether the domain wants CPUs now: it has demand, or may not rest."""
    return domain.demand > 0 or not domain.may_rest


def whole_chunks(cpus: int, chunk: int) -> int:
    """CPUs rounded up to whole chunks, in CPUs, at least one chunk: what is left of a core is no use to others."""
    return max(1, -(-cpus // chunk)) * chunk


def smallest(domain: DomainState, chunk: int) -> int:
    """The least CPUs that the domain gets while it competes, in CPUs of whole chunks."""
    return whole_chunks(min(domain.minimum, domain.maximum), chunk)


def largest(domain: DomainState, chunk: int) -> int:
    """The most CPUs that the domain can be given now: min(maximum, max(demand, minimum)), rounded up to chunks."""
    return whole_chunks(min(domain.maximum, max(domain.demand, domain.minimum)), chunk)


def bounded_partition(pool: PoolState, shares: Mapping[str, float]) -> dict[str, int]:
    """CPUs for every domain of the pool: those that compete split it by their shares within their bounds, the rest 0.

    shares must name every domain that competes. What one cannot use goes to the others by their shares.
    """
    allocations = {domain.name: 0 for domain in pool.domains}
    competing = [domain for domain in pool.domains if competes(domain)]
    allocations.update(
        integer_partition(
            {domain.name: shares[domain.name] for domain in competing},
            pool.cpus,
            pool.chunk,
            {domain.name: smallest(domain, pool.chunk) for domain in competing},
            {domain.name: largest(domain, pool.chunk) for domain in competing},
        )
    )
    return allocations
