"""As much speedup as CPUs bring that are worth their power; the others stay free."""

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.by_worth import number_option, split_by_worth
from vscaf_policies.estimates import worth
from vscaf_policies.state import DomainState, Options, PoolState, refuse_unknown_options

THRESHOLD = 0.25
"""Speedup per CPU."""

MOST_THRESHOLD = 2.0
"""No CPU is believed to bring more (Creech 2015, section 5.2.2): above this nobody would get more than its minimum."""


def efficiency(pool: PoolState, options: Options) -> dict[str, int]:
    """The largest sum of weight x (S(p) - threshold x p) within the bounds: CPUs that bring less stay unused.

    Creech (2015, section 8.5): a program with S(2) = 2 and S(8) = 2.1 had better run on 2 CPUs, at a quarter of the
    power. Above its minimum, whatever number of CPUs a domain would give back, it would lose more than the threshold
    for each; where the curve is concave that holds for each chunk by itself. Minima hold whatever they bring. Weights
    decide between domains only where the pool is too small for all CPUs that pay.

    Option threshold: speedup per CPU, 0 to 2, default 0.25. For orientation: energy times time, p / S^2, falls with p
    as long as a CPU brings more than half of the efficiency S / p, so a threshold of 0.25 is where a program that runs
    at an efficiency of 50% ends. 0 leaves only those CPUs free that bring nothing.

    S is as estimated (estimates.worth); a newcomer and a domain of which nothing is known get the equal share and no
    more. It does not explore: that would hand out CPUs which this leaves unused. Raises PolicyError for other options
    or a threshold out of range.
    """
    refuse_unknown_options("efficiency", options, frozenset({"threshold"}))
    threshold = number_option("efficiency", options, "threshold", THRESHOLD, MOST_THRESHOLD)

    def surplus(domain: DomainState, chunks: int) -> NDArray[np.float64] | None:
        known = worth(domain, pool)
        if known is None:
            return None
        cpus = pool.chunk * np.arange(1, chunks + 1)
        net: NDArray[np.float64] = domain.weight * (known.expected[:chunks] - threshold * cpus)
        return net

    return split_by_worth(pool, surplus, lend_to_unknown=False)
