"""SCAF's policy: the largest sum of speedups under the model S(p) = 1 + C ln p."""

import math
from collections.abc import Mapping
from dataclasses import replace

from vscaf_policies.bounds import MOST_OF_EQUAL, bounded_partition, claim_limits, most_of_equal
from vscaf_policies.state import (
    DomainState,
    Options,
    PoolState,
    explained_by,
    ignoring_weights,
    refuse_unknown_options,
    timeless,
)


def _reasons(pool: PoolState, options: Options, cpus: Mapping[str, int]) -> dict[str, str]:
    shares, made = exact_shares(pool), {}
    for domain in pool.domains:
        if domain.name not in shares:
            continue
        weight = _known_weight(domain)
        how = f"its C is {weight:.2f}" if weight is not None else "its C is not known, so its share is an equal one"
        made[domain.name] = f"{how}: {shares[domain.name]:.2f} of {pool.cpus} CPUs by eq. 4.9, before bounds"
    return made


@explained_by(_reasons)
@ignoring_weights
@timeless
def max_speedup(pool: PoolState, options: Options) -> dict[str, int]:
    """p_i = N C_i / sum C (Creech 2015, eq. 4.9), within the bounds.

    A newcomer and a domain whose C is not known get the equal share N / k; the others split the remainder by C. If no
    C is known, this is equipartition. The user's weights do not count, as in SCAF. Option `most_of_equal`: how
    many times the equal share a domain can get, at least 1; 0 (default): no limit (see bounds.claim_limits).
    """
    refuse_unknown_options("max-speedup", options, frozenset({MOST_OF_EQUAL}))
    most, shares = most_of_equal("max-speedup", options), exact_shares(pool)
    if most > 0:
        limits = claim_limits(pool, most, by_weight=False)
        domains = [replace(one, maximum=min(one.maximum, limits.get(one.name, one.maximum))) for one in pool.domains]
        pool = replace(pool, domains=tuple(domains))
    return bounded_partition(pool, shares)


def exact_shares(pool: PoolState) -> dict[str, float]:
    """The real-valued shares of the domains that compete, before bounds and whole chunks; they sum to the pool.

    If a domain's weight is the sum of its processes' weights and its agent splits the domain's share by them, each
    process gets the same as on one machine without domains.
    """
    competing = [domain for domain in pool.domains if domain.demand > 0 or not domain.may_rest]
    known = {domain.name: weight for domain in competing if (weight := _known_weight(domain)) is not None}
    weights = math.fsum(known.values())
    equal_share = pool.cpus / max(1, len(competing))
    remainder = equal_share * len(known)
    shares = {domain.name: equal_share for domain in competing}
    shares.update({name: remainder * weight / weights for name, weight in known.items()})
    return shares


def _known_weight(domain: DomainState) -> float | None:
    """C of the domain if it can be used: finite, above zero, and not the first estimate of a newcomer."""
    weight = domain.scaf_weight
    if domain.newcomer or weight is None or not math.isfinite(weight) or weight <= 0:
        return None
    return weight
