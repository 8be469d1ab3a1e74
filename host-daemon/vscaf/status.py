"""What the daemon believes and does, as plain data for `vscaf status`, and as a table."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from vscaf.agentlink.messages import ReportedProcess
from vscaf.cpulist import format_cpu_list
from vscaf.loop import Daemon
from vscaf.managed import ManagedDomain

LOSSES = ("inflation", "fork", "dispatch", "barrier", "steal")


def status(daemon: Daemon) -> dict[str, Any]:
    """The state of *daemon* and of each domain that it was told to manage."""
    running = {domain.name: domain for domain in daemon.managed.values()}
    return {
        "policy": daemon.policy_name,
        "pool": daemon.config.pool,
        "managing": daemon.decision.managed if daemon.decision is not None else None,
        "unknown": daemon.unknown_since_s is not None,
        "transitions": daemon.transitions,
        "violations": list(daemon.violations),
        "domains": [
            _domain(running[name]) if name in running else {"name": name, "state": "not running"}
            for name in sorted(daemon.config.domains)
        ],
    }


def _domain(domain: ManagedDomain) -> dict[str, Any]:
    link = domain.link
    report = link.report if link is not None else None
    agent = "no channel" if link is None else "connected" if link.connected else "silent"
    return {
        "name": domain.name,
        "state": "unmanaged" if domain.found is None else domain.state,
        "partition": format_cpu_list(domain.held) if domain.found is not None else None,
        "allocation": len(domain.held) if domain.found is not None else None,
        "demand": domain.demand,
        "busy_cpus": round(domain.busy_cpus, 3),
        "vcpus": domain.seen.vcpus,
        "vcpus_maximum": domain.seen.vcpus_maximum,
        "online": list(link.online) if link is not None and link.online is not None else None,
        "agent": agent,
        "report_age_s": round(link.age_s(), 3) if link is not None and math.isfinite(link.age_s()) else None,
        "bad_lines": link.bad_lines if link is not None else 0,
        "scaf_weight": domain.scaf_weight,
        "processes": [process_status(process) for process in (report.processes if report is not None else [])],
    }


def process_status(process: ReportedProcess) -> dict[str, Any]:
    """What an agent reported of one process, but for the samples behind its points."""
    return {
        "pid": process.pid,
        "name": process.name,
        "team": process.team,
        "running": process.running,
        "malleable": process.malleable,
        "override": process.override,
        "long_section": process.long_section,
        "contained": process.contained,
        "points": [
            {"p": point.p, "speedup": point.speedup, "standard_error": point.standard_error} for point in process.points
        ],
        "learning": msgspec.to_builtins(process.learning),
        "decomposition": msgspec.to_builtins(process.decomposition),
    }


def table(state: Mapping[str, Any]) -> Group:
    """The status as people read it: the domains, and below them the programs that run, where agents report any."""
    programs = _programs(state["domains"])
    return Group(_domains(state), programs) if programs.row_count > 0 else Group(_domains(state))


def _domains(state: Mapping[str, Any]) -> Table:
    heading = f"policy {state['policy']}, pool {state['pool']}, {state['transitions']} transitions"
    if state["unknown"]:
        heading += ", libvirt does not answer: everything below is old"
    rows = Table(title=heading, title_justify="left")
    for column in ("domain", "state", "pCPUs", "demand", "busy", "vCPUs", "agent", "C"):
        rows.add_column(column)
    for domain in state["domains"]:
        if domain["state"] == "not running":
            rows.add_row(domain["name"], "not running", *[""] * 6)
            continue
        weight = domain["scaf_weight"]
        rows.add_row(
            domain["name"],
            domain["state"],
            domain["partition"] or "-",
            str(domain["demand"]),
            f"{domain['busy_cpus']:.2f}",
            f"{domain['vcpus']}/{domain['vcpus_maximum']}",
            domain["agent"],
            "" if weight is None else f"{weight:.2f}",
        )
    return rows


def _programs(domains: Iterable[Mapping[str, Any]]) -> Table:
    rows = Table()
    for column in ("domain", "program", "team", "malleable", "speedup", "learning", "time"):
        rows.add_column(column)
    for domain in domains:
        for process in domain.get("processes", []):
            if process["running"]:
                rows.add_row(
                    domain["name"],
                    Text(process["name"]),  # the guest chose it: no markup
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
    """S at its team size, or at the largest below, or at the smallest that there is, with a 95% interval's half."""
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
    """Useful time, and the two largest losses where they are 1% or more."""
    if decomposition is None:
        return ""
    lost = sorted(LOSSES, key=lambda name: -decomposition[name])[:2]
    parts = ["useful", *(name for name in lost if decomposition[name] >= 0.01)]
    return "\n".join(f"{name} {100 * decomposition[name]:.0f}%" for name in parts)
