"""Runs a scenario under a policy: the daemon's own loop on a simulated host, in virtual time."""

import asyncio
import gc
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vscaf_policies import Policy

from vscaf import clock
from vscaf.agentlink.interface import Link
from vscaf.config import Config, PolicyConfig
from vscaf.core.decide.decision import Decision
from vscaf.daemon.loop import Daemon
from vscaf.journal import Journal
from vscaf.simulate.engine.guest import Guest, Tally, World
from vscaf.simulate.engine.host import DEFAULT_SHARES, Latencies, SimulatedHost
from vscaf.simulate.engine.machine import SpeedModel, host_cpus
from vscaf.simulate.engine.recorder import ErrorRecorder, Laws, Recorder
from vscaf.simulate.engine.result import GuestResult, Run
from vscaf.simulate.engine.steal_governor import STEAL_GOVERNOR, GovernedGuest, steal_governor
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.scenario import GuestPlan, Scenario
from vscaf.values import DomainKey, DomainSeen

PROGRESS_STEPS = 100
GC_THRESHOLDS = (100_000, 50, 1000)
"""Garbage collection during a simulation: a fleet has many lasting objects, and the usual scans take a fifth of it."""

NEWS_PERIOD_MS = 1000
"""With a longer period, changes of demand and ends of guests wait for the next look, so a fleet needs only one look
per period."""

ARRIVAL_S = 1.0
"""For this time after a guest has come, the daemon still looks at once, so that it adopts the guest without delay."""


def simulate(
    scenario: Scenario,
    policy: str,
    *,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[float], None] | None = None,
    policy_function: Policy | None = None,
) -> Run:
    """Runs *scenario* under *policy*: the installed one, `steal-governor`, or *policy_function* under that name.

    seed: for noise and generated guests, None: the scenario's. options: of the policy, None: those of the scenario.
    on_progress: called with the share of the time that is over. UsageError if the scenario or the policy cannot be
    used. It changes nothing else in this process, but the thread must have no running event loop.
    """
    begun_s = time.perf_counter()
    seed = scenario.seed if seed is None else seed
    plans = expanded(scenario, seed)
    if options is None:
        options = scenario.policy_options.get(policy, {})
    chosen = PolicyConfig(name=policy, options=dict(options))
    if policy == STEAL_GOVERNOR:
        policy_function = steal_governor

    async def run() -> Run:
        simulation = _Simulation(scenario, plans, chosen, policy_function, seed, journal)
        return await simulation.run(on_progress or (lambda share: None))

    journal = MemoryJournal()
    thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        result = run_virtual(run())
    finally:
        gc.set_threshold(*thresholds)
    return replace(result, wall_s=time.perf_counter() - begun_s)


class MemoryJournal(Journal):
    """A journal without files: a run that is interrupted leaves nothing on the disk."""

    def __init__(self) -> None:
        super().__init__(Path("not on a disk"), "simulated")

    def _open(self, directory: Path, holder: str) -> None:
        """Opens nothing."""

    def _replace(self, *args: Any, **options: Any) -> None:
        """Writes nothing."""


class WatchedDaemon(Daemon):
    """The daemon, which reports each decision to the recorder. After `responsive_until_s` it looks once per period."""

    responsive_until_s = math.inf

    def wake(self) -> None:
        """Looks at the host at once; after `responsive_until_s`, only goes on with transitions."""
        if clock.now_s() <= self.responsive_until_s:
            super().wake()
        else:
            self._on_news()

    def _decided(self, decision: Decision) -> None:
        super()._decided(decision)
        if isinstance(self.events, Recorder):
            self.events.decided(decision)


class _Simulation:
    """One run. Create it in the event loop that it uses."""

    def __init__(  # noqa: PLR0917 (what a run is made of)
        self,
        scenario: Scenario,
        plans: tuple[GuestPlan, ...],
        policy: PolicyConfig,
        function: Policy | None,
        seed: int,
        journal: Journal,
    ) -> None:
        self._scenario = scenario
        self._seed = seed
        self._policy_name = policy.name
        self._loop = asyncio.get_running_loop()
        machine, latencies = scenario.host, scenario.latencies
        cpus = host_cpus(machine)
        self._pool = frozenset(range(machine.pcpus))
        self._recorder = Recorder(self._loop.time, scenario.seconds, len(plans), machine.threads_per_core)
        self._host = SimulatedHost(
            cpus,
            on_rates=self._changed,
            clock=self._loop.time,
            latencies=Latencies(latencies.call_s, latencies.plug_s, latencies.unplug_s),
        )
        self._laws = Laws(self._host, self._pool, self._recorder)
        model = SpeedModel(machine, cpus)
        self._at_once = scenario.period_ms <= NEWS_PERIOD_MS
        world = World(self._host, model, latencies, scenario.noise, self._pool, self._at_once, self._ended)
        kind = GovernedGuest if policy.name == STEAL_GOVERNOR else Guest
        self._guests: list[Guest] = [kind(plan, world, seed) for plan in plans]
        self._by_key: dict[DomainKey, Guest] = {}
        self._before: dict[str, Tally] = {}
        config = Config(
            pool=f"0-{machine.pcpus - 1}",
            period_ms=scenario.period_ms,
            newcomer_ms=scenario.newcomer_ms,
            deadline_ms=scenario.deadline_ms,
            policy=policy if function is None else PolicyConfig(name="unmanaged"),
        )
        self._daemon = WatchedDaemon(config, self._host, cpus, journal, self._recorder, links=self._link)
        if function is not None:
            self._daemon.use_policy(policy, function)
        self._laws.managed = lambda: self._daemon.inventory.domains
        self._laws.sharing = lambda: self._daemon.decision.sharing if self._daemon.decision else frozenset()
        self._host.on_change, self._host.on_tuned = self._daemon.wake, self._daemon.tuned

    def _link(self, seen: DomainSeen, on_news: Callable[[], None]) -> Link | None:
        return self._by_key[seen.key].link(on_news) if seen.agent_socket is not None else None

    def _start(self, guest: Guest) -> None:
        if not self._at_once:
            self._daemon.responsive_until_s = self._loop.time() + ARRIVAL_S
        guest.start()
        assert guest.key is not None  # it has started
        self._by_key[guest.key] = guest
        self._recorder.presence_changed(guest.plan.name, gone=False)

    def _ended(self, guest: Guest) -> None:
        self._recorder.presence_changed(guest.plan.name, gone=True)

    def _changed(self, key: DomainKey) -> None:
        guest = self._by_key[key]
        if guest.running:
            guest.changed()
            self._laws.check(key)

    async def run(self, on_progress: Callable[[float], None]) -> Run:
        """Runs it to its end, then lets the daemon put everything back."""
        scenario, loop = self._scenario, self._loop
        handler = ErrorRecorder(self._recorder)
        logger = logging.getLogger("vscaf")
        logger.addHandler(handler)
        loop.set_exception_handler(lambda _loop, about: self._recorder.violate(f"{about.get('exception', about)!r}"))
        try:
            for guest in self._guests:
                if guest.plan.start_s <= 0.0:
                    self._start(guest)
                elif guest.plan.start_s < scenario.seconds:
                    loop.call_at(guest.plan.start_s, self._start, guest)
            loop.call_at(scenario.settle_s, self._begin_window)
            daemon = loop.create_task(self._daemon.run())
            for step in range(1, PROGRESS_STEPS + 1):
                await asyncio.sleep(max(0.0, scenario.seconds * step / PROGRESS_STEPS - loop.time()))
                if daemon.done():
                    break  # it failed: awaiting it below raises the error
                on_progress(step / PROGRESS_STEPS)
            self._host.settle()
            result = self._result()
            self._laws.over = True  # from now on the daemon gives every domain back what it had
            self._daemon.responsive_until_s = math.inf
            self._daemon.stop()
            await daemon
            await self._daemon.close()
            self._check_put_back()
            return replace(result, violations=tuple(self._recorder.violations))
        finally:
            logger.removeHandler(handler)

    def _begin_window(self) -> None:
        """Begins the averaging window of the speedups."""
        for guest in self._guests:
            guest.update()
            self._before[guest.plan.name] = replace(guest.tally)

    def _result(self) -> Run:
        scenario, recorder = self._scenario, self._recorder
        started = [guest for guest in self._guests if guest.started_s is not None]
        window_s = scenario.seconds - scenario.settle_s
        results, window_work_s = [], 0.0
        for guest in started:
            guest.update()
            if guest.running and guest.key is not None:
                self._laws.check(guest.key)
            before = self._before.get(guest.plan.name, Tally())
            work_s, wanting_s = guest.tally.work_s - before.work_s, guest.tally.wanting_s - before.wanting_s
            window_work_s += work_s
            results.append(
                GuestResult(
                    name=guest.plan.name,
                    curve=guest.plan.curve.name,
                    start_s=guest.started_s or 0.0,
                    end_s=guest.ended_s,
                    work_s=guest.tally.work_s,
                    speedup=work_s / wanting_s if wanting_s > 0.0 else 0.0,
                    claimed=guest.claimed,
                )
            )
        present = [guest.plan.name for guest in started if guest.running]
        converged_s = recorder.converged_s(present, scenario.seconds)
        sum_of_speedups = window_work_s / window_s
        return Run(
            scenario=scenario.name,
            policy=self._policy_name,
            seed=self._seed,
            seconds=scenario.seconds,
            pcpus=scenario.host.pcpus,
            guests=tuple(results),
            moments=recorder.moments(),
            decisions=recorder.decisions,
            sum_of_speedups=sum_of_speedups,
            efficiency=sum_of_speedups / scenario.host.pcpus,
            transitions=self._daemon.transitions,
            moved_cpus=recorder.moved_cpus,
            exploration_cost=self._daemon.decider.cost,
            converged_periods=None if converged_s is None else math.ceil(converged_s * 1000 / scenario.period_ms),
            violations=(),
            wall_s=0.0,
        )

    def _check_put_back(self) -> None:
        """Checks that everything is as before, after the daemon has ended."""
        for name in self._daemon.not_put_back:
            self._recorder.violate(f"{name} was not put back as it was found")
        for guest in self._guests:
            domain = self._host.domains.get(guest.key) if guest.key is not None else None
            if domain is None:
                continue
            pins = {domain.pins[vcpu] for vcpu in range(domain.vcpus)}
            if pins != {self._pool} or domain.cpu_shares != DEFAULT_SHARES:
                self._recorder.violate(f"{domain.name} has other pins or another weight than it was found with")
