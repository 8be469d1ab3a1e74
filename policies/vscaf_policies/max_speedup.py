"""SCAF's policy: the largest sum of speedups under the model S(p) = 1 + C ln p."""

import math

from vscaf_policies.bounds import MOST_OF_EQUAL, bounded_partition, limited_claims
from vscaf_policies.state import DomainState, Options, PoolState, refuse_unknown_options


def max_speedup(pool: PoolState, options: Options) -> dict[str, int]:
    """p_i = N C_i / sum C (Creech 2015, eq. 4.9), within the bounds.

    A newcomer and a domain whose C is not known get the equal share N / k; the others split the remainder by C.
    Nobody known: equipartition. The user's weights do not count, as in SCAF. Option `most_of_equal`: how many equal
    shares a domain's word can bring it, at least 1; without it there is no such bound (see bounds.limited_claims).
    """
    refuse_unknown_options("max-speedup", options, frozenset({MOST_OF_EQUAL}))
    return bounded_partition(limited_claims(pool, "max-speedup", options), exact_shares(pool))


def exact_shares(pool: PoolState) -> dict[str, float]:
    """The real-valued shares of the domains that compete, before bounds and whole chunks; they sum to the pool.

    With domains' weights that are the sums of their processes' weights, an agent that splits a domain's share by its
    processes' weights gives each process what one flat machine would.
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
    """C of a domain that has one to go by: finite, above zero, and not a newcomer's first guess."""
    weight = domain.scaf_weight
    if domain.newcomer or weight is None or not math.isfinite(weight) or weight <= 0:
        return None
    return weight
