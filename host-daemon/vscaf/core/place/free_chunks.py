"""The free chunks, by NUMA node and last-level cache, and how a growing partition takes some of them."""

from collections.abc import Collection, Iterable

from vscaf.core.place.topology import Topology


class FreeChunks:
    """Chunks that no domain keeps. busy: those among them that a domain must release first."""

    def __init__(self, topology: Topology, free: Iterable[int], busy: Collection[int]) -> None:
        self._topology = topology
        self._node_of, self._cache_of = topology.node_by_chunk, topology.cache_by_chunk
        self._nodes: dict[int, dict[int, list[int]]] = {}
        # The best chunks of a cache are last: those that are not busy, then siblings together, then by number.
        core_of = topology.core_by_chunk
        for chunk in sorted(free, key=lambda chunk: (chunk in busy, core_of[chunk], chunk), reverse=True):
            self._nodes.setdefault(self._node_of[chunk], {}).setdefault(self._cache_of[chunk], []).append(chunk)
        self._free_by_node = {node: sum(map(len, caches.values())) for node, caches in sorted(self._nodes.items())}

    def has_free(self, kept: Collection[int], wanted: int) -> bool:
        """Whether the missing chunks are free on the nodes of *kept*."""
        missing = wanted - len(kept)
        for node in set(map(self._node_of.__getitem__, kept)):
            missing -= self._free_by_node.get(node, 0)
        return missing <= 0

    def fill(self, kept: Collection[int], wanted: int, home: frozenset[int]) -> list[int]:
        """*kept* and the missing number of free chunks, which are then no longer free. There must be enough of them.

        They are taken from the home nodes, if there are any, then from nodes that it is on. Then from a node that has
        enough for all missing chunks: the nearest one, then the one with the fewest. Else from few and near nodes,
        chosen greedily.
        """
        partition = list(kept)
        if self._topology.cores and partition:
            self._siblings(partition, wanted, home)
        if home:
            self._fill(partition, wanted, [node for node in self._free_by_node if node in home])
        if len(partition) < wanted:
            self._fill(partition, wanted, self._free_by_node)
        return partition

    def lay(self, wanted: int) -> list[int]:
        """The next *wanted* chunks, in the order of the nodes' numbers."""
        partition: list[int] = []
        for node in list(self._free_by_node):
            if len(partition) < wanted:
                self._take(node, min(wanted - len(partition), self._free_by_node[node]), partition)
        return partition

    def _siblings(self, partition: list[int], wanted: int, home: frozenset[int]) -> None:
        """Takes free chunks of the cores of which it has a part."""
        core_of = self._topology.core_by_chunk
        cores = {core_of[chunk] for chunk in partition}
        for node, caches in self._nodes.items():
            if home and node not in home:
                continue
            for chunks in caches.values():
                for chunk in [chunk for chunk in reversed(chunks) if core_of[chunk] in cores]:
                    if len(partition) < wanted:
                        chunks.remove(chunk)
                        self._free_by_node[node] -= 1
                        partition.append(chunk)

    def _fill(self, partition: list[int], wanted: int, nodes: Collection[int]) -> None:
        free = self._free_by_node
        own_nodes = set(map(self._node_of.__getitem__, partition))
        for node in own_nodes if len(own_nodes) < 2 else sorted(own_nodes, key=lambda node: (-free.get(node, 0), node)):
            if node in nodes and free.get(node):
                self._take(node, min(wanted - len(partition), free[node]), partition)
        while (missing := wanted - len(partition)) > 0:
            next_node = self._next_node(missing, own_nodes, [node for node in nodes if free[node] > 0])
            if next_node is None:
                return
            self._take(next_node, min(missing, free[next_node]), partition)
            own_nodes.add(next_node)

    def _next_node(self, missing: int, own_nodes: set[int], nodes: list[int]) -> int | None:
        """The next node to take chunks from, for a domain that is on the nodes *own_nodes*. None: no node has any."""
        free, distance = self._free_by_node, self._topology.distance
        fitting = [node for node in nodes if free[node] >= missing]
        if not own_nodes and fitting:
            return min([(free[node], node) for node in fitting])[1]
        if fitting:
            return min(
                fitting,
                key=lambda node: (sum([distance(node, other) for other in own_nodes]), free[node], node),
            )
        # The node with the most free chunks first gives the fewest nodes; among equals, the one with the most nearby.
        most = max([free[node] for node in nodes], default=0)
        return min(
            [node for node in nodes if free[node] == most],
            key=lambda node: (
                sum([distance(node, other) for other in own_nodes]),
                sum([distance(node, other) * free[other] for other in nodes]),
                node,
            ),
            default=None,
        )

    def _take(self, node: int, count: int, partition: list[int]) -> None:
        """Moves *count* free chunks of a node to *partition*: from its own caches, else from the smallest that fits."""
        if count <= 0:
            return
        self._free_by_node[node] -= count
        caches = self._nodes[node]
        if partition and len(caches) > 1:
            for cache in sorted({self._cache_of[chunk] for chunk in partition if self._node_of[chunk] == node}):
                if part := min(count, len(caches.get(cache, ()))):
                    count -= part
                    self._move(caches[cache], part, partition)
        while count > 0:
            sizes = [(len(chunks), cache) for cache, chunks in caches.items() if chunks]
            fitting = [size for size in sizes if size[0] >= count]
            size, cache = min(fitting) if fitting else max(sizes)
            part = min(count, size)
            count -= part
            self._move(caches[cache], part, partition)

    def _move(self, chunks: list[int], count: int, partition: list[int]) -> None:
        """Moves the best *count* chunks of a cache to *partition*: the last ones."""
        if self._topology.cores:
            self._whole_cores_last(chunks, count)
        partition += chunks[: -count - 1 : -1]
        del chunks[-count:]

    def _whole_cores_last(self, chunks: list[int], count: int) -> None:
        """Orders a cache's chunks so that taking the last *count* cuts as few cores as possible."""
        by_core: dict[int, list[int]] = {}
        for chunk in reversed(chunks):
            by_core.setdefault(self._topology.core_by_chunk[chunk], []).append(chunk)
        chosen: list[int] = []
        while by_core and len(chosen) < count:
            missing = count - len(chosen)
            # The largest core that fits. If none fits, one has to be cut: the smallest.
            core = min(
                by_core, key=lambda core: (len(by_core[core]) > missing, abs(missing - len(by_core[core])), core)
            )
            chosen += by_core.pop(core)
        rest = [chunk for left in by_core.values() for chunk in left]
        chunks[:] = [*reversed(rest), *reversed(chosen)]
