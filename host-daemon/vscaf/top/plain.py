"""The view as plain text: what is printed to a pipe, and the lines that the live view has too."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from rich.cells import cell_len

from vscaf.cpulist import parse_cpu_list
from vscaf.terminal import printable
from vscaf.top.columns import COLUMNS, Order, fitted, ordered, row
from vscaf.top.domains import State, pcpus
from vscaf.values import HostCpus

INDENT = 9
"""Of a decision's second line: the length of a time and a space."""


def heading(state: State) -> str:
    """The daemon in one line."""
    pool = parse_cpu_list(state.pool)
    held = pool & frozenset().union(*(pcpus(one.partition) for one in state.domains))
    parts = [f"policy {state.policy}", f"pool {state.pool}: {len(held)} of {len(pool)} pCPUs held"]
    parts += [f"{len(state.domains)} domains", f"{state.transitions} transitions"]
    parts += ["observes only"] if state.managing is False else []
    parts += [f"exploring {', '.join(state.exploring)}"] if state.exploring else []
    parts += ["libvirt does not answer: all values are old"] if state.unknown else []
    parts += [f"broken laws, please report: {'; '.join(state.violations)}"] if state.violations else []
    return printable(", ".join(parts))


def table(state: State, order: Order, host: HostCpus) -> list[str]:
    """The lines of one table: the heading, the names of the columns, the domains. Nothing is cut."""
    rows = [tuple(column.name for column in COLUMNS)]
    rows += [row(domain, host.node_of) for domain in ordered(state.domains, order)]
    widths = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    return [heading(state), *("  ".join(fitted(cells, widths)).rstrip() for cells in rows)]


def newest(events: Iterable[Mapping[str, Any]], width: int, height: int) -> list[str]:
    """The newest decisions that fit whole, oldest first, in at most *height* lines of at most *width* characters.

    If even the newest does not fit, its first lines.
    """
    lines: list[str] = []
    for event in reversed(list(events)):
        more = textwrap.wrap(decision(event), max(10, width), subsequent_indent=" " * INDENT)
        if len(lines) + len(more) > height:
            return lines or more[:height]
        lines = more + lines
    return lines


def decision(event: Mapping[str, Any]) -> str:
    """An event in one line: when (UTC), what, which domain, from where to where, and why."""
    parts = [str(event["time"])[11:19], str(event["kind"])]
    parts += [str(event["domain"])] if event["domain"] is not None else []
    if event["from"] is not None or event["to"] is not None:
        parts.append(" -> ".join("-" if one in (None, "") else str(one) for one in (event["from"], event["to"])))
    return printable(" ".join(parts) + (f": {event['why']}" if event["why"] else ""))
