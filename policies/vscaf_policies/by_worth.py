"""A split of the pool by what CPUs are worth to each domain; a domain whose worth is not known gets the equal share."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.bounds import bounded_partition, competes, equal_partition, limits
from vscaf_policies.intpart import partition_chunks
from vscaf_policies.optimum import Curve, best_partition_bounded
from vscaf_policies.state import DomainState, Options, PolicyError, PoolState

WorthOf = Callable[[DomainState, int], Curve | None]
"""Arguments: a domain and a number of chunks n. Result: what 1, 2, ..., n chunks are worth to it; None: not known."""

Numbers = NDArray[np.float64]
ValueOf = Callable[[Numbers, NDArray[np.int64], Numbers], Numbers]
"""Arguments: what WorthOf gave for all domains, one after the other; the number of chunks and the domain's weight for
each of these numbers. Result: the worths that count instead. It is one call for all, because short arrays are slow."""


def split_by_worth(
    pool: PoolState,
    worth_of: WorthOf,
    value_of: ValueOf | None = None,
    *,
    least_cpus: int = 1,
    most_cpus: Mapping[str, int] = {},
    equal: Mapping[str, int] | None = None,
    lend_to_unknown: bool = True,
) -> dict[str, int]:
    """CPUs for every domain of the pool: the largest sum of worth within the bounds, in whole chunks.

    Domains that do not compete get 0. Domains whose worth is not known get the equal share, within their bounds, and
    the others split the remainder. Chunks that bring those nothing go to the unknown domains if lend_to_unknown, else
    they stay free. If all are unknown, this is equipartition. least_cpus: the least CPUs of every domain whose worth is
    known, up to its maximum and as far as the pool allows. most_cpus: limits by name, as claim_limits gives them; they
    cut no minimum. equal: equal_partition(pool), if the caller knows it.
    The order of the domains does not matter; ties go by name.
    If there are more domains than chunks, the first by weight, then by name, get one chunk each. For curves that are
    not concave the result may miss the optimum by a known bound, so that a decision is quick (best_partition_bounded).
    """
    chunk, chunks = pool.chunk, pool.cpus // pool.chunk
    domains = sorted([domain for domain in pool.domains if competes(domain)], key=lambda domain: domain.name)
    if len(domains) > chunks:
        return bounded_partition(pool, {domain.name: domain.weight for domain in domains})
    allocations = dict(equal_partition(pool) if equal is None else equal)
    known, curves, low, high = [], [], [], []
    unknown, highest_unknown = [], []
    for domain in domains:
        least, most = limits(domain, chunk)
        if most_cpus:
            most = max(least, min(most, most_cpus.get(domain.name, most)))
        curve = worth_of(domain, min(most // chunk, chunks))
        if curve is None:
            unknown.append(domain.name)
            highest_unknown.append(most // chunk)
            continue
        known.append(domain)
        curves.append(curve)
        low.append(least // chunk)
        high.append(most // chunk)
    if not known:
        return allocations
    if value_of is not None:
        curves = _valued(known, curves, value_of)

    rest = chunks - sum([allocations[name] // chunk for name in unknown])

    def raised(level: int) -> list[int]:
        return [max(least, min(level, most)) for least, most in zip(low, high, strict=True)]

    # The highest level that fits: least_cpus must not cut the minimum of any domain.
    low = raised(bisect_right(range(1, -(-least_cpus // chunk) + 1), rest, key=lambda level: sum(raised(level))))
    parts = best_partition_bounded(curves, low, high, rest).parts
    allocations.update({domain.name: part * chunk for domain, part in zip(known, parts, strict=True)})
    if unknown and lend_to_unknown:
        share = [allocations[name] // chunk for name in unknown]
        most_lent = [max(part, most) for part, most in zip(share, highest_unknown, strict=True)]
        lent = partition_chunks([1.0] * len(unknown), sum(share) + rest - sum(parts), share, most_lent)
        allocations.update({name: part * chunk for name, part in zip(unknown, lent, strict=True)})
    return allocations


def _valued(known: Sequence[DomainState], curves: Sequence[Curve], value_of: ValueOf) -> list[Curve]:
    """The curves, each number replaced by its value."""
    lengths = [len(curve) for curve in curves]
    ends = np.cumsum(lengths)
    chunks = np.arange(1, ends[-1] + 1) - np.repeat(ends - lengths, lengths)
    weights = np.repeat([domain.weight for domain in known], lengths)
    values = value_of(np.concatenate(curves), chunks, weights)
    return [values[start:end] for start, end in pairwise([0, *ends.tolist()])]


def number_option(policy: str, options: Options, name: str, default: float, most: float) -> float:
    """A number from 0 to most from a policy's options. Raises PolicyError for anything else."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise PolicyError(f"policy {policy}: option {name} is {value!r}: give a number from 0 to {most:g}")
    return float(value)
