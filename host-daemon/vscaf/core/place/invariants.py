"""Checks the laws that every set of partitions must obey, independently of how it was made."""

from collections.abc import Mapping

from vscaf.core.place.topology import Topology

_NOTHING: frozenset[int] = frozenset()


def check_partitions(
    target: Mapping[str, frozenset[int]],
    allocations: Mapping[str, int],
    bounds: Mapping[str, tuple[int, int]],
    topology: Topology,
    sharing: frozenset[str] = frozenset(),
) -> list[str]:
    """Every violation as a sentence. An empty list: there is none.

    target: partitions by domain. allocations: CPUs by domain, 0: it rests. bounds: (minimum, maximum) in CPUs by
    domain, rounded up to chunks here. A domain that is missing in bounds is not checked, nor is one that rests. Minima
    are not checked if they do not all fit into the pool, or if domains share a chunk.
    """
    chunk = topology.chunk
    violations = _doubles(target, sharing)
    shared = {target.get(name, frozenset()) for name in sharing}
    if len(shared) > 1:
        violations.append(f"{', '.join(sorted(sharing))} share a chunk but have different partitions")
    wrong: list[tuple[str, str]] = []
    chunks = {name: -(-cpus // chunk) for name, cpus in allocations.items()}
    everyone = target if target.keys() == chunks.keys() else {**dict.fromkeys(allocations, _NOTHING), **target}
    for name, partition in everyone.items():
        touched = topology.whole_chunks(partition)
        if touched is not None:
            whole = len(touched)
        else:
            wrong.append((name, f"{name} holds {sorted(partition)}, which is not whole chunks of the pool"))
            whole = sum(part <= partition for part in topology.chunks)
        if whole != chunks.get(name, 0):
            cpus = allocations.get(name, 0)
            wrong.append((name, f"{name} is allocated {cpus} CPUs and holds {whole} chunks of {chunk}"))
    violations += _sorted(wrong)
    wrong = []
    needed = sum([max(1, -(-minimum // chunk)) for name, (minimum, _maximum) in bounds.items() if chunks.get(name)])
    minima_fit = needed <= len(topology.chunks) and not sharing
    for name, (minimum, maximum) in bounds.items():
        has = chunks.get(name, 0) * chunk
        if has - chunk >= maximum and has > chunk:
            wrong.append((name, f"{name} is allocated {allocations[name]} CPUs, above its maximum of {maximum}"))
        if minima_fit and 0 < has < minimum:
            wrong.append((name, f"{name} is allocated {allocations[name]} CPUs, below its minimum of {minimum}"))
    return violations + _sorted(wrong)


def _sorted(wrong: list[tuple[str, str]]) -> list[str]:
    """The sentences, by the domain's name."""
    return [sentence for _name, sentence in sorted(wrong, key=lambda one: one[0])]


def _doubles(target: Mapping[str, frozenset[int]], sharing: frozenset[str]) -> list[str]:
    """A sentence for each pCPU that belongs to two domains, unless both share."""
    alone = [cpus for name, cpus in target.items() if name not in sharing]
    together = frozenset[int]().union(*[target.get(name, _NOTHING) for name in sharing])
    if sum(map(len, alone)) + len(together) == len(together.union(*alone)):
        return []
    violations = []
    owners: dict[int, str] = {}
    for name in sorted(target):
        for cpu in sorted(target[name]):
            owner = owners.setdefault(cpu, name)
            if owner != name and not (owner in sharing and name in sharing):
                violations.append(f"pCPU {cpu} belongs to both {owner} and {name}")
    return violations
