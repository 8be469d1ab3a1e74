"""SCAF's model, exactly as published: S(p) = 1 + C ln p (Creech 2015, eq. 4.2)."""

import math
from collections.abc import Sequence

from vscaf_policies.models.points import UsablePoint

LEAST_WEIGHT = 0.05
"""Least C. A program that was measured while it ran badly still gets CPUs and can show that it has become better."""


def log_weight(points: Sequence[UsablePoint]) -> tuple[float, float]:
    """C and its standard error, by least squares through (1, 1), each point weighted by 1 / standard_error^2.

    With one point this is eq. 4.2, C = (E p' - 1) / ln p'. There is at least one point. vscaf's host daemon gives
    this C to `max-speedup` as `scaf_weight`.
    """
    products = squares = 0.0
    for point in points:
        log_cpus = math.log(point.cpus)
        variance = point.standard_error * point.standard_error
        products += log_cpus * (point.speedup - 1.0) / variance
        squares += log_cpus**2 / variance
    return max(LEAST_WEIGHT, products / squares), math.sqrt(1.0 / squares)
