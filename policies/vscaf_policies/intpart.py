"""Integer partitions: whole chunks of CPUs that come as close as they can to real-valued shares.

After SCAF's `intpart` (Creech 2015, section 5.5, Algorithm 4): truncate, hand what remains to the largest error,
leave nobody empty. Two things go beyond it: bounds for each part, and an answer for more parts than chunks.
"""

import math
from collections.abc import Mapping

_LEAST_SHARE = 1e-9
"""Of the largest share. A share of zero counts as this much, so that what nobody else can use still finds a home."""


def integer_partition(
    shares: Mapping[str, float],
    total: int,
    chunk: int = 1,
    minimum: Mapping[str, int] | None = None,
    maximum: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Split total CPUs among the named parts in proportion to shares, in whole chunks.

    shares: any finite non-negative numbers; only ratios matter; all zero means equal. minimum, maximum: CPUs by name,
    rounded up to whole chunks; a part without one has one chunk and everything. The result is in CPUs, sums to the
    whole chunks of total where the maxima allow it, and leaves no part empty while there are as many chunks as parts.

    The exact solution that is rounded is p_i = clamp(t share_i, minimum_i, maximum_i) with t such that the sum is
    right: where shares are SCAF's C, this is the optimum of eq. 4.4 under the bounds. With slack bounds every part
    is within one chunk of its exact share.

    Minima that do not fit are cut down, the largest first, to one chunk each. If even that does not fit (more parts
    than chunks), the parts with the largest shares get one chunk each and the rest 0. Ties go to the larger share,
    then to the first by name; the order of the mappings does not matter.

    Raises ValueError for a chunk or total below zero, a share that is not finite or is negative, or crossed bounds.
    """
    if chunk < 1 or total < 0:
        raise ValueError(f"total of {total} CPUs in chunks of {chunk}: total must be >= 0 and the chunk >= 1")
    names = sorted(shares)
    for name in names:
        if not math.isfinite(shares[name]) or shares[name] < 0:
            raise ValueError(f"share of {name!r} is {shares[name]}: shares must be finite and not negative")
    chunks = total // chunk
    if len(names) > chunks:
        favoured = sorted(names, key=lambda name: (-shares[name], name))[:chunks]
        return {name: chunk if name in set(favoured) else 0 for name in names}
    if not names:
        return {}

    low = {name: max(1, -(-(minimum or {}).get(name, 1) // chunk)) for name in names}
    high = {name: min(chunks, max(1, -(-(maximum or {}).get(name, total) // chunk))) for name in names}
    for name in names:
        if maximum is not None and name in maximum and low[name] > max(1, -(-maximum[name] // chunk)):
            raise ValueError(f"{name!r}: minimum above maximum {maximum[name]}: lower the minimum or raise the maximum")
    low = _cut_minima({name: min(low[name], high[name]) for name in names}, chunks)
    wanted = min(chunks, sum(high.values()))
    exact = _exact_partition(_normal(shares), wanted, low, high)
    parts = {name: min(high[name], max(low[name], math.floor(exact[name]))) for name in names}
    # The error is rounded so that the noise of floating point does not decide a tie.
    needy = sorted(names, key=lambda name: (-round(exact[name] - parts[name], 9), -shares[name], name))
    remaining = wanted - sum(parts.values())
    while remaining > 0:
        for name in needy:
            if remaining > 0 and parts[name] < high[name]:
                parts[name] += 1
                remaining -= 1
    return {name: parts[name] * chunk for name in names}


def _normal(shares: Mapping[str, float]) -> dict[str, float]:
    """Shares as fractions of the largest, none below _LEAST_SHARE: no overflow, no division by zero later."""
    top = max(shares.values())
    if top == 0:
        return dict.fromkeys(shares, 1.0)
    return {name: max(share / top, _LEAST_SHARE) for name, share in shares.items()}


def _cut_minima(low: dict[str, int], chunks: int) -> dict[str, int]:
    """Minima, in chunks, cut level by level from the largest until their sum fits. There are >= 1 chunks for each."""
    excess = sum(low.values()) - chunks
    if excess <= 0:
        return low
    level = max(low.values())
    while excess > 0:
        above = [name for name in sorted(low) if low[name] == level]
        next_level = max((value for value in low.values() if value < level), default=1)
        depth = min(level - next_level, excess // len(above))
        for name in above:
            low[name] -= depth
        excess -= depth * len(above)
        if depth < level - next_level:  # less than one step each is left: the last names give one more
            for name in above[len(above) - excess :]:
                low[name] -= 1
            return low
        level = next_level
    return low


def _exact_partition(
    shares: Mapping[str, float], wanted: int, low: Mapping[str, int], high: Mapping[str, int]
) -> dict[str, float]:
    """Real-valued p_i = clamp(t share_i, low_i, high_i) that sums to wanted; sum(low) <= wanted <= sum(high).

    Each round either ends or fixes at least one part at the bound where it must be in the solution.
    """
    exact: dict[str, float] = {}
    free = sorted(shares)
    rest = float(wanted)
    while free:
        scale = rest / math.fsum(shares[name] for name in free)
        below = [name for name in free if scale * shares[name] < low[name]]
        above = [name for name in free if scale * shares[name] > high[name]]
        if not below and not above:
            exact.update({name: scale * shares[name] for name in free})
            return exact
        clamped = math.fsum(min(high[name], max(low[name], scale * shares[name])) for name in free)
        fixed, bound = (below, low) if below and (clamped >= rest or not above) else (above, high)
        exact.update({name: float(bound[name]) for name in fixed})
        rest -= sum(bound[name] for name in fixed)
        gone = set(fixed)
        free = [name for name in free if name not in gone]
    return exact
