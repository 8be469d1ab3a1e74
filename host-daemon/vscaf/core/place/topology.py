"""The topology of the pool: its chunks, and which of them share a core, a last-level cache or a NUMA node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vscaf.cpulist import format_cpu_list
from vscaf.errors import UsageError
from vscaf.values import HostCpus

LOCAL, SAME_SOCKET, OTHER_SOCKET = 10, 15, 20
"""Distances between NUMA nodes if the firmware gives none, on the firmware's scale, where 10 is local."""


class SmtMode(StrEnum):
    """The smallest step of an allocation if cores have several hardware threads.

    CORE_EXCLUSIVE: a whole core. Its threads share execution units and the first caches. So two unrelated programs slow
    each other down (Vouk 2005, section 2.1, and the works named there), while threads of one program gain from being
    neighbours (chapter 4, "buddy threading"). Two domains never share a core.
    THREAD: one hardware thread. Allocations are finer, but siblings may belong to two domains, and the work of one
    domain costs the other a large part of its speed. Only for hosts that have many more domains than cores.
    """

    CORE_EXCLUSIVE = "core-exclusive"
    THREAD = "thread"


@dataclass(frozen=True, slots=True)
class Topology:
    """The pool as placement sees it.

    chunks: the smallest parts that are handed out: disjoint, not empty, all of one size. node_of: the NUMA node of each
    pCPU of the pool. caches: pCPUs that share a last-level cache. All chunks of a node outside these count as one
    cache. cores: pCPUs that share a core, if chunks are smaller than cores. distances: between two nodes; a missing
    pair counts as OTHER_SOCKET. Raises ValueError if these rules are broken.

    Derived: chunk: pCPUs in a chunk. cpus: all pCPUs that can be handed out. chunk_of: the index of the chunk of each
    pCPU. node_by_chunk, cache_by_chunk, core_by_chunk: the node, cache and core of each chunk. The numbers of caches
    and cores have no other meaning.
    """

    chunks: tuple[frozenset[int], ...]
    node_of: Mapping[int, int]
    caches: tuple[frozenset[int], ...] = ()
    cores: tuple[frozenset[int], ...] = ()
    distances: Mapping[tuple[int, int], int] = field(default_factory=dict)
    cpus: frozenset[int] = field(init=False, repr=False, compare=False)
    chunk_of: Mapping[int, int] = field(init=False, repr=False, compare=False)
    node_by_chunk: tuple[int, ...] = field(init=False, repr=False, compare=False)
    cache_by_chunk: tuple[int, ...] = field(init=False, repr=False, compare=False)
    core_by_chunk: tuple[int, ...] = field(init=False, repr=False, compare=False)
    chunk: int = field(init=False, repr=False, compare=False)
    _whole: dict[frozenset[int], frozenset[int] | None] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        chunk_of: dict[int, int] = {}
        for index, chunk in enumerate(self.chunks):
            if not chunk or not chunk_of.keys().isdisjoint(chunk):
                raise ValueError(f"chunk {sorted(chunk)} is empty or overlaps another: each pCPU is in one chunk")
            if len(chunk) != len(self.chunks[0]):
                raise ValueError(f"chunk {sorted(chunk)} is not of the size of the first: make all chunks equal")
            chunk_of.update(dict.fromkeys(chunk, index))
        if missing := sorted(chunk_of.keys() - self.node_of.keys()):
            raise ValueError(f"pCPU {missing[0]} has no NUMA node: name one for each pCPU of the pool")
        cache_of = {cpu: number for number, cache in enumerate(self.caches) for cpu in cache}
        core_of = {cpu: number for number, core in enumerate(self.cores) for cpu in core}
        firsts = [min(chunk) for chunk in self.chunks]
        nodes = tuple(self.node_of[cpu] for cpu in firsts)
        cores = tuple(core_of.get(cpu, len(self.cores) + index) for index, cpu in enumerate(firsts))
        for name, value in (
            ("chunk", len(self.chunks[0]) if self.chunks else 1),
            ("cpus", frozenset(chunk_of)),
            ("chunk_of", chunk_of),
            ("node_by_chunk", nodes),
            ("cache_by_chunk", tuple(cache_of.get(cpu, -1 - node) for cpu, node in zip(firsts, nodes, strict=True))),
            ("core_by_chunk", cores),
        ):
            object.__setattr__(self, name, value)

    def whole_chunks(self, cpus: frozenset[int]) -> frozenset[int] | None:
        """The indices of the chunks that together are *cpus*. None: it is not made of whole chunks of the pool.

        Results are cached by set, because most partitions are the same from one look to the next.
        """
        if cpus in self._whole:
            return self._whole[cpus]
        whole = None
        if cpus <= self.cpus:
            touched = frozenset(map(self.chunk_of.__getitem__, cpus))
            whole = touched if len(touched) * self.chunk == len(cpus) else None
        if len(self._whole) >= 2 * len(self.chunks):  # there are never more partitions at one time than chunks
            self._whole.clear()
        self._whole[cpus] = whole
        return whole

    def distance(self, node: int, other: int) -> int:
        """The distance from one NUMA node to another."""
        return LOCAL if node == other else self.distances.get((node, other), OTHER_SOCKET)


def pool_topology(pool: frozenset[int], cpus: HostCpus, smt: SmtMode = SmtMode.CORE_EXCLUSIVE) -> Topology:
    """The topology of the pool that the operator configured.

    Chunks are whole cores. If cores differ (a hybrid processor, or cores with a thread offline), a chunk is as large as
    the largest core. Several smaller cores that share a last-level cache, or at least a NUMA node, form one chunk. So
    all chunks have the same number of pCPUs, but perhaps not the same speed. With SmtMode.THREAD each pCPU is a chunk.

    Raises UsageError if the pool lies outside the host, cuts a core in two, or has small cores that fill no chunk.
    """
    outside = pool - cpus.online
    if outside:
        raise UsageError(
            f"pool: CPU {format_cpu_list(outside)} is not online on this host (it has {format_cpu_list(cpus.online)}): "
            "name only CPUs that the host has"
        )
    if smt is not SmtMode.THREAD:
        for core in cpus.cores:
            if core & pool and core - pool:
                raise UsageError(
                    f"pool: CPU {format_cpu_list(core & pool)} shares a core with CPU {format_cpu_list(core - pool)}: "
                    "take both or neither, two domains never share a core"
                )
    topology = remaining_topology(pool, cpus, smt)
    if odd := pool - topology.cpus:
        raise UsageError(
            f"pool: CPU {format_cpu_list(odd)} is on a core with fewer threads than the pool's largest, which have "
            f"{topology.chunk}, and its NUMA node has too few such cores to replace a large one: leave it "
            "out of the pool, or name more cores of its kind"
        )
    return topology


def remaining_topology(pool: frozenset[int], cpus: HostCpus, smt: SmtMode = SmtMode.CORE_EXCLUSIVE) -> Topology:
    """The part of the pool that can be handed out on the present host, after pCPUs went offline or came back.

    Never refuses. A core that lost a thread counts as a core that never had it: see pool_topology. A core that the pool
    cuts in two, or that fills no chunk, is left out, so partitions move off it. These pCPUs are `pool` without the
    `cpus` of the result. The result may have no chunk at all.
    """
    usable = pool & cpus.online
    if smt is SmtMode.THREAD:
        chunks = [frozenset({cpu}) for cpu in usable]
        cores = tuple(core & usable for core in cpus.cores if len(core & usable) > 1)
    else:
        known = frozenset[int]().union(*cpus.cores)
        whole = [core for core in cpus.cores if core and core <= usable]
        chunks = _equal_chunks([*whole, *(frozenset({cpu}) for cpu in usable - known)], cpus)
        cores = ()
    handed_out = frozenset[int]().union(*chunks)
    node_of = {cpu: cpus.node_of.get(cpu, 0) for cpu in handed_out}
    caches = tuple(sorted((cache & handed_out for cache in cpus.caches if cache & handed_out), key=min))
    return Topology(tuple(sorted(chunks, key=min)), node_of, caches, cores, _distances(node_of, cpus))


def _equal_chunks(cores: Iterable[frozenset[int]], cpus: HostCpus) -> list[frozenset[int]]:
    """Chunks of the size of the largest core. Smaller cores are joined, first within a cache, then within a node."""
    by_size: dict[int, list[frozenset[int]]] = {}
    for core in sorted(cores, key=min):
        by_size.setdefault(len(core), []).append(core)
    size = max(by_size, default=1)
    chunks = by_size.pop(size, [])
    cache_of = {cpu: number for number, cache in enumerate(cpus.caches) for cpu in cache}
    for part, small in sorted(by_size.items()):
        if size % part:
            continue
        count, left = size // part, small
        for near in (lambda cpu: (cpus.node_of.get(cpu, 0), cache_of.get(cpu, -1)), cpus.node_of.get):
            together: dict[object, list[frozenset[int]]] = {}
            for core in left:
                together.setdefault(near(min(core)), []).append(core)
            left = []
            for alike in together.values():
                filled = len(alike) // count * count
                chunks += [frozenset().union(*alike[first : first + count]) for first in range(0, filled, count)]
                left += alike[filled:]
    return chunks


def _distances(node_of: Mapping[int, int], cpus: HostCpus) -> dict[tuple[int, int], int]:
    """The distances between all nodes of the pool. If the host gives none: by whether the nodes share a socket."""
    sockets: dict[int, set[int]] = {}
    for cpu, node in node_of.items():
        sockets.setdefault(node, set()).add(cpus.sockets.get(cpu, -1 - node))
    return {
        (a, b): cpus.distances.get(
            (a, b), LOCAL if a == b else SAME_SOCKET if sockets[a] & sockets[b] else OTHER_SOCKET
        )
        for a in sockets
        for b in sockets
    }
