"""A host that is not there: domains, vCPUs, pins, weights, and the CPU time that results, under any clock.

Deterministic: what it answers follows from what it was told and from the clock it was given. It has the levers of a
real host (`interface.Hypervisor`), and beside them what a machine does by itself: domains start, end, pause, compute.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_DNS, uuid5

from vscaf.errors import DomainGone, HypervisorError, NotSupported
from vscaf.values import (
    DomainKey,
    DomainSeen,
    DomainSettings,
    HostCpus,
    MetadataRules,
    Plugged,
    PlugOutcome,
    RunState,
)

DEFAULT_SHARES = 1024
ROUNDS = 20
"""Of balancing vCPUs that float: in each, they move some of what they want to the pCPUs where less is wanted."""

LEAST = 1e-9
"""CPUs that are none."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds that things take: any call, a plug, and an unplug, which the guest may also never complete (inf)."""

    call_s: float = 0.0
    plug_s: float = 0.0
    unplug_s: float = 0.0


@dataclass(slots=True, eq=False)
class SimulatedDomain:
    """A run of a domain. `wanted`: CPUs that each vCPU would use if it could, 0 to 1; absent: none."""

    key: DomainKey
    name: str
    vcpus: int
    vcpus_maximum: int
    accelerated: bool
    agent_socket: str | None
    home_nodes: frozenset[int]
    rules: MetadataRules | None
    state: RunState
    boot_vcpus: int
    pins: dict[int, frozenset[int]]
    emulator_pin: frozenset[int]
    iothread_pins: dict[int, frozenset[int]]
    cpu_shares: int | None = DEFAULT_SHARES
    wanted: dict[int, float] = field(default_factory=dict)
    vcpu_time_s: dict[int, float] = field(default_factory=dict)
    leaving: tuple[float, int] | None = None
    """When an unplug completes, and the vCPUs that are left then."""


class SimulatedHost:
    """A host with *cpus*. `on_change`, `on_tuned` are called as LibvirtHost calls them.

    clock, sleep: seconds that never go back, and how to wait. `fault` sees the name of each call and the domain's key
    (None: the whole host) before anything happens, and may raise what a host would. `refusing`: domains whose guests
    let go of no vCPU.
    """

    def __init__(
        self,
        cpus: HostCpus,
        on_change: Callable[[], None] = lambda: None,
        on_tuned: Callable[[DomainKey], None] = lambda key: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        latencies: Latencies = Latencies(),
    ) -> None:
        self.cpus = cpus
        self.latencies = latencies
        self.fault: Callable[[str, DomainKey | None], None] = lambda call, key: None
        self.refusing: set[DomainKey] = set()
        self.domains: dict[DomainKey, SimulatedDomain] = {}
        self._on_change = on_change
        self._on_tuned = on_tuned
        self._clock = clock
        self._sleep = sleep
        self._runs = 0
        self._names: set[str] = set()
        self._counted_s = clock()
        self._rates: dict[DomainKey, dict[int, float]] | None = None  # None: something changed

    # What a machine does by itself.

    def start(
        self,
        name: str,
        vcpus: int,
        vcpus_maximum: int | None = None,
        *,
        accelerated: bool = True,
        agent_socket: str | None = None,
        home_nodes: frozenset[int] = frozenset(),
        iothreads: int = 0,
        rules: MetadataRules | None = None,
    ) -> DomainKey:
        """Starts a domain with *vcpus* plugged, pinned nowhere in particular; every start is a run of its own."""
        if any(domain.name == name for domain in self.domains.values()):
            raise ValueError(f"domain {name} runs already")
        self._changes()
        self._runs += 1
        key = DomainKey(str(uuid5(NAMESPACE_DNS, name)), self._runs)
        everywhere = frozenset(self.cpus.online)
        most = vcpus if vcpus_maximum is None else vcpus_maximum
        self.domains[key] = SimulatedDomain(
            key=key,
            name=name,
            vcpus=vcpus,
            vcpus_maximum=most,
            accelerated=accelerated,
            agent_socket=agent_socket,
            home_nodes=home_nodes,
            rules=rules,
            state=RunState.RUNNING,
            boot_vcpus=vcpus,
            pins=dict.fromkeys(range(most), everywhere),
            emulator_pin=everywhere,
            iothread_pins=dict.fromkeys(range(1, iothreads + 1), everywhere),
        )
        self._names.add(name)
        self._on_change()
        return key

    def end(self, key: DomainKey) -> None:
        """The domain ends; it stays defined."""
        self._changes()
        del self.domains[key]
        self._on_change()

    def set_state(self, key: DomainKey, state: RunState) -> None:
        """The domain pauses, goes on, crashes."""
        self._changes()
        self.domains[key].state = state
        self._on_change()

    def compute(self, key: DomainKey, wanted: Mapping[int, float]) -> None:
        """From here on each vCPU would use so much of a CPU; those of the domain that are not named, none."""
        self._changes()
        self.domains[key].wanted = dict(wanted)

    def set_online(self, online: frozenset[int]) -> None:
        """pCPUs of the host go online or offline."""
        self._changes()
        cores = tuple(core & online for core in self.cpus.cores if core & online)
        self.cpus = HostCpus(online, cores, self.cpus.node_of, self.cpus.sockets, self.cpus.caches, self.cpus.distances)

    def rates(self) -> Mapping[DomainKey, Mapping[int, float]]:
        """CPUs that each vCPU uses now.

        vCPUs that float are balanced over the pCPUs that they may run on; where more is wanted of a pCPU than there is,
        each gets some by what it wants and by its domain's weight.
        """
        if self._rates is None:
            self._rates = self._handed_out()
        return self._rates

    # What the daemon asks.

    @property
    def tells_of_tuning(self) -> bool:
        """Always: every change is told of."""
        return True

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to end."""

    async def host_cpus(self) -> HostCpus:
        """The pCPUs that it has."""
        await self._called("host_cpus", None)
        return self.cpus

    async def defined(self, name: str) -> bool:
        """Whether a domain of that name was ever started."""
        await self._called("defined", None)
        return name in self._names

    async def observe(self) -> tuple[DomainSeen, ...]:
        """All active domains, by name."""
        await self._called("observe", None)
        self._count()
        return tuple(
            DomainSeen(
                key=domain.key,
                name=domain.name,
                accelerated=domain.accelerated,
                state=domain.state,
                vcpus=domain.vcpus,
                vcpus_maximum=domain.vcpus_maximum,
                vcpu_time_s={vcpu: domain.vcpu_time_s.get(vcpu, 0.0) for vcpu in range(domain.vcpus)},
                plugged=frozenset(range(domain.vcpus)),
                agent_socket=domain.agent_socket,
                home_nodes=domain.home_nodes,
                iothreads=len(domain.iothread_pins),
                rules=domain.rules,
            )
            for domain in sorted(self.domains.values(), key=lambda domain: domain.name)
        )

    async def settings(self, key: DomainKey) -> DomainSettings:
        """What may be changed of the domain, as it is."""
        domain = await self._domain("settings", key)
        return DomainSettings(
            vcpus=domain.vcpus,
            vcpu_pins={vcpu: domain.pins[vcpu] for vcpu in range(domain.vcpus)},
            emulator_pin=domain.emulator_pin,
            cpu_shares=domain.cpu_shares,
            iothread_pins=dict(domain.iothread_pins),
            unplugged_pins={vcpu: domain.pins[vcpu] for vcpu in range(domain.vcpus, domain.vcpus_maximum)},
            unpinned=frozenset(self.cpus.node_of),
        )

    async def pin_vcpus(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """All of *pins*, or none where one is bad."""
        domain = await self._domain("pin_vcpus", key)
        self._check_pins(domain.name, pins, domain.pins)
        self._changes()
        domain.pins.update(pins)
        self._on_tuned(key)

    async def pin_emulator(self, key: DomainKey, cpus: frozenset[int]) -> None:
        """Where the emulator's threads may run; they use no CPU time here."""
        domain = await self._domain("pin_emulator", key)
        self._check_pins(domain.name, {0: cpus}, {0: cpus})
        domain.emulator_pin = cpus
        self._on_tuned(key)

    async def pin_iothreads(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Where the I/O threads may run; they use no CPU time here."""
        domain = await self._domain("pin_iothreads", key)
        self._check_pins(domain.name, pins, domain.iothread_pins)
        domain.iothread_pins.update(pins)
        self._on_tuned(key)

    async def set_cpu_shares(self, key: DomainKey, shares: int) -> None:
        """The domain's weight where vCPUs want more than there is."""
        domain = await self._domain("set_cpu_shares", key)
        if domain.cpu_shares is None:
            raise NotSupported(f"domain {domain.name}: no CPU controller on this host")
        self._changes()
        domain.cpu_shares = shares
        self._on_tuned(key)

    async def plug(self, key: DomainKey, vcpus: int, cpus: frozenset[int] | None = None) -> Plugged:
        """Done once its latency is over; the guest has the new vCPUs online then."""
        domain = await self._domain("plug", key)
        if vcpus > domain.vcpus_maximum:
            raise NotSupported(f"domain {domain.name}: {vcpus} vCPUs are more than its maximum {domain.vcpus_maximum}")
        if self.latencies.plug_s > 0:
            await self._sleep(self.latencies.plug_s)
            domain = self._running(key)
        self._changes()
        if cpus is not None:
            new = dict.fromkeys(range(domain.vcpus, vcpus), cpus)
            self._check_pins(domain.name, new, domain.pins)
            domain.pins.update(new)
        domain.vcpus = max(domain.vcpus, vcpus)
        domain.leaving = None
        self._on_tuned(key)
        return Plugged(PlugOutcome.DONE, domain.vcpus)

    async def unplug(self, key: DomainKey, vcpus: int) -> Plugged:
        """Done at once without a latency; else late: what was asked for is gone when that is over."""
        domain = await self._domain("unplug", key)
        if not domain.accelerated:
            raise NotSupported(f"domain {domain.name}: no vCPU is unplugged without KVM, where that never ends")
        if key in self.refusing or domain.vcpus <= domain.boot_vcpus:
            return Plugged(PlugOutcome.REFUSED, domain.vcpus, "the guest lets go of no vCPU")
        left = max(vcpus, domain.boot_vcpus)
        domain.leaving = (self._clock() + self.latencies.unplug_s, left)
        self._count()
        if domain.vcpus > left:
            return Plugged(PlugOutcome.LATE, domain.vcpus, "the guest has not let go yet")
        return Plugged(PlugOutcome.DONE if left == vcpus else PlugOutcome.PARTIAL, domain.vcpus)

    async def suspend(self, key: DomainKey) -> bool:
        """Its vCPUs stop. False: it did not run."""
        domain = await self._domain("suspend", key)
        if domain.state is not RunState.RUNNING:
            return False
        self.set_state(key, RunState.PAUSED)
        return True

    async def resume(self, key: DomainKey) -> bool:
        """A paused domain runs again; every pause here counts as one by request."""
        domain = await self._domain("resume", key)
        if domain.state is RunState.PAUSED:
            self.set_state(key, RunState.RUNNING)
        return domain.state is RunState.RUNNING

    # How it comes about.

    async def _called(self, call: str, key: DomainKey | None) -> None:
        if self.latencies.call_s > 0:
            await self._sleep(self.latencies.call_s)
        self.fault(call, key)

    async def _domain(self, call: str, key: DomainKey) -> SimulatedDomain:
        await self._called(call, key)
        return self._running(key)

    def _running(self, key: DomainKey) -> SimulatedDomain:
        self._count()
        domain = self.domains.get(key)
        if domain is None:
            raise DomainGone("that run of the domain has ended")
        return domain

    def _check_pins(self, name: str, pins: Mapping[int, frozenset[int]], known: Mapping[int, frozenset[int]]) -> None:
        for number, cpus in pins.items():
            if not cpus or not cpus <= self.cpus.node_of.keys():
                raise ValueError(f"no such pin: CPUs {sorted(cpus)} on a host with {len(self.cpus.node_of)}")
            if number not in known:
                raise HypervisorError(f"domain {name}: has no {number} to pin")
            if not cpus & self.cpus.online:
                raise HypervisorError(f"domain {name}: none of CPUs {sorted(cpus)} is online")

    def _count(self) -> None:
        """Books the time up to now at the rates that held, and unplugs what has let go meanwhile."""
        now_s = self._clock()
        for due_s, domain, left in sorted(
            ((domain.leaving[0], domain, domain.leaving[1]) for domain in self.domains.values() if domain.leaving),
            key=lambda one: (one[0], one[1].name),
        ):
            if due_s <= now_s:
                self._book(due_s)
                domain.vcpus, domain.leaving = min(domain.vcpus, left), None
                self._rates = None
        self._book(now_s)

    def _changes(self) -> None:
        """What came before is booked; from here on other rates hold."""
        self._count()
        self._rates = None

    def _book(self, until_s: float) -> None:
        passed_s = max(0.0, until_s - self._counted_s)
        self._counted_s = max(self._counted_s, until_s)
        if passed_s == 0.0:
            return
        for key, rates in self.rates().items():
            times = self.domains[key].vcpu_time_s
            for vcpu, rate in rates.items():
                times[vcpu] = times.get(vcpu, 0.0) + rate * passed_s

    def _handed_out(self) -> dict[DomainKey, dict[int, float]]:
        crowds: list[_Crowd] = []
        for domain in self.domains.values():
            if domain.state is RunState.RUNNING:
                crowds += _crowds(domain)
        _balance(crowds, _areas(crowds, self.cpus.online))
        rates: dict[DomainKey, dict[int, float]] = {key: {} for key in self.domains}
        for crowd in crowds:
            total = sum(crowd.wanted.values())
            got = sum(crowd.got)
            rates[crowd.key].update({vcpu: got * wanted / total for vcpu, wanted in crowd.wanted.items()})
        return rates


@dataclass(slots=True, eq=False)
class _Crowd:
    """vCPUs of one domain that may run on the same pCPUs. parts: what they want of each of these areas; got of it."""

    key: DomainKey
    weight: float
    pins: frozenset[int]
    wanted: dict[int, float]
    parts: dict[int, float] = field(default_factory=dict)
    got: list[float] = field(default_factory=list)


def _crowds(domain: SimulatedDomain) -> list[_Crowd]:
    crowds: dict[frozenset[int], _Crowd] = {}
    for vcpu in range(domain.vcpus):
        wanted, pins = min(1.0, domain.wanted.get(vcpu, 0.0)), domain.pins[vcpu]
        if wanted > LEAST:
            weight = float(domain.cpu_shares or DEFAULT_SHARES)
            crowds.setdefault(pins, _Crowd(domain.key, weight, pins, {})).wanted[vcpu] = wanted
    return list(crowds.values())


def _areas(crowds: list[_Crowd], online: frozenset[int]) -> list[int]:
    """How many pCPUs there are in each area: those that the same crowds may run on. Sets the crowds' parts, evenly."""
    numbers = {pins: number for number, pins in enumerate(dict.fromkeys(crowd.pins for crowd in crowds))}
    users: dict[int, list[int]] = {}
    for pins, number in numbers.items():
        for cpu in pins & online:
            users.setdefault(cpu, []).append(number)
    sizes: dict[tuple[int, ...], int] = {}
    for those in users.values():
        sizes[tuple(those)] = sizes.get(tuple(those), 0) + 1
    areas: dict[int, list[tuple[int, int]]] = {number: [] for number in numbers.values()}
    for area, (who, size) in enumerate(sorted(sizes.items())):
        for number in who:
            areas[number].append((area, size))
    for crowd in crowds:
        mine = areas[numbers[crowd.pins]]
        each = sum(crowd.wanted.values()) / max(1, sum(size for _, size in mine))
        crowd.parts = {area: each * size for area, size in mine}
    return [size for _, size in sorted(sizes.items())]


def _balance(crowds: list[_Crowd], sizes: list[int]) -> None:
    """Lets crowds move to where less is wanted, and then shares each area among those that want parts of it."""
    floating = [crowd for crowd in crowds if len(crowd.parts) > 1]
    for _ in range(ROUNDS if floating else 0):
        load = [0.0] * len(sizes)
        for crowd in crowds:
            for area, part in crowd.parts.items():
                load[area] += part / sizes[area]
        for crowd in floating:
            lighter = {area: part / load[area] for area, part in crowd.parts.items() if part > LEAST / 1e6}
            scale = sum(crowd.parts.values()) / sum(lighter.values())
            crowd.parts = {area: part * scale for area, part in lighter.items()}
    wishes: list[list[tuple[_Crowd, float]]] = [[] for _ in sizes]
    for crowd in crowds:
        for area, part in crowd.parts.items():
            wishes[area].append((crowd, part))
    for area, size in enumerate(sizes):
        _share(wishes[area], float(size))


def _share(wishes: list[tuple[_Crowd, float]], spare: float) -> None:
    """One area among those that want parts of it: by their weights, and no more than anybody wants."""
    while wishes:
        unit = spare / sum(crowd.weight * part for crowd, part in wishes)
        content = [(crowd, part) for crowd, part in wishes if unit * crowd.weight >= 1.0]
        for crowd, part in content or wishes:
            crowd.got.append(part if content else unit * crowd.weight * part)
        if not content:
            return
        spare = max(0.0, spare - sum(part for _, part in content))
        wishes = [(crowd, part) for crowd, part in wishes if unit * crowd.weight < 1.0]
