"""From allocations to partitions: which chunks each domain gets, with as few moved pCPUs as possible."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from vscaf.core.place.free_chunks import FreeChunks
from vscaf.core.place.numa_swaps import MOST_CHUNKS, Participant, swap_for_locality
from vscaf.core.place.overlaps import improve
from vscaf.core.place.topology import Topology

__all__ = ["Topology", "place"]

_NOTHING: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Group:
    """A domain, or all domains that share one chunk. wanted: how many chunks it should have.

    held: how many pCPUs of each chunk it holds. Members that hold the whole pool are not counted: they keep whatever
    they get. kept: which of the held chunks it keeps, None: not decided.
    """

    name: str
    wanted: int
    held: Mapping[int, int]
    home: frozenset[int]
    kept: Collection[int] | None = None


def place(
    topology: Topology,
    held: Mapping[str, frozenset[int]],
    allocations: Mapping[str, int],
    sharing: frozenset[str] = frozenset(),
    homes: Mapping[str, frozenset[int]] = {},
) -> dict[str, frozenset[int]]:
    """The partition of each domain in allocations, in whole chunks; empty for an allocation of 0.

    held: pCPUs that each domain has now. The sets may overlap, cut through chunks and lie outside the pool. Partitions
    are disjoint, except that all domains of *sharing* get the same chunk. homes: the NUMA nodes of a domain's memory. A
    domain that is missing has its memory anywhere.

    The goals, in this order:
    1. The number of pCPUs that change hands is minimal, and as many domains as possible keep a part of what they hold.
       This is exact, unless so many held sets overlap that overlaps.improve keeps the greedy answer.
    2. A domain that shrinks keeps chunks at its home first. A domain that grows takes chunks at its home first.
    3. A partition is on few NUMA nodes that are near each other, then in few last-level caches. This is greedy: the
       domain that grows most chooses first, and takes the smallest room that fits. In an empty pool of equal nodes,
       every partition without a home is on at most one node more than necessary.
    4. Chunks that no domain holds are taken before chunks that must be released first.

    Raises ValueError if the allocations exceed the pool.
    """
    claims = _claims(topology, held, allocations, sharing, homes)
    groups = claims.changing
    if (wanted := sum(map(len, claims.staying.values())) + sum(group.wanted for group in groups)) > len(
        topology.chunks
    ):
        raise ValueError(f"allocations take {wanted} chunks of a pool of {len(topology.chunks)}: lower them first")
    partitions = dict.fromkeys(allocations, _NOTHING)
    partitions.update({name: held[name] for name in claims.staying})
    if groups:
        _keep(topology, groups)
        for name, chunks in _grow(topology, claims).items():
            partitions[name] = frozenset().union(*[topology.chunks[chunk] for chunk in chunks])
    if sharers := [name for name in allocations if name in sharing and allocations[name] > 0]:
        partitions.update(dict.fromkeys(sharers, partitions[min(sharers)]))
    return partitions


@dataclass(slots=True)
class _Claims:
    """staying: chunks by domain, for domains that hold as much as they should and share none of it with another.

    changing: all other domains that should have chunks, by name. The domains of *sharing* are one group, under the
    first of their names. leaving: chunks held by domains that should have none.
    """

    staying: dict[str, frozenset[int]]
    changing: list[_Group]
    leaving: frozenset[int]


def _claims(
    topology: Topology,
    held: Mapping[str, frozenset[int]],
    allocations: Mapping[str, int],
    sharing: frozenset[str],
    homes: Mapping[str, frozenset[int]],
) -> _Claims:
    """Sorts the domains into those that stay, change and leave."""
    chunk, pool = topology.chunk, len(topology.cpus)
    staying: dict[str, frozenset[int]] = {}
    changing = []
    leaving: set[int] = set()
    for name, cpus in allocations.items():
        if cpus > 0 and name in sharing:
            continue
        own, wanted = held.get(name, _NOTHING), -(-cpus // chunk)
        touched = None if len(own) >= pool else topology.whole_chunks(own)
        if cpus <= 0:
            leaving.update(_overlap(topology, [own]) if touched is None else touched)
        elif touched is None:
            changing.append(_Group(name, wanted, _overlap(topology, [own]), homes.get(name, _NOTHING)))
        elif len(touched) == wanted:
            staying[name] = touched
        else:
            changing.append(_Group(name, wanted, dict.fromkeys(touched, chunk), homes.get(name, _NOTHING)))
    if sharers := sorted(name for name in sharing if allocations.get(name, 0) > 0):
        home = frozenset[int]().union(*(homes.get(name, _NOTHING) for name in sharers))
        overlap = _overlap(topology, [held.get(name, _NOTHING) for name in sharers])
        changing.append(_Group(sharers[0], 1, overlap, home))
    everything = [*staying.values(), *[group.held for group in changing]]
    if len(set[int]().union(*everything)) < sum(map(len, everything)):
        count = Counter(chunk for own in everything for chunk in own)
        for name in [name for name, own in staying.items() if any(count[chunk] > 1 for chunk in own)]:
            overlap = dict.fromkeys(staying.pop(name), chunk)
            changing.append(_Group(name, len(overlap), overlap, homes.get(name, _NOTHING)))
    changing.sort(key=lambda group: group.name)
    return _Claims(staying, changing, frozenset(leaving))


def _overlap(topology: Topology, members: Iterable[frozenset[int]]) -> Mapping[int, int]:
    """How many pCPUs of each chunk the members hold. Members that hold the whole pool are left out."""
    counts: Counter[int] = Counter()
    for cpus in members:
        if cpus and not cpus >= topology.cpus:
            counts.update([topology.chunk_of[cpu] for cpu in cpus if cpu in topology.chunk_of])
    return counts


def _keep(topology: Topology, groups: list[_Group]) -> None:
    """Decides which held chunks each group keeps: the most pCPUs, then those at home, then few nodes and caches."""
    claims: Counter[int] = Counter()
    if len(set[int]().union(*[group.held for group in groups])) < sum([len(group.held) for group in groups]):
        claims.update(chunk for group in groups for chunk in group.held)
        contested = {chunk for chunk, count in claims.items() if count > 1}
        _settle(topology, [group for group in groups if not contested.isdisjoint(group.held)], claims)
    # If all else is equal for a group, it leaves the node on which others grow.
    pressure: Counter[int] = Counter()
    shrinking = []
    for group in groups:
        missing = group.wanted - len(group.held)
        if missing < 0:
            shrinking.append(group)
        elif missing > 0:
            for node in set(map(topology.node_by_chunk.__getitem__, group.held)):
                pressure[node] += missing
    for group in groups:
        if group.kept is None and len(group.held) <= group.wanted:
            group.kept = group.held.keys()
    for group in shrinking:
        if group.kept is None:
            group.kept = _best(topology, group, group.held.keys(), pressure, {})


def _best(
    topology: Topology, group: _Group, chunks: Iterable[int], pressure: Mapping[int, int], claims: Mapping[int, int]
) -> list[int]:
    """The best of these held chunks for the group to keep: at most as many as it should have."""
    nodes, caches, cores, held = topology.node_by_chunk, topology.cache_by_chunk, topology.core_by_chunk, group.held
    candidates = sorted(chunks)
    if (
        claims
        or topology.cores
        or len(set(map(caches.__getitem__, candidates))) > 1
        or len(set(map(nodes.__getitem__, candidates))) > 1
        or len(set(held.values())) > 1
    ):
        rank = _node_ranks(Counter(map(nodes.__getitem__, candidates)), group, pressure)
        in_cache = Counter(map(caches.__getitem__, candidates))
        candidates.sort(
            key=lambda chunk: (
                -held[chunk],
                claims.get(chunk, 0),
                rank[nodes[chunk]],
                -in_cache[caches[chunk]],
                caches[chunk],
                cores[chunk],
            )
        )
    return candidates[: group.wanted]


def _node_ranks(on_node: Mapping[int, int], group: _Group, pressure: Mapping[int, int]) -> dict[int, int]:
    """The order in which a group keeps its nodes: home first, then few nodes, then nodes where no other group grows."""
    if len(on_node) == 1:
        return dict.fromkeys(on_node, 0)
    rank: dict[int, int] = {}
    missing = group.wanted
    left = set(on_node)
    while left:
        near = left & group.home or left
        enough = [node for node in near if on_node[node] >= missing]
        node = min(
            enough or near,
            key=lambda node: (pressure.get(node, 0) if enough else 0, -on_node[node], pressure.get(node, 0), node),
        )
        rank[node] = len(rank)
        missing -= on_node[node]
        left.remove(node)
    return rank


def _settle(topology: Topology, rivals: list[_Group], claims: Mapping[int, int]) -> None:
    """Decides which chunks are kept by groups that hold the same chunks.

    Greedy: the group with the least choice comes first. If each group keeps as many pCPUs as it would alone, that is
    optimal. Else overlaps.improve improves it.
    """
    taken: set[int] = set()
    best = True
    for group in sorted(rivals, key=lambda group: (len(group.held) - group.wanted, group.wanted, group.name)):
        kept = _best(topology, group, group.held.keys() - taken, {}, claims)
        alone = sorted(group.held.values(), reverse=True)[: group.wanted]
        best = best and sum(group.held[chunk] for chunk in kept) == sum(alone)
        group.kept = kept
        taken.update(kept)
    if not best:
        improved = improve(
            {group.name: group.held for group in rivals},
            {group.name: group.wanted for group in rivals},
            {group.name: group.kept or _NOTHING for group in rivals},
        )
        for group in rivals:
            group.kept = improved[group.name]


def _grow(topology: Topology, claims: _Claims) -> dict[str, Collection[int]]:
    """The chunks of each group: those that it keeps, and those that it gets from the free chunks."""
    groups = claims.changing
    owned: dict[str, Collection[int]] = {group.name: group.kept or _NOTHING for group in groups}
    growing = [group for group in groups if len(owned[group.name]) < group.wanted]
    if not growing:
        return owned
    free = set(range(len(topology.chunks))).difference(*claims.staying.values(), *owned.values())
    busy = claims.leaving.union(*[group.held for group in groups])
    free_chunks = FreeChunks(topology, free, busy)
    in_place = {group.name for group in growing if free_chunks.has_free(owned[group.name], group.wanted)}
    growing.sort(key=lambda group: (group.name not in in_place, len(owned[group.name]) - group.wanted, group.name))
    empty_pool = not claims.staying and not any(owned.values()) and not any(group.home for group in groups)
    for group in growing:
        owned[group.name] = free_chunks.fill(owned[group.name], group.wanted, group.home)
    if empty_pool:
        # All groups arrive at once. Placed along the line of nodes, each is on at most one node too many.
        line = FreeChunks(topology, free, busy)
        laid: dict[str, Collection[int]] = {group.name: line.lay(group.wanted) for group in growing}
        owned = min(owned, laid, key=lambda way: _spread(topology, groups, way))
    if len(free) + sum(map(len, owned.values())) > MOST_CHUNKS:
        return owned
    node_of = topology.node_by_chunk.__getitem__
    split = [group.name for group in growing if len(set(map(node_of, owned[group.name]))) > 1]
    if not split:
        return owned
    participants = {group.name: Participant(group.held, group.home, set(owned[group.name])) for group in groups}
    swap_for_locality(topology, participants, split, free.difference(*owned.values()))
    return {name: participant.owned for name, participant in participants.items()}


def _spread(topology: Topology, groups: list[_Group], owned: Mapping[str, Collection[int]]) -> tuple[int, int]:
    """The cost of a placement: the most excess nodes of one group, and the excess nodes of all groups together."""
    sizes = sorted(Counter(topology.node_by_chunk).values(), reverse=True)
    excess = []
    for group in groups:
        least = 0
        total = 0
        while total < group.wanted:
            total += sizes[least]
            least += 1
        excess.append(len({topology.node_by_chunk[chunk] for chunk in owned[group.name]}) - least)
    return max(excess), sum(excess)
