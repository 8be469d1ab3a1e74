"""A simulated guest: a program with a speedup curve, the agent that resizes it, and the agent's reports."""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from vscaf.agentlink import messages
from vscaf.simulate.engine.agent import LEAST_ERROR, MEMORY, GuestLink, Learned
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.simulate.engine.machine import Computing, SpeedModel
from vscaf.simulate.scenarios.curves import Curve
from vscaf.simulate.scenarios.scenario import GuestPlan, LatencySeconds, Noise, PhasePlan
from vscaf.values import DomainKey, MetadataRules, RunState

IDLE_S = 0.5
"""An agent's demand falls to 0 after two idle periods of 0.25 s."""

REPORT_S = 0.25
"""How often the agent reads what a program has learned; everything else in a report is current."""

MOMENT_S = 1e-8
"""Remaining work that would take no longer than this counts as done."""


@dataclass(frozen=True, slots=True)
class World:
    """What guests have in common. news_at_once: the daemon learns of a change of demand before its next look."""

    host: SimulatedHost
    model: SpeedModel
    latencies: LatencySeconds
    noise: Noise
    pool: frozenset[int]
    news_at_once: bool
    on_end: Callable[["Guest"], None]


@dataclass(slots=True)
class Tally:
    """What a guest has done: work in seconds on one CPU; seconds in which it wanted to compute."""

    work_s: float = 0.0
    wanting_s: float = 0.0


@dataclass(slots=True)
class _Phase:
    plan: PhasePlan
    work_s: float = 0.0
    timer: asyncio.TimerHandle | None = None
    done: asyncio.TimerHandle | None = None


class Guest:
    """One guest from its start to its end.

    `tally`: what it has done up to the last update(). `online`: the guest CPUs 0 to online - 1 are online. `team`:
    threads of its program's team. `started_s`, `ended_s`: times; None: not yet.
    """

    def __init__(self, plan: GuestPlan, world: World, seed: int) -> None:
        self.plan = plan
        self.tally = Tally()
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self.key: DomainKey | None = None
        self.team = self.online = self.plugged = plan.vcpus_at_start
        self.claimed: float | None = None
        self.speed = 0.0
        self._world = world
        self._host = world.host
        self._loop = asyncio.get_running_loop()
        self._rng = random.Random(f"{seed} {plan.name}")
        self._updated_s = 0.0
        self._turn = -1
        self._phase = _Phase(plan.phases[0])
        self._link: GuestLink | None = None
        self._allocation: messages.Allocate | None = None
        self._steps: list[asyncio.TimerHandle] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._demand = 0
        self._learned = Learned(self.team, 0.0)
        self._point: messages.ReportedPoint | None = None
        self._looked_s = -math.inf
        self._changes = 0
        self._paused_s: float | None = None

    # Start, end and speed.

    def start(self) -> None:
        """Boots the guest and starts its program."""
        plan, loop = self.plan, self._loop
        self.started_s = self._updated_s = loop.time()
        home = frozenset() if plan.home_node is None else frozenset({plan.home_node})
        self.key = self._host.start(
            plan.name,
            plan.vcpus_at_start,
            plan.vcpus,
            agent_socket=None if plan.behaviour == "silent" else f"simulated {plan.name}",
            home_nodes=home,
            rules=rules_of(plan),
        )
        domain = self._host.domains[self.key]
        domain.pins.update(dict.fromkeys(domain.pins, self._world.pool))
        self._timers += [loop.call_at(at_s, self.end) for at_s in (plan.end_s, plan.crash_s) if at_s is not None]
        self._next_phase()

    def end(self) -> None:
        """Ends the domain, and counts its work up to now."""
        if self.key is None or self.ended_s is not None:
            return
        self.update()
        self.ended_s, self.speed = self._loop.time(), 0.0
        for timer in (*self._timers, *self._steps, self._phase.timer, self._phase.done):
            if timer is not None:
                timer.cancel()
        self._host.end(self.key)
        if self._link is not None:
            self._link.close()
        self._world.on_end(self)

    @property
    def running(self) -> bool:
        """Whether it has started and not ended."""
        return self.started_s is not None and self.ended_s is None

    @property
    def wants(self) -> bool:
        """Whether its program has work to do."""
        return self._phase.plan.curve is not None

    @property
    def _curve(self) -> Curve | None:
        """The curve of its program now; None: it is idle."""
        curve = self._phase.plan.curve
        return self.plan.unmanaged_curve if self._allocation is None and curve is self.plan.curve else curve

    def update(self) -> None:
        """Counts the work since the last update, at the speed of that time."""
        now_s = self._loop.time()
        passed_s = now_s - self._updated_s
        if passed_s <= 0.0 or not self.running:
            return
        self._updated_s = now_s
        work_s = self.speed * passed_s
        self.tally.work_s += work_s
        self._phase.work_s += work_s
        if self.wants:
            self.tally.wanting_s += passed_s
        self._learn(now_s)

    def changed(self) -> None:
        """Its pins, vCPUs, state or share of CPU time may have changed: computes its new speed."""
        assert self.key is not None  # it runs
        domain = self._host.domains[self.key]
        self.update()
        running = domain.state is RunState.RUNNING
        if running != (self._paused_s is None):
            self._paused_s = None if running else self._loop.time()
            self._changes += 1
            if running and self._link is not None:
                self._loop.call_soon(self._link.news)
                if self._allocation is not None and self._allocation.sequence != self._link.acknowledged:
                    self._follow()
        if domain.vcpus != self.plugged:
            self.plugged = domain.vcpus
            if self.online > self.plugged:
                self.online = self.plugged
                self._compute()
            self._follow()
        self.speed = self._speed()
        self._expect()

    def _speed(self) -> float:
        assert self.key is not None  # it runs
        domain, curve = self._host.domains[self.key], self._curve
        if curve is None or domain.state is not RunState.RUNNING:
            return 0.0
        threads, busy = (1, 1.0) if self._phase.plan.serial else (self.team, self._busy(curve))
        computing = Computing(curve, threads, self.plan.loss, self.plan.granularity == "fine", busy)
        wanted = {vcpu: one for vcpu, one in domain.wanted.items() if one > 0.0 and vcpu < domain.vcpus}
        return self._world.model.speed(
            computing,
            wanted,
            self._host.rates(self.key),
            domain.pins,
            self._host.load_cpus(self.key) if self._world.model.depends_on_load else 0.0,
            self.plan.home_node,
        )

    # Its phases.

    def _next_phase(self) -> None:
        self.update()
        for timer in (self._phase.timer, self._phase.done):
            if timer is not None:
                timer.cancel()
        self._turn += 1
        plan = self.plan.phases[self._turn % len(self.plan.phases)]
        self._phase = _Phase(plan)
        if plan.seconds is not None:
            self._phase.timer = self._loop.call_later(plan.seconds, self._next_phase)
        self._compute()
        self._report_demand()

    def _expect(self) -> None:
        """Sets the timer for the end of its phase's work, or of all its work, at this speed."""
        phase = self._phase
        if phase.done is not None:
            phase.done.cancel()
            phase.done = None
        if self.speed <= 0.0:
            return
        remaining_work_s = []
        if phase.plan.work_s is not None:
            remaining_work_s.append(phase.plan.work_s - phase.work_s)
        if self.plan.work_s is not None:
            remaining_work_s.append(self.plan.work_s - self.tally.work_s)
        if remaining_work_s:
            phase.done = self._loop.call_later(max(0.0, min(remaining_work_s)) / self.speed, self._work_done)

    def _work_done(self) -> None:
        self.update()
        plan, phase = self.plan, self._phase
        step = self.speed * MOMENT_S
        if plan.work_s is not None and plan.work_s - self.tally.work_s <= step:
            self.end()
        elif phase.plan.work_s is not None and phase.plan.work_s - phase.work_s <= step:
            self._next_phase()
        else:
            self._expect()

    def _compute(self) -> None:
        """Tells the host which vCPUs its program would use now, and how much of each."""
        self._changes += 1
        assert self.key is not None  # it has started
        curve = self._curve
        if curve is None:
            wanted = {}
        elif self._phase.plan.serial:
            wanted = {0: 1.0}
        else:
            # Threads that share a vCPU use more of it together, at most all.
            per_vcpu = min(1.0, self._busy(curve) * max(1.0, self.team / self.online))
            wanted = dict.fromkeys(range(min(self.team, self.online)), per_vcpu)
        self._host.compute(self.key, wanted)

    def _busy(self, curve: Curve) -> float:
        """The share of a CPU that each thread of its team uses if it has one for itself."""
        if self.plan.spins and not (self.plan.yields and self._allocation is None):
            return 1.0
        return min(1.0, curve.speedup(self.team) / self.team)

    # Its agent.

    def link(self, on_news: Callable[[], None]) -> GuestLink:
        """Makes a new channel from the daemon to its agent."""
        self._link = GuestLink(self, on_news)
        return self._link

    def silent_s(self) -> float:
        """Seconds for which its agent could not send: 0 unless the domain is paused."""
        return 0.0 if self._paused_s is None else self._loop.time() - self._paused_s

    def receive(self, message: messages.Allocate) -> None:
        """Receives an allocation; the newest counts. While the domain is paused, it waits in the channel."""
        self.update()
        first = self._allocation is None
        self._allocation = message
        if first:
            self._compute()  # the CPUs that it gets are its own: see `yields` and `unmanaged_curve`
        if self._paused_s is None:
            self._follow()
        self._report_demand()

    def _follow(self) -> None:
        """Follows the allocation and acknowledges it. It shrinks the team before the CPUs, and grows it after them."""
        allocation = self._allocation
        if allocation is None:
            return
        for step in self._steps:
            step.cancel()
        self._steps = []
        if allocation.cpus == 0:
            self._later(0.0, allocation, team=1)
            return
        online = min(allocation.cpus, self.plugged)
        team = self.plan.vcpus_at_start if self.plan.rigid else online
        resize_s = self._world.latencies.resize_s if team != self.team else 0.0
        online_s = self._world.latencies.online_s if online != self.online else 0.0
        if online < self.online:
            self._later(resize_s, None, team=team)
            self._later(resize_s + online_s, allocation, online=online)
        else:
            self._later(online_s, None, online=online)
            self._later(online_s + resize_s, allocation, team=team)

    def _later(
        self,
        delay_s: float,
        acknowledged: messages.Allocate | None,
        *,
        team: int | None = None,
        online: int | None = None,
    ) -> None:
        """After a delay, resizes the team or switches CPUs, and acknowledges *acknowledged* if it is not None."""

        def step() -> None:
            if team is not None:
                self._resize(team)
            if online is not None:
                self._switch(online)
            if acknowledged is not None and self._link is not None:
                self._link.acknowledge(acknowledged.sequence)

        self._steps.append(self._loop.call_later(delay_s, step))

    def _resize(self, team: int) -> None:
        if team == self.team or (self.plan.rigid and team == 1):
            return
        self.update()
        self.team = team
        self._learned = Learned(team, self._loop.time())
        self._compute()

    def _switch(self, online: int) -> None:
        online = min(online, self.plugged)
        if online != self.online:
            self.update()
            self.online = online
            self._compute()

    def _report_demand(self) -> None:
        """Reports new demand at once, and the end of demand after IDLE_S."""
        demand = self._usable_cpus()
        if demand == self._demand:
            return
        if demand == 0:
            self._timers = [timer for timer in self._timers if timer.when() > self._loop.time()]
            self._timers.append(self._loop.call_later(IDLE_S, self._report_idle, self._turn))
            return
        self._demand = demand
        self._changes += 1
        if self._link is not None and self._world.news_at_once:
            self._loop.call_soon(self._link.news)

    def _report_idle(self, turn: int) -> None:
        if turn == self._turn and self._usable_cpus() == 0:
            self._demand = 0
            self._changes += 1
            if self._link is not None and self._world.news_at_once:
                self._link.news()

    def _usable_cpus(self) -> int:
        plan = self.plan
        most = plan.vcpus if self._allocation is None else min(plan.vcpus, self._allocation.limit)
        if plan.behaviour == "lies":
            return most
        if not self.wants:
            return 0
        return min(most, plan.vcpus_at_start) if plan.rigid else most

    # The agent's reports.

    def moment(self) -> tuple[float, int]:
        """The present time, and how often the guest has changed."""
        return self._loop.time(), self._changes

    def report_content(self) -> tuple[object, ...]:
        """What a report depends on, except for CPUs in use, which decide nothing. Equal values mean equal reports."""
        now_s = self._loop.time()
        if now_s >= self._looked_s + REPORT_S and self._paused_s is None:
            self._looked_s = now_s
            self._look()
        acknowledged = self._link.acknowledged if self._link is not None else None
        return (acknowledged, self.online, self._demand, self.team, self._point, self.wants, self._ipc())

    def _look(self) -> None:
        """The agent reads what its program's shim has published."""
        if self.plan.behaviour == "lies":
            speedup = self.plan.claims * self.team
            error = LEAST_ERROR * speedup
            self._point = messages.ReportedPoint(p=self.team, speedup=speedup, standard_error=error, samples=MEMORY)
            self.claimed = speedup
            return
        self.update()
        estimate = self._learned.estimate(self._world.noise)
        if estimate is not None:
            speedup, error, samples = estimate
            self.claimed = speedup
            self._point = messages.ReportedPoint(
                p=self._learned.threads, speedup=speedup, standard_error=error, samples=samples
            )

    def _ipc(self) -> float | None:
        """Instructions per cycle of a thread of its program now; None: not in its curve, or it does not compute."""
        curve = self._curve
        if curve is None or curve.ipc is None or self.team < 1:
            return None
        return curve.ipc * curve.speedup(self.team) / self.team

    def _learn(self, now_s: float) -> None:
        """A program learns while others want CPUs, its team has at least two threads, and it can be resized."""
        learned = self._learned
        if (
            self.speed <= 0.0
            or self.team < 2
            or learned.threads != self.team
            or self.plan.rigid
            or self._allocation is None
            or not self._allocation.competition
        ):
            learned.since_s = now_s
            return
        learned.learn(self.speed, now_s, self._world.noise, self._rng)

    def made_report(self, sequence: int) -> messages.Report:
        """A current report."""
        points = []
        if self._point is not None:
            one = messages.ReportedPoint(p=1, speedup=1.0, standard_error=0.0, samples=self._point.samples)
            points = [one, self._point] if self._point.p > 1 else [one]
        rates = self._host.rates(self.key) if self.key is not None else {}
        running = self.wants or self.plan.behaviour == "lies"
        process = messages.ReportedProcess(
            pid=1,
            name=self.plan.name,
            team=self.team if running else 1,
            malleable="rigid" if self.plan.rigid else "full",
            running=running,
            points=points,
            ipc=self._ipc(),
        )
        return messages.Report(
            sequence=sequence,
            online=list(range(self.online)),
            demand=self._demand,
            busy=sum(rates.values()),
            processes=[process],
        )


def rules_of(plan: GuestPlan) -> MetadataRules:
    """The rules in a guest's metadata."""
    return MetadataRules(minimum=plan.minimum, maximum=plan.maximum, weight=plan.weight, priority=plan.priority)
