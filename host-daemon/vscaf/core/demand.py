"""How many CPUs a domain could use now: from its agent, held against what the host sees, or from the host alone."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class HostUsage:
    """vCPU time of a domain as the host counts it: cpu_seconds used within a window of window_s."""

    cpu_seconds: float
    window_s: float

    @property
    def busy_cpus(self) -> float:
        """CPUs in use on average; 0 for an empty window."""
        return max(0.0, self.cpu_seconds / self.window_s) if self.window_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class AgentDemand:
    """The last report of an agent. demand: CPUs it could use, 0: idle. busy: CPUs in use. age_s: since it came."""

    demand: int
    busy: float
    age_s: float


@dataclass(frozen=True, slots=True)
class DemandThresholds:
    """When a domain counts as computing. Periods are calls of infer_demand; figures in CPUs unless said."""

    threshold_on: float = 0.15
    """Above this there is demand at once."""
    threshold_off: float = 0.05
    """Below this for quiet_periods in a row there is none."""
    quiet_periods: int = 4
    saturation: float = 0.8
    """Of the allocation. Used beyond this, all vCPUs could perhaps be used."""
    contradiction: float = 0.5
    """An agent that says idle is not believed while the host sees more than this."""
    contradiction_resting: float = 0.3
    """In place of contradiction while resting: a program that starts is seen by the host before its agent knows it."""
    disbelief_periods: int = 8
    """An agent that says busy is not believed once the host saw nothing for this many periods in a row."""
    retry_periods: int = 40
    """For so many periods; then it gets another chance, for a resting domain may be unable to show anything."""
    settled_periods: int = 16
    """Without an agent: once demand was seen to be lower than the vCPUs, for so many periods a saturated allocation
    of that size is taken for all there is. Otherwise a serial program would be tried with every vCPU each second."""
    stale_s: float = 0.75
    """A report older than this (three periods) is no report."""


@dataclass(frozen=True, slots=True)
class DemandMemory:
    """What infer_demand hands to its next call for the same domain. Periods in a row; settled_periods: periods left."""

    demand: int = 0
    quiet_periods: int = 0
    lower_periods: int = 0
    settled_periods: int = 0
    unseen_periods: int = 0
    disbelieved_periods: int = 0


def infer_demand(  # noqa: PLR0917 (six facts, each of its own type)
    agent: AgentDemand | None,
    usage: HostUsage | None,
    allocation: int,
    vcpus: int,
    memory: DemandMemory = DemandMemory(),
    thresholds: DemandThresholds = DemandThresholds(),
) -> tuple[int, DemandMemory]:
    """CPUs that the domain could use now, 0..vcpus, and the memory for the next call, one call a period.

    agent: its last report, None: it never reported. usage: the last period as the host saw it, None: not known (a
    failed listing is not an idle domain: without a fresh report either, the last demand stays). allocation: what
    the domain has now, 0: resting.
    """
    if agent is not None and agent.age_s <= thresholds.stale_s:
        demand, memory = _from_agent(agent, usage, allocation, vcpus, memory, thresholds)
    elif usage is not None:
        demand, memory = _from_host(usage.busy_cpus, allocation, vcpus, memory, thresholds)
    else:
        demand = memory.demand
    demand = max(0, min(vcpus, demand))
    return demand, replace(memory, demand=demand)


def repeats_itself(agent: AgentDemand, memory: DemandMemory, thresholds: DemandThresholds = DemandThresholds()) -> bool:
    """Whether a fresh report says what was believed at the last call, and nothing was held against it."""
    return agent.age_s <= thresholds.stale_s and memory == DemandMemory(agent.demand)


def says_the_same(
    agent: AgentDemand,
    usage: HostUsage,
    memory: DemandMemory,
    thresholds: DemandThresholds = DemandThresholds(),
) -> bool:
    """Whether infer_demand would surely say `agent.demand` again and remember the same: a glance saves the work."""
    if not repeats_itself(agent, memory, thresholds):
        return False
    if agent.demand > 0:
        return usage.busy_cpus >= thresholds.threshold_off
    return usage.busy_cpus <= thresholds.threshold_off


def _from_agent(  # noqa: PLR0917 (as its caller)
    agent: AgentDemand,
    usage: HostUsage | None,
    allocation: int,
    vcpus: int,
    memory: DemandMemory,
    thresholds: DemandThresholds,
) -> tuple[int, DemandMemory]:
    if agent.demand <= 0:
        memory = DemandMemory(demand=memory.demand)
        believed = thresholds.contradiction if allocation > 0 else thresholds.contradiction_resting
        if usage is None or usage.busy_cpus <= believed:
            return 0, memory
        return _used(usage.busy_cpus, allocation, vcpus, thresholds), memory
    seen = usage is None or usage.busy_cpus >= thresholds.threshold_off
    if seen:
        return agent.demand, DemandMemory(demand=memory.demand)
    if memory.unseen_periods + 1 < thresholds.disbelief_periods:
        return agent.demand, DemandMemory(demand=memory.demand, unseen_periods=memory.unseen_periods + 1)
    if memory.disbelieved_periods >= thresholds.retry_periods:
        return agent.demand, DemandMemory(demand=memory.demand)
    return 0, replace(memory, disbelieved_periods=memory.disbelieved_periods + 1)


def _from_host(
    busy_cpus: float, allocation: int, vcpus: int, memory: DemandMemory, thresholds: DemandThresholds
) -> tuple[int, DemandMemory]:
    memory = DemandMemory(memory.demand, memory.quiet_periods, memory.lower_periods, memory.settled_periods)
    if busy_cpus > thresholds.threshold_on:
        memory = replace(memory, quiet_periods=0, settled_periods=max(0, memory.settled_periods - 1))
        demand = _used(busy_cpus, allocation, vcpus, thresholds)
        if allocation > 0 and memory.settled_periods > 0 and busy_cpus <= memory.demand + thresholds.threshold_off:
            demand = min(demand, memory.demand)
        if demand >= memory.demand:
            return demand, replace(memory, lower_periods=0)
        # Less than before may be one serial phase between two parallel ones: it must last.
        lower_periods = memory.lower_periods + 1
        if lower_periods < thresholds.quiet_periods:
            return memory.demand, replace(memory, lower_periods=lower_periods)
        return demand, replace(memory, lower_periods=0, settled_periods=thresholds.settled_periods)
    if busy_cpus >= thresholds.threshold_off:
        return memory.demand, replace(memory, quiet_periods=0)
    quiet_periods = min(memory.quiet_periods + 1, thresholds.quiet_periods)
    if quiet_periods < thresholds.quiet_periods:
        return memory.demand, replace(memory, quiet_periods=quiet_periods)
    return 0, DemandMemory(quiet_periods=quiet_periods)


def _used(busy_cpus: float, allocation: int, vcpus: int, thresholds: DemandThresholds) -> int:
    """Demand that fits a usage: what was used, rounded up; all vCPUs where the allocation may be what limits it."""
    if allocation == 0 or busy_cpus > thresholds.saturation * allocation:
        return vcpus
    return math.ceil(busy_cpus)
