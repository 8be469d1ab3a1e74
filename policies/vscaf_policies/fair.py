"""Fair shares of speedup, not of CPUs: the Nash bargaining solution over the domains' speedups."""

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.by_worth import number_option, split_by_worth
from vscaf_policies.estimates import worth
from vscaf_policies.state import DomainState, Options, PoolState, refuse_unknown_options

MOST_ALPHA = 4.0
"""Beyond this the answer hardly changes any more, and gains of the best off vanish in the noise of floating point."""

_LEAST_SPEEDUP = 1e-3
"""A speedup below this counts as this: its logarithm must exist."""


def fair(pool: PoolState, options: Options) -> dict[str, int]:
    """The split with the largest product of S_i(p_i) to the power of weight_i within the bounds.

    This is Nash's bargaining solution (The Bargaining Problem, Econometrica 18, 1950) with nothing as the
    disagreement, and the proportional fairness of Kelly (European Transactions on Telecommunications 8, 1997). It
    keeps Nash's axioms: Pareto optimality; symmetry, as far as whole chunks allow (equal domains of equal weight
    differ by a chunk at most where their curve is concave); invariance to scale (a domain whose whole curve is
    multiplied gets what it got; one that overstates what it measured has another curve, for S(1) stays 1); and
    independence of irrelevant alternatives (what nobody chose can be taken away without changing the choice).

    Option alpha (default 1): the alpha-fair split of Mo and Walrand (IEEE/ACM Transactions on Networking 8, 2000), the
    largest sum of weight_i S_i^(1 - alpha) / (1 - alpha). 0 is the sum of speedups, 1 the above, and the larger alpha,
    the more the worst off counts, up to 4. Only 1 is invariant to scale.

    S is as estimated (estimates.worth); a newcomer and a domain of which nothing is known get the equal share. It does
    not explore: what the daemon explores for is a larger sum of speedups. Raises PolicyError for other options or an
    alpha that is not a number from 0 to 4.
    """
    refuse_unknown_options("fair", options, frozenset({"alpha"}))
    alpha = number_option("fair", options, "alpha", 1.0, MOST_ALPHA)

    def welfare(domain: DomainState, chunks: int) -> NDArray[np.float64] | None:
        known = worth(domain, pool)
        if known is None:
            return None
        utility: NDArray[np.float64] = np.log(np.maximum(known.expected[:chunks], _LEAST_SPEEDUP))
        if alpha != 1:  # (S^(1 - alpha) - 1) / (1 - alpha): the same but for a constant, and exact near 1 too
            utility = np.expm1((1 - alpha) * utility) / (1 - alpha)
        return domain.weight * utility

    return split_by_worth(pool, welfare)
