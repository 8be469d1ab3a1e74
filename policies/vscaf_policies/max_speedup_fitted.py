"""The largest sum of speedups, on curves of any shape that are fitted to the measurements."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.bounds import MOST_OF_EQUAL, claim_limits, equal_partition, limiting_claims, most_of_equal
from vscaf_policies.by_worth import split_by_worth
from vscaf_policies.estimates import Numbers, cautious, expected, worths
from vscaf_policies.explanations import worth_reasons
from vscaf_policies.state import (
    Options,
    PoolState,
    explained_by,
    exploring,
    refuse_unknown_options,
    timeless,
)

USE = 0.02
"""Speedup that is added for each CPU in use, so that CPUs stay free only if using them does clear harm."""

MOST = 3.0
"""The default of the option: the smallest limit that costs at most 1% of the best split (SECURITY.md has the table)."""


def _reasons(pool: PoolState, options: Options, cpus: Mapping[str, int]) -> dict[str, str]:
    curves = worths(pool)

    def value(speedups: Numbers, chunks: NDArray[np.int64], weights: Numbers) -> Numbers:
        return weights * speedups

    most = claim_limits(pool, most_of_equal("max-speedup-fitted", options, MOST))
    return worth_reasons(
        pool,
        cpus,
        lambda one, chunks: cautious(curves[one.name], chunks),
        value,
        what="weight x speedup, less its error,",
        most_cpus=most,
    )


@explained_by(_reasons)
@exploring
@limiting_claims(MOST)
@timeless
def max_speedup_fitted(pool: PoolState, options: Options) -> dict[str, int]:
    """The split with the largest sum of weight x S(p), S of any shape as fitted (SCAF's goal: Creech 2015, eq. 4.3).

    SCAF solves it for S(p) = 1 + C ln p only, which avoids extreme splits (section 7.3). An estimate is reduced by its
    error. A newcomer and a domain whose S is not known get the equal share; the others split the remainder. CPUs that
    would make every domain slower stay free. The daemon explores for this policy. Option `most_of_equal`: how many
    times the equal share, or its share by weight, a domain can get, at least 1 (default 3); 0: no limit
    (bounds.claim_limits).
    """
    refuse_unknown_options("max-speedup-fitted", options, frozenset({MOST_OF_EQUAL}))
    equal = equal_partition(pool)
    limits = claim_limits(pool, most_of_equal("max-speedup-fitted", options, MOST), equal=equal)
    curves = worths(pool)

    def value(speedups: Numbers, chunks: NDArray[np.int64], weights: Numbers) -> Numbers:
        return weights * speedups + USE * pool.chunk * (chunks - 1)

    allocations = split_by_worth(
        pool, lambda one, chunks: cautious(curves[one.name], chunks), value, most_cpus=limits, equal=equal
    )
    if sum(allocations.values()) > pool.cpus - pool.chunk:
        return allocations
    # Caution is for CPUs that others would lose. A free CPU goes to a domain that it is not expected to slow down.
    domains = [replace(one, minimum=max(one.minimum, allocations[one.name])) for one in pool.domains]
    rest = replace(pool, domains=tuple(domains))
    return split_by_worth(rest, lambda one, chunks: expected(curves[one.name], chunks), value, most_cpus=limits)
