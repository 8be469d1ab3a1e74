"""The real daemon on the simulated host in virtual time. A test decides what the guests' agents report."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from vscaf.agentlink import messages
from vscaf.config import Config, DomainConfig, PolicyConfig
from vscaf.daemon.loop import Daemon
from vscaf.domains.domain import ManagedDomain
from vscaf.events import Event
from vscaf.simulate.engine.host import Latencies, SimulatedHost
from vscaf.simulate.engine.run import MemoryJournal
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.values import DomainKey, DomainSeen, HostCpus

Point = tuple[int, float, float]
"""(size in CPUs, speedup, standard error of the speedup)."""

VCPUS = 8


class Agent:
    """The daemon's end of the channel to a guest, as agentlink.interface.Link describes it.

    While `acknowledges` is set, it acknowledges at once and has as many CPUs online as it was told. `says` sets what
    else it reports.
    """

    def __init__(self, news: Callable[[], None]) -> None:
        self.news = news
        self.acknowledges = True
        self.acknowledged: int | None = None
        self._hellos = itertools.count(1)
        self.hello()
        self.bad_lines = 0
        self.connected = True
        self.condition = "connected"
        self.agent_version: str | None = "vscaf-agent 0.1.0"
        self.fault: Exception | None = None
        self.silent_s = 0.0
        self.quiet = False
        self.received: list[messages.Allocate] = []
        self.on_received: Callable[[], None] = lambda: None
        self.online: tuple[int, ...] | None = tuple(range(VCPUS))
        self.report: messages.Report | None = None
        self.says(0)

    def hello(self) -> None:
        """The agent has connected again."""
        self.generation = next(self._hellos)

    def says(
        self,
        demand: int,
        points: Sequence[Point] = (),
        team: int = VCPUS,
        ipc: float | None = None,
        quiet: bool = False,
    ) -> None:
        self.quiet = quiet
        program = messages.ReportedProcess(
            pid=1, name="program", team=team, malleable="full", running=True, ipc=ipc,
            points=[messages.ReportedPoint(p=p, speedup=s, standard_error=e, samples=9) for p, s, e in points],
        )  # fmt: skip
        self.report = messages.Report(
            sequence=self.acknowledged or 0,
            online=list(self.online) if isinstance(self.online, tuple) else [],
            demand=demand,
            busy=float(demand),
            processes=[program] if demand else [],
        )

    @property
    def demand(self) -> int | None:
        return self.report.demand if self.report is not None else None

    def age_s(self) -> float:
        return self.silent_s

    def send(self, message: object) -> bool:
        if isinstance(message, messages.Allocate):
            self.received.append(message)
            if self.acknowledges:
                self.online = tuple(range(max(1, message.cpus)))
                self.acknowledged = message.sequence
                self.on_received()
                asyncio.get_running_loop().call_later(0.005, self.news)
        return True

    async def stop(self) -> None:
        self.connected = False


@dataclass(frozen=True)
class Trouble:
    """The *calls* on a domain (empty: all calls) hang for *hangs_s* seconds and then raise *error*."""

    calls: Set[str]
    error: Exception
    hangs_s: float = 0.0


class WatchedHost(SimulatedHost):
    """Counts the looks at it. `trouble`: for calls on single domains."""

    looks = 0

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.trouble: dict[DomainKey, Trouble] = {}

    async def _called(self, call: str, key: DomainKey | None) -> None:
        await super()._called(call, key)
        trouble = self.trouble.get(key) if key is not None else None
        if trouble is not None and (not trouble.calls or call in trouble.calls):
            await asyncio.sleep(trouble.hangs_s)
            raise trouble.error

    async def observe(self) -> tuple[DomainSeen, ...]:
        self.looks += 1
        return await super().observe()


class World:
    """One run on a host of *cpus* pCPUs, or on *machine*. The first two are the reserve."""

    def __init__(
        self,
        *names: str,
        cpus: int = 18,
        policy: str = "max-speedup",
        rules: Mapping[str, DomainConfig] | None = None,
        latencies: Latencies | None = None,
        vcpus: int = VCPUS,
        machine: HostCpus | None = None,
        **settings: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        machine = machine or HostCpus(
            online=frozenset(range(cpus)),
            cores=tuple(frozenset({one}) for one in range(cpus)),
            node_of=dict.fromkeys(range(cpus), 0),
        )
        cpus = len(machine.online)
        self.host = WatchedHost(
            machine,
            clock=loop.time,
            sleep=asyncio.sleep,
            latencies=latencies or Latencies(),
        )
        config = Config(
            pool=f"2-{cpus - 1}",
            reserve="0-1",
            policy=PolicyConfig(name=policy),
            domains={name: (rules or {}).get(name, DomainConfig()) for name in names},
            newcomer_ms=500,
            **settings,
        )
        self.agents: dict[str, Agent] = {}
        self.journal = MemoryJournal()
        self.daemon = Daemon(config, self.host, machine, self.journal, links=self._link)
        self.on_pins: Callable[[], None] = lambda: None
        self.host.on_change, self.host.on_tuned = self.daemon.wake, self._tuned
        self.keys: dict[str, DomainKey] = {}
        for name in names:
            self.keys[name] = self.host.start(name, vcpus, VCPUS)
        self.found = {name: self.pins(name) for name in names}
        self.task: asyncio.Task[bool] | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.laws: Any = None

    def _link(self, seen: DomainSeen, news: Callable[[], None]) -> Agent:
        return self.agents.setdefault(seen.name, Agent(news))

    def _tuned(self, key: DomainKey) -> None:
        self.daemon.tuned(key)
        self.on_pins()

    def begin(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.daemon.run())

    async def end(self) -> bool:
        """Ends the daemon. Returns what run() returns: whether everything was put back."""
        assert self.task is not None
        self.daemon.stop()
        try:
            return await self.task
        finally:
            await self.daemon.close()

    async def until(self, condition: Callable[[], bool], looks: int = 40) -> int:
        """Waits until *condition* is true. Returns after how many looks (virtual periods), or -1 after *looks*."""
        assert self.task is not None
        for look in range(looks):
            if condition():
                return look
            await asyncio.sleep(self.daemon.config.period_ms / 1000)
            assert not self.task.done(), "the daemon has ended"
        return looks if condition() else -1

    def computes(self, name: str, cpus: int = VCPUS, points: Sequence[Point] = (), ipc: float | None = None) -> None:
        """Its program wants *cpus* CPUs, and its agent reports it; 0: it rests. Offline vCPUs do not compute."""
        agent = self.agents[name]

        def compute() -> None:
            online = agent.online if isinstance(agent.online, tuple) else ()
            self.host.compute(self.keys[name], dict.fromkeys(online[:cpus], 1.0))

        compute()
        agent.on_received = compute
        agent.says(cpus, points, ipc=ipc)
        agent.news()

    def domain(self, name: str) -> ManagedDomain:
        return self.daemon.managed[self.keys[name]]

    def held(self, name: str) -> frozenset[int]:
        return self.domain(name).held

    def pins(self, name: str) -> dict[int, frozenset[int]]:
        one = self.host.domains[self.keys[name]]
        return {vcpu: one.pins[vcpu] for vcpu in range(one.vcpus)}

    def reach(self, name: str) -> frozenset[int]:
        return frozenset().union(*self.pins(name).values())

    def events(self, kind: str, name: str | None = None) -> list[Event]:
        return [one for one in self.daemon.events.since(0) if one.kind == kind and name in (None, one.domain)]


def in_world(work: Callable[[World], Awaitable[None]], *names: str, prepare: Any = None, **options: Any) -> World:
    """Runs *work* while the daemon manages the domains *names*. At the end everything must be put back."""
    made: list[World] = []

    async def run() -> None:
        world = World(*names, **options)
        made.append(world)
        if prepare is not None:
            prepare(world)
        world.begin()
        await work(world)
        assert await world.end(), world.daemon.not_put_back
        now = {name: world.pins(name) for name in world.found}
        assert now == world.found, "not all pins were put back"

    run_virtual(run())
    return made[0]
