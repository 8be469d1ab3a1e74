"""Compares a guest's reports with what the host itself sees of its domain.

The host sees one thing that no guest can fake: the CPU time that its vCPUs took. It cannot see whether that time was
useful, so a guest that spins is believed like one that computes. Only the reverse is certain: a guest that did not use
its CPUs did not gain speed from them.

CPUs are pCPUs. "busy" is vCPU seconds per second.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vscaf_policies import SpeedupPoint
from vscaf_policies.models.points import LEAST_SPEEDUP, MOST_EFFICIENCY

from vscaf.core.model.demand import host_usage
from vscaf.core.model.scaf import domain_weight, most_weight, scaf_weight

VIEW_WINDOW_S = 8.0
"""The time constant of a domain's mean use. It is longer than the phases of most programs, because the mean is compared
with their speedup, which is a mean over all phases."""

SETTLED_S = 1.0
"""The view of a new allocation replaces that of the former one after this time."""

NEARLY_FULL = 0.8
FULL_USE = 0.95
"""Shares of an allocation that are used. Up to NEARLY_FULL, no speedup above the used CPU time is believed. From
FULL_USE on, up to MOST_EFFICIENCY times the used CPU time is believed, because caches make that possible. In between
the limit grows proportionally."""

AWAKE_CPUS = 0.2
"""A vCPU that uses more than this is not offline. Interrupts and a last run of the scheduler use less."""

DISTRUSTED_PERIODS, TRUSTED_PERIODS = 8, 20
"""A guest whose report of its offline CPUs is false for the first number of periods in a row is distrusted. It is
trusted again after its report was true for the second number of periods."""

TURNS_PER_SECOND, TURNS_AT_ONCE = 0.5, 8.0
"""How often a guest may change its reports before it is contained for a while: see steadiness."""

HALF_USED, WELL_USED, COMFORTABLE = 0.5, 0.75, 0.7
"""Shares of an allocation that are used. Below HALF_USED, the allocation is too large. Above WELL_USED, the guest may
be able to use more. An allocation that is too large is cut so that COMFORTABLE of it is used."""


@dataclass(frozen=True, slots=True)
class HostView:
    """The host's view of a domain while it computed: its mean use of the present allocation, and of the one before.

    cpus: the present allocation, 0: none yet. busy_cpus: its mean use over seen_s seconds, as HostUsage counts it, from
    used_s and waited_s: what each vCPU used and how long it waited for a pCPU in that time. settled_cpus and
    settled_busy_cpus: the same for the last allocation that was seen for SETTLED_S; 0 CPUs: there was none.
    """

    cpus: int = 0
    busy_cpus: float = 0.0
    seen_s: float = 0.0
    settled_cpus: int = 0
    settled_busy_cpus: float = 0.0
    used_s: Mapping[int, float] = field(default_factory=dict)
    waited_s: Mapping[int, float] = field(default_factory=dict)

    @property
    def known(self) -> tuple[int, float] | None:
        """The allocation with which reports are compared, and its mean use. None: nothing was seen for long enough."""
        if self.cpus > 0 and self.seen_s >= SETTLED_S:
            return self.cpus, self.busy_cpus
        return (self.settled_cpus, self.settled_busy_cpus) if self.settled_cpus > 0 else None


def view_after(
    host_view: HostView,
    cpus: int,
    used_s: Mapping[int, float],
    waited_s: Mapping[int, float],
    window_s: float,
    *,
    computing: bool,
) -> HostView:
    """*host_view* after one more window of window_s seconds, in which the domain had *cpus* CPUs.

    used_s, waited_s: what each vCPU used and how long it waited for a pCPU. computing: whether it had demand. A window
    without demand says nothing about its programs' speedup and is left out. So is one without an allocation (it
    rested). The mean is a plain mean over the first VIEW_WINDOW_S seconds of an allocation, and exponential after that.

    It is computed from the sums over all windows. Linux counts a wait only when it ends, so in a single window a vCPU
    that still waits looks as if it slept.
    """
    if not computing or cpus < 1 or window_s <= 0.0:
        return host_view
    settled = (host_view.settled_cpus, host_view.settled_busy_cpus)
    kept, added = 0.0, min(1.0, VIEW_WINDOW_S / window_s)
    seen_s = added * window_s
    if cpus != host_view.cpus:
        settled = host_view.known or (0, 0.0)
    elif host_view.seen_s > 0.0:
        seen_s = min(host_view.seen_s + seen_s, VIEW_WINDOW_S)
        kept = (seen_s - added * window_s) / host_view.seen_s
    total_s = sum(used_s.values())
    # Each window counts for at most its CPUs, so that a burst beyond them is worth nothing in later windows.
    possible = min(1.0, cpus * window_s / total_s) if total_s > 0.0 else 1.0
    sums_s = _sums(host_view.used_s, kept, used_s, possible * added)
    waits_s = _sums(host_view.waited_s, kept, waited_s, added)
    busy_cpus = min(host_usage(sums_s, waits_s, seen_s).busy_cpus, float(cpus))
    return HostView(cpus, busy_cpus, seen_s, *settled, sums_s, waits_s)


def _sums(before_s: Mapping[int, float], kept: float, times_s: Mapping[int, float], added: float) -> dict[int, float]:
    """*kept* of the sums before and *added* of the times, for each vCPU."""
    sums_s = {vcpu: kept * one_s for vcpu, one_s in before_s.items()} if kept > 0.0 else {}
    for vcpu, one_s in times_s.items():
        sums_s[vcpu] = sums_s.get(vcpu, 0.0) + added * one_s
    return sums_s


def speedup_limit(host_view: HostView, p: int, vcpus: int) -> float:
    """The largest S(p) that is believed for a domain with *vcpus* plugged vCPUs. inf: any speedup is believed.

    A program that waits without spinning and uses B of its a CPUs on average has S(a) <= B: work that takes T alone
    takes at least T CPU seconds on a CPUs. The rest follows from concavity: S(p) <= B and S(p) <= p for p < a, S(p) <=
    (p / a) B for p > a. This does not cut Amdahl's curve. One utilisation for all p would cut it at small p.
    Super-linear speedup takes fewer CPU seconds than T. It is believed, up to MOST_EFFICIENCY, if the domain uses all
    its CPUs. A program that is super-linear and also serial for much of its time loses its super-linear part.
    """
    held = _held_against(host_view, vcpus)
    return math.inf if held is None else _limit(p, *held)


def _held_against(host_view: HostView, vcpus: int) -> tuple[int, float, float] | None:
    """The allocation, its mean use, and the efficiency that is believed with this use. None: nothing is known."""
    known = host_view.known
    if known is None:
        return None
    cpus, busy_cpus = min(known[0], vcpus), known[1]  # more CPUs than vCPUs cannot be used
    if cpus < 1:
        return 1, 0.0, 1.0
    full = (busy_cpus / cpus - NEARLY_FULL) / (FULL_USE - NEARLY_FULL)
    return cpus, busy_cpus, 1.0 + (MOST_EFFICIENCY - 1.0) * min(1.0, max(0.0, full))


def _limit(p: int, cpus: int, busy_cpus: float, efficiency: float) -> float:
    seen = min(float(p), busy_cpus) if p <= cpus else p * busy_cpus / cpus
    return max(1.0, efficiency * seen)


def believed_points(points: Sequence[SpeedupPoint], host_view: HostView, vcpus: int) -> tuple[SpeedupPoint, ...]:
    """The points, limited to LEAST_SPEEDUP and speedup_limit. Points for more CPUs than vCPUs are left out.

    A speedup that is not a number becomes its limit. If there is no limit, the point is left out.
    """
    held = _held_against(host_view, vcpus)
    believed = []
    for point in points:
        if not 1 <= point.cpus <= vcpus:
            continue
        limit = math.inf if held is None else _limit(point.cpus, *held)
        if point.speedup < LEAST_SPEEDUP:
            believed.append(replace(point, speedup=LEAST_SPEEDUP))
        elif point.speedup <= limit:
            believed.append(point)
        elif math.isfinite(limit):
            believed.append(replace(point, speedup=limit))
    return tuple(believed)


def believed_processes(host_view: HostView, vcpus: int) -> int:
    """How many running processes are believed. This must be limited, because their weights add up.

    If a domain uses all its CPUs, any number up to its vCPUs is believed (with more, each gets at most one CPU anyway).
    Otherwise it is the number of CPUs that it used, rounded up, because processes that compute leave no CPU idle.
    """
    if host_view.known is None:
        return vcpus
    cpus, busy_cpus = host_view.known
    if busy_cpus >= NEARLY_FULL * min(cpus, vcpus):
        return vcpus
    return max(1, math.ceil(busy_cpus))


def believed_weight(
    processes: Sequence[Sequence[SpeedupPoint]], host_view: HostView, vcpus: int, limit: int
) -> float | None:
    """SCAF's weight of a domain, from the points of each of its running processes. None: not known.

    limit: the most CPUs that the domain may have. The weight is the sum of the processes' weights by believed_points,
    each at most most_weight(limit), as in the guest's agent. If more processes are reported than believed_processes,
    the sum is reduced to that number times their mean.
    """
    weights = [scaf_weight(believed_points(points, host_view, vcpus)) for points in processes]
    weight = domain_weight([one if one is None else min(one, most_weight(limit)) for one in weights])
    if weight is None:
        return None
    return weight * min(1.0, believed_processes(host_view, vcpus) / len(processes))


def believed_demand(claimed: int, host_view: HostView, allocation: int) -> int:
    """The believed part of a report that *claimed* CPUs could be used. The domain has *allocation* CPUs (0: it rests).

    A guest that reports busy but uses little keeps only the CPUs that it uses. An allocation that is less than half
    used (over VIEW_WINDOW_S) is cut to the size at which it would be used well. It grows only once it is well used.
    Between these limits it stays, so that it does not change back and forth. While the domain rests, has one CPU or was
    seen too briefly, the report is believed. But after a cut, the smaller allocation stays until it was seen.
    """
    if allocation < 1 or claimed <= 1:
        return claimed
    if host_view.cpus != allocation or host_view.seen_s < SETTLED_S:
        cpus, busy_cpus = host_view.known or (0, 0.0)
        return min(claimed, allocation) if allocation < cpus and busy_cpus < HALF_USED * cpus else claimed
    if host_view.busy_cpus < HALF_USED * allocation:
        return min(claimed, max(1, math.ceil(host_view.busy_cpus / COMFORTABLE)))
    if host_view.busy_cpus < WELL_USED * allocation:
        return min(claimed, allocation)
    return claimed


@dataclass(frozen=True, slots=True)
class DemandHistory:
    """What limited_demand passes to its next call for the same domain. tokens: how many changes it may still make.

    demand: the demand in force. mean: the mean of the wanted demand over the last seconds. held: the demand is held at
    that mean.
    """

    demand: int = 0
    mean: float = 0.0
    tokens: float | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class DemandLimits:
    """A domain's demand may change `burst` times at once and `per_second` on average. mean_s: the mean's time span."""

    per_second: float = 1.0
    burst: float = 8.0
    mean_s: float = 4.0


def limited_demand(
    wanted: int,
    minimum: int,
    dt_s: float,
    history: DemandHistory = DemandHistory(),
    limits: DemandLimits = DemandLimits(),
) -> tuple[int, DemandHistory]:
    """The demand in force, dt_s seconds after the last call, and the memory for the next call.

    Every change of a domain's demand may move other domains, so each domain has a token bucket for changes. While it
    has tokens, its demand is followed at once: a domain that rests wakes in the period in which it shows demand. A
    domain that changes too often runs out of tokens. Its demand is then held at its mean (rounded up, and at least its
    minimum). That is about what it uses, and causes no transition for others. With two tokens it is followed again.
    Demands of other domains are not affected. There are at most burst + per_second * t changes in t seconds.
    """
    share = min(1.0, dt_s / limits.mean_s)
    mean = history.mean + share * (wanted - history.mean) if history.tokens is not None else float(wanted)
    tokens = limits.burst if history.tokens is None else min(limits.burst, history.tokens + limits.per_second * dt_s)
    demand = history.demand
    if wanted != demand and tokens >= 2.0:
        return wanted, DemandHistory(wanted, mean, tokens - 1.0)
    if wanted != demand and tokens >= 1.0 and not history.held:
        demand = max(math.ceil(mean - 1e-9), minimum)
        return demand, DemandHistory(demand, mean, tokens - 1.0, held=True)
    return demand, DemandHistory(demand, mean, tokens, history.held)


def believed_online(online: Collection[int] | None, plugged: Sequence[int]) -> tuple[int, ...] | None:
    """The vCPUs of the guest's *online* CPUs, sorted. None if the report cannot be true or lacks the guest's CPU 0.

    plugged: the vCPUs in the order in which the guest numbers them (see core/reconcile/pins.py). If the guest reports
    numbers beyond their count, it kept a number for each vCPU that may be plugged, as Linux does since 6.9, or a vCPU
    was unplugged. Then its numbers are the vCPUs' own numbers.
    """
    if not online or 0 not in online:
        return None
    if max(online) < len(plugged):
        return tuple(sorted(plugged[cpu] for cpu in online))
    return tuple(sorted(online)) if set(online) <= set(plugged) else None


def offline_as_reported(online: Collection[int], vcpu_busy_cpus: Mapping[int, float]) -> bool:
    """Whether the vCPUs that a guest reports as offline were offline, by their use in the last period (CPUs, by vCPU).

    A guest whose report is false must be contained: its vCPUs then float over its partition, as for a guest that never
    answered. It cannot leave the partition in either case. A false report could only make its own pins bad. Must not be
    called for the period in which CPUs went offline.
    """
    return all(busy <= AWAKE_CPUS for vcpu, busy in vcpu_busy_cpus.items() if vcpu not in online)


@dataclass(frozen=True, slots=True)
class OfflineHistory:
    """For how many periods in a row a guest's report of its CPUs was true, or false, and whether it is distrusted."""

    kept_periods: int = 0
    broken_periods: int = 0
    distrusted: bool = False

    @property
    def doubted(self) -> bool:
        """Whether it must be watched closely."""
        return self.distrusted or self.broken_periods > 0


def judged(history: OfflineHistory, *, kept: bool) -> OfflineHistory:
    """*history* after one more period. kept: the report was true.

    A vCPU that goes online or offline computes for a moment. So a change takes several periods in a row.
    """
    kept_periods = history.kept_periods + 1 if kept else 0
    broken_periods = 0 if kept else history.broken_periods + 1
    if history.distrusted:
        return OfflineHistory(kept_periods, broken_periods, kept_periods < TRUSTED_PERIODS)
    return OfflineHistory(kept_periods, broken_periods, broken_periods >= DISTRUSTED_PERIODS)


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How often a guest has changed its reports recently. tokens: how often it still may. unsteady: it may not now.

    at_s: the time of these values.
    """

    tokens: float = TURNS_AT_ONCE
    at_s: float = 0.0
    unsteady: bool = False


def steadiness(history: Steadiness, now_s: float, *, turned: bool, credit: int = 0) -> Steadiness:
    """*history* at now_s. turned: the guest has changed its reports since. credit: turns that the host has caused.

    A guest that cooperates has each vCPU on a pCPU of its own; one that does not is contained. Each time that a guest
    changes from one to the other, or has other CPUs online, all its vCPUs may have to be pinned again. So it may turn
    TURNS_AT_ONCE + TURNS_PER_SECOND * t times in t seconds. A guest that turns more often is unsteady: it must be
    contained until half of its turns are available again. A change that the host has asked for is not a turn.
    host-daemon/README.md, section Security, lists all bounds for one guest.
    """
    tokens = max(history.tokens, min(TURNS_AT_ONCE, history.tokens + TURNS_PER_SECOND * (now_s - history.at_s)))
    tokens = max(0.0, tokens + credit - turned)
    unsteady = tokens < (TURNS_AT_ONCE / 2 if history.unsteady else 1.0)
    return Steadiness(tokens, now_s, unsteady)
