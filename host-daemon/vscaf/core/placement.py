"""From allocations to partitions: which chunks each domain gets, moving as few pCPUs as possible."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from vscaf.core.assignment import improve
from vscaf.core.exchange import Party, exchange
from vscaf.core.rooms import Rooms
from vscaf.core.topology import Topology

__all__ = ["Topology", "place"]

_NOTHING: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Group:
    """A domain, or all that share one chunk: what it is to have and, by chunk, how many pCPUs of it it holds.

    held: of members that hold the whole pool nothing is listed: whatever they get, they keep. whole: it holds these
    chunks entirely, and nothing else. kept: chunks of those it holds that it goes on holding.
    """

    name: str
    wanted: int
    held: Mapping[int, int]
    whole: bool
    home: frozenset[int] = _NOTHING
    kept: Collection[int] = field(default=_NOTHING)


def place(
    topology: Topology,
    held: Mapping[str, frozenset[int]],
    allocations: Mapping[str, int],
    sharing: frozenset[str] = frozenset(),
    homes: Mapping[str, frozenset[int]] = {},
) -> dict[str, frozenset[int]]:
    """The partition of each domain in allocations, in whole chunks; empty for an allocation of 0.

    held: pCPUs that each domain has now; sets may overlap, cut through chunks and lie outside the pool. Partitions are
    disjoint, but all of sharing get one and the same chunk. homes: the NUMA nodes where a domain's memory is; a
    domain that is missing has it anywhere.

    What is sought, in this order:
    1. The number of pCPUs that change hands is minimal, and as many domains as possible keep something of what they
       hold. Exact, but where so many held sets overlap that assignment.improve leaves the greedy answer as it is.
    2. A domain that shrinks keeps, and one that grows takes, what is at its home first.
    3. A partition is on few NUMA nodes that are near each other, then in few last-level caches. Greedy: who grows
       most chooses first, the tightest room that holds it. Into an empty pool of equal nodes every partition without a
       home is on at most one node more than it has to be.
    4. What nobody holds is taken before what has to be released.

    Raises ValueError where the allocations exceed the pool.
    """
    groups = _groups(topology, held, allocations, sharing, homes)
    if (wanted := sum(group.wanted for group in groups)) > len(topology.chunks):
        raise ValueError(f"allocations take {wanted} chunks of a pool of {len(topology.chunks)}: lower them first")
    _keep(topology, groups)
    growing = [group for group in groups if len(group.kept) < group.wanted]
    owned = _exchanged(topology, groups, _grow(topology, groups, growing)) if growing else {}
    partitions = dict.fromkeys(allocations, _NOTHING)
    for group in groups:
        if group.name in owned:
            mine = owned[group.name]
            if group.whole and mine == group.held.keys():
                partitions[group.name] = held[group.name]
                continue
        elif group.whole and len(group.kept) == len(group.held):
            partitions[group.name] = held[group.name]
            continue
        else:
            mine = group.kept
        partitions[group.name] = frozenset().union(*[topology.chunks[chunk] for chunk in mine])
    if sharers := [name for name in allocations if name in sharing and allocations[name] > 0]:
        shared = partitions[min(sharers)]
        partitions.update(dict.fromkeys(sharers, shared))
    return partitions


def _groups(
    topology: Topology,
    held: Mapping[str, frozenset[int]],
    allocations: Mapping[str, int],
    sharing: frozenset[str],
    homes: Mapping[str, frozenset[int]],
) -> list[_Group]:
    """Those that are to have chunks, by name. All of sharing are one, under the first of their names."""
    chunk, chunk_of = topology.chunk, topology.chunk_of
    groups = []
    sharers = sorted(name for name in sharing if allocations.get(name, 0) > 0)
    for name in sorted(allocations):
        cpus = allocations[name]
        if cpus <= 0 or name in sharing:
            continue
        mine = held.get(name, _NOTHING)
        touched = set(map(chunk_of.get, mine))
        whole = bool(mine) and len(touched) * chunk == len(mine) and None not in touched
        overlap: Mapping[int, int] = dict.fromkeys(touched, chunk) if whole else _overlap(topology, [mine])  # type: ignore[arg-type]
        groups.append(_Group(name, -(-cpus // chunk), overlap, whole, homes.get(name, _NOTHING)))
    if sharers:
        home = frozenset[int]().union(*(homes.get(name, _NOTHING) for name in sharers))
        overlap = _overlap(topology, [held.get(name, _NOTHING) for name in sharers])
        groups.append(_Group(sharers[0], 1, overlap, False, home))
    return groups


def _overlap(topology: Topology, members: Iterable[frozenset[int]]) -> Mapping[int, int]:
    """How many pCPUs of each chunk the members hold, those left out that hold the whole pool."""
    counts: Counter[int] = Counter()
    for mine in members:
        if not mine >= topology.cpus:
            counts.update(topology.chunk_of[cpu] for cpu in mine if cpu in topology.chunk_of)
    return counts


def _keep(topology: Topology, groups: list[_Group]) -> None:
    """Decide what each group keeps of what it holds: the most pCPUs, then its home, then few nodes and caches."""
    claims: Counter[int] = Counter()
    for group in groups:
        claims.update(group.held.keys())
    contested = frozenset(chunk for chunk, count in claims.items() if count > 1) if len(claims) < claims.total() else ()
    if contested:
        rivals = [group for group in groups if not contested.isdisjoint(group.held)]
        _settle(topology, rivals, claims)
    else:
        rivals = []
    settled = {group.name for group in rivals}
    shrinking = []
    for group in groups:
        if group.name in settled:
            continue
        if len(group.held) <= group.wanted:
            group.kept = group.held.keys()
        else:
            shrinking.append(group)
    if not shrinking:
        return
    # Where it is all the same to a group, it leaves the node that others grow on.
    pressure: Counter[int] = Counter()
    for group in groups:
        if (missing := group.wanted - len(group.held)) > 0:
            for node in {topology.areas[chunk][0] for chunk in group.held}:
                pressure[node] += missing
    for group in shrinking:
        group.kept = _best(topology, group, group.held.keys(), pressure, {})


def _best(
    topology: Topology, group: _Group, chunks: Iterable[int], pressure: Mapping[int, int], claims: Mapping[int, int]
) -> list[int]:
    """As many of these chunks, which the group holds, as it is to have, if there are so many: what it best keeps."""
    areas, held = topology.areas, group.held
    mine = list(chunks)
    in_cache = Counter(areas[chunk][:2] for chunk in mine)
    rank = _node_ranks(Counter(areas[chunk][0] for chunk in mine), group, pressure)

    def worth(chunk: int) -> tuple[int, ...]:
        node, cache, core = areas[chunk]
        return (-held[chunk], claims.get(chunk, 0), rank[node], -in_cache[node, cache], cache, core, chunk)

    mine.sort(key=worth)
    return mine[: group.wanted]


def _node_ranks(on_node: Mapping[int, int], group: _Group, pressure: Mapping[int, int]) -> dict[int, int]:
    """In which order a group keeps the nodes it is on: home, then the fewest, then those that nobody grows on."""
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
    """What groups keep that hold the same chunks.

    Greedily, the one with the least choice first; that is the best there is where each keeps what it would alone.
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
            {group.name: group.kept for group in rivals},
        )
        for group in rivals:
            group.kept = improved[group.name]


def _grow(topology: Topology, groups: list[_Group], growing: list[_Group]) -> dict[str, list[int]]:
    """The chunks of those that grow: what they keep, and what they get of the chunks that nobody keeps."""
    free = set(range(len(topology.chunks))).difference(*[group.kept for group in groups])
    busy = frozenset[int]().union(*[group.held for group in groups])
    rooms = Rooms(topology, free, busy)
    order = sorted(
        growing,
        key=lambda group: (not rooms.has_room(group.kept, group.wanted), len(group.kept) - group.wanted, group.name),
    )
    owned = {group.name: rooms.fill(group.kept, group.wanted, group.home) for group in order}
    if len(growing) == len(groups) and not any(group.kept or group.home for group in groups):
        # Everybody arrives at once: laid out along a line of nodes, each is on at most one node too many.
        line = Rooms(topology, free, busy)
        laid = {group.name: line.lay(group.wanted) for group in order}
        owned = min(owned, laid, key=lambda way: _spread(topology, groups, way))
    return owned


def _exchanged(
    topology: Topology, groups: list[_Group], owned: Mapping[str, Collection[int]]
) -> Mapping[str, Collection[int]]:
    """owned, and what others keep, after those that grow have exchanged chunks to be on fewer nodes."""
    areas = topology.areas
    if all(len({areas[chunk][0] for chunk in mine}) == 1 for mine in owned.values()):
        return owned
    parties = {group.name: Party(group.held, group.home, set(owned.get(group.name, group.kept))) for group in groups}
    exchange(topology, parties, list(owned))
    return {name: party.owned for name, party in parties.items()}


def _spread(topology: Topology, groups: list[_Group], owned: Mapping[str, list[int]]) -> tuple[int, int]:
    """How bad a placement is: by how many nodes at most a group has too many, and by how many all together."""
    sizes = sorted(Counter(node for node, _cache, _core in topology.areas).values(), reverse=True)
    excess = []
    for group in groups:
        least = 0
        room = 0
        while room < group.wanted:
            room += sizes[least]
            least += 1
        excess.append(len({topology.areas[chunk][0] for chunk in owned[group.name]}) - least)
    return max(excess), sum(excess)
