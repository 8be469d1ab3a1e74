"""Takes partitions off NUMA nodes by exchanging chunks where that moves no more pCPUs than before."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from vscaf.core.topology import Topology

MOST_LOOKS = 4000
"""Chunks that are looked at in one call at most: about a millisecond."""


@dataclass(slots=True)
class Party:
    """Who takes part: held, pCPUs of each chunk that it holds; its home nodes; owned, the chunks it is to have."""

    held: Mapping[int, int]
    home: frozenset[int]
    owned: set[int]
    on_node: Counter[int] = field(default_factory=Counter)


def exchange(topology: Topology, parties: Mapping[str, Party], growing: list[str]) -> None:
    """Let those that grow onto a node with a few chunks swap them for free or others' chunks of a node they are on.

    No swap lets more pCPUs change hands, takes anybody from home, or puts another on more nodes. owned is changed.
    """
    node_of = [area[0] for area in topology.areas]
    split = [name for name in growing if len({node_of[chunk] for chunk in parties[name].owned}) > 1]
    if not split:
        return
    owner: dict[int, Party] = {}
    for party in parties.values():
        owner.update(dict.fromkeys(party.owned, party))
        party.on_node = Counter(node_of[chunk] for chunk in party.owned)
    on_node: dict[int, list[int]] = {}
    for chunk, node in enumerate(node_of):
        on_node.setdefault(node, []).append(chunk)
    looks = MOST_LOOKS
    for name in split:
        mine = parties[name]
        for node in sorted(mine.on_node, key=lambda node: (mine.on_node[node], node)):
            if mine.on_node[node] == 0:
                continue
            stub = [chunk for chunk in sorted(mine.owned) if node_of[chunk] == node]
            if any(mine.held.get(chunk) for chunk in stub):
                continue
            for other in sorted(mine.on_node):
                if (
                    other == node
                    or not mine.on_node[other]
                    or looks <= 0
                    or (mine.home and other not in mine.home and node in mine.home)
                ):
                    continue
                looks -= len(on_node[other])
                found = _partners(stub, node, other, on_node[other], mine, owner)
                if len(found) == len(stub):
                    for give, take in zip(stub, found, strict=True):
                        _swap(give, take, node, other, mine, owner)
                    break


def _partners(
    stub: list[int], node: int, other: int, candidates: list[int], mine: Party, owner: Mapping[int, Party]
) -> list[int]:
    """Chunks of the node other that can be swapped for those of stub, as many as are found."""
    found: list[int] = []
    for take in candidates:
        if len(found) == len(stub):
            break
        theirs = owner.get(take)
        if theirs is mine:
            continue
        if theirs is not None:
            give = stub[len(found)]
            if theirs.home and other in theirs.home and node not in theirs.home:
                continue
            if theirs.held.get(take, 0) > theirs.held.get(give, 0) + mine.held.get(take, 0):
                continue
            # It is there already, or leaves the other node for this one, with its only chunk there.
            if not theirs.on_node[node] and theirs.on_node[other] > 1:
                continue
        found.append(take)
    return found


def _swap(give: int, take: int, node: int, other: int, mine: Party, owner: dict[int, Party]) -> None:
    theirs = owner.pop(take, None)
    mine.owned.remove(give)
    mine.owned.add(take)
    mine.on_node[node] -= 1
    mine.on_node[other] += 1
    owner[take] = mine
    if theirs is None:
        del owner[give]
        return
    theirs.owned.remove(take)
    theirs.owned.add(give)
    theirs.on_node[other] -= 1
    theirs.on_node[node] += 1
    owner[give] = theirs
