"""Shares speedup fairly, not CPUs: the Nash bargaining solution over the domains' speedups."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.by_worth import ValueOf, number_option, split_by_worth
from vscaf_policies.estimates import Numbers, expected, worths
from vscaf_policies.explanations import worth_reasons
from vscaf_policies.state import Options, PoolState, explained_by, refuse_unknown_options

MOST_ALPHA = 4.0
"""Above this the answer hardly changes, and gains of the domains with most speedup are below floating-point noise."""

_LEAST_SPEEDUP = 1e-3
"""A lower speedup counts as this, because its logarithm must exist."""


def _welfare(alpha: float) -> ValueOf:
    def welfare(speedups: Numbers, _chunks: NDArray[np.int64], weights: Numbers) -> Numbers:
        utility: Numbers = np.log(np.maximum(speedups, _LEAST_SPEEDUP))
        if alpha != 1:  # (S^(1 - alpha) - 1) / (1 - alpha) differs by a constant only, and is exact near alpha = 1
            utility = np.expm1((1 - alpha) * utility) / (1 - alpha)
        return weights * utility

    return welfare


def _reasons(pool: PoolState, options: Options, cpus: Mapping[str, int]) -> dict[str, str]:
    alpha = number_option("fair", options, "alpha", 1.0, MOST_ALPHA)
    what = "weight x log(speedup)" if alpha == 1 else f"weight x utility of speedup (alpha {alpha:g})"
    curves = worths(pool)
    return worth_reasons(pool, cpus, lambda one, chunks: expected(curves[one.name], chunks), _welfare(alpha), what=what)


@explained_by(_reasons)
def fair(pool: PoolState, options: Options) -> dict[str, int]:
    """The split with the largest product of S_i(p_i) to the power of weight_i within the bounds.

    This is Nash's bargaining solution (The Bargaining Problem, Econometrica 18, 1950) where disagreement gives each
    domain nothing. It is also the proportional fairness of Kelly (European Transactions on Telecommunications 8, 1997).
    It keeps Nash's axioms:
    - Pareto optimality.
    - Symmetry, as far as whole chunks allow: equal domains of equal weight with a concave curve differ by one chunk at
      most.
    - Invariance to scale: a domain gets the same if its whole curve is multiplied. Overstated measurements are another
      case: S(1) stays 1, so the curve has another shape.
    - Independence of irrelevant alternatives: removing a split that was not chosen does not change the choice.

    Option alpha (default 1): the alpha-fair split of Mo and Walrand (IEEE/ACM Transactions on Networking 8, 2000), the
    largest sum of weight_i S_i^(1 - alpha) / (1 - alpha). 0 is the sum of speedups and 1 is the product above. With a
    larger alpha, up to 4, the domains with the least speedup count more. Only 1 is invariant to scale.

    S is estimated by estimates.worth. A newcomer and a domain whose S is not known get the equal share. The policy does
    not explore, because the daemon explores for a larger sum of speedups. Raises PolicyError for other options or an
    alpha that is not a number from 0 to 4.
    """
    refuse_unknown_options("fair", options, frozenset({"alpha"}))
    alpha = number_option("fair", options, "alpha", 1.0, MOST_ALPHA)
    curves = worths(pool)
    return split_by_worth(pool, lambda one, chunks: expected(curves[one.name], chunks), _welfare(alpha))
