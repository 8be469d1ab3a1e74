"""From a split of chunks by price to the best split: searches the few parts that could have other numbers of chunks.

A change gives one part some chunks more or fewer than at present. Its loss is what it costs at the price of a chunk.
A dynamic programme over the sum of chunks finds the best set of changes. It takes the parts in the order of their least
loss, so it ends early: as soon as no remaining change loses less than the best set so far.

Few parts are enough, however many there are. Take a best set with the fewest changes. No subset of it sums to zero
chunks, because such a subset could be undone at no cost. Order the set so that it adds chunks while the sum is <= 0 and
takes chunks away while the sum is above 0. Then all partial sums differ. With changes of at most `up` chunks more and
`down` fewer, there are only up + down values for them. So the set has fewer than up + down changes. A change by a
certain number of chunks is needed only for the up + down parts that lose least by it, because one of those is always
unused and can replace any other part. For the same reason no sum, in any order, is further from zero than about
up * down.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Changes:
    """The possible changes: arrays of the same length, sorted by part.

    part: index of the part. chunks: how many more (below zero: fewer), never 0. loss: at the price of a chunk, >= 0,
    without the price of chunks that stay free. noise: losses that differ by less are the same.
    """

    part: NDArray[np.int64]
    chunks: NDArray[np.int64]
    loss: NDArray[np.float64]
    noise: float


@dataclass(frozen=True, slots=True)
class _Row:
    """The changes of one part: chunks in rising order, and the loss of each."""

    part: int
    chunks: NDArray[np.int64]
    losses: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Found:
    """changes: (part, chunks) of the best set. short: the most by which another set could be better; 0: none is."""

    changes: list[tuple[int, int]]
    short: float


def search(changes: Changes, price: float, spare: int, work: int | None) -> Found:
    """The set of changes, at most one of each part, with the least loss including the price of chunks that stay free.

    price: of a chunk, above zero. spare: chunks that are free without any change. work: limit of steps, None: no limit.
    If several sets have the same loss, it is the one with the fewest chunks.
    """
    up = max(int(np.max(changes.chunks, initial=1)), spare)
    down = max(int(np.max(-changes.chunks, initial=1)), 1)
    rows = _rows(changes, up + down)
    rates = _rates(rows, price)
    states = _States(price, spare, changes.noise, (-down * (up + 1), up * (down + 1)))
    done = 0
    for number, row in enumerate(rows):
        states.prune(float(row.losses.min()), *rates[number])
        if not states.losses.size:
            break
        done += states.losses.size * row.chunks.size
        if work is not None and done > work:
            return Found(states.best_changes(), states.possible_gain())
        states.extend(row)
    return Found(states.best_changes(), 0.0)


def _rows(changes: Changes, enough: int) -> list[_Row]:
    """The changes that may be needed, by part, in the order of their least loss; ties in the order of the parts."""
    order = np.lexsort((changes.part, changes.loss, changes.chunks))
    chunks = changes.chunks[order]
    first = np.flatnonzero(np.concatenate(([True], chunks[1:] != chunks[:-1])))[: chunks.size]
    rank = np.arange(chunks.size) - np.repeat(first, np.diff(np.concatenate((first, [chunks.size]))))
    kept = np.sort(order[rank < enough])
    part, chunks, loss = changes.part[kept], changes.chunks[kept], changes.loss[kept]
    ends = np.flatnonzero(np.diff(part)) + 1
    rows = [
        _Row(int(of[0]), several, losses)
        for of, several, losses in zip(np.split(part, ends), np.split(chunks, ends), np.split(loss, ends), strict=True)
        if of.size
    ]
    return sorted(rows, key=lambda row: (float(row.losses.min()), row.part))


def _rates(rows: list[_Row], price: float) -> list[tuple[float, float]]:
    """For each row, the least loss of it and all later rows: per added chunk (at most the price), per removed chunk."""
    rates = []
    more, fewer = price, inf
    for row in reversed(rows):
        per_chunk = row.losses / np.abs(row.chunks)
        more = float(np.min(per_chunk[row.chunks > 0], initial=more))
        fewer = float(np.min(per_chunk[row.chunks < 0], initial=fewer))
        rates.append((more, fewer))
    return rates[::-1]


class _States:
    """The least loss for every sum of chunks that the changes so far can have, and the best complete set so far."""

    def __init__(self, price: float, spare: int, noise: float, window: tuple[int, int]) -> None:
        self.lowest, self.losses = 0, np.zeros(1)
        """Losses of the sums lowest, lowest + 1, ...; inf: impossible, or cannot lead to a better set."""
        self._price, self._spare, self._noise, self._window = price, spare, noise, window
        self._chosen: list[tuple[int, int, NDArray[np.int64]]] = []  # part, lowest, chunks of its change by sum
        self._gap, self._best = price * spare, (0, 0)  # how much the best set loses; its rows and its sum
        self._possible = np.zeros(1)

    def prune(self, least: float, rate_more: float, rate_fewer: float) -> None:
        """Remove the states that no further change can make better than the best set.

        least, rates: the least loss of all later changes: in total, per added chunk and per removed chunk.
        """
        missing = self._spare - (self.lowest + np.arange(self.losses.size))
        with np.errstate(invalid="ignore"):  # inf (no part can give chunks back) times 0 chunks
            to_come = np.where(missing >= 0, rate_more * missing, rate_fewer * -missing)
        possible = self.losses + np.maximum(to_come, least)
        # A state that can only equal the best set is not needed either: to do so with fewer chunks in total, it would
        # have to leave more chunks free at the full price, and then it is as good already without further changes.
        alive = possible < self._gap - self._noise
        ends = np.flatnonzero(alive)
        first, last = (int(ends[0]), int(ends[-1]) + 1) if ends.size else (0, 0)
        self.losses = np.where(alive, self.losses, inf)[first:last]
        self._possible = possible[first:last][alive[first:last]]
        self.lowest += first

    def extend(self, row: _Row) -> None:
        """Add one more part, which makes one of its changes or none."""
        low = max(self.lowest + min(0, int(row.chunks[0])), self._window[0])
        high = min(self.lowest + self.losses.size - 1 + max(0, int(row.chunks[-1])), self._window[1])
        losses = np.full(high - low + 1, inf)
        chosen = np.zeros(high - low + 1, dtype=np.int64)
        _lower(losses, chosen, self.lowest - low, self.losses, 0)
        if row.chunks.size <= self.losses.size:
            for chunks, loss in zip(row.chunks.tolist(), row.losses.tolist(), strict=True):
                _lower(losses, chosen, self.lowest + chunks - low, self.losses + loss, chunks)
        else:
            span = np.arange(row.chunks[0], row.chunks[-1] + 1)
            by_chunks = np.full(span.size, inf)
            by_chunks[row.chunks - row.chunks[0]] = row.losses
            for state in np.flatnonzero(self.losses < inf).tolist():
                first = self.lowest + state + int(row.chunks[0]) - low
                _lower(losses, chosen, first, by_chunks + self.losses[state], span)
        self._chosen.append((row.part, low, chosen))
        self.lowest, self.losses = low, losses
        self._remember_best()

    def _remember_best(self) -> None:
        fits = self.losses[: max(0, self._spare - self.lowest + 1)]
        if not fits.size:
            return
        gaps = fits + self._price * (self._spare - self.lowest - np.arange(fits.size))
        least = float(gaps.min())
        sum_of_chunks = self.lowest + int(np.flatnonzero(gaps <= least + self._noise)[0])
        if least < self._gap - self._noise or (least <= self._gap + self._noise and sum_of_chunks < self._best[1]):
            self._gap, self._best = min(least, self._gap), (len(self._chosen), sum_of_chunks)

    def possible_gain(self) -> float:
        """The most by which another set could lose less than the best one, as of the last prune."""
        return max(0.0, self._gap - float(np.min(self._possible, initial=self._gap)))

    def best_changes(self) -> list[tuple[int, int]]:
        """The best set: (part, chunks)."""
        rows, total = self._best
        changes = []
        for part, lowest, chosen in reversed(self._chosen[:rows]):
            chunks = int(chosen[total - lowest])
            if chunks:
                changes.append((part, chunks))
                total -= chunks
        return changes


def _lower(
    losses: NDArray[np.float64],
    chosen: NDArray[np.int64],
    first: int,
    offered: NDArray[np.float64],
    chunks: int | NDArray[np.int64],
) -> None:
    """Write each offered loss, from losses[first] on, if it is less than the present one; drop those past the ends."""
    cut = max(0, -first)
    to = slice(first + cut, min(losses.size, first + offered.size))
    if to.stop <= to.start:
        return
    offered = offered[cut : cut + to.stop - to.start]
    better = offered < losses[to]
    losses[to][better] = offered[better]
    chosen[to][better] = chunks if isinstance(chunks, int) else chunks[cut : cut + to.stop - to.start][better]
