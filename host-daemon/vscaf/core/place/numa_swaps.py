"""Swaps chunks so that partitions are on fewer NUMA nodes, without moving more pCPUs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vscaf.core.place.topology import Topology

MOST_CHUNKS = 1000
"""With more chunks than this, free or of changing domains, nothing is swapped, so that it takes a fraction of a
millisecond. If more chunks change at once, swaps gain little, because there was enough choice before.
"""


@dataclass(slots=True)
class Party:
    """A domain that takes part.

    held: its pCPUs of each chunk that it holds. home: its home nodes. owned: the chunks that it should have.
    """

    held: Mapping[int, int]
    home: frozenset[int]
    owned: set[int]
    on_node: Counter[int] = field(default_factory=Counter)


def swap_for_locality(topology: Topology, parties: Mapping[str, Party], split: Iterable[str], free: set[int]) -> None:
    """Swaps chunks of domains that grow onto another node: for free chunks, or chunks of others, on a node of theirs.

    parties: all domains whose chunks change. split: those of them that grow and are on several nodes. free: chunks
    without an owner. No swap lets more pCPUs change hands, moves a domain away from home, or puts another domain on
    more nodes. Changes Party.owned.
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
        """Handles each domain of *split*, beginning with the node where it has the fewest chunks."""
        for name in split:
            mine = self.parties[name]
            for node in sorted(mine.on_node, key=lambda node: (mine.on_node[node], node)):
                stub = [chunk for chunk in sorted(mine.owned) if self.node_of[chunk] == node]
                if stub and not any(mine.held.get(chunk) for chunk in stub):
                    self.take_off(mine, node, stub)

    def take_off(self, mine: Party, node: int, stub: list[int]) -> None:
        """Swaps all of *stub*, its chunks on *node*, for chunks on one other node of its own, if there are enough."""
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
        """Whether the owner of *take* allows *mine* to get it for *give*."""
        theirs = self.owner.get(take)
        if theirs is None:
            return True
        node, other = self.node_of[give], self.node_of[take]
        if theirs is mine or (theirs.home and other in theirs.home and node not in theirs.home):
            return False
        if theirs.held.get(take, 0) > theirs.held.get(give, 0):
            return False
        # The owner is on this node already, or it moves its only chunk on the other node to this one.
        return theirs.on_node[node] > 0 or theirs.on_node[other] == 1

    def swap(self, give: int, take: int, mine: Party) -> None:
        """Gives *take* to *mine*, and *give* to the owner of *take*."""
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
