"""What must be true of every set of partitions, checked independently of how they were made."""

from collections.abc import Mapping

from vscaf.core.topology import Topology


def check_partitions(
    target: Mapping[str, frozenset[int]],
    allocations: Mapping[str, int],
    bounds: Mapping[str, tuple[int, int]],
    topology: Topology,
    sharing: frozenset[str] = frozenset(),
) -> list[str]:
    """Every violation as a sentence; an empty list: all is well.

    target: partitions by domain. allocations: CPUs by domain, 0: resting. bounds: (minimum, maximum) in CPUs by
    domain, rounded up to chunks here; a domain without bounds has none, one that rests is exempt. Minima are not
    held against anyone where they do not fit into the pool together or where domains share a chunk.
    """
    chunk = topology.chunk
    violations = []
    owners: dict[int, str] = {}
    for name in sorted(target):
        for cpu in sorted(target[name]):
            owner = owners.setdefault(cpu, name)
            if owner != name and not (owner in sharing and name in sharing):
                violations.append(f"pCPU {cpu} belongs to both {owner} and {name}")
    shared = {target.get(name, frozenset()) for name in sharing}
    if len(shared) > 1:
        violations.append(f"{', '.join(sorted(sharing))} share a chunk but have different partitions")
    for name in sorted({*target, *allocations}):
        cpus, partition = allocations.get(name, 0), target.get(name, frozenset())
        whole = [part for part in topology.chunks if part <= partition]
        if partition != frozenset().union(*whole):
            violations.append(f"{name} holds {sorted(partition)}, which is not whole chunks of the pool")
        if len(whole) != topology.chunks_for(cpus):
            violations.append(f"{name} is allocated {cpus} CPUs and holds {len(whole)} chunks of {chunk}")
    needed = sum(topology.chunks_for(max(1, bounds[name][0])) for name in bounds if allocations.get(name, 0) > 0)
    minima_fit = needed <= len(topology.chunks) and not sharing
    for name in sorted(bounds):
        minimum, maximum = bounds[name]
        chunks = topology.chunks_for(allocations.get(name, 0))
        if chunks == 0:
            continue
        if chunks > max(1, topology.chunks_for(maximum)):
            violations.append(f"{name} is allocated {allocations[name]} CPUs, above its maximum of {maximum}")
        if minima_fit and chunks < topology.chunks_for(minimum):
            violations.append(f"{name} is allocated {allocations[name]} CPUs, below its minimum of {minimum}")
    return violations
