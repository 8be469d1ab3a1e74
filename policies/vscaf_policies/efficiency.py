"""Gives out CPUs only as long as each brings enough speedup for its power; the others stay free."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.by_worth import ValueOf, number_option, split_by_worth
from vscaf_policies.estimates import Numbers, expected, worths
from vscaf_policies.explanations import worth_reasons
from vscaf_policies.state import Options, PoolState, explained_by, refuse_unknown_options

THRESHOLD = 0.25
"""Speedup per CPU."""

MOST_THRESHOLD = 2.0
"""No CPU is believed to bring more (models.points.MOST_EFFICIENCY), so a higher threshold leaves only the minima."""


def _surplus(pool: PoolState, threshold: float) -> ValueOf:
    def surplus(speedups: Numbers, chunks: NDArray[np.int64], weights: Numbers) -> Numbers:
        return weights * (speedups - threshold * (pool.chunk * chunks))

    return surplus


def _reasons(pool: PoolState, options: Options, cpus: Mapping[str, int]) -> dict[str, str]:
    threshold = number_option("efficiency", options, "threshold", THRESHOLD, MOST_THRESHOLD)
    what, value = f"weight x (speedup - {threshold:g} x CPUs)", _surplus(pool, threshold)
    curves = worths(pool)
    return worth_reasons(pool, cpus, lambda one, chunks: expected(curves[one.name], chunks), value, what=what)


@explained_by(_reasons)
def efficiency(pool: PoolState, options: Options) -> dict[str, int]:
    """The largest sum of weight x (S(p) - threshold x p) within the bounds: CPUs that bring less stay unused.

    Creech (2015, section 8.5): a program with S(2) = 2 and S(8) = 2.1 should run on 2 CPUs, at a quarter of the power.
    If a domain gave back any number of CPUs above its minimum, it would lose more than the threshold for each. If its
    curve is concave, that holds for each chunk separately. Minima are kept even if they bring little. Weights decide
    between domains only if the pool is too small for all CPUs that bring enough.

    Option threshold: speedup per CPU, 0 to 2, default 0.25. For orientation: energy times time, p / S^2, falls with p
    as long as one more CPU brings more than half of the efficiency S / p. So the default of 0.25 stops there for a
    program that runs at an efficiency of 50%. With 0, only CPUs that bring nothing stay free.

    S is estimated by estimates.worth. A newcomer and a domain whose S is not known get the equal share and no more.
    The policy does not explore, because exploring would use the CPUs that it leaves free. Raises PolicyError for other
    options or a threshold out of range.
    """
    refuse_unknown_options("efficiency", options, frozenset({"threshold"}))
    threshold = number_option("efficiency", options, "threshold", THRESHOLD, MOST_THRESHOLD)
    value = _surplus(pool, threshold)
    curves = worths(pool)
    return split_by_worth(pool, lambda one, chunks: expected(curves[one.name], chunks), value, lend_to_unknown=False)
