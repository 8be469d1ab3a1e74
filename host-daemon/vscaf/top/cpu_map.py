"""The map of pCPUs: one character for each pCPU, the threads of a core side by side, a line for each NUMA node.

node 0  aa a. bb b*
node 1  cc cc .. ..
"""

import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vscaf.cpulist import parse_cpu_list
from vscaf.top.domains import Domain
from vscaf.values import HostCpus

MARKS = string.ascii_letters + string.digits
FREE, RESERVE, SHARED, OFFLINE, NO_MARK = ".", "-", "*", "!", "#"
PALETTE = ("cyan", "magenta", "yellow", "green", "blue", "red")
LEGEND = ". free   * shared   - reserve   ! offline"


@dataclass(frozen=True, slots=True)
class Cell:
    """A pCPU. *domain*: the one that has it; None: none, or several."""

    cpu: int
    mark: str
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A NUMA node (None: not known) with its cores."""

    node: int | None
    cores: tuple[tuple[Cell, ...], ...]


def marks(domains: Iterable[Domain]) -> dict[str, str]:
    """A letter for each domain that has pCPUs, in order of names. "#" for all after the letters have run out."""
    names = sorted(one.name for one in domains if one.partition)
    return {name: MARKS[index] if index < len(MARKS) else NO_MARK for index, name in enumerate(names)}


def cpu_map(pool: str, reserve: str, domains: Iterable[Domain], host: HostCpus) -> list[Line]:
    """The pCPUs of pool and reserve. Those that *host* does not know, because they are offline, have no node."""
    domains = list(domains)
    letters = marks(domains)
    holders: dict[int, list[str]] = {}
    for domain in domains:
        for cpu in parse_cpu_list(domain.partition or ""):
            holders.setdefault(cpu, []).append(domain.name)
    in_pool, in_reserve = parse_cpu_list(pool), parse_cpu_list(reserve)
    shown = in_pool | in_reserve | holders.keys()
    core_of = {cpu: core & shown for core in host.cores for cpu in core}

    def cell(cpu: int) -> Cell:
        names = holders.get(cpu, [])
        if len(names) > 1:
            return Cell(cpu, SHARED)
        if names:
            return Cell(cpu, letters[names[0]], names[0])
        if host.online and cpu not in host.online:
            return Cell(cpu, OFFLINE)
        return Cell(cpu, FREE if cpu in in_pool else RESERVE)

    return [
        Line(node, tuple(tuple(cell(cpu) for cpu in sorted(core)) for core in sorted(cores, key=min)))
        for node, cores in sorted(_cores_by_node(shown, core_of, host.node_of).items(), key=_unknown_last)
    ]


def _cores_by_node(
    shown: Iterable[int], core_of: Mapping[int, frozenset[int]], node_of: Mapping[int, int]
) -> dict[int | None, set[frozenset[int]]]:
    out: dict[int | None, set[frozenset[int]]] = {}
    for cpu in shown:
        out.setdefault(node_of.get(cpu), set()).add(core_of.get(cpu, frozenset({cpu})))
    return out


def _unknown_last(entry: tuple[int | None, object]) -> tuple[bool, int]:
    node = entry[0]
    return node is None, node or 0


def colour(mark: str) -> str:
    """The colour of a letter, by its name in a terminal."""
    return PALETTE[ord(mark) % len(PALETTE)]


def text(lines: Iterable[Line]) -> list[str]:
    """The map as plain text."""
    return [f"{label(one)}  " + " ".join("".join(cell.mark for cell in core) for core in one.cores) for one in lines]


def label(line: Line) -> str:
    """The name of a line."""
    return f"node {'?' if line.node is None else line.node}"
