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
            party = self.parties[name]
            for node in sorted(party.on_node, key=lambda node: (party.on_node[node], node)):
                stub = [chunk for chunk in sorted(party.owned) if self.node_of[chunk] == node]
                if stub and not any(party.held.get(chunk) for chunk in stub):
                    self.take_off(party, node, stub)

    def take_off(self, party: Party, node: int, stub: list[int]) -> None:
        """Swaps all of *stub*, its chunks on *node*, for chunks on one other node of its own, if there are enough."""
        for other_node in sorted(party.on_node):
            if other_node == node or not party.on_node[other_node] or self.looks <= 0:
                continue
            if party.home and other_node not in party.home and node in party.home:
                continue
            found: list[int] = []
            for take in self.chunks_on.get(other_node, ()):
                self.looks -= 1
                if self.may_swap(stub[len(found)], take, party):
                    found.append(take)
                    if len(found) == len(stub):
                        for give, one in zip(stub, found, strict=True):
                            self.swap(give, one, party)
                        return

    def may_swap(self, give: int, take: int, taker: Party) -> bool:
        """Whether the owner of *take* allows *taker* to get it for *give*."""
        owner = self.owner.get(take)
        if owner is None:
            return True
        node, other_node = self.node_of[give], self.node_of[take]
        if owner is taker or (owner.home and other_node in owner.home and node not in owner.home):
            return False
        if owner.held.get(take, 0) > owner.held.get(give, 0):
            return False
        # The owner is on this node already, or it moves its only chunk on the other node to this one.
        return owner.on_node[node] > 0 or owner.on_node[other_node] == 1

    def swap(self, give: int, take: int, taker: Party) -> None:
        """Gives *take* to *taker*, and *give* to the owner of *take*."""
        owner = self.owner.get(take)
        for party, given, taken in ((taker, give, take), (owner, take, give)):
            if party is not None:
                party.owned.remove(given)
                party.owned.add(taken)
                party.on_node[self.node_of[given]] -= 1
                party.on_node[self.node_of[taken]] += 1
                self.owner[taken] = party
        if owner is None:
            del self.owner[give]
