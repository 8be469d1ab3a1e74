"""The largest sum of speedups, on curves that are fitted to what was measured, whatever their shape."""

from vscaf_policies.bounds import bounded_partition, limits
from vscaf_policies.estimates import worth
from vscaf_policies.intpart import partition_chunks
from vscaf_policies.optimum import best_partition
from vscaf_policies.state import Options, PoolState, refuse_unknown_options

USE = 0.02
"""Speedup that a CPU in use counts beyond what it brings: CPUs stay free only where giving them does clear harm."""


def max_speedup_fitted(pool: PoolState, options: Options) -> dict[str, int]:
    """The split with the largest sum of weight x S(p), S as fitted, exactly (SCAF's goal: Creech 2015, eq. 4.3).

    SCAF solves it for S(p) = 1 + C ln p alone, which shuns extreme splits (section 7.3). Beyond the measured sizes an
    estimate is discounted by its error. A newcomer and a domain of which nothing is known get the equal share; the
    others split the remainder. CPUs that would make everybody slower are left over. Takes no option.
    """
    refuse_unknown_options("max-speedup-fitted", options)
    equal = bounded_partition(pool, {domain.name: 1.0 for domain in pool.domains})
    competing = sorted((d for d in pool.domains if d.demand > 0 or not d.may_rest), key=lambda d: d.name)
    chunk, chunks = pool.chunk, pool.cpus // pool.chunk
    worths = {domain.name: curve for domain in competing if (curve := worth(domain, pool)) is not None}
    if not worths or len(competing) > chunks:
        return equal
    known = [domain for domain in competing if domain.name in worths]
    unknown = [domain for domain in competing if domain.name not in worths]
    low, high = ([limits(domain, chunk)[which] // chunk for domain in known] for which in (0, 1))
    rest = chunks - sum(equal[domain.name] // chunk for domain in unknown)
    use = USE * chunk
    values = [
        [domain.weight * value + use * part for part, value in enumerate(worths[domain.name].cautious)]
        for domain in known
    ]
    parts = best_partition(values, low, high, rest)
    allocations = dict(equal)
    allocations.update({domain.name: part * chunk for domain, part in zip(known, parts, strict=True)})
    left_over = rest - sum(parts)
    if unknown and left_over > 0:
        least = [equal[domain.name] // chunk for domain in unknown]
        most = [max(part, limits(domain, chunk)[1] // chunk) for part, domain in zip(least, unknown, strict=True)]
        more = partition_chunks([1.0] * len(unknown), sum(least) + left_over, least, most)
        allocations.update({domain.name: part * chunk for domain, part in zip(unknown, more, strict=True)})
    return allocations


vars(max_speedup_fitted)["explores"] = True
