"""What a guest claims, held against what the host itself sees of its domain.

The host sees one thing that no guest can make up: the CPU time that its vCPUs took. It cannot see whether that time was
of use, so a guest that spins is believed like one that computes. What is certain is the other direction: who did not
use the CPUs that it had did not speed up by them.

All values are plain. CPUs are pCPUs; "busy" is vCPU seconds per second.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from vscaf_policies import SpeedupPoint
from vscaf_policies.models.points import LEAST_SPEEDUP, MOST_EFFICIENCY

from vscaf.core.model.scaf import domain_weight, scaf_weight

VIEW_WINDOW_S = 8.0
"""The mean use of a domain forgets at this time constant: longer than the phases of most programs, whose speedup, a
mean over all their phases, it is compared with."""

SETTLED_S = 1.0
"""A domain was seen for so long at an allocation before what was seen at the former one is given up."""

NEARLY_FULL = 0.8
FULL_USE = 0.95
"""Of an allocation. Up to NEARLY_FULL nobody is believed a speedup above the CPU time that it used; from FULL_USE on
up to MOST_EFFICIENCY times that, as caches give it; in between proportionally."""

AWAKE_CPUS = 0.2
"""A vCPU that uses more than this is not offline; interrupts and a last look of the scheduler use less."""

DISTRUSTED_PERIODS, TRUSTED_PERIODS = 8, 20
"""A guest that breaks its word for the first number of periods in a row is believed no more, until it has kept it for
the second."""

TURNS_PER_SECOND, TURNS_AT_ONCE = 0.5, 8.0
"""How often a guest may go back on its word before it is contained for a while, see steadiness."""

HALF_USED, WELL_USED, COMFORTABLE = 0.5, 0.75, 0.7
"""Of an allocation: below the first it is more than is of use; above the second there may be use for more; the third is
what is left of it in use where it is cut."""


@dataclass(frozen=True, slots=True)
class HostView:
    """What the host saw of a domain while it computed: mean use at the present allocation, and at the one before.

    cpus: the present allocation, 0: none yet. busy_cpus: mean use at it over seen_s seconds. settled_cpus and
    settled_busy_cpus: the same of the last allocation that was seen for SETTLED_S; 0 CPUs: there was none.
    """

    cpus: int = 0
    busy_cpus: float = 0.0
    seen_s: float = 0.0
    settled_cpus: int = 0
    settled_busy_cpus: float = 0.0

    @property
    def known(self) -> tuple[int, float] | None:
        """The allocation that claims are held against, and its mean use; None: nothing was seen for long enough."""
        if self.cpus > 0 and self.seen_s >= SETTLED_S:
            return self.cpus, self.busy_cpus
        return (self.settled_cpus, self.settled_busy_cpus) if self.settled_cpus > 0 else None


def view_after(host_view: HostView, cpus: int, busy_cpus: float, window_s: float, *, computing: bool) -> HostView:
    """*host_view* after one more period of window_s seconds, in which the domain had *cpus* and used *busy_cpus*.

    computing: whether it said, or showed, that it had something to do. A period in which it had not says nothing of its
    programs' speedup and is left out, as is one without an allocation (it rested). The mean is the plain one over the
    first VIEW_WINDOW_S seconds at an allocation, and exponential from then on.
    """
    if not computing or cpus < 1 or window_s <= 0.0:
        return host_view
    busy_cpus = min(max(0.0, busy_cpus), float(cpus))
    if cpus != host_view.cpus:
        known = host_view.known or (0, 0.0)
        return HostView(cpus, busy_cpus, min(window_s, VIEW_WINDOW_S), *known)
    share = window_s / min(host_view.seen_s + window_s, VIEW_WINDOW_S) if window_s < VIEW_WINDOW_S else 1.0
    return replace(
        host_view,
        busy_cpus=host_view.busy_cpus + share * (busy_cpus - host_view.busy_cpus),
        seen_s=min(host_view.seen_s + window_s, VIEW_WINDOW_S),
    )


def speedup_limit(host_view: HostView, p: int, vcpus: int) -> float:
    """The largest S(p) that is believed of a domain with *vcpus* plugged vCPUs; inf: nothing is known against any.

    A program that waits for its CPUs without spinning has S(a) <= B where it uses B of a CPUs on average: work that
    takes T alone takes T CPU seconds on a, or more. From there concavity says the rest: S(p) <= B and S(p) <= p for
    p < a, S(p) <= (p / a) B for p > a. That keeps Amdahl's curve whole, where one utilisation for all p would cut it
    at small p. Super-linear speedup takes fewer CPU seconds than T; it is believed, up to MOST_EFFICIENCY, of a domain
    that uses all it has. A program that is both super-linear and serial for a good part of its time loses the former.
    """
    held = _held_against(host_view, vcpus)
    return math.inf if held is None else _limit(p, *held)


def _held_against(host_view: HostView, vcpus: int) -> tuple[int, float, float] | None:
    """CPUs, mean use of them, and the efficiency that this use bears; None: nothing is known."""
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
    """The points as far as they are believed: within LEAST_SPEEDUP and speedup_limit, none for more CPUs than vCPUs.

    A speedup that is no number becomes its limit, or is left out where there is none.
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
    """How many running processes a domain is believed to have, for their weights add up.

    Where all it has is in use there may be any number up to its vCPUs (with more, each gets at most one anyway);
    otherwise as many as it used CPUs, rounded up, since processes that compute leave no CPU idle.
    """
    if host_view.known is None:
        return vcpus
    cpus, busy_cpus = host_view.known
    if busy_cpus >= NEARLY_FULL * min(cpus, vcpus):
        return vcpus
    return max(1, math.ceil(busy_cpus))


def believed_weight(processes: Sequence[Sequence[SpeedupPoint]], host_view: HostView, vcpus: int) -> float | None:
    """SCAF's weight of a domain from the points of each of its running processes; None: not known.

    The sum of their weights by believed_points, cut to believed_processes of their mean where they are said to be more.
    """
    weight = domain_weight([scaf_weight(believed_points(points, host_view, vcpus)) for points in processes])
    if weight is None:
        return None
    return weight * min(1.0, believed_processes(host_view, vcpus) / len(processes))


def believed_demand(claimed: int, host_view: HostView, allocation: int) -> int:
    """What is believed of a claim that *claimed* CPUs could be used, by a domain that has *allocation* (0: it rests).

    A guest that says busy and is idle, or takes a trickle, keeps what it shows use for: an allocation that is not half
    used (over VIEW_WINDOW_S) is cut to where it would be used well, and grows only once it is well used. Between the
    two it stays, so that nothing goes to and fro. Resting, at one CPU, or seen too briefly: the claim stands; but who
    was cut keeps its smaller allocation until it was seen at that.
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
    """What limited_demand hands to its next call for the same domain. tokens: changes that it may still make.

    demand: what is acted on. mean: of what it wanted, over the last seconds. held: it is held at that mean.
    """

    demand: int = 0
    mean: float = 0.0
    tokens: float | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class DemandLimits:
    """A domain's demand may change `burst` times at once, and `per_second` on average; mean_s: memory of the mean."""

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
    """The demand that is acted on, dt_s seconds after the last call, and the memory for the next.

    Every change of a domain's demand may move others, so a domain has a bucket of changes. While it has any, what it
    wants is what it gets, at once: a domain that rests is awake in the period in which it shows demand. Who flaps has
    none left, and is then held at its mean demand (rounded up, and at least its minimum): about what it uses, and no
    transition for others. With two tokens it is followed again. Only its own demand is touched; others grow and shrink
    as they like. At most burst + per_second * t changes in t seconds.
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
    """The vCPUs that are the guest's *online* CPUs, sorted; None where that cannot be, or its CPU 0 is not among them.

    plugged: the vCPUs in the order in which the guest numbers them (see core/reconcile/pins.py). A guest that has
    numbers beyond their count kept a number for each vCPU that may come, as Linux does since 6.9, or has lost one: then
    they are the vCPUs' own.
    """
    if not online or 0 not in online:
        return None
    if max(online) < len(plugged):
        return tuple(sorted(plugged[cpu] for cpu in online))
    return tuple(sorted(online)) if set(online) <= set(plugged) else None


def offline_as_reported(online: Collection[int], vcpu_busy_cpus: Mapping[int, float]) -> bool:
    """Whether the vCPUs that a guest says are offline were, by their CPU time in the last period (CPUs, by vCPU).

    A guest that does not keep its word is to be contained: its vCPUs then float over its partition, as they do for a
    guest that never answered. It cannot leave the partition either way; what a false word could spoil is its own pins.
    Not to be asked about the period in which the CPUs went.
    """
    return all(busy <= AWAKE_CPUS for vcpu, busy in vcpu_busy_cpus.items() if vcpu not in online)


@dataclass(frozen=True, slots=True)
class OfflineHistory:
    """Periods in a row in which a guest kept its word on its CPUs, and did not; whether it is believed no more."""

    kept_periods: int = 0
    broken_periods: int = 0
    distrusted: bool = False

    @property
    def doubted(self) -> bool:
        """Whether it is to be watched closely."""
        return self.distrusted or self.broken_periods > 0


def judged(history: OfflineHistory, *, kept: bool) -> OfflineHistory:
    """*history* after one more period.

    A vCPU that comes or goes computes for a moment, so it takes several periods in a row, either way.
    """
    kept_periods = history.kept_periods + 1 if kept else 0
    broken_periods = 0 if kept else history.broken_periods + 1
    if history.distrusted:
        return OfflineHistory(kept_periods, broken_periods, kept_periods < TRUSTED_PERIODS)
    return OfflineHistory(kept_periods, broken_periods, broken_periods >= DISTRUSTED_PERIODS)


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How often a guest went back on its word of late. tokens: how often it still may. unsteady: it may no more now.

    at_s: of when that is.
    """

    tokens: float = TURNS_AT_ONCE
    at_s: float = 0.0
    unsteady: bool = False


def steadiness(history: Steadiness, now_s: float, *, turned: bool, credit: int = 0) -> Steadiness:
    """*history* at now_s. turned: the guest has gone back on its word since. credit: turns that it was made to take.

    A guest that cooperates has each vCPU on a pCPU of its own, one that does not is contained: each time that it goes
    from one to the other, or has other CPUs online, all its vCPUs may have to be pinned anew. So it may turn
    TURNS_AT_ONCE + TURNS_PER_SECOND * t times in t seconds. A guest that turns more often is unsteady: it is to be
    contained until half of its turns are back. What the host has asked for is no turn. All bounds of what one guest can
    cause stand in host-daemon/README.md, section Security.
    """
    tokens = max(history.tokens, min(TURNS_AT_ONCE, history.tokens + TURNS_PER_SECOND * (now_s - history.at_s)))
    tokens = max(0.0, tokens + credit - turned)
    unsteady = tokens < (TURNS_AT_ONCE / 2 if history.unsteady else 1.0)
    return Steadiness(tokens, now_s, unsteady)
