"""The chunks that are free, by NUMA node and last-level cache, and how a growing partition takes from them."""

from collections.abc import Collection, Iterable

from vscaf.core.topology import Topology


class Rooms:
    """Chunks that nobody keeps. busy: those among them that have to be released by somebody first."""

    def __init__(self, topology: Topology, free: Iterable[int], busy: Collection[int]) -> None:
        self._topology = topology
        self._areas = areas = topology.areas
        self._nodes: dict[int, dict[int, list[int]]] = {}
        # The best of a cache is last: what is not busy, then siblings next to each other, then by number.
        order = sorted(free, key=lambda chunk: (chunk in busy, areas[chunk][2], chunk), reverse=True)
        for chunk in order:
            node, cache, _core = areas[chunk]
            self._nodes.setdefault(node, {}).setdefault(cache, []).append(chunk)
        self._room = {node: sum(map(len, caches.values())) for node, caches in sorted(self._nodes.items())}

    def has_room(self, kept: Collection[int], wanted: int) -> bool:
        """Whether what is missing is free on the nodes of kept."""
        at = {self._areas[chunk][0] for chunk in kept}
        return sum(self._room.get(node, 0) for node in at) >= wanted - len(kept)

    def fill(self, kept: Collection[int], wanted: int, home: frozenset[int]) -> list[int]:
        """kept and as many free chunks as are missing, which are then no longer free. There are enough of them.

        From its home, if it has one; from nodes it is on; else from the tightest that holds all that is missing, the
        nearest before others; else from as few and as near ones as greedily found.
        """
        mine = list(kept)
        if self._topology.cores and mine:
            self._siblings(mine, wanted, home)
        if home:
            self._fill(mine, wanted, [node for node in self._room if node in home])
        self._fill(mine, wanted, list(self._room))
        return mine

    def lay(self, wanted: int) -> list[int]:
        """The next chunks along the line of nodes by number."""
        mine: list[int] = []
        for node in list(self._room):
            if len(mine) < wanted:
                self._take(node, min(wanted - len(mine), self._room[node]), mine)
        return mine

    def _siblings(self, mine: list[int], wanted: int, home: frozenset[int]) -> None:
        """Takes what is free of the cores that it has a part of."""
        cores = {self._areas[chunk][2] for chunk in mine}
        for node, caches in self._nodes.items():
            if home and node not in home:
                continue
            for chunks in caches.values():
                for chunk in [chunk for chunk in reversed(chunks) if self._areas[chunk][2] in cores]:
                    if len(mine) < wanted:
                        chunks.remove(chunk)
                        self._room[node] -= 1
                        mine.append(chunk)

    def _fill(self, mine: list[int], wanted: int, nodes: list[int]) -> None:
        room, distance = self._room, self._topology.distance
        at = {self._areas[chunk][0] for chunk in mine}
        for node in sorted(at.intersection(nodes), key=lambda node: (-room[node], node)):
            self._take(node, min(wanted - len(mine), room[node]), mine)
        while (missing := wanted - len(mine)) > 0:
            open_nodes = [node for node in nodes if room[node] > 0]
            if not open_nodes:
                return
            fitting = [node for node in open_nodes if room[node] >= missing]
            if fitting:
                node = min(fitting, key=lambda node: (sum(distance(node, other) for other in at), room[node], node))
            else:
                # The emptiest first makes the fewest nodes; among equals the one with the most room near it.
                most = max(room[node] for node in open_nodes)
                node = min(
                    (node for node in open_nodes if room[node] == most),
                    key=lambda node: (
                        sum(distance(node, other) for other in at),
                        sum(distance(node, other) * room[other] for other in open_nodes),
                        node,
                    ),
                )
            self._take(node, min(missing, room[node]), mine)
            at.add(node)

    def _take(self, node: int, count: int, mine: list[int]) -> None:
        """Moves so many free chunks of a node to mine: from caches it is in, else from the tightest that fits."""
        if count <= 0:
            return
        self._room[node] -= count
        caches = self._nodes[node]
        if len(caches) > 1:
            for cache in {area[1] for area in map(self._areas.__getitem__, mine) if area[0] == node}:
                if part := min(count, len(caches[cache])) if cache in caches else 0:
                    count -= part
                    _move(caches[cache], part, mine)
        while count > 0:
            sizes = [(len(chunks), cache) for cache, chunks in caches.items() if chunks]
            fitting = [size for size in sizes if size[0] >= count]
            size, cache = min(fitting) if fitting else max(sizes, key=lambda one: (one[0], -one[1]))
            part = min(count, size)
            count -= part
            _move(caches[cache], part, mine)


def _move(chunks: list[int], count: int, mine: list[int]) -> None:
    """The last so many of chunks to mine."""
    mine += chunks[: -count - 1 : -1]
    del chunks[-count:]
