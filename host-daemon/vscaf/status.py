"""What the daemon believes and does, as plain data for `vscaf status`, and as a table."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from vscaf.agentlink.interface import Link
from vscaf.agentlink.link import CONNECTED, STALE, condition_of
from vscaf.agentlink.messages import ReportedProcess
from vscaf.config import Config
from vscaf.control.messages import DomainStatus, ProcessStatus, RulesStatus, SpeedupStatus, Status
from vscaf.core.decide.decision import Decision
from vscaf.cpulist import format_cpu_list
from vscaf.values import DomainKey, DomainSeen

LOSSES = ("inflation", "fork", "dispatch", "barrier", "steal")
NOT_RUNNING = "not running"
UNMANAGED = "unmanaged"
UNKNOWN = "unknown"
LEFT_ALONE = frozenset({UNMANAGED, "released"})
"""States in which a domain has no partition, because vscaf changes nothing of it."""


class ShownRules(Protocol):
    """The rules in force for a domain. None: nothing says."""

    @property
    def minimum(self) -> int | None: ...
    @property
    def maximum(self) -> int | None: ...
    @property
    def weight(self) -> float | None: ...
    @property
    def priority(self) -> int | None: ...
    @property
    def rest(self) -> str | None: ...


class ShownDomain(Protocol):
    """What the status shows of a running domain."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def unmanaged_why(self) -> str: ...
    @property
    def ours(self) -> bool: ...
    @property
    def held(self) -> frozenset[int]: ...
    @property
    def demand(self) -> int: ...
    @property
    def busy_cpus(self) -> float: ...
    @property
    def seen(self) -> DomainSeen: ...
    @property
    def link(self) -> Link | None: ...
    @property
    def scaf_weight(self) -> float | None: ...
    @property
    def rules(self) -> ShownRules | None: ...


class ShownLearner(Protocol):
    """What the status shows of what the daemon tries and learns."""

    @property
    def transition_s(self) -> float: ...
    @property
    def exploring(self) -> frozenset[str]: ...
    @property
    def cost(self) -> float: ...
    @property
    def lost_s(self) -> float: ...


class ShownDaemon(Protocol):
    """What the status shows of the daemon. `pool_cpus`: the pCPUs that it hands out now. `reserve`: those for rest and
    emulators."""

    @property
    def config(self) -> Config: ...
    @property
    def policy_name(self) -> str: ...
    @property
    def policy_options(self) -> Mapping[str, Any]: ...
    @property
    def policy_previous(self) -> str | None: ...
    @property
    def pool_cpus(self) -> frozenset[int]: ...
    @property
    def reserve(self) -> frozenset[int]: ...
    @property
    def decision(self) -> Decision | None: ...
    @property
    def unknown_since_s(self) -> float | None: ...
    @property
    def transitions(self) -> int: ...
    @property
    def learner(self) -> ShownLearner: ...
    @property
    def violations(self) -> list[str]: ...
    @property
    def managed(self) -> Mapping[DomainKey, ShownDomain]: ...


def status(daemon: ShownDaemon) -> dict[str, Any]:
    """The state of *daemon*, of each domain of its configuration, and of each other that it looks after: a Status."""
    running = {domain.name: domain for domain in daemon.managed.values()}
    shown = Status(
        policy=daemon.policy_name,
        policy_options=dict(daemon.policy_options),
        policy_previous=daemon.policy_previous,
        pool=format_cpu_list(daemon.pool_cpus),
        reserve=format_cpu_list(daemon.reserve),
        managing=daemon.decision.managed if daemon.decision is not None else None,
        unknown=daemon.unknown_since_s is not None,
        transitions=daemon.transitions,
        transition_s=round(daemon.learner.transition_s, 4),
        exploring=sorted(daemon.learner.exploring),
        exploration_cost=round(daemon.learner.cost, 6),
        exploration_lost_s=round(daemon.learner.lost_s, 4),
        violations=list(daemon.violations),
        domains=[
            domain_status(running[name]) if name in running else DomainStatus(name=name, state=NOT_RUNNING)
            for name in sorted({*daemon.config.domains, *running})
        ],
    )
    builtins: dict[str, Any] = msgspec.to_builtins(shown)
    return builtins


def domain_status(domain: ShownDomain) -> DomainStatus:
    """The state of a running domain."""
    link = domain.link
    report = link.report if link is not None else None
    has_none = domain.state in LEFT_ALONE or (domain.state == UNKNOWN and not domain.held)
    return DomainStatus(
        name=domain.name,
        state=domain.state,
        why=domain.unmanaged_why,
        partition=None if has_none else format_cpu_list(domain.held),
        allocation=None if has_none else len(domain.held),
        demand=domain.demand,
        busy_cpus=round(domain.busy_cpus, 3),
        paused=domain.seen.paused,
        suspended=domain.ours,
        vcpus=domain.seen.vcpus,
        vcpus_maximum=domain.seen.vcpus_maximum,
        online=list(link.online) if link is not None and link.online is not None else None,
        agent=_condition(domain),
        report_age_s=round(link.age_s(), 3) if link is not None and math.isfinite(link.age_s()) else None,
        bad_lines=link.bad_lines if link is not None else 0,
        scaf_weight=domain.scaf_weight,
        rules=_rules_status(domain.rules) if domain.rules is not None else None,
        processes=[process_status(process) for process in (report.processes if report is not None else [])],
    )


def _condition(domain: ShownDomain) -> str:
    """How it is with the agent; that it is silent while vscaf has its domain suspended is as it has to be."""
    condition = condition_of(domain.link)
    return CONNECTED if domain.ours and condition == STALE else condition


def _rules_status(rules: ShownRules) -> RulesStatus:
    return RulesStatus(
        minimum=rules.minimum,
        maximum=rules.maximum,
        weight=rules.weight,
        priority=rules.priority,
        rest=rules.rest,
    )


def process_status(process: ReportedProcess) -> ProcessStatus:
    """What an agent reported of one process, but for the samples behind its points."""
    return ProcessStatus(
        pid=process.pid,
        name=process.name,
        team=process.team,
        running=process.running,
        malleable=process.malleable,
        override=process.override,
        long_section=process.long_section,
        contained=process.contained,
        points=[
            SpeedupStatus(p=point.p, speedup=point.speedup, standard_error=point.standard_error)
            for point in process.points
        ],
        learning=msgspec.to_builtins(process.learning),
        decomposition=msgspec.to_builtins(process.decomposition),
    )


def printable(text: str) -> str:
    """*text* without what a terminal would obey: guests choose names."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def table(state: Mapping[str, Any]) -> Group:
    """The status as people read it: the domains, why some are left alone, and the programs that agents report."""
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
        heading += ", libvirt does not answer: everything below is old"
    rows = Table(title=Text(printable(heading)), title_justify="left")
    for column in ("domain", "state", "pCPUs", "demand", "busy", "vCPUs", "agent", "C", "rules"):
        rows.add_column(column, no_wrap=column in ("state", "rules"))
    for domain in state["domains"]:
        name = Text(printable(domain["name"]))
        if domain["state"] == NOT_RUNNING:
            rows.add_row(name, NOT_RUNNING, *[""] * 7)
            continue
        weight = domain["scaf_weight"]
        rows.add_row(
            name,
            domain["state"] + (", paused" if domain.get("paused") and not domain.get("suspended") else ""),
            domain["partition"] or "-",
            str(domain["demand"]),
            f"{domain['busy_cpus']:.2f}",
            f"{domain['vcpus']}/{domain['vcpus_maximum']}",
            domain["agent"],
            "" if weight is None else f"{weight:.2f}",
            _rules(domain.get("rules")),
        )
    return rows


def _rules(rules: Mapping[str, Any] | None) -> str:
    """Bounds in pCPUs, and what differs from the defaults."""
    if rules is None:
        return ""
    parts = [f"{rules['minimum'] or 1}-{rules['maximum'] or ''}"]
    if rules["weight"] not in (None, 1.0):
        parts.append(f"weight {rules['weight']:g}")
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
