"""The map of pCPUs: one character for each pCPU, the threads of a core side by side, a line for each NUMA node.

node 0  aa a. bb b*
node 1  cc cc .. ..
"""

import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vscaf.cpulist import parse_cpu_list
from vscaf.top.domains import Domain, pcpus
from vscaf.values import HostCpus

MARKS = string.ascii_letters + string.digits
FREE, RESERVE, SHARED, OFFLINE, NO_MARK = ".", "-", "*", "!", "#"
PALETTE = ("cyan", "magenta", "yellow", "green", "blue", "red")
LEGEND = ". free   * shared   - reserve   ! offline"


@dataclass(frozen=True, slots=True)
class Line:
    """The cores of a NUMA node, or a part of them. *label*: empty if the line continues the one before."""

    label: str
    cores: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown for a pCPU. *domain*: the one that has it; None: none, or several."""

    mark: str
    domain: str | None = None


def layout(cpus: Iterable[int], host: HostCpus, width: int | None = None) -> list[Line]:
    """A line for each NUMA node with its cores, several if it does not fit into *width* characters.

    pCPUs that *host* does not know, because they are offline, have no node.
    """
    shown = frozenset(cpus)
    core_of = {cpu: core & shown for core in host.cores for cpu in core}
    by_node: dict[int, set[frozenset[int]]] = {}
    for cpu in shown:
        by_node.setdefault(host.node_of.get(cpu, -1), set()).add(core_of.get(cpu, frozenset({cpu})))
    names = {node: f"node {'?' if node < 0 else node}" for node in by_node}
    margin = max(map(len, names.values()), default=0) + 2
    lines = []
    for node, cores in sorted(by_node.items(), key=lambda entry: (entry[0] < 0, entry[0])):
        label = names[node]
        for part in _wrapped(sorted(tuple(sorted(core)) for core in cores), None if width is None else width - margin):
            lines.append(Line(label.ljust(margin), part))
            label = ""
    return lines


def _wrapped(cores: Iterable[tuple[int, ...]], width: int | None) -> Iterator[tuple[tuple[int, ...], ...]]:
    part: list[tuple[int, ...]] = []
    used = 0
    for core in cores:
        if part and width is not None and used + len(core) > width:
            yield tuple(part)
            part, used = [], 0
        part.append(core)
        used += len(core) + 1
    yield tuple(part)


def marks(domains: Iterable[Domain]) -> dict[str, str]:
    """A letter for each domain that has pCPUs, in order of names. "#" for all after the letters have run out."""
    names = sorted(one.name for one in domains if one.partition)
    return {name: MARKS[index] if index < len(MARKS) else NO_MARK for index, name in enumerate(names)}


class Owners:
    """Whose each pCPU is. *online*: the host's pCPUs; empty: not known."""

    def __init__(self, pool: str, reserve: str, domains: Iterable[Domain], online: frozenset[int]) -> None:
        domains = list(domains)
        self._letters = marks(domains)
        self._in_pool = parse_cpu_list(pool)
        self._online = online
        self._holders: dict[int, str | None] = {}
        for domain in domains:
            for cpu in pcpus(domain.partition):
                self._holders[cpu] = None if cpu in self._holders else domain.name
        self.cpus = self._in_pool | parse_cpu_list(reserve) | self._holders.keys()

    def cell(self, cpu: int) -> Cell:
        """What is shown for a pCPU."""
        if cpu in self._holders:
            name = self._holders[cpu]
            return Cell(SHARED) if name is None else Cell(self._letters[name], name)
        if self._online and cpu not in self._online:
            return Cell(OFFLINE)
        return Cell(FREE if cpu in self._in_pool else RESERVE)


def colour(mark: str) -> str:
    """The colour of a letter, by its name in a terminal."""
    return PALETTE[ord(mark) % len(PALETTE)]


def plain(lines: Iterable[Line], owners: Owners) -> list[str]:
    """The map as plain text."""
    return [
        line.label + " ".join("".join(owners.cell(cpu).mark for cpu in core) for core in line.cores) for line in lines
    ]
