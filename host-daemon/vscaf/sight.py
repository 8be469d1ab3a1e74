"""What a look at a domain tells: its demand and its model, from what its agent says and what the host sees."""

from vscaf_policies import SpeedupPoint

from vscaf.agentlink.messages import Report
from vscaf.core.demand import HostUsage, infer_demand
from vscaf.core.model import discount, domain_weight, low_pass, scaf_weight
from vscaf.managed import ManagedDomain

USAGE_WINDOW_S = 0.2  # a shorter look at the vCPUs' time takes what our own orders cost for demand


def infer(domain: ManagedDomain, maximum: int, now_s: float) -> None:
    """Brings what was just seen of *domain* into its demand and its model. maximum: pCPUs that it may have at most."""
    usage = _usage(domain, now_s)
    if domain.seen.paused:
        domain.demand, domain.demand_since_s = 0, None
        return
    agent = domain.agent_demand()
    if usage is not None:
        domain.busy_cpus = usage.busy_cpus
        domain.busy_recently.append(usage.busy_cpus)
        domain.usage_known = True
    if usage is not None or agent is not None:
        vcpus = maximum if agent is not None else domain.seen.vcpus
        before = domain.demand
        domain.demand, domain.demand_memory = infer_demand(agent, usage, len(domain.held), vcpus, domain.demand_memory)
        if domain.demand and not before:
            domain.demand_since_s = now_s
        elif not domain.demand:
            domain.demand_since_s = None
    if usage is not None and domain.link is not None and domain.link.report is not None:
        weight = reported_weight(domain.link.report, max(domain.busy_recently), len(domain.held))
        if weight is not None:
            domain.scaf_weight = low_pass(domain.scaf_weight, weight, usage.window_s)


def _usage(domain: ManagedDomain, now_s: float) -> HostUsage | None:
    """vCPU time since the last look that was long enough ago; None: too soon, or a first look."""
    total_s = sum(domain.seen.vcpu_time_s.values())
    before_s, window_s = domain.vcpu_time_s, now_s - domain.vcpu_time_at_s
    if before_s is not None and window_s < USAGE_WINDOW_S:
        return None
    domain.vcpu_time_s, domain.vcpu_time_at_s = total_s, now_s
    return HostUsage(max(0.0, total_s - before_s), window_s) if before_s is not None else None


def reported_points(report: Report) -> tuple[SpeedupPoint, ...]:
    """The speedup points of all running processes of a report."""
    return tuple(
        SpeedupPoint(point.p, point.speedup, point.standard_error, point.samples)
        for process in report.processes
        if process.running
        for point in process.points
    )


def reported_weight(report: Report, busy_cpus: float, cpus: int) -> float | None:
    """SCAF's weight of a domain from its running processes, held against what the host saw; None: not known."""
    weights = []
    for process in report.processes:
        if process.running:
            points = [SpeedupPoint(one.p, one.speedup, one.standard_error, one.samples) for one in process.points]
            weights.append(scaf_weight(discount(points, busy_cpus, cpus)))
    return domain_weight(weights)
