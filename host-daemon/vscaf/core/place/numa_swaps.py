"""Takes partitions off NUMA nodes by exchanging chunks where that moves no more pCPUs than before."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vscaf.core.place.topology import Topology

MOST_CHUNKS = 1000
"""Chunks, free or of those that change, that swaps are good for, so that it takes a fraction of a millisecond.

Where more change at once there is little to swap: there is choice enough to begin with.
"""


@dataclass(slots=True)
class Party:
    """Who takes part: held, pCPUs of each chunk that it holds; its home nodes; owned, the chunks it is to have."""

    held: Mapping[int, int]
    home: frozenset[int]
    owned: set[int]
    on_node: Counter[int] = field(default_factory=Counter)


def swap_for_locality(topology: Topology, parties: Mapping[str, Party], split: Iterable[str], free: set[int]) -> None:
    """Let those that grow onto a node with a few chunks swap them for free or others' chunks of a node they are on.

    parties: all that hold anything else than they will. split: those of them that grow and are on several nodes.
    free: chunks that are nobody's. No swap lets more pCPUs change hands, takes anybody from home, or puts another on
    more nodes. owned is changed.
    """
    _Exchange(topology, parties, free).run(split)


class _Exchange:
    """The working state of one call of swap_for_locality."""

    def __init__(self, topology: Topology, parties: Mapping[str, Party], free: set[int]) -> None:
        self.node_of = topology.node_by_chunk
        self.parties, self.free = parties, free
        self.owner: dict[int, Party] = {}
        self.chunks_on: dict[int, list[int]] = {}
        for party in parties.values():
            self.owner.update(dict.fromkeys(party.owned, party))
            party.on_node = Counter([self.node_of[chunk] for chunk in party.owned])
        for chunk in sorted({*self.owner, *free}):
            self.chunks_on.setdefault(self.node_of[chunk], []).append(chunk)
        self.looks = 4 * MOST_CHUNKS

    def run(self, split: Iterable[str]) -> None:
        """Each of split in turn, from the node where it has the fewest chunks."""
        for name in split:
            mine = self.parties[name]
            for node in sorted(mine.on_node, key=lambda node: (mine.on_node[node], node)):
                stub = [chunk for chunk in sorted(mine.owned) if self.node_of[chunk] == node]
                if stub and not any(mine.held.get(chunk) for chunk in stub):
                    self.take_off(mine, node, stub)

    def take_off(self, mine: Party, node: int, stub: list[int]) -> None:
        """Swap all of stub, its chunks on the node, for chunks on one other node that it is on, if there are enough."""
        for other in sorted(mine.on_node):
            if other == node or not mine.on_node[other] or self.looks <= 0:
                continue
            if mine.home and other not in mine.home and node in mine.home:
                continue
            found: list[int] = []
            for take in self.chunks_on.get(other, ()):
                self.looks -= 1
                if self.may_swap(stub[len(found)], take, mine):
                    found.append(take)
                    if len(found) == len(stub):
                        for give, one in zip(stub, found, strict=True):
                            self.swap(give, one, mine)
                        return

    def may_swap(self, give: int, take: int, mine: Party) -> bool:
        """Whether mine may have take for give as far as take's owner goes."""
        theirs = self.owner.get(take)
        if theirs is None:
            return True
        node, other = self.node_of[give], self.node_of[take]
        if theirs is mine or (theirs.home and other in theirs.home and node not in theirs.home):
            return False
        if theirs.held.get(take, 0) > theirs.held.get(give, 0):
            return False
        # It is there already, or leaves the other node for this one, with its only chunk there.
        return theirs.on_node[node] > 0 or theirs.on_node[other] == 1

    def swap(self, give: int, take: int, mine: Party) -> None:
        """Mine has take, and whoever had it has give."""
        theirs = self.owner.get(take)
        for party, lost, got in ((mine, give, take), (theirs, take, give)):
            if party is not None:
                party.owned.remove(lost)
                party.owned.add(got)
                party.on_node[self.node_of[lost]] -= 1
                party.on_node[self.node_of[got]] += 1
                self.owner[got] = party
        if theirs is None:
            del self.owner[give]
