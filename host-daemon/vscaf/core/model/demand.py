"""How many CPUs a domain could use now: from its agent, checked against what the host sees, or from the host alone.

The host measures vCPU time in windows. Only the end of a window changes the memory of a domain (`after_window`), and
the memory counts in seconds. A report of the agent counts at once (`demand_now`). So the number of looks within a
window makes no difference.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class HostUsage:
    """vCPU time of a domain in a window of window_s, as the host counts it: used, and not served (see unserved_s)."""

    cpu_seconds: float
    window_s: float
    unserved_s: float = 0.0

    @property
    def busy_cpus(self) -> float:
        """CPUs that were used on average, or would have been with enough pCPUs. 0 for an empty window."""
        return max(0.0, (self.cpu_seconds + self.unserved_s) / self.window_s) if self.window_s > 0 else 0.0


def unserved_s(used_s: float, waited_s: float, window_s: float) -> float:
    """CPU seconds that a vCPU would have used in a window beside *used_s*, had it never waited for a pCPU.

    A vCPU runs, waits for a pCPU, or sleeps. Without the waiting it would have run for used / (used + slept) of the
    window. So one that never sleeps could use a whole CPU. The waiting itself is no use: on a busy host an idle vCPU
    waits for long before each moment that it runs.
    """
    if used_s <= 0.0:
        return 0.0
    slept_s = max(0.0, window_s - used_s - waited_s)
    return max(0.0, window_s * used_s / (used_s + slept_s) - used_s)


@dataclass(frozen=True, slots=True)
class DemandThresholds:
    """When a domain counts as computing. Times are a little below whole periods of 0.25 s, which are never exact."""

    threshold_on: float = 0.15
    """CPUs. Above this there is demand at once."""
    threshold_off: float = 0.05
    """CPUs. If the use is below this for quiet_s, there is no demand."""
    quiet_s: float = 0.9
    saturation: float = 0.8
    """A share of the allocation. If more than this is used, the domain could perhaps use all its vCPUs."""
    contradiction: float = 0.5
    """CPUs. An agent that reports idle is not believed while the host sees more use than this."""
    contradiction_resting: float = 0.3
    """Replaces contradiction while resting: the host sees a new program before its agent knows it."""
    idle_use: float = 0.1
    """CPUs that a guest may always use while its agent reports idle. Ticks and the agent of an idle guest use 0.03."""
    idle_use_burst_s: float = 0.5
    """CPU seconds beyond idle_use. From this use on the agent is not believed. Counted up to 1.5 times this value."""
    disbelief_s: float = 1.9
    """An agent that reports busy is not believed once the host has seen no use for this time."""
    retry_s: float = 10.0
    """The disbelief lasts for this time. Then it is tried again, because a resting domain may be unable to show use."""
    settled_s: float = 4.0
    """Without an agent: after demand was seen to be lower than the vCPUs, a saturated allocation of that size counts as
    all the demand for this time. Otherwise a serial program would be tried with all vCPUs each second."""


@dataclass(frozen=True, slots=True)
class UseMemory:
    """What the use of a domain says of its demand, whatever an agent reports, at the end of a window.

    demand: the demand. quiet_s, lower_s: for how long there was no use, or less than before. settled_s: what is left of
    DemandThresholds.settled_s.
    """

    demand: int = 0
    quiet_s: float = 0.0
    lower_s: float = 0.0
    settled_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DemandMemory:
    """The knowledge of a domain's demand at the end of a window.

    use: what counts if no agent reports. It does not depend on reports, so a guest gains nothing by a report that is
    followed by silence. claimed: the agent's report in that window; None: none. used: the demand that counts if the
    agent now reports idle; 0: the use fits idle. unclaimed_s: CPU seconds beyond idle_use while the agent reported
    idle. unseen_s: for how long the agent has reported busy and the host has seen no use.
    """

    use: UseMemory = UseMemory()
    claimed: int | None = None
    used: int = 0
    unclaimed_s: float = 0.0
    unseen_s: float = 0.0


DEFAULTS = DemandThresholds()


def host_usage(
    used_s: Mapping[int, float],
    waited_s: Mapping[int, float],
    window_s: float,
    thresholds: DemandThresholds = DEFAULTS,
) -> HostUsage:
    """The use of a domain in a window, from what each vCPU used and how long it waited for a pCPU.

    While the guest uses no more than an idle one, waiting counts only for a vCPU that slept for less time than it ran.
    Timers wake an idle vCPU, and each time it waits first. On a very busy host little time is left in which it sleeps.
    """
    total_s = sum(used_s.values())
    as_idle = total_s <= thresholds.idle_use * window_s
    missing_s = 0.0
    for vcpu, one_s in used_s.items():
        waiting_s = waited_s.get(vcpu, 0.0)
        if not as_idle or window_s - one_s - waiting_s < one_s:
            missing_s += unserved_s(one_s, waiting_s, window_s)
    return HostUsage(total_s, window_s, missing_s)


def demand_now(agent: int | None, vcpus: int, memory: DemandMemory, thresholds: DemandThresholds = DEFAULTS) -> int:
    """CPUs that the domain could use now, 0..vcpus. agent: its agent's reported demand, 0: idle, None: no agent."""
    if agent is None:
        demand = memory.use.demand
    elif agent <= 0:
        demand = memory.used
    else:
        demand = agent if memory.unseen_s < thresholds.disbelief_s else 0
    return max(0, min(vcpus, demand))


def after_window(  # noqa: PLR0917 (six facts, each of its own type)
    agent: int | None,
    usage: HostUsage,
    allocation: int,
    vcpus: int,
    memory: DemandMemory = DemandMemory(),
    thresholds: DemandThresholds = DEFAULTS,
) -> DemandMemory:
    """The memory at the end of one more window, in which the host saw *usage*. demand_now gives the demand from it.

    agent: as in demand_now. allocation: the CPUs that the domain has, 0: it rests.
    """
    use = _after_use(usage, allocation, vcpus, memory.use, thresholds)
    if agent is None:
        # A quiet agent wakes before it knows of the program that the host has seen. So its first report of idle does
        # not count before the end of a window.
        return DemandMemory(use, used=use.demand)
    unclaimed_s, used = memory.unclaimed_s if agent <= 0 else 0.0, 0
    if usage.busy_cpus > (thresholds.contradiction if allocation > 0 else thresholds.contradiction_resting):
        used = _used(usage.busy_cpus, allocation, vcpus, thresholds)
    elif agent <= 0:
        unclaimed_s += usage.cpu_seconds - thresholds.idle_use * usage.window_s
        unclaimed_s = max(0.0, min(1.5 * thresholds.idle_use_burst_s, unclaimed_s))
        used = int(unclaimed_s >= thresholds.idle_use_burst_s)
    unseen_s = _unseen_s(usage, memory, thresholds) if agent > 0 else 0.0
    return DemandMemory(use, agent, used, unclaimed_s, unseen_s)


def repeats_itself(agent: int | None, memory: DemandMemory) -> bool:
    """Whether the agent reports the same as at the end of the last window, and nothing contradicted it."""
    if agent != memory.claimed or memory.unseen_s:
        return False
    return agent is None or agent > 0 or not (memory.used or memory.unclaimed_s)


def sleeps_on(
    agent: int | None, usage: HostUsage, memory: DemandMemory, thresholds: DemandThresholds = DEFAULTS
) -> bool:
    """Whether the domain is idle, was idle, and the use fits: after_window would change nothing."""
    return (
        (agent is None or agent <= 0)
        and usage.busy_cpus < thresholds.threshold_off
        and memory.use.quiet_s >= thresholds.quiet_s
        and repeats_itself(agent, memory)
    )


def _unseen_s(usage: HostUsage, memory: DemandMemory, thresholds: DemandThresholds) -> float:
    if usage.busy_cpus >= thresholds.threshold_off:
        return 0.0
    unseen_s = memory.unseen_s + usage.window_s
    if memory.unseen_s < thresholds.disbelief_s:
        return min(unseen_s, thresholds.disbelief_s)
    return unseen_s if unseen_s < thresholds.disbelief_s + thresholds.retry_s else 0.0


def _after_use(
    usage: HostUsage, allocation: int, vcpus: int, memory: UseMemory, thresholds: DemandThresholds
) -> UseMemory:
    busy_cpus, window_s = usage.busy_cpus, usage.window_s
    if busy_cpus > thresholds.threshold_on:
        settled_s = max(0.0, memory.settled_s - window_s)
        demand = _used(busy_cpus, allocation, vcpus, thresholds)
        if allocation > 0 and settled_s > 0 and busy_cpus <= memory.demand + thresholds.threshold_off:
            demand = min(demand, memory.demand)
        if demand >= memory.demand:
            return UseMemory(demand, settled_s=settled_s)
        # Less use than before may be a serial phase between two parallel ones. So it counts only if it lasts.
        lower_s = memory.lower_s + window_s
        if lower_s < thresholds.quiet_s:
            return UseMemory(memory.demand, lower_s=lower_s, settled_s=settled_s)
        return UseMemory(demand, settled_s=thresholds.settled_s)
    if busy_cpus >= thresholds.threshold_off:
        return replace(memory, quiet_s=0.0)
    quiet_s = memory.quiet_s + window_s
    if quiet_s < thresholds.quiet_s:
        return replace(memory, quiet_s=quiet_s)
    return UseMemory(quiet_s=thresholds.quiet_s)


def _used(busy_cpus: float, allocation: int, vcpus: int, thresholds: DemandThresholds) -> int:
    """The demand that fits a usage: the use rounded up, or all vCPUs if the allocation may limit the use."""
    if allocation == 0 or busy_cpus > thresholds.saturation * allocation:
        return vcpus
    return math.ceil(busy_cpus)
