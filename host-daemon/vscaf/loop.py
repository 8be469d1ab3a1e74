"""The daemon: observe -> model -> decide -> place -> plan -> act -> record, every period and on news.

Everything between observe and act is a pure function from `core`; this module holds what lives longer than a period.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from vscaf_policies import DomainState, Policy, PolicyError, PoolState, SpeedupPoint
from vscaf_policies.registry import load_policy

from vscaf.agentlink.messages import Report
from vscaf.config import Config
from vscaf.core.decide import DecideMemory, Decision, decide
from vscaf.core.demand import HostUsage, infer_demand
from vscaf.core.invariants import check_partitions
from vscaf.core.model import discount, domain_weight, low_pass, scaf_weight
from vscaf.core.placement import Topology, place
from vscaf.core.plan import TransitionPlan, plan
from vscaf.cpulist import format_cpu_list
from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable, UsageError
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.hypervisor.values import DomainKey, DomainSeen, HostCpus
from vscaf.journal import Journal
from vscaf.managed import ManagedDomain, agent_link

log = logging.getLogger(__name__)

HEARING_S = 1.0  # how long the first decision waits for agents that have not spoken yet
USAGE_WINDOW_S = 0.2  # a shorter look at the vCPUs' time takes what our own orders cost for demand


class Daemon:
    """Shares the pool of *config* among its domains until stop(). `journal` is open and stays the caller's."""

    def __init__(self, config: Config, host: LibvirtHost, cpus: HostCpus, journal: Journal) -> None:
        self.config = config
        self.managed: dict[DomainKey, ManagedDomain] = {}
        self.policy_name = config.policy.name
        self.transitions = 0
        self.violations: list[str] = []
        self.unknown_since_s: float | None = None
        self.decision: Decision | None = None
        self._host = host
        self._journal = journal
        self._pool = config.pool_cpus
        self._reserve = cpus.online - self._pool
        self._topology = pool_topology(self._pool, cpus)
        self._chunk = len(self._topology.chunks[0])
        self._policy = configured_policy(config, self._chunk)
        self._memory = DecideMemory()
        self._news = asyncio.Event()
        self._stopping = False
        self._started_s = time.monotonic()
        self._said: dict[str, str] = {}

    def wake(self) -> None:
        """Lets the loop look again at once."""
        self._news.set()

    def stop(self) -> None:
        """Ends run() after the period under way."""
        self._stopping = True
        self._news.set()

    async def run(self) -> bool:
        """Runs until stop(); then puts everything back. False: something could not be, and the journal keeps it."""
        period_s = self.config.period_ms / 1000
        while not self._stopping:
            begun_s = time.monotonic()
            self._news.clear()
            await self._period()
            try:
                async with asyncio.timeout(max(0.0, begun_s + period_s - time.monotonic())):
                    await self._news.wait()
            except TimeoutError:
                pass
        return await self._give_all_back()

    async def close(self) -> None:
        """Ends the links to the guests."""
        await asyncio.gather(*(one.link.stop() for one in self.managed.values() if one.link is not None))

    async def _period(self) -> None:
        try:
            seen = await self._host.observe()
        except HypervisorError as error:
            if self.unknown_since_s is None:
                self.unknown_since_s = time.monotonic()
                log.warning("what domains do is unknown, so nothing is changed: %s", error)
            return
        if self.unknown_since_s is not None:
            log.info("libvirt answers again after %.1f s", time.monotonic() - self.unknown_since_s)
            self.unknown_since_s = None
        self._note(seen)
        if not await self._adopt_left_over() or self._waiting_for_agents():
            return
        pool = self._observed()
        try:
            decision = decide(pool, self._policy, self.config.policy.options, self._memory)
        except PolicyError as error:
            self._say_once("policy", f"policy {self.policy_name}: {error}; allocations stay as they are")
            return
        self._memory = decision.memory
        self.decision = decision
        if decision.managed:
            await self._bring_about(pool, decision)
        elif self._journal.entries:
            await self._give_all_back()

    def _note(self, seen: Iterable[DomainSeen]) -> None:
        """Keeps the records of running domains: new ones are linked, ended ones forgotten."""
        now_s = time.monotonic()
        present = {one.key: one for one in seen if one.name in self.config.domains or one.key in self._journal.entries}
        for key in [key for key in self.managed if key not in present]:
            gone = self.managed.pop(key)
            log.info("domain %s: gone; its pCPUs are free", gone.name)
            if gone.link is not None:
                asyncio.get_running_loop().create_task(gone.link.stop())
        for key, one in present.items():
            if key not in self.managed:
                link = agent_link(one, self.wake)
                self.managed[key] = ManagedDomain(one, self._host, link, self.config.deadline_ms / 1000)
            domain = self.managed[key]
            domain.seen = one
            total_s = sum(one.vcpu_time_s.values())
            window_s = now_s - domain.vcpu_time_at_s
            usage = None
            if domain.vcpu_time_s is None:
                domain.vcpu_time_s, domain.vcpu_time_at_s = total_s, now_s
            elif window_s >= USAGE_WINDOW_S:
                usage = HostUsage(max(0.0, total_s - domain.vcpu_time_s), window_s)
                domain.vcpu_time_s, domain.vcpu_time_at_s = total_s, now_s
            self._infer(domain, usage, now_s)

    def _infer(self, domain: ManagedDomain, usage: HostUsage | None, now_s: float) -> None:
        """The domain's demand and model from what its agent says and what the host saw of it."""
        agent = domain.agent_demand()
        if usage is not None:
            domain.busy_cpus = usage.busy_cpus
            domain.busy_recently.append(usage.busy_cpus)
            domain.usage_known = True
        if usage is not None or agent is not None:
            vcpus = self._maximum(domain) if agent is not None else domain.seen.vcpus
            before = domain.demand
            domain.demand, domain.demand_memory = infer_demand(
                agent, usage, len(domain.held), vcpus, domain.demand_memory
            )
            if domain.demand and not before:
                domain.demand_since_s = now_s
            elif not domain.demand:
                domain.demand_since_s = None
        if usage is not None and domain.link is not None and domain.link.report is not None:
            weight = reported_weight(domain.link.report, max(domain.busy_recently), len(domain.held))
            if weight is not None:
                domain.scaf_weight = low_pass(domain.scaf_weight, weight, usage.window_s)

    def _maximum(self, domain: ManagedDomain) -> int:
        """Most pCPUs the domain may have: its configured maximum, its vCPUs, the pool."""
        configured = self.config.domains[domain.name].maximum if domain.name in self.config.domains else None
        return min(configured or len(self._pool), domain.seen.vcpus_maximum, len(self._pool))

    async def _adopt_left_over(self) -> bool:
        """Takes over domains that an earlier daemon left pinned; gives those back that are no longer configured.

        False: not all could be, so nothing is decided yet.
        """
        for key, domain in list(self.managed.items()):
            entry = self._journal.entries.get(key)
            if domain.found is None and entry is not None and not await self._try(domain, domain.adopt(entry)):
                return False
            if domain.name not in self.config.domains:
                log.info("domain %s: no longer in the configuration; it is given back", domain.name)
                if not await self._try(domain, domain.give_back()):
                    return False
                self._journal.write({k: v for k, v in self._journal.entries.items() if k != key})
                del self.managed[key]
                if domain.link is not None:
                    await domain.link.stop()
        return True

    def _waiting_for_agents(self) -> bool:
        """Whether the daemon has just started and some agent, or some domain's first vCPU time, is to come."""
        if time.monotonic() - self._started_s > HEARING_S:
            return False
        return any(not one.usage_known or (one.link and not one.heard()) for one in self.managed.values())

    def _observed(self) -> PoolState:
        now_s = time.monotonic()
        return PoolState(
            cpus=len(self._pool),
            chunk=self._chunk,
            time_s=now_s,
            domains=tuple(self._state(domain, now_s) for domain in self.managed.values()),
        )

    def _state(self, domain: ManagedDomain, now_s: float) -> DomainState:
        config = self.config.domains[domain.name]
        maximum = self._maximum(domain)
        since_s = domain.demand_since_s
        return DomainState(
            name=domain.name,
            minimum=min(config.minimum, maximum),
            maximum=maximum,
            weight=config.weight,
            demand=domain.demand,
            allocation=len(domain.held & self._pool),
            may_rest=self._rest_of(domain.name) != "keep",
            scaf_weight=domain.scaf_weight,
            newcomer=since_s is not None and now_s - since_s < self.config.newcomer_ms / 1000,
            points=reported_points(domain.link.report) if domain.link is not None and domain.link.report else (),
        )

    def _rest_of(self, name: str) -> str:
        return self.config.rest_of(name) or ("reserve" if self._reserve else "share")

    def _rest_area(self, name: str) -> frozenset[int]:
        return self._reserve if self._rest_of(name) == "reserve" and self._reserve else self._pool

    def _emulator_area(self, partition: frozenset[int]) -> frozenset[int]:
        return self._reserve or partition

    async def _bring_about(self, pool: PoolState, decision: Decision) -> None:
        """Places the decision, plans the way there, goes it, and records."""
        by_name = {domain.name: domain for domain in self.managed.values()}
        for domain in by_name.values():
            if domain.found is None and not await self._try(domain, domain.adopt(None)):
                return
        competing = sum(1 for one in pool.domains if one.demand) > 1
        for domain in by_name.values():
            domain.retell(self._maximum(domain), competing)
        held = {name: domain.held for name, domain in by_name.items()}
        target = place(self._topology, held, decision.allocations, decision.sharing)
        bounds = {one.name: (one.minimum, one.maximum) for one in pool.domains}
        self.violations = check_partitions(target, decision.allocations, bounds, self._topology, decision.sharing)
        for violation in self.violations:
            self._say_once("violation", f"the partition breaks a law, please report it: {violation}")
        self._record(by_name, target)
        await self._go(by_name, target, decision)
        for name, domain in by_name.items():
            await self._try(domain, domain.settle(self._rest_area(name), self._emulator_area(domain.held)))

    async def _go(
        self, by_name: Mapping[str, ManagedDomain], target: Mapping[str, frozenset[int]], decision: Decision
    ) -> None:
        """Shrinks the losers, all at once; then grows those winners whose pCPUs nobody holds any more."""
        held = {name: domain.held for name, domain in by_name.items()}
        way = plan(held, target, decision.sharing)
        to_rest = [name for name, cpus in target.items() if not cpus and not by_name[name].resting]
        if not (way.shrinks or way.grows or to_rest):
            return
        self.transitions += 1
        for name, domain in by_name.items():
            if domain.held != target[name] or name in to_rest:
                before, after = (format_cpu_list(cpus) or "rest" for cpus in (domain.held, target[name]))
                log.info("domain %s: pCPUs %s -> %s (%s)", name, before, after, decision.reasons.get(name, "placement"))
        leaving: list[Coroutine[Any, Any, bool]] = []
        for shrink in way.shrinks:
            domain = by_name[shrink.domain]
            if shrink.keep or target[shrink.domain]:
                if shrink.keep:
                    leaving.append(self._try(domain, domain.shrink(shrink.keep)))
            elif shrink.domain not in to_rest:
                to_rest.append(shrink.domain)
        for name in to_rest:
            domain, area = by_name[name], self._rest_area(name)
            weight_percent = self.config.rest_weight_percent if area == self._pool else 100
            leaving.append(self._try(domain, domain.rest(area, weight_percent)))
        await asyncio.gather(*leaving)
        await self._grow(by_name, way, decision.sharing)

    async def _grow(
        self,
        by_name: Mapping[str, ManagedDomain],
        way: TransitionPlan,
        sharing: frozenset[str],
    ) -> None:
        """Grows in the plan's order; what somebody still holds waits for the next period."""
        arriving = []
        for grow in way.grows:
            name, cpus = grow.domain, grow.cpus
            domain = by_name[name]
            holders = [
                other.name
                for other in by_name.values()
                if other is not domain
                and other.held & cpus
                and not {name, other.name} <= sharing
                and other.name not in way.overlapping
            ]
            if holders:
                log.info("domain %s: waits for pCPUs that %s still hold", name, ", ".join(holders))
                continue
            domain.held |= cpus  # nobody else may grow onto them while this one is on its way
            arriving.append(self._try(domain, domain.grow(cpus, self._emulator_area(cpus))))
        await asyncio.gather(*arriving)

    def _record(self, by_name: Mapping[str, ManagedDomain], target: Mapping[str, frozenset[int]]) -> None:
        """Writes the journal before anything of it is brought about. OSError ends the daemon."""
        self._journal.write({domain.seen.key: domain.entry(target[name]) for name, domain in by_name.items()})

    async def _give_all_back(self) -> bool:
        adopted = [domain for domain in self.managed.values() if domain.found is not None]
        await asyncio.gather(*(self._try(domain, domain.give_back()) for domain in adopted))
        left = {domain.seen.key for domain in adopted if domain.found is not None}
        if left:
            try:
                left &= {one.key for one in await self._host.observe()}
            except HypervisorError as error:
                log.error("whether the rest still runs is unknown (%s); the journal keeps what was found", error)
        self._journal.write({key: entry for key, entry in self._journal.entries.items() if key in left})
        if adopted and not left:
            log.info("everything is as it was found: %s", ", ".join(sorted(domain.name for domain in adopted)))
        return not left

    async def _try(self, domain: ManagedDomain, work: Coroutine[Any, Any, None]) -> bool:
        """Runs *work* on *domain*; a refusal is said, and seen again at the next look at the domain."""
        try:
            await work
        except DomainGone:
            log.info("domain %s: went away while it was being changed", domain.name)
            self.wake()
            return False
        except (HypervisorUnreachable, HypervisorError) as error:
            self._say_once(domain.name, f"domain {domain.name}: {error}")
            return False
        return True

    def _say_once(self, about: str, words: str) -> None:
        if self._said.get(about) != words:
            self._said[about] = words
            log.warning("%s", words)


def configured_policy(config: Config, chunk: int) -> Policy:
    """The policy of *config*. UsageError where there is none of that name, or where it refuses its options."""
    try:
        policy = load_policy(config.policy.name)
        policy(PoolState(len(config.pool_cpus), chunk, 0.0, ()), config.policy.options)
    except PolicyError as error:
        raise UsageError(str(error)) from error
    return policy


def pool_topology(pool: frozenset[int], cpus: HostCpus) -> Topology:
    """The pool's cores as chunks. UsageError where it lies outside the host or cuts a core in two."""
    outside = pool - cpus.online
    if outside:
        raise UsageError(
            f"pool: CPU {format_cpu_list(outside)} is not online on this host (it has {format_cpu_list(cpus.online)}): "
            "name only CPUs that the host has"
        )
    chunks = tuple(core & pool for core in cpus.cores if core & pool)
    for core in cpus.cores:
        if core & pool and core - pool:
            raise UsageError(
                f"pool: CPU {format_cpu_list(core & pool)} shares a core with CPU {format_cpu_list(core - pool)}: "
                "take both or neither, two domains never share a core"
            )
    if len({len(chunk) for chunk in chunks}) > 1:
        raise UsageError("pool: its cores have different numbers of threads: name cores of one kind")
    return Topology(chunks=chunks, node_of={cpu: cpus.node_of[cpu] for cpu in pool})


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
