"""What is expected of each domain's speedup, in the form in which sums of them are compared: a worth for each chunk."""

import math
from dataclasses import dataclass
from functools import lru_cache

from vscaf_policies.bounds import limits
from vscaf_policies.models import fit_curve
from vscaf_policies.state import DomainState, PoolState, SpeedupPoint

CAUTION = 0.5
"""Standard errors that an estimate is discounted by."""

_CACHED = 16384


@dataclass(frozen=True, slots=True)
class Worth:
    """A speedup curve by chunks: index k is for k + 1 chunks.

    expected: S as fitted. cautious: the same, less CAUTION standard errors: what is known well counts for more, and a wild
    extrapolation is no reason to starve anybody. error: standard errors. distance: from the nearest size that was
    measured (S(1) = 1 is known), in ln p.
    """

    expected: tuple[float, ...]
    cautious: tuple[float, ...]
    error: tuple[float, ...]
    distance: tuple[float, ...]


def is_known(domain: DomainState) -> bool:
    """Whether there is a measured size beyond one CPU to go by, and the domain is not a newcomer."""
    return not domain.newcomer and any(point.cpus > 1 and point.samples > 0 for point in domain.points)


def worth(domain: DomainState, pool: PoolState) -> Worth | None:
    """What each number of chunks, up to the most that it can be given, is worth to the domain; None: not known."""
    if not is_known(domain):
        return None
    most = min(limits(domain, pool.chunk)[1], pool.cpus // pool.chunk * pool.chunk)
    return _worth(domain.points, pool.chunk, max(most, pool.chunk))


@lru_cache(maxsize=_CACHED)
def _worth(points: tuple[SpeedupPoint, ...], chunk: int, most: int) -> Worth:
    estimate = fit_curve(points, most)
    sizes = [point.cpus for point in points if point.cpus > 0 and point.samples > 0 and math.isfinite(point.speedup)]
    measured = [0.0, *map(math.log, sizes)]
    expected, cautious, errors, distances = [], [], [], []
    for cpus in range(chunk, most + 1, chunk):
        mean, error = float(estimate.mean[cpus - 1]), float(estimate.standard_error[cpus - 1])
        expected.append(mean)
        errors.append(error)
        distances.append(min([abs(math.log(cpus) - other) for other in measured]))
        cautious.append(max(0.0, mean - CAUTION * error))
    return Worth(tuple(expected), tuple(cautious), tuple(errors), tuple(distances))
