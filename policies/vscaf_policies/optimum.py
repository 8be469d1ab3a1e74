"""The best split of chunks among parts whose worth is any function of their chunks, with a proof of how good it is.

The problem is the multiple-choice knapsack whose weights are chunks (Kellerer, Pferschy, Pisinger: Knapsack Problems,
2004, chapter 11). Three steps:

1. Relaxation. Every curve is replaced by its upper concave envelope. For envelopes it is optimal to give out chunks by
   marginal gain. This gives the price of a chunk, a split, and an upper bound. A concave curve is its own envelope, so
   for concave curves this is the answer, at the cost of selecting the largest gains.
2. Loss. Any other split is worth less than the bound. The difference is the sum of what each part loses at that price
   (its distance below the line with the slope of the price that touches its envelope) and the price of the chunks that
   stay free. A part keeps its chunks unless it has a choice that loses less than the best split found so far.
3. Core. A dynamic programme over those choices ends as soon as no remaining choice can improve it (core_search.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.core_search import Changes, search
from vscaf_policies.intpart import feasible_bounds

Curve = Sequence[float] | NDArray[np.float64]
"""What 1, 2, 3, ... chunks are worth."""

WORK = 200_000_000
"""Steps of the dynamic programme, each a sum and a comparison: about a second."""

_NOISE = 1e-13
"""Relative to the size of a curve. A point this near its envelope is on it, so floating-point noise decides no tie."""


@dataclass(frozen=True, slots=True)
class Partition:
    """parts: chunks for each part. value: their worth together. bound: no split within the bounds is worth more.

    value == bound: proven to be the best.
    """

    parts: list[int]
    value: float
    bound: float


def best_partition(values: Sequence[Curve], low: Sequence[int], high: Sequence[int], chunks: int) -> list[int]:
    """Chunks for each part such that the sum of values[i][chunks of i - 1] is as large as it can be.

    values: what 1, 2, 3, ... chunks are worth to each part: any finite numbers, rising or not, tuples or arrays. Chunks
    beyond the last value add nothing. low, high: bounds in chunks, >= 1; a bound above chunks counts as chunks, a low
    above its high as its high; minima that do not fit are cut, the largest first. Chunks that bring nothing stay free.
    Exact to about 1e-12 of the largest values, for any curves. Of splits of the same worth, it is the one with the
    fewest chunks. If that leaves a tie and the curves are concave, it is the one that gives most to the first part,
    then to the second, and so on. Otherwise it is always the same one.

    O(sum of the curves' lengths) for concave curves. Other curves add a term that grows with how far one part can move
    alone (at worst with its fourth power); best_partition_bounded limits that work.
    Raises ValueError for more parts than chunks, lists that differ in length, a curve that is empty or not finite.
    """
    return best_partition_bounded(values, low, high, chunks, work=None).parts


def best_partition_bounded(
    values: Sequence[Curve],
    low: Sequence[int],
    high: Sequence[int],
    chunks: int,
    work: int | None = WORK,
) -> Partition:
    """As best_partition, with at most `work` steps for curves that are not concave (None: without a limit).

    If these steps do not suffice, value <= the optimum <= bound tells how far the split can be from the best one.
    """
    if not len(values) == len(low) == len(high):
        raise ValueError(f"{len(values)} curves, {len(low)} minima, {len(high)} maxima: give one of each for each part")
    if len(values) > chunks:
        raise ValueError(f"{len(values)} parts for {chunks} chunks: leave parts out until each can have one")
    if len(values) == 0:
        return Partition([], 0.0, 0.0)
    fewest, most = feasible_bounds(low, high, chunks)
    free = chunks - sum(fewest)
    curves = _Curves(values, fewest, most, free)
    added, price, spare = _by_marginal_gain(curves, free)
    short = 0.0
    if spare and price > 0:
        found = search(_changes(curves, added, price, spare), price, spare, work)
        for part, change in found.changes:
            added[part] += change
        short = found.short
    value = curves.worth(added)
    return Partition([least + more for least, more in zip(fewest, added.tolist(), strict=True)], value, value + short)


class _Curves:
    """The curves between their bounds, one after the other in flat arrays."""

    def __init__(self, values: Sequence[Curve], fewest: Sequence[int], most: Sequence[int], free: int) -> None:
        rows = []
        for part, (curve, least, largest) in enumerate(zip(values, fewest, most, strict=True)):
            if len(curve) == 0:
                raise ValueError(f"curve {part} is empty: say at least what one chunk is worth")
            first = min(least, len(curve)) - 1  # a curve that ends below the minimum is flat from there on
            rows.append(curve[first : max(first + 1, min(largest, least + free))])
        self.lengths = np.array([len(row) for row in rows])
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.values = np.concatenate(rows, dtype=np.float64)
        self.owner = np.repeat(np.arange(len(rows)), self.lengths)
        if not np.isfinite(self.values).all():
            part = self.owner[np.flatnonzero(~np.isfinite(self.values))[0]]
            raise ValueError(f"curve {part} is not finite: give every number of chunks a finite worth")
        self.added = np.arange(self.values.size) - np.repeat(self.starts, self.lengths)
        self.sizes = np.maximum.reduceat(np.abs(self.values), self.starts)

    def worth(self, added: NDArray[np.int64]) -> float:
        """The total worth if each part has *added* chunks beyond its minimum."""
        return fsum(self.values[self.starts + added].tolist())

    def envelope_gains(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """What each chunk beyond the minima adds on its part's upper concave envelope, and the part of each chunk.

        Points below the line through their neighbours are not on the envelope. Each round removes all of them at once,
        until none is left. It takes a few rounds, each over the curves that the last one changed.
        """
        on_envelope = np.ones(self.values.size, dtype=bool)
        unsure = np.arange(self.values.size)
        while unsure.size:
            owner = self.owner[unsure]
            slopes = np.diff(self.values[unsure]) / np.diff(unsure)
            same = owner[1:] == owner[:-1]
            below = np.zeros(unsure.size, dtype=bool)
            below[1:-1] = same[:-1] & same[1:] & (slopes[:-1] < slopes[1:])
            on_envelope[unsure[below]] = False
            changed = np.zeros(self.lengths.size, dtype=bool)
            changed[owner[below]] = True
            unsure = unsure[~below & changed[owner]]
        points = np.flatnonzero(on_envelope)
        owner = self.owner[points]
        same = owner[1:] == owner[:-1]
        steps = np.diff(points)[same]
        gains = np.diff(self.values[points])[same] / steps
        return np.repeat(gains, steps), np.repeat(owner[1:][same], steps)

    def noise(self, price: float) -> NDArray[np.float64]:
        """For each curve, the loss up to which a loss counts as zero."""
        noise: NDArray[np.float64] = _NOISE * (self.sizes + price * self.lengths)
        return noise

    def losses(self, price: float) -> NDArray[np.float64]:
        """How far each point is below the best point of its curve at that price of a chunk, >= 0."""
        net = self.values - price * self.added
        losses: NDArray[np.float64] = np.repeat(np.maximum.reduceat(net, self.starts), self.lengths) - net
        losses[losses <= np.repeat(self.noise(price), self.lengths)] = 0.0
        return losses


def _by_marginal_gain(curves: _Curves, free: int) -> tuple[NDArray[np.int64], float, int]:
    """Chunks beyond the minima by the gains on the envelopes, the price of a chunk, and how many chunks stay free.

    With a price above zero, every part is at a point where its envelope touches the line of that price; to reach a
    further such point, it would need more chunks than are left. Price 0: every part has all it can use, or free is 0.
    """
    gains, owner = curves.envelope_gains()
    useful = int((gains > 0).sum())
    price = float(np.partition(gains, gains.size - free)[gains.size - free]) if 0 < free < useful else 0.0
    if free == 0:
        return np.zeros(curves.lengths.size, dtype=np.int64), 0.0, 0
    added = np.bincount(owner[gains > price], minlength=curves.lengths.size)
    spare = free - int(added.sum())
    if price > 0:
        further = (curves.losses(price) == 0.0) & (curves.added > added[curves.owner])
        points = np.flatnonzero(further)
        for row in np.split(points, np.flatnonzero(np.diff(curves.owner[points])) + 1):
            part = curves.owner[row[0]]
            fits = int(np.searchsorted(curves.added[row], added[part] + spare, side="right"))
            if fits:
                spare -= int(curves.added[row[fits - 1]] - added[part])
                added[part] = curves.added[row[fits - 1]]
            if spare == 0:
                break
    return added, price, spare


def _changes(curves: _Curves, added: NDArray[np.int64], price: float, spare: int) -> Changes:
    """The changes of single parts that alone lose no more than the present split, or that split with one change."""
    losses = curves.losses(price)
    chunks = curves.added - added[curves.owner]
    fits = chunks <= spare
    gap = float(np.min(losses[fits] + price * (spare - chunks[fits])))
    noise = float(np.max(curves.noise(price)))
    candidates = np.flatnonzero((losses <= gap + noise) & (chunks != 0))
    return Changes(curves.owner[candidates], chunks[candidates], losses[candidates], noise)
