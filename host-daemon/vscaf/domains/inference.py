"""Infers a domain's demand and speedup from a look: from its agent's reports and the CPU time that the host sees."""

from collections.abc import Mapping, Sequence

from vscaf_policies import SpeedupPoint

from vscaf.agentlink.messages import ReportedProcess
from vscaf.core.model.curve_memory import domain_points, recall, remember, renewed
from vscaf.core.model.demand import HostUsage, after_window, demand_now, host_usage, repeats_itself, sleeps_on
from vscaf.core.model.scaf import low_pass
from vscaf.core.model.trust import (
    believed_demand,
    believed_points,
    believed_weight,
    limited_demand,
    offline_as_reported,
    view_after,
)
from vscaf.domains.domain import ManagedDomain

USAGE_WINDOW_S = 0.2  # in a shorter window, the CPU time that vscaf's own calls cause would look like demand
STEADY_WINDOW_S = 1.0  # the window if nothing is in doubt
MODEL_PERIOD_S = 2.0  # the time constant of the model's low pass is twice as long
FIT_S = 0.02  # time between fits of one domain, for each domain: the cost of all fits together stays the same
LONG_REST_S = 30.0  # a domain is a newcomer after such a rest or with other programs, at most once in this time
SETTLING_S = 1.0  # for this time after an allocation was sent, vCPUs that go offline may still have used CPU time


def infer(domain: ManagedDomain, now_s: float, domains: int = 1) -> None:
    """Updates the demand and the model of *domain*, one of *domains*, from the last look.

    The host measures vCPU time in windows of at least USAGE_WINDOW_S. A look that does not end a window only uses the
    agent's present report. So a guest cannot change the measurement by causing more looks.
    """
    domain.inferred.steal = domain.inferred.steal.after(domain.seen.vcpu_delay_s)
    agent, held = domain.agent_demand(), len(domain.held)
    demand_confirmed = _demand_confirmed(domain, agent, held)
    domain.inferred.confirmed = demand_confirmed and (agent is not None or domain.agent_is_quiet())
    if demand_confirmed and domain.inferred.demand == 0 and _sleeps(domain, agent, now_s):
        return
    steady = demand_confirmed and domain.inferred.demand > 0
    if steady and domain.inferred.vcpu_seen is not None and now_s - domain.inferred.vcpu_seen_at_s < STEADY_WINDOW_S:
        return  # true for most domains that compute, at most looks
    window = _window(domain, now_s, STEADY_WINDOW_S if steady else USAGE_WINDOW_S)
    if domain.seen.paused and domain.suspended_by_us:
        # Its demand stays as before, because it cannot report. A new window begins when it runs again.
        domain.inferred.vcpu_seen, domain.inferred.busy_cpus = None, 0.0
        return
    if domain.seen.paused:
        _rest_or_compute(domain, 0, now_s)
        return
    if window is not None or not demand_confirmed:
        _take_ipc(domain, agent)
    vcpus = domain.maximum if agent is not None else domain.seen.vcpus
    if window is not None:
        domain.inferred.usage_known = True
        if domain.inferred.held_at_look == held:  # else the window covers two allocations
            domain.inferred.host_view = view_after(
                domain.inferred.host_view, held, *window, computing=domain.inferred.demand > 0
            )
        domain.inferred.held_at_look = held
        _model(domain, now_s, domains)
        usage, memory = host_usage(*window), domain.inferred.demand_memory
        memory = domain.inferred.demand_memory = after_window(agent, usage, held, vcpus, memory)
        if agent is not None and not repeats_itself(agent, memory):
            domain.inferred.confirmed = False
    elif steady:
        return
    wanted = demand_now(agent, vcpus, domain.inferred.demand_memory)
    if agent is not None and domain.goal is not None and domain.goal.competition:
        # Without competition, reported demand takes no CPUs from other domains, so it needs no check.
        wanted = believed_demand(wanted, domain.inferred.host_view, held)
    _set_demand(domain, wanted, now_s)


def _demand_confirmed(domain: ManagedDomain, agent: int | None, held: int) -> bool:
    """Whether the agent repeats the demand that is in force, or none reports and there is no demand. And nothing casts
    doubt on it."""
    return (
        (agent or 0) == domain.inferred.demand
        and held == domain.inferred.held_at_look
        and repeats_itself(agent, domain.inferred.demand_memory)
        and not domain.trust.doubted
        and not domain.seen.paused
    )


def _sleeps(domain: ManagedDomain, agent: int | None, now_s: float) -> bool:
    """Whether its vCPUs used almost no time since the last window began, and there is nothing to learn from it.

    True for most domains at most looks. So it must be cheap: it only adds up the times of all vCPUs. Waiting counts as
    use here: that is the most that it can be, see host_usage.
    """
    before, window_s = domain.inferred.vcpu_seen, now_s - domain.inferred.vcpu_seen_at_s
    times_s, delays_s = domain.seen.vcpu_time_s, domain.seen.vcpu_delay_s
    if before is None or domain.inferred.modelled_processes or times_s.keys() != before[0].keys():
        return False
    used_s = sum(times_s.values()) - sum(before[0].values())
    if delays_s:
        used_s += sum(delays_s.values()) - sum(before[1].values())
    usage = HostUsage(used_s, window_s)
    if used_s < 0.0 or not sleeps_on(agent, usage, domain.inferred.demand_memory):
        return False
    if window_s >= USAGE_WINDOW_S:
        domain.inferred.vcpu_seen, domain.inferred.vcpu_seen_at_s = (times_s, delays_s), now_s
        domain.inferred.busy_cpus = usage.busy_cpus
    return True


def _model(domain: ManagedDomain, now_s: float, domains: int) -> None:
    """Takes the speedup that its running programs report, as far as it is believed.

    Once in MODEL_PERIOD_S, or when the number of running programs changed.
    """
    report = domain.link.report if domain.link is not None else None
    running = [] if report is None else [one for one in report.processes if one.running]
    dt_s = now_s - domain.inferred.modelled_at_s
    if dt_s < MODEL_PERIOD_S and len(running) == domain.inferred.modelled_processes:
        return
    domain.inferred.modelled_at_s, domain.inferred.modelled_processes = now_s, len(running)
    if running:
        _note_programs(domain, running, now_s)
    processes = [points_of(one) for one in running]
    if running and domain.inferred.host_view.known is not None:  # else reports cannot be checked yet
        # One curve for each set of programs: the speedup of one program says nothing about another.
        known, others = domain.inferred.curves.of(tuple(sorted([one.name for one in running])))
        teams = [(one.team, points) for one, points in zip(running, processes, strict=True)]
        believed = believed_points(domain_points(teams), domain.inferred.host_view, domain.seen.vcpus)
        known = remember(known, believed, now_s, len(domain.held))
        domain.inferred.curves = others.holding(known)
        if others.known[-1][0] != domain.inferred.points_of or now_s - domain.inferred.points_at_s >= FIT_S * domains:
            domain.inferred.points_of, domain.inferred.points_at_s = others.known[-1][0], now_s
            domain.inferred.points = renewed(domain.inferred.points, recall(known, now_s))
    weight = None
    if processes:
        weight = believed_weight(processes, domain.inferred.host_view, domain.seen.vcpus, domain.maximum)
    if weight is not None:
        domain.inferred.scaf_weight = low_pass(domain.inferred.scaf_weight, weight, min(dt_s, MODEL_PERIOD_S))


def _take_ipc(domain: ManagedDomain, agent: int | None) -> None:
    """Takes the instructions per cycle that its running programs report.

    While none runs, but the agent still reports demand, the last value stays: programs pause.
    """
    if not agent:
        domain.inferred.ipc = None
        return
    report = domain.link.report if domain.link is not None else None
    running = [one for one in report.processes if one.running] if report is not None else []
    if running:
        domain.inferred.ipc = domain_ipc(running)


def _set_demand(domain: ManagedDomain, wanted: int, now_s: float) -> None:
    """Sets its demand to *wanted*, as often as it may change its demand."""
    before, history, minimum = domain.inferred.demand, domain.inferred.demand_history, domain.rules.minimum
    if wanted == before and history.tokens is not None:
        return  # the next change accounts for the time until then
    if domain.inferred.wanted_at_s is not None:
        _same, history = limited_demand(before, minimum, max(0.0, now_s - domain.inferred.wanted_at_s), history)
    domain.inferred.wanted_at_s = now_s
    demand, domain.inferred.demand_history = limited_demand(wanted, minimum, 0.0, history)
    _rest_or_compute(domain, demand, now_s)


def _rest_or_compute(domain: ManagedDomain, demand: int, now_s: float) -> None:
    """Sets the demand. A domain that computes after a long rest is a newcomer, unless its agent knows its programs.

    After a short rest it is not. Else it could stay a newcomer for ever by resting again and again.
    """
    if demand and not domain.inferred.demand and now_s - domain.inferred.rested_since_s >= LONG_REST_S:
        report = domain.link.report if domain.link is not None else None
        if report is None or not _are_known([one for one in report.processes if one.running]):
            domain.inferred.newcomer_since_s = now_s
    elif domain.inferred.demand and not demand:
        domain.inferred.rested_since_s = now_s
    domain.inferred.demand = demand


def _are_known(running: Sequence[ReportedProcess]) -> bool:
    """Whether the agent reports a speedup of each of them: it knows their programs, perhaps from earlier runs."""
    return bool(running) and all(any(point.p > 1 for point in one.points) for one in running)


def _note_programs(domain: ManagedDomain, running: Sequence[ReportedProcess], now_s: float) -> None:
    """Makes the domain a newcomer if it runs only other programs than before, which its agent does not know.

    The old speedup says nothing about other programs. If the old ones scaled badly, the domain would have too few CPUs
    to show that the new ones scale. A guest chooses the names, so this counts only once in LONG_REST_S.
    """
    programs = frozenset([one.name for one in running])
    if domain.inferred.programs and domain.inferred.programs.isdisjoint(programs):
        if _are_known(running):
            domain.inferred.scaf_weight, domain.inferred.points = None, ()
        elif now_s - domain.inferred.newcomer_since_s < LONG_REST_S:
            return  # the next report is checked again
        else:
            domain.inferred.newcomer_since_s, domain.inferred.scaf_weight = now_s, None
    domain.inferred.programs = programs


def _window(
    domain: ManagedDomain, now_s: float, least_s: float
) -> tuple[dict[int, float], dict[int, float], float] | None:
    """What each vCPU used and how long it waited since the window began, and the window's length, in seconds. None: it
    is shorter than least_s, or is the first one, or their times cannot be read now, which is not the same as no use.
    """
    times_s, delays_s = domain.seen.vcpu_time_s, domain.seen.vcpu_delay_s
    if not times_s:
        domain.inferred.vcpu_seen = None
        return None
    before, window_s = domain.inferred.vcpu_seen, now_s - domain.inferred.vcpu_seen_at_s
    if before is not None and window_s < least_s:
        return None
    domain.inferred.vcpu_seen, domain.inferred.vcpu_seen_at_s = (times_s, delays_s), now_s
    if before is None:
        return None
    used_s, waited_s = _since(times_s, before[0]), _since(delays_s, before[1])
    domain.inferred.busy_cpus = sum(used_s.values()) / window_s
    _check_reported_online(domain, {vcpu: one_s / window_s for vcpu, one_s in used_s.items()}, now_s)
    return used_s, waited_s, window_s


def _since(now_s: Mapping[int, float], before_s: Mapping[int, float]) -> dict[int, float]:
    """The time since *before_s*, by vCPU. A vCPU that was not measured before is left out."""
    return {vcpu: max(0.0, time_s - before_s[vcpu]) for vcpu, time_s in now_s.items() if vcpu in before_s}


def _check_reported_online(domain: ManagedDomain, busy_cpus: Mapping[int, float], now_s: float) -> None:
    """Compares the guest's report of its online CPUs with the CPU time of its vCPUs."""
    online, transition = domain.online_vcpus(), domain.transition
    if online is None or transition is None or transition.resting or not transition.acknowledged:
        return
    if now_s - transition.announced_at_s > SETTLING_S:
        domain.trust.judge(domain.name, offline_as_reported(online, busy_cpus))


def domain_ipc(running: Sequence[ReportedProcess]) -> float | None:
    """Instructions per cycle and CPU in use of a domain with these running processes, of which there is at least one.

    The mean over the processes, weighted by their teams. None: a process does not report its own.
    """
    instructions, cpus = 0.0, 0
    for process in running:
        if process.ipc is None:
            return None
        team = max(1, process.team)
        instructions, cpus = instructions + team * process.ipc, cpus + team
    return instructions / cpus


def points_of(process: ReportedProcess) -> list[SpeedupPoint]:
    """The speedup points of one process of a report."""
    return [SpeedupPoint(one.p, one.speedup, one.standard_error, one.samples) for one in process.points]
