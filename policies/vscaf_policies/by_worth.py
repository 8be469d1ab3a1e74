"""A split of the pool by what CPUs are worth to each domain; a domain whose worth is not known gets the equal share."""

from bisect import bisect_right
from collections.abc import Callable

from vscaf_policies.bounds import bounded_partition, competes, limits
from vscaf_policies.intpart import partition_chunks
from vscaf_policies.optimum import Curve, best_partition_bounded
from vscaf_policies.state import DomainState, Options, PolicyError, PoolState

WorthOf = Callable[[DomainState, int], Curve | None]
"""Arguments: a domain and a number of chunks n. Result: what 1, 2, ..., n chunks are worth to it; None: not known."""


def split_by_worth(
    pool: PoolState, worth_of: WorthOf, least_cpus: int = 1, lend_to_unknown: bool = True
) -> dict[str, int]:
    """CPUs for every domain of the pool: the largest sum of worth within the bounds, in whole chunks.

    Domains that do not compete get 0. Domains whose worth is not known get the equal share, within their bounds, and
    the others split the remainder. Chunks that bring those nothing go to the unknown domains if lend_to_unknown, else
    they stay free. If all are unknown, this is equipartition. least_cpus: the least CPUs of every domain whose worth is
    known, up to its maximum and as far as the pool allows. The order of the domains does not matter; ties go by name.
    If there are more domains than chunks, the first by weight, then by name, get one chunk each. For curves that are
    not concave the result may miss the optimum by a known bound, so that a decision is quick (best_partition_bounded).
    """
    chunk, chunks = pool.chunk, pool.cpus // pool.chunk
    domains = sorted((domain for domain in pool.domains if competes(domain)), key=lambda domain: domain.name)
    if len(domains) > chunks:
        return bounded_partition(pool, {domain.name: domain.weight for domain in domains})
    bounds = {domain.name: [cpus // chunk for cpus in limits(domain, chunk)] for domain in domains}
    worth = {domain.name: worth_of(domain, min(bounds[domain.name][1], chunks)) for domain in domains}
    known = [domain.name for domain in domains if worth[domain.name] is not None]
    unknown = [domain.name for domain in domains if worth[domain.name] is None]
    allocations = bounded_partition(pool, {domain.name: 1.0 for domain in domains})
    if not known:
        return allocations

    rest = chunks - sum(allocations[name] // chunk for name in unknown)

    def raised(level: int) -> list[int]:
        return [max(bounds[name][0], min(level, bounds[name][1])) for name in known]

    # The highest level that fits: least_cpus must not cut the minimum of any domain.
    low = raised(bisect_right(range(1, -(-least_cpus // chunk) + 1), rest, key=lambda level: sum(raised(level))))
    curves = [curve for name in known if (curve := worth[name]) is not None]
    parts = best_partition_bounded(curves, low, [bounds[name][1] for name in known], rest).parts
    allocations.update({name: part * chunk for name, part in zip(known, parts, strict=True)})
    if unknown and lend_to_unknown:
        share = [allocations[name] // chunk for name in unknown]
        most = [max(part, bounds[name][1]) for name, part in zip(unknown, share, strict=True)]
        lent = partition_chunks([1.0] * len(unknown), sum(share) + rest - sum(parts), share, most)
        allocations.update({name: part * chunk for name, part in zip(unknown, lent, strict=True)})
    return allocations


def number_option(policy: str, options: Options, name: str, default: float, most: float) -> float:
    """A number from 0 to most from a policy's options. Raises PolicyError for anything else."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise PolicyError(f"policy {policy}: option {name} is {value!r}: give a number from 0 to {most:g}")
    return float(value)
