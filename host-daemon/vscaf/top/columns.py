"""The columns of the view: the text of each cell, and what rows are sorted by.

An unknown value is "?". "-" means that there is none: the domain does not run, it has no pCPU, or its agent reports
that no program computes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len, set_cell_size

from vscaf.cpulist import format_cpu_list
from vscaf.terminal import printable
from vscaf.top.domains import Domain, Figures, figures, measured, pcpus, speedup
from vscaf.values import State

UNKNOWN, NONE = "?", "-"
BLOCKS = "▁▂▃▄▅▆▇█"
LONGEST_CURVE = 8
"""So many sizes of a speedup curve are drawn in a cell."""


@dataclass(frozen=True)
class Column:
    """*width*: in the live view. *key*: what rows are sorted by; None sorts last, whatever the order."""

    name: str
    width: int
    text: Callable[[Domain, Figures, Mapping[int, int]], str]
    key: Callable[[Domain], Any]
    number: bool = True
    """Aligned to the right, and the largest first."""


def _part(value: float | None, domain: Domain, known: Figures) -> str:
    return f"{100 * value:.0f}%" if value is not None else _no_figure(domain, known)


def _no_figure(domain: Domain, known: Figures) -> str:
    """What is shown if no program has a figure. Without a report nobody knows whether programs compute."""
    told_none = known.readable and not known.programs and domain.report_age_s is not None
    return NONE if told_none or domain.state == State.NOT_RUNNING else UNKNOWN


def _state(domain: Domain) -> str:
    return domain.state + (", paused" if domain.paused and not domain.suspended else "")


def _allocation(domain: Domain) -> str:
    return _no_pcpus(domain) if domain.allocation is None else str(domain.allocation)


def _no_pcpus(domain: Domain) -> str:
    """What is shown if the daemon names no pCPUs. It does not know those of a domain that libvirt does not tell of."""
    return UNKNOWN if domain.state == State.UNKNOWN and domain.partition is None else NONE


def _runs(domain: Domain, value: float | None, form: str) -> str:
    if value is not None:
        return format(value, form)
    return NONE if domain.state == State.NOT_RUNNING else UNKNOWN


def partition_by_node(domain: Domain, node_of: Mapping[int, int]) -> str:
    """The partition as NODE:PCPUS, one for each NUMA node: "0:0-3 1:8"; "?" for an unknown node."""
    if not domain.partition:
        return _no_pcpus(domain)
    by_node: dict[int, list[int]] = {}
    for cpu in pcpus(domain.partition):
        by_node.setdefault(node_of.get(cpu, -1), []).append(cpu)
    nodes = ((UNKNOWN if node < 0 else node, cpus) for node, cpus in sorted(by_node.items()))
    return " ".join(f"{node}:{format_cpu_list(cpus)}" for node, cpus in nodes)


def curve(domain: Domain, known: Figures) -> str:
    """The speedup of the program with the largest team, and its curve: a block for S(p) at each known p from 1."""
    if not known.programs:
        return _no_figure(domain, known)
    program = known.programs[0]
    point = speedup(program)
    if point is None:
        return UNKNOWN
    heights = [1.0, *(one.speedup for one in measured(program))][:LONGEST_CURVE]
    top = max(heights)
    drawn = "".join(BLOCKS[max(0, min(7, round(8 * height / top) - 1))] for height in heights)
    return f"{point.speedup:.2f} on {point.p} {drawn}"


def _main_speedup(domain: Domain) -> float | None:
    programs = figures(domain).programs
    point = speedup(programs[0]) if programs else None
    return point.speedup if point is not None else None


COLUMNS = (
    Column("domain", 17, lambda one, _, __: printable(one.name), lambda one: one.name, number=False),
    Column("state", 12, lambda one, _, __: _state(one), _state, number=False),
    Column("CPUs", 4, lambda one, _, __: _allocation(one), lambda one: one.allocation),
    Column(
        "node:pCPUs",
        15,
        lambda one, _, node_of: partition_by_node(one, node_of),
        lambda one: min(pcpus(one.partition)) if one.partition else None,
        number=False,
    ),
    Column("demand", 6, lambda one, _, __: _runs(one, one.demand, "d"), lambda one: one.demand),
    Column("busy", 6, lambda one, _, __: _runs(one, one.busy_cpus, ".2f"), lambda one: one.busy_cpus),
    Column("steal", 5, lambda one, known, _: _part(known.steal, one, known), lambda one: figures(one).steal),
    Column("idle", 5, lambda one, known, _: _part(known.idle_rate, one, known), lambda one: figures(one).idle_rate),
    Column(
        "inflation", 9, lambda one, known, _: _part(known.inflation, one, known), lambda one: figures(one).inflation
    ),
    Column("speedup", 20, lambda one, known, _: curve(one, known), _main_speedup),
)
BY_NAME = {column.name: column for column in COLUMNS}


@dataclass(frozen=True)
class Order:
    """Which domains are shown, and in which order. *words*: each must be in the domain's name, state or agent's."""

    column: str = "domain"
    turned: bool = False
    """The opposite of the column's own order."""
    words: str = ""

    @property
    def descending(self) -> bool:
        """Whether the largest comes first."""
        return BY_NAME[self.column].number is not self.turned

    def by_next_column(self) -> "Order":
        """Sorted by the column to the right, or by the first one after the last."""
        names = list(BY_NAME)
        return replace(self, column=names[(names.index(self.column) + 1) % len(names)], turned=False)


def matches(domain: Domain, words: str) -> bool:
    """Whether the domain is shown."""
    text = f"{domain.name} {domain.state} {domain.agent or ''}".casefold()
    return all(word in text for word in words.casefold().split())


def ordered(domains: Iterable[Domain], order: Order) -> list[Domain]:
    """The domains to show. Equal ones are in order of their names."""
    column = BY_NAME[order.column]
    known: list[tuple[Any, Domain]] = []
    unknown: list[Domain] = []
    for domain in sorted(domains, key=lambda one: one.name):
        if matches(domain, order.words):
            key = column.key(domain)
            if key is None:
                unknown.append(domain)
            else:
                known.append((key, domain))
    known.sort(key=lambda one: one[0], reverse=order.descending)
    return [domain for _, domain in known] + unknown


def row(domain: Domain, node_of: Mapping[int, int]) -> tuple[str, ...]:
    """The cells of a domain, one for each column."""
    known = figures(domain)
    return tuple(column.text(domain, known, node_of) for column in COLUMNS)


def fitted(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The cells padded to *widths*, in terminal cells; what is too long ends in an ellipsis."""
    out = []
    for cell, width, column in zip(cells, widths, COLUMNS, strict=True):
        text = cell if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
        padding = " " * (width - cell_len(text))
        out.append(padding + text if column.number and column.name != "speedup" else text + padding)
    return out
