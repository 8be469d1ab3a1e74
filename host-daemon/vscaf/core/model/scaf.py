"""The speedup of domains and programs in SCAF's one-parameter model S(p) = 1 + C ln p (Creech 2015, eq. 4.2)."""

import math
from collections.abc import Iterable, Sequence

from vscaf_policies import SpeedupPoint
from vscaf_policies.models.logarithmic import log_weight
from vscaf_policies.models.points import LEAST_RELATIVE_ERROR, LEAST_SPEEDUP, MOST_EFFICIENCY, UsablePoint


def scaf_weight(points: Sequence[SpeedupPoint]) -> float | None:
    """C of S(p) = 1 + C ln p, as log_weight() fits it. None: the points say nothing about C.

    Ignored are points at p = 1 (ln 1 = 0), without samples, with a value that is not finite, or with an error so large
    that their weight vanishes. Without C, eq. 4.9 cannot be used for this domain. The policy then gives it an equal
    share, as SCAF's code does for a newcomer.

    A speedup counts as at most MOST_EFFICIENCY p, as in SCAF's code. The thesis has no such limit.
    """
    usable = []
    for point in points:
        error = point.standard_error
        if point.cpus <= 1 or point.samples < 1 or not math.isfinite(point.speedup) or not math.isfinite(error):
            continue
        speedup = min(max(point.speedup, LEAST_SPEEDUP), MOST_EFFICIENCY * point.cpus)
        error = max(abs(error), LEAST_RELATIVE_ERROR * max(speedup, 1.0))
        if math.isfinite(error * error):
            usable.append(UsablePoint(point.cpus, speedup, error))
    return log_weight(usable)[0] if usable else None


def most_weight(cpus: int) -> float:
    """The largest C that is believed on *cpus* CPUs: that of a program with S(p) = p up to all of them.

    The agent has the same limit (guest-agent/src/split/split.h), so both levels treat super-linear programs alike.
    """
    most = max(2, cpus)
    return (most - 1) / math.log(most)


def predicted_speedup(weight: float | None, cpus: int) -> float:
    """S(cpus) under the model. Linear if the weight is not known; 0 on no CPU."""
    if cpus < 1:
        return 0.0
    return float(cpus) if weight is None else 1.0 + weight * math.log(cpus)


def domain_weight(weights: Iterable[float | None]) -> float | None:
    """The weight of a domain: the sum of the weights of its running processes. None: no weight is known.

    With this sum, the split host -> domain -> process gives each process what eq. 4.9 gives it on one flat machine. A
    process with unknown weight counts as the mean of the others, which is the nearest to an equal share.
    """
    listed = list(weights)
    known = [weight for weight in listed if weight is not None]
    if not known:
        return None
    return math.fsum(known) * len(listed) / len(known)


def low_pass(previous: float | None, sample: float, dt_s: float, rc_s: float = 4.0) -> float:
    """First-order low pass (Creech 2015, section 5.2.2): a sample + (1 - a) previous with a = dt / (RC + dt).

    dt_s: the time that the sample covers. rc_s: the time constant. Without a previous value it returns the sample.
    Raises ValueError for a negative dt_s or an rc_s that is not above zero.
    """
    if dt_s < 0 or rc_s <= 0:
        raise ValueError(f"low pass over dt_s={dt_s}, rc_s={rc_s}: dt_s must be >= 0 and rc_s > 0")
    if previous is None:
        return sample
    alpha = dt_s / (rc_s + dt_s)
    return alpha * sample + (1.0 - alpha) * previous
