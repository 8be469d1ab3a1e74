"""The largest sum of speedups, on curves of any shape that are fitted to the measurements."""

from dataclasses import replace

import numpy as np

from vscaf_policies.bounds import MOST_OF_EQUAL, limited_claims
from vscaf_policies.by_worth import split_by_worth
from vscaf_policies.estimates import Numbers, worth
from vscaf_policies.state import DomainState, Options, PoolState, exploring, refuse_unknown_options, timeless

USE = 0.02
"""Speedup that is added for each CPU in use, so that CPUs stay free only if using them does clear harm."""


@exploring
@timeless
def max_speedup_fitted(pool: PoolState, options: Options) -> dict[str, int]:
    """The split with the largest sum of weight x S(p), S of any shape as fitted (SCAF's goal: Creech 2015, eq. 4.3).

    SCAF solves it for S(p) = 1 + C ln p only, which avoids extreme splits (section 7.3). An estimate is reduced by its
    error. A newcomer and a domain whose S is not known get the equal share; the others split the remainder. CPUs that
    would make every domain slower stay free. The daemon explores for this policy. Option `most_of_equal`: how many
    times the equal share a domain can get, at least 1; without it there is no limit (bounds.limited_claims).
    """
    refuse_unknown_options("max-speedup-fitted", options, frozenset({MOST_OF_EQUAL}))
    pool = limited_claims(pool, "max-speedup-fitted", options)
    allocations = split_by_worth(pool, lambda domain, chunks: _worth_of(pool, domain, chunks, cautious=True))
    if sum(allocations.values()) > pool.cpus - pool.chunk:
        return allocations
    # Caution is for CPUs that others would lose. A free CPU goes to a domain that it is not expected to slow down.
    domains = [replace(one, minimum=max(one.minimum, allocations[one.name])) for one in pool.domains]
    rest = replace(pool, domains=tuple(domains))
    return split_by_worth(rest, lambda domain, chunks: _worth_of(pool, domain, chunks, cautious=False))


def _worth_of(pool: PoolState, domain: DomainState, chunks: int, *, cautious: bool) -> Numbers | None:
    known = worth(domain, pool)
    if known is None:
        return None
    values = (known.cautious if cautious else known.expected)[:chunks]
    worths: Numbers = domain.weight * values + USE * pool.chunk * np.arange(len(values))
    return worths
