"""Assigns chunks that several domains hold so that the most pCPUs are kept, by cancelling cycles.

Needed only if held partitions overlap or cut through a chunk, as they may at start and after a crash.
"""

from collections.abc import Collection, Mapping

_UNOWNED = ("", 0)

MOST_CELLS = 2000
"""The most groups times chunks. With more, the search would delay the loop."""


def improve(
    overlap: Mapping[str, Mapping[int, int]], wanted: Mapping[str, int], kept: Mapping[str, Collection[int]]
) -> dict[str, frozenset[int]]:
    """The chunks that each group keeps, so that the number of kept pCPUs is maximal. The search starts from *kept*.

    overlap: for each group, the pCPUs that it holds of each chunk, without chunks of which it holds none. wanted: how
    many chunks it should have. Among the best assignments, as many groups as possible keep at least one chunk. This is
    a transport problem: chunks to slots (the first chunk of a group, its further ones, or none). An assignment is
    optimal if no cycle of slots gains by handing one chunk each to the next (Klein's cycle cancelling). Every cancelled
    cycle gains at least one unit, so it ends. If groups times chunks are more than MOST_CELLS, this would take seconds,
    and *kept* is returned.
    """
    chunks = sorted(set().union(*overlap.values()))
    if len(overlap) * len(chunks) > MOST_CELLS:
        return {group: frozenset(kept[group]) for group in sorted(overlap)}
    # One more pCPU outweighs any number of first chunks.
    weight = len(overlap) + 1
    slots = [_UNOWNED]
    capacity = {_UNOWNED: len(chunks)}
    values = {_UNOWNED: [0] * len(chunks)}
    for group in sorted(overlap):
        for rank, size, bonus in ((0, min(1, wanted[group]), 1), (1, wanted[group] - 1, 0)):
            if size > 0:
                slots.append((group, rank))
                capacity[group, rank] = size
                counts = [overlap[group].get(chunk, 0) for chunk in chunks]
                values[group, rank] = [weight * count + bonus if count else 0 for count in counts]
    # Empty places are filled with blank chunks of no value, so that every move is a cycle.
    owner: list[tuple[str, int]] = [_UNOWNED] * len(chunks)
    place_of = {chunk: place for place, chunk in enumerate(chunks)}
    for group in sorted(kept):
        for rank, chunk in enumerate(sorted(kept[group])):
            owner[place_of[chunk]] = (group, min(rank, 1))
    for slot in slots[1:]:
        blanks = capacity[slot] - owner.count(slot)
        owner += [slot] * blanks
        for worth in values.values():
            worth.extend([0] * blanks)
    while cycle := _gaining_cycle(slots, values, owner):
        for place, slot in cycle:
            owner[place] = slot
    return {
        group: frozenset(chunk for chunk in overlap[group] if owner[place_of[chunk]][0] == group)
        for group in sorted(overlap)
    }


def _gaining_cycle(
    slots: list[tuple[str, int]], values: Mapping[tuple[str, int], list[int]], owner: list[tuple[str, int]]
) -> list[tuple[int, tuple[str, int]]]:
    """The moves (chunk, new owner) of a cycle of slots that gains in total. Empty: the assignment is optimal.

    Bellman and Ford's search for a cycle of positive length in the graph of slots. The edge a -> b is the chunk of a
    whose move to b gains the most.
    """
    edges: dict[tuple[tuple[str, int], tuple[str, int]], tuple[int, int]] = {}
    for chunk, source in enumerate(owner):
        for sink in slots:
            if sink != source:
                gain = values[sink][chunk] - values[source][chunk]
                if (source, sink) not in edges or edges[source, sink][0] < gain:
                    edges[source, sink] = (gain, chunk)
    length = dict.fromkeys(slots, 0)
    before: dict[tuple[str, int], tuple[str, int]] = {}
    last: tuple[str, int] | None = None
    for _ in slots:
        last = None
        for (source, sink), (gain, _chunk) in edges.items():
            if length[source] + gain > length[sink]:
                length[sink] = length[source] + gain
                before[sink] = source
                last = sink
        if last is None:
            return []
    assert last is not None  # lengths still grow after as many rounds as there are slots, so there is a cycle
    for _ in slots:
        last = before[last]
    moves, sink = [], last
    while True:
        source = before[sink]
        moves.append((edges[source, sink][1], sink))
        sink = source
        if sink == last:
            return moves
