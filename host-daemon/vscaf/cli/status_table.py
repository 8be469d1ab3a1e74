"""The status as a table: what `vscaf status` prints."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vscaf.terminal import printable
from vscaf.values import State

LOSSES = ("inflation", "fork", "dispatch", "barrier", "steal")


def table(state: Mapping[str, Any]) -> Group:
    """The status as tables: the domains, why some are left alone, and the programs that agents report."""
    parts: list[Any] = [_domains(state)]
    for domain in state["domains"]:
        if domain.get("why"):
            parts.append(Text(printable(f"{domain['name']} is {domain['state']}: {domain['why']}")))
    programs = _programs(state["domains"])
    return Group(*parts, programs) if programs.row_count > 0 else Group(*parts)


def _domains(state: Mapping[str, Any]) -> Table:
    heading = f"policy {state['policy']}, pool {state['pool']}, {state['transitions']} transitions"
    if state["exploration_cost"] > 0:
        heading += f", exploring cost {state['exploration_cost']:.1%}"
    if state["unknown"]:
        heading += ", libvirt does not answer: all values below are old"
    rows = Table(title=Text(printable(heading)), title_justify="left")
    for column in ("domain", "state", "pCPUs", "demand", "busy", "vCPUs", "agent", "C", "rules"):
        rows.add_column(column, no_wrap=column in ("state", "rules"))
    for domain in state["domains"]:
        name = Text(printable(domain["name"]))
        if domain["state"] == State.NOT_RUNNING or domain.get("vcpus") is None:  # nothing else is known
            rows.add_row(name, domain["state"], *[""] * 7)
            continue
        weight = domain["scaf_weight"]
        rows.add_row(
            name,
            domain["state"] + (", paused" if domain.get("paused") and not domain.get("suspended") else ""),
            domain["partition"] or "-",
            str(domain["demand"]),
            "" if domain["busy_cpus"] is None else f"{domain['busy_cpus']:.2f}",
            f"{domain['vcpus']}/{domain['vcpus_maximum']}",
            domain["agent"],
            "" if weight is None else f"{weight:.2f}",
            _rules(domain.get("rules"), state.get("weights_count", True)),
        )
    return rows


def _rules(rules: Mapping[str, Any] | None, weights_count: bool) -> str:
    """The bounds in pCPUs, and the rules that differ from the defaults."""
    if rules is None:
        return ""
    parts = [f"{rules['minimum'] or 1}-{rules['maximum'] or ''}"]
    if rules["weight"] not in (None, 1.0):
        parts.append(f"weight {rules['weight']:g}" + ("" if weights_count else ", ignored"))
    if rules["priority"]:
        parts.append(f"priority {rules['priority']}")
    if rules["rest"]:
        parts.append(f"rest {rules['rest']}")
    return "\n".join(parts)


def _programs(domains: Iterable[Mapping[str, Any]]) -> Table:
    rows = Table()
    for column in ("domain", "program", "team", "malleable", "speedup", "learning", "time"):
        rows.add_column(column)
    for domain in domains:
        for process in domain.get("processes", []):
            if process["running"]:
                rows.add_row(
                    Text(printable(domain["name"])),
                    Text(printable(process["name"])),  # no markup either
                    str(process["team"]),
                    _malleability(process),
                    _speedup(process),
                    _learning(process["learning"]),
                    _thread_time(process["decomposition"]),
                )
    return rows


def _malleability(process: Mapping[str, Any]) -> str:
    lines = [process["malleable"]]
    lines += ["override"] if process["override"] else []
    lines += ["long section"] if process["long_section"] else []
    lines += ["contained"] if process["contained"] else []
    return "\n".join(lines)


def _speedup(process: Mapping[str, Any]) -> str:
    """The speedup at its team size, else at the next smaller known size, else at the smallest known size.

    With half the width of a 95% interval.
    """
    points = [point for point in process["points"] if point["p"] > 1]
    if not points:
        return "unknown"
    below = [point for point in points if point["p"] <= process["team"]]
    point = max(below, key=lambda one: one["p"]) if below else min(points, key=lambda one: one["p"])
    return f"{point['speedup']:.2f}±{1.96 * point['standard_error']:.2f}\non {point['p']}"


def _learning(learning: Mapping[str, Any] | None) -> str:
    if learning is None:
        return ""
    cost = f"{100 * learning['used']:.3g}% of {100 * learning['budget']:.3g}%"
    if not learning["counters"]:
        return f"{cost}, no counters"
    return f"{cost}, ipc" if learning["metric"] == "ipc" else cost


def _thread_time(decomposition: Mapping[str, Any] | None) -> str:
    """The useful time, and those of the two largest losses that are at least 1%."""
    if decomposition is None:
        return ""
    lost = sorted(LOSSES, key=lambda name: -decomposition[name])[:2]
    parts = ["useful", *(name for name in lost if decomposition[name] >= 0.01)]
    return "\n".join(f"{name} {100 * decomposition[name]:.0f}%" for name in parts)
