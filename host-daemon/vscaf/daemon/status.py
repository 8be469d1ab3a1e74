"""The daemon's status as plain data, for `vscaf status --json`."""

import math
from typing import Any

import msgspec

from vscaf.agentlink.link import CONNECTED, STALE, condition_of
from vscaf.agentlink.messages import Report, ReportedProcess
from vscaf.control.messages import DomainStatus, ProcessStatus, RulesStatus, SpeedupStatus, Status
from vscaf.cpulist import format_cpu_list
from vscaf.daemon.loop import Daemon
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.rules import DomainRules
from vscaf.values import LEFT_ALONE, State

NOT_LISTED = "libvirt has not listed its domains since the daemon started"


def status(daemon: Daemon) -> dict[str, Any]:
    """The Status of *daemon*: of each domain that its configuration manages, and of each other that it knows."""
    listed = {name for name, rules in daemon.config.domains.items() if rules.managed}
    running = {domain.name: domain for domain in daemon.managed.values()}
    prediction = daemon.decider.prediction({name: len(domain.held) for name, domain in running.items()})
    shown = Status(
        configured_at=daemon.configured_at,
        policy=daemon.policy_name,
        policy_options=dict(daemon.policy_options),
        policy_previous=daemon.policy_previous,
        weights_count=daemon.weights_count,
        pool=format_cpu_list(daemon.pool_cpus),
        reserve=format_cpu_list(daemon.reserve),
        managing=daemon.decision.managed if daemon.decision is not None else None,
        unknown=daemon.unknown_since_s is not None,
        transitions=daemon.transitions,
        transition_s=round(daemon.decider.transition_s, 4) if daemon.decider.transition_measured else None,
        exploring=sorted(daemon.decider.exploring),
        exploration_cost=round(daemon.decider.cost, 6),
        exploration_lost_s=round(daemon.decider.lost_s, 4),
        optimum_speedup=_rounded(prediction.optimum),
        lost_speedup=_rounded(prediction.lost),
        violations=list(daemon.violations),
        domains=[
            domain_status(running[name], prediction.speedups.get(name))
            if name in running
            else DomainStatus(name=name, state=State.NOT_RUNNING)
            if daemon.has_listed
            else DomainStatus(name=name, state=State.UNKNOWN, why=NOT_LISTED)
            for name in sorted({*listed, *running})
        ],
    )
    builtins: dict[str, Any] = msgspec.to_builtins(shown)
    return builtins


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def domain_status(domain: ManagedDomain, speedup: float | None = None) -> DomainStatus:
    """The state of a running domain. *speedup*: as its curve predicts for its present size; None: not known."""
    link = domain.link
    report = link.report if link is not None else None
    has_none = domain.state in LEFT_ALONE or (domain.state == State.UNKNOWN and not domain.held)
    return DomainStatus(
        name=domain.name,
        uuid=domain.seen.key.uuid,
        state=domain.state,
        why=domain.unmanaged_why,
        partition=None if has_none else format_cpu_list(domain.held),
        allocation=None if has_none else len(domain.held),
        demand=domain.inferred.demand,
        busy_cpus=round(domain.inferred.busy_cpus, 3) if domain.inferred.usage_known else None,
        steal_s=_rounded(domain.inferred.steal.total_s),
        speedup=None if has_none else _rounded(speedup),
        paused=domain.seen.paused,
        suspended=domain.suspended_by_us,
        vcpus=domain.seen.vcpus,
        vcpus_maximum=domain.seen.vcpus_maximum,
        online=list(link.online) if link is not None and link.online is not None else None,
        agent=_condition(domain),
        agent_version=link.agent_version if link is not None else None,
        steal_governor=_steal_governor(report),
        report_age_s=round(link.age_s(), 3) if link is not None and math.isfinite(link.age_s()) else None,
        bad_lines=link.bad_lines if link is not None else 0,
        scaf_weight=domain.inferred.scaf_weight,
        rules=_rules_status(domain.rules),
        processes=[process_status(process) for process in (report.processes if report is not None else [])],
    )


def _condition(domain: ManagedDomain) -> str:
    """The condition of the agent. While vscaf has its domain suspended, an agent that reports nothing is normal."""
    condition = condition_of(domain.link)
    return CONNECTED if domain.suspended_by_us and condition == STALE else condition


def _steal_governor(report: Report | None) -> bool | None:
    """What an agent tells of Linux's steal governor. None: there is no report, or it is that of an older agent."""
    return None if report is None or report.steal_governor is msgspec.UNSET else report.steal_governor


def _rules_status(rules: DomainRules) -> RulesStatus:
    return RulesStatus(
        minimum=rules.minimum,
        maximum=rules.maximum,
        weight=rules.weight,
        priority=rules.priority,
        rest=rules.rest,
    )


def process_status(process: ReportedProcess) -> ProcessStatus:
    """An agent's report of one process, without the number of samples of its points."""
    return ProcessStatus(
        pid=process.pid,
        name=process.name,
        team=process.team,
        running=process.running,
        malleable=process.malleable,
        override=process.override,
        long_section=process.long_section,
        contained=process.contained,
        own=msgspec.to_builtins(process.own),
        points=[
            SpeedupStatus(p=point.p, speedup=point.speedup, standard_error=point.standard_error)
            for point in process.points
        ],
        learning=msgspec.to_builtins(process.learning),
        decomposition=msgspec.to_builtins(process.decomposition),
    )
