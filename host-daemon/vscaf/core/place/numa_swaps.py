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
class Participant:
    """A domain that takes part.

    held: its pCPUs of each chunk that it holds. home: its home nodes. owned: the chunks that it should have.
    """

    held: Mapping[int, int]
    home: frozenset[int]
    owned: set[int]
    on_node: Counter[int] = field(default_factory=Counter)


def swap_for_locality(
    topology: Topology, participants: Mapping[str, Participant], split: Iterable[str], free: set[int]
) -> None:
    """Swaps chunks of domains that grow onto another node: for free chunks, or chunks of others, on a node of theirs.

    participants: all domains whose chunks change. split: those of them that grow and are on several nodes. free: chunks
    without an owner. No swap lets more pCPUs change hands, moves a domain away from home, or puts another domain on
    more nodes. Changes Participant.owned.
    """
    _Exchange(topology, participants, free).run(split)


class _Exchange:
    """The working state of one call of swap_for_locality."""

    def __init__(self, topology: Topology, participants: Mapping[str, Participant], free: set[int]) -> None:
        self.node_of = topology.node_by_chunk
        self.participants, self.free = participants, free
        self.owner: dict[int, Participant] = {}
        self.chunks_on: dict[int, list[int]] = {}
        for participant in participants.values():
            self.owner.update(dict.fromkeys(participant.owned, participant))
            participant.on_node = Counter([self.node_of[chunk] for chunk in participant.owned])
        for chunk in sorted({*self.owner, *free}):
            self.chunks_on.setdefault(self.node_of[chunk], []).append(chunk)
        self.looks = 4 * MOST_CHUNKS

    def run(self, split: Iterable[str]) -> None:
        """Handles each domain of *split*, beginning with the node where it has the fewest chunks."""
        for name in split:
            participant = self.participants[name]
            for node in sorted(participant.on_node, key=lambda node: (participant.on_node[node], node)):
                remnant = [chunk for chunk in sorted(participant.owned) if self.node_of[chunk] == node]
                if remnant and not any(participant.held.get(chunk) for chunk in remnant):
                    self.move_off(participant, node, remnant)

    def move_off(self, participant: Participant, node: int, remnant: list[int]) -> None:
        """Swaps all of *remnant*, its chunks on *node*, for chunks on one other of its nodes, if there are enough."""
        for other_node in sorted(participant.on_node):
            if other_node == node or not participant.on_node[other_node] or self.looks <= 0:
                continue
            if participant.home and other_node not in participant.home and node in participant.home:
                continue
            found: list[int] = []
            for take in self.chunks_on.get(other_node, ()):
                self.looks -= 1
                if self.may_swap(remnant[len(found)], take, participant):
                    found.append(take)
                    if len(found) == len(remnant):
                        for give, one in zip(remnant, found, strict=True):
                            self.swap(give, one, participant)
                        return

    def may_swap(self, give: int, take: int, taker: Participant) -> bool:
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

    def swap(self, give: int, take: int, taker: Participant) -> None:
        """Gives *take* to *taker*, and *give* to the owner of *take*."""
        owner = self.owner.get(take)
        for participant, given, taken in ((taker, give, take), (owner, take, give)):
            if participant is not None:
                participant.owned.remove(given)
                participant.owned.add(taken)
                participant.on_node[self.node_of[given]] -= 1
                participant.on_node[self.node_of[taken]] += 1
                self.owner[taken] = participant
        if owner is None:
            del self.owner[give]
