"""A simulated host: domains, vCPUs, pins, weights, and the CPU time that results, under any clock.

Deterministic: what it answers follows from what it was told and from the clock it was given. It has the levers of a
real host (`interface.Hypervisor`), and methods for what a machine does by itself: domains start, end, pause, compute.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from uuid import NAMESPACE_DNS, uuid5

from vscaf.errors import DomainGone, HypervisorError, NotSupported
from vscaf.simulate.engine.cpu_time import LEAST_CPUS, CpuTime, Group
from vscaf.simulate.engine.virtual_time import RESOLUTION_S
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

MOST_CHECKED = 8192
"""Sets of pins that are remembered as correct."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds that things take: any call, a plug, and an unplug, which the guest may also never complete (inf)."""

    call_s: float = 0.0
    plug_s: float = 0.0
    unplug_s: float = 0.0


@dataclass(slots=True, eq=False)
class SimulatedDomain:
    """A run of a domain. wanted: CPUs that each vCPU would use if it could, 0 to 1; absent: none."""

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
    """Seconds that each vCPU has computed, as of the last change that concerns the domain or the last `observe`."""


class SimulatedHost:
    """A host with *cpus*. on_change and on_tuned are called as LibvirtHost calls them, and may be set later.

    on_rates: called for each domain that a change concerns, after the change and before any time passes: its pins, its
    vCPUs, its state or its CPU time may be other than before. It needs a running event loop.

    clock: seconds that never go back. sleep: how to wait. fault: is called with the name of each call and the domain's
    key (None: the call is about the host) before anything happens, and may raise what a host would. refusing: domains
    whose guests release no vCPU.
    """

    def __init__(
        self,
        cpus: HostCpus,
        on_change: Callable[[], None] = lambda: None,
        on_tuned: Callable[[DomainKey], None] = lambda key: None,
        *,
        on_rates: Callable[[DomainKey], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        latencies: Latencies = Latencies(),
    ) -> None:
        self.cpus = cpus
        self.on_change = on_change
        self.on_tuned = on_tuned
        self.latencies = latencies
        self.fault: Callable[[str, DomainKey | None], None] = lambda call, key: None
        self.refusing: set[DomainKey] = set()
        self.domains: dict[DomainKey, SimulatedDomain] = {}
        self._on_rates = on_rates
        self._clock = clock
        self._sleep = sleep
        self._runs = 0
        self._names: set[str] = set()
        self._cpu_time = CpuTime(cpus.online)
        self._changed: dict[DomainKey, None] = {}
        self._changed_s = 0.0  # when those have changed
        self._settling = False
        self._unplugs: dict[DomainKey, tuple[float, int]] = {}  # when one completes, and the vCPUs that are left then
        self._checked: set[frozenset[int]] = set()

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
        self._runs += 1
        key = DomainKey(str(uuid5(NAMESPACE_DNS, name)), self._runs)
        everywhere = frozenset(self.cpus.online)
        most = vcpus if vcpus_maximum is None else vcpus_maximum
        self._change(key)
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
            vcpu_time_s=self._cpu_time.add(key, self._clock()),
        )
        self._names.add(name)
        self.on_change()
        return key

    def end(self, key: DomainKey) -> None:
        """The domain ends; it stays defined."""
        self._change(key)
        del self.domains[key]
        self._unplugs.pop(key, None)
        self.on_change()

    def set_state(self, key: DomainKey, state: RunState) -> None:
        """The domain pauses, goes on, crashes."""
        self._change(key)
        self.domains[key].state = state
        self.on_change()

    def compute(self, key: DomainKey, wanted: Mapping[int, float]) -> None:
        """From here on each vCPU would use so much of a CPU; those of the domain that are not named, none."""
        self._change(key)
        self.domains[key].wanted = dict(wanted)

    def set_online(self, online: frozenset[int]) -> None:
        """pCPUs of the host go online or offline."""
        self._settle_changes()
        self._change(*self.domains)
        self._cpu_time.set_online(online)
        self._checked.clear()
        cores = tuple(core & online for core in self.cpus.cores if core & online)
        self.cpus = HostCpus(online, cores, self.cpus.node_of, self.cpus.sockets, self.cpus.caches, self.cpus.distances)

    def rates(self, key: DomainKey) -> Mapping[int, float]:
        """CPUs that each vCPU of the domain uses, as of the last `settle`."""
        return self._cpu_time.rates(key)

    def load_cpus(self, key: DomainKey) -> float:
        """CPUs in use by all domains that may run exactly where this one may, as of the last `settle`."""
        return self._cpu_time.load_cpus(key)

    def neighbours(self, key: DomainKey) -> frozenset[DomainKey]:
        """Other domains that want CPU time on a pCPU on which this one wants some, as of the last `settle`."""
        return self._cpu_time.neighbours(key)

    def settle(self) -> None:
        """Works out what the changes so far mean for CPU time."""
        self._settling = False
        self._complete_unplugs()
        self._settle_changes()

    # What the daemon asks.

    @property
    def reports_tuning(self) -> bool:
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
        self.settle()
        self._cpu_time.account(self.domains, self._clock())
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
            online=self.cpus.online,
        )

    async def pin_vcpus(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """All of *pins*, or none where one is bad."""
        domain = await self._domain("pin_vcpus", key)
        self._check_pins(domain.name, pins, domain.pins)
        self._change(key)
        domain.pins.update(pins)
        self.on_tuned(key)

    async def pin_emulator(self, key: DomainKey, cpus: frozenset[int]) -> None:
        """Where the emulator's threads may run; they use no CPU time here."""
        domain = await self._domain("pin_emulator", key)
        self._check_pins(domain.name, {0: cpus}, {0: cpus})
        domain.emulator_pin = cpus
        self.on_tuned(key)

    async def pin_iothreads(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Where the I/O threads may run; they use no CPU time here."""
        domain = await self._domain("pin_iothreads", key)
        self._check_pins(domain.name, pins, domain.iothread_pins)
        domain.iothread_pins.update(pins)
        self.on_tuned(key)

    async def set_cpu_shares(self, key: DomainKey, shares: int) -> None:
        """The domain's weight where vCPUs want more than there is."""
        domain = await self._domain("set_cpu_shares", key)
        if domain.cpu_shares is None:
            raise NotSupported(f"domain {domain.name}: no CPU controller on this host")
        self._change(key)
        domain.cpu_shares = shares
        self.on_tuned(key)

    async def plug(self, key: DomainKey, vcpus: int, cpus: frozenset[int] | None = None) -> Plugged:
        """Done once its latency is over; the guest has the new vCPUs online then."""
        domain = await self._domain("plug", key)
        if vcpus > domain.vcpus_maximum:
            raise NotSupported(f"domain {domain.name}: {vcpus} vCPUs are more than its maximum {domain.vcpus_maximum}")
        if self.latencies.plug_s > 0:
            await self._sleep(self.latencies.plug_s)
            domain = self._running(key)
        self._change(key)
        if cpus is not None:
            new = dict.fromkeys(range(domain.vcpus, vcpus), cpus)
            self._check_pins(domain.name, new, domain.pins)
            domain.pins.update(new)
        domain.vcpus = max(domain.vcpus, vcpus)
        self._unplugs.pop(key, None)
        self.on_tuned(key)
        return Plugged(PlugOutcome.DONE, domain.vcpus)

    async def unplug(self, key: DomainKey, vcpus: int) -> Plugged:
        """Done at once without a latency; else late: what was asked for is gone when that is over."""
        domain = await self._domain("unplug", key)
        if not domain.accelerated:
            raise NotSupported(f"domain {domain.name}: no vCPU is unplugged without KVM, where that never ends")
        if key in self.refusing or domain.vcpus <= domain.boot_vcpus:
            return Plugged(PlugOutcome.REFUSED, domain.vcpus, "the guest releases no vCPU")
        left = max(vcpus, domain.boot_vcpus)
        self._change(key)
        self._unplug_later(key, left)
        if domain.vcpus > left:
            return Plugged(PlugOutcome.LATE, domain.vcpus, "the guest has not released it yet")
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

    # What follows from a change.

    def _change(self, *keys: DomainKey) -> None:
        """To be called before domains change: what has changed before counts up to now."""
        self._complete_unplugs()
        self._change_at(self._clock(), *keys)

    def _change_at(self, at_s: float, *keys: DomainKey) -> None:
        if self._changed_s < at_s:
            self._settle_changes()
        self._changed_s = at_s
        self._changed.update(dict.fromkeys(keys))
        if self._on_rates is not None and not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self.settle)

    def _settle_changes(self) -> None:
        if not self._changed:
            return
        groups = {key: cpu_time_groups(self.domains[key]) if key in self.domains else None for key in self._changed}
        self._changed.clear()
        concerned = self._cpu_time.change(groups, self._changed_s)
        if self._on_rates is not None:
            for key in concerned:
                self._on_rates(key)

    def _unplug_later(self, key: DomainKey, left: int) -> None:
        due_s = self._clock() + self.latencies.unplug_s
        self._unplugs[key] = (due_s, left)
        self._complete_unplugs()
        if self._on_rates is not None and key in self._unplugs and due_s < math.inf:
            asyncio.get_running_loop().call_at(due_s, self.settle)

    def _complete_unplugs(self) -> None:
        """In the order in which they are due, each at its own time, however late somebody looks."""
        if not self._unplugs:
            return
        now_s = self._clock()
        for key, (due_s, left) in sorted(self._unplugs.items(), key=lambda one: (one[1], one[0])):
            if due_s <= now_s + RESOLUTION_S:
                del self._unplugs[key]
                self._change_at(min(due_s, now_s), key)
                self.domains[key].vcpus = min(self.domains[key].vcpus, left)

    async def _called(self, call: str, key: DomainKey | None) -> None:
        if self.latencies.call_s > 0:
            await self._sleep(self.latencies.call_s)
        self.fault(call, key)

    async def _domain(self, call: str, key: DomainKey) -> SimulatedDomain:
        await self._called(call, key)
        return self._running(key)

    def _running(self, key: DomainKey) -> SimulatedDomain:
        self._complete_unplugs()
        domain = self.domains.get(key)
        if domain is None:
            raise DomainGone("that run of the domain has ended")
        return domain

    def _check_pins(self, name: str, pins: Mapping[int, frozenset[int]], known: Mapping[int, frozenset[int]]) -> None:
        for number, cpus in pins.items():
            if number in known and cpus in self._checked:
                continue
            if not cpus or not cpus <= self.cpus.node_of.keys():
                raise ValueError(f"no such pin: CPUs {sorted(cpus)} on a host with {len(self.cpus.node_of)}")
            if number not in known:
                raise HypervisorError(f"domain {name}: has no {number} to pin")
            if not cpus & self.cpus.online:
                raise HypervisorError(f"domain {name}: none of CPUs {sorted(cpus)} is online")
            if len(self._checked) > MOST_CHECKED:
                self._checked.clear()
            self._checked.add(cpus)


def cpu_time_groups(domain: SimulatedDomain) -> list[Group]:
    """What the domain wants, as `CpuTime` takes it. Empty: it does not run, or wants nothing."""
    groups: dict[frozenset[int], Group] = {}
    if domain.state is not RunState.RUNNING:
        return []
    weight = float(domain.cpu_shares or DEFAULT_SHARES)
    for vcpu in range(domain.vcpus):
        wanted, pins = min(1.0, domain.wanted.get(vcpu, 0.0)), domain.pins[vcpu]
        if wanted > LEAST_CPUS:
            groups.setdefault(pins, Group(pins, weight, {})).wanted[vcpu] = wanted
    return list(groups.values())
