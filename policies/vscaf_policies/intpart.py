"""Integer partitions: whole chunks of CPUs that come as close as they can to real-valued shares.

After SCAF's `intpart` (Creech 2015, section 5.5, Algorithm 4): truncate, give the remainder to the parts with the
largest error, leave no part empty. Two things are new: bounds for each part, and an answer for more parts than chunks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LEAST_SHARE = 1e-9
"""Fraction of the largest share. A share of zero counts as this, so that it gets the chunks that no other can use."""

_STEPS = 1e9
"""Per chunk. Rounding errors that differ by less than one step are the same."""


def integer_partition(
    shares: Mapping[str, float],
    total: int,
    chunk: int = 1,
    minimum: Mapping[str, int] | None = None,
    maximum: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Split total CPUs among the named parts in proportion to shares, in whole chunks.

    shares: any finite non-negative numbers; only ratios matter; all zero means equal. minimum, maximum: CPUs by name,
    rounded up to whole chunks; the defaults are one chunk and total. The result is in CPUs. It sums to the whole chunks
    of total if the maxima allow it, and leaves no part empty if there are at least as many chunks as parts.

    The exact solution, which is then rounded, is p_i = clamp(t share_i, minimum_i, maximum_i) with the t that gives the
    right sum. If the shares are SCAF's C, this is the optimum of eq. 4.4 under the bounds. If no bound limits it, every
    part is within one chunk of its exact share.

    Minima that do not fit are cut, the largest first, down to one chunk each. If even that does not fit (more parts
    than chunks), the parts with the largest shares get one chunk each and the rest 0. Ties go to the larger share,
    then to the first by name; the order of the mappings does not matter.

    Raises ValueError for a chunk below 1, a total below 0, a share that is not finite or is negative, or a minimum
    above its maximum.
    """
    if chunk < 1 or total < 0:
        raise ValueError(f"total of {total} CPUs in chunks of {chunk}: total must be >= 0 and the chunk >= 1")
    names = sorted(shares)
    for name in names:
        if not math.isfinite(shares[name]) or shares[name] < 0:
            raise ValueError(f"share of {name!r} is {shares[name]}: shares must be finite and not negative")
    chunks = total // chunk
    if len(names) > chunks:
        favoured = set(sorted(names, key=lambda name: (-shares[name], name))[:chunks])
        return {name: chunk if name in favoured else 0 for name in names}
    if not names:
        return {}

    least, most = minimum or {}, maximum or {}
    low = [max(1, -(-least.get(name, 1) // chunk)) for name in names]
    high = [max(1, -(-most.get(name, total) // chunk)) for name in names]
    for name, fewest, largest in zip(names, low, high, strict=True):
        if fewest > largest and name in most:
            raise ValueError(f"{name!r}: minimum above maximum {most[name]}: lower the minimum or raise the maximum")
    parts = partition_chunks([shares[name] for name in names], chunks, low, high)
    return {name: part * chunk for name, part in zip(names, parts, strict=True)}


def partition_chunks(shares: Sequence[float], chunks: int, low: Sequence[int], high: Sequence[int]) -> list[int]:
    """As integer_partition, in chunks, for parts in the order in which ties are decided.

    low, high: bounds in chunks, >= 1; a bound above chunks counts as chunks, a low above its high as its high. There
    are at least as many chunks as parts, and at least one part.
    """
    import numpy as np  # noqa: PLC0415  (a program that only lists policies need not load it)

    low, high = feasible_bounds(low, high, chunks)
    wanted = min(chunks, sum(high))
    if wanted == sum(high):
        return high
    exact, free = _exact_partition(np.array(_normal(shares)), wanted, np.array(low), np.array(high))
    whole = np.floor(exact)
    parts = [int(part) for part in whole.tolist()]
    remaining = wanted - sum(parts)
    if remaining == 0:
        return parts
    if remaining > int((whole[free] < np.array(high)[free]).sum()):
        free = np.arange(len(parts))  # floating-point noise put a part at a bound
    # A part at a bound has no error. The error is rounded so that floating-point noise decides no tie.
    error = np.rint((exact[free] - whole[free]) * _STEPS)
    needy = free[np.lexsort((free, -np.array(shares)[free], -error))].tolist()
    while remaining > 0:
        for part in needy:
            if remaining > 0 and parts[part] < high[part]:
                parts[part] += 1
                remaining -= 1
    return parts


def feasible_bounds(low: Sequence[int], high: Sequence[int], chunks: int) -> tuple[list[int], list[int]]:
    """Bounds in chunks that can all be kept: none above chunks, no low above its high, the sum of the lows at most
    chunks. Minima that do not fit are cut, the largest first. There are at least as many chunks as parts."""
    most = [chunks if one > chunks else one for one in high]
    least = [top if fewest > top else fewest for fewest, top in zip(low, most, strict=True)]
    return (least if sum(least) <= chunks else _cut_minima(least, chunks)), most


def _normal(shares: Sequence[float]) -> list[float]:
    """Shares as fractions of the largest, none below _LEAST_SHARE: no overflow, no division by zero later."""
    top = max(shares)
    if top == 0:
        return [1.0] * len(shares)
    return [fraction if (fraction := share / top) > _LEAST_SHARE else _LEAST_SHARE for share in shares]


def _cut_minima(low: Sequence[int], chunks: int) -> list[int]:
    """Minima, in chunks, cut to the highest level at which their sum fits. The first minima above that level get the
    remaining chunks, one each. There is at least one chunk for each minimum."""
    import numpy as np  # noqa: PLC0415  (a program that only lists policies need not load it)

    minima = np.array(low)
    rising = np.sort(minima)
    kept = np.concatenate(([0], np.cumsum(rising)))
    # The sum if the first `below` minima stay and all the others are cut to the next one.
    below = int(np.searchsorted(kept[:-1] + rising * np.arange(rising.size, 0, -1), chunks, side="right"))
    level = int(chunks - kept[below]) // (rising.size - below)
    cut = np.minimum(minima, level)
    above = np.flatnonzero(minima > level)
    cut[above[: chunks - int(cut.sum())]] += 1
    return [int(one) for one in cut]


def _exact_partition(
    share: NDArray[np.float64], wanted: int, low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Real-valued p_i = clamp(t share_i, low_i, high_i) that sums to wanted; sum(low) <= wanted <= sum(high).

    Also returns which parts are certainly not at a bound. The sum rises with t, and its slope changes where a part
    leaves its minimum or reaches its maximum. Bisection finds the two such values of t that enclose the solution.
    """
    import numpy as np  # noqa: PLC0415  (a program that only lists policies need not load it)

    leaves, arrives = low / share, high / share
    bends = np.sort(np.concatenate((leaves, arrives)))
    first, last = 0, bends.size - 1  # the sum at the first is <= wanted, at the last >= wanted
    while last - first > 1:
        middle = (first + last) // 2
        if np.minimum(np.maximum(bends[middle] * share, low), high).sum() <= wanted:
            first = middle
        else:
            last = middle
    free = np.flatnonzero((leaves <= bends[first]) & (arrives > bends[first]))
    exact = np.where(leaves > bends[first], low, high).astype(np.float64)
    if free.size:
        rest = wanted - float(exact.sum() - exact[free].sum())
        exact[free] = rest / math.fsum(share[free].tolist()) * share[free]
    return exact, free
