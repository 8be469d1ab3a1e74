"""What the daemon believes and does, as plain data for `vscaf status`, and as a table."""

import math
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from vscaf.cpulist import format_cpu_list
from vscaf.loop import Daemon
from vscaf.managed import ManagedDomain


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
        "processes": [
            {
                "pid": process.pid,
                "name": process.name,
                "team": process.team,
                "running": process.running,
                "malleable": process.malleable,
                "points": [
                    {"p": point.p, "speedup": point.speedup, "standard_error": point.standard_error}
                    for point in process.points
                ],
            }
            for process in (report.processes if report is not None else [])
        ],
    }


def table(state: Mapping[str, Any]) -> Table:
    """The status as people read it."""
    heading = f"policy {state['policy']}, pool {state['pool']}, {state['transitions']} transitions"
    if state["unknown"]:
        heading += ", libvirt does not answer: everything below is old"
    rows = Table(title=heading, title_justify="left")
    for column in ("domain", "state", "pCPUs", "demand", "busy", "vCPUs", "agent", "C", "programs"):
        rows.add_column(column)
    for domain in state["domains"]:
        if domain["state"] == "not running":
            rows.add_row(domain["name"], "not running", *[""] * 7)
            continue
        programs = ", ".join(f"{one['name']} x{one['team']}" for one in domain["processes"] if one["running"])
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
            programs,
        )
    return rows
