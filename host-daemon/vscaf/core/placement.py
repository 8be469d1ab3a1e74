"""From allocations to partitions: which chunks each domain gets, moving as few pCPUs as possible."""

from collections import Counter
from collections.abc import Mapping

from vscaf.core.assignment import improve
from vscaf.core.topology import Topology


def place(
    topology: Topology,
    held: Mapping[str, frozenset[int]],
    allocations: Mapping[str, int],
    sharing: frozenset[str] = frozenset(),
    homes: Mapping[str, frozenset[int]] = {},
) -> dict[str, frozenset[int]]:
    """The partition of each domain in allocations, in whole chunks; empty for an allocation of 0.

    held: pCPUs that each domain has now; sets may overlap, cut through chunks and lie outside the pool. Partitions are
    disjoint, but all of sharing get one and the same chunk. The number of pCPUs that change hands is minimal. Among
    the placements that achieve it, as many domains as possible keep something of what they hold, and a partition is
    on few NUMA nodes (greedily, the largest growth first). Raises ValueError where the allocations exceed the pool.
    """
    groups: dict[str, tuple[str, ...]] = {
        name: (name,) for name in sorted(allocations) if allocations[name] > 0 and name not in sharing
    }
    sharers = tuple(sorted(name for name in sharing if allocations.get(name, 0) > 0))
    if sharers:
        groups[sharers[0]] = sharers
    wanted = {group: topology.chunks_for(allocations[group]) if group not in sharers else 1 for group in groups}
    if sum(wanted.values()) > len(topology.chunks):
        raise ValueError(
            f"allocations take {sum(wanted.values())} chunks of a pool of {len(topology.chunks)}: lower them first"
        )
    overlap = {
        group: [sum(len(chunk & held.get(name, frozenset())) for name in members) for chunk in topology.chunks]
        for group, members in groups.items()
    }
    kept = _keep(topology, overlap, wanted)
    contested = [sum(values[chunk] > 0 for values in overlap.values()) > 1 for chunk in range(len(topology.chunks))]
    if any(contested):
        kept = improve(overlap, wanted, kept)
    owned = _grow(topology, wanted, kept, held)
    partitions: dict[str, frozenset[int]] = {}
    for name in allocations:
        group = sharers[0] if name in sharers else name
        partitions[name] = frozenset().union(*(topology.chunks[chunk] for chunk in owned.get(group, ())))
    return partitions


def _node(topology: Topology, chunk: int) -> int:
    """NUMA node of a chunk."""
    return topology.node_of[min(topology.chunks[chunk])]


def _keep(topology: Topology, overlap: Mapping[str, list[int]], wanted: Mapping[str, int]) -> dict[str, frozenset[int]]:
    """Chunks (by index) that each group keeps of those it holds: the fullest, then those of its main NUMA nodes.

    Who wants the fewest chunks chooses first; where no chunk is held by two this is already the best there is.
    """
    taken: set[int] = set()
    kept: dict[str, frozenset[int]] = {}
    for group in sorted(wanted, key=lambda group: (wanted[group], group)):
        values = overlap[group]
        mine = [chunk for chunk, value in enumerate(values) if value > 0 and chunk not in taken]
        on_node = Counter(_node(topology, chunk) for chunk in mine)
        mine.sort(key=lambda c: (-values[c], -on_node[_node(topology, c)], _node(topology, c), min(topology.chunks[c])))
        kept[group] = frozenset(mine[: wanted[group]])
        taken |= kept[group]
    return kept


def _grow(
    topology: Topology,
    wanted: Mapping[str, int],
    kept: Mapping[str, frozenset[int]],
    held: Mapping[str, frozenset[int]],
) -> dict[str, frozenset[int]]:
    """kept, filled up to wanted from the chunks that nobody keeps: on the nodes a group is on, else on one that fits.

    A chunk that nobody holds goes before one that has to be released first.
    """
    free = set(range(len(topology.chunks))) - set().union(*kept.values())
    busy = frozenset[int]().union(*held.values())
    owned = dict(kept)
    for group in sorted(wanted, key=lambda group: (len(kept[group]) - wanted[group], group)):
        mine = set(kept[group])
        while (missing := wanted[group] - len(mine)) > 0:
            room = Counter(_node(topology, chunk) for chunk in free)
            at_home = {_node(topology, chunk) for chunk in mine}
            # A node it is on; else the tightest in which all that is missing fits; else the emptiest.
            node = min(
                room,
                key=lambda n: (
                    n not in at_home,
                    room[n] < missing,
                    room[n] if room[n] >= missing and n not in at_home else -room[n],
                    n,
                ),
            )
            there = [chunk for chunk in free if _node(topology, chunk) == node]
            there.sort(
                key=lambda c: (-len(topology.chunks[c]), bool(topology.chunks[c] & busy), min(topology.chunks[c]))
            )
            mine |= set(there[:missing])
            free -= mine
        owned[group] = frozenset(mine)
    return owned
