"""A libvirt connection: what domains do, and the levers of DESIGN section 7 on them.

Calls block in worker threads, never in the loop, and are given up after a timeout. Errors are told apart by libvirt's
codes. A connection that broke is opened anew at the next call.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from xml.etree import ElementTree

import libvirt

from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable, NotSupported
from vscaf.hypervisor.capabilities import parse_capabilities
from vscaf.hypervisor.events import register_events
from vscaf.hypervisor.values import DomainKey, DomainSeen, DomainSettings, HostCpus, RunState

log = logging.getLogger(__name__)
T = TypeVar("T")

AGENT_PORT = "org.vscaf.agent.0"
KEEPALIVE_INTERVAL_S = 5
WORKERS = 8

_GONE = {libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID}
_NOT_SUPPORTED = {
    libvirt.VIR_ERR_NO_SUPPORT,
    libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
    libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
}
_UNREACHABLE = {
    libvirt.VIR_ERR_NO_CONNECT,
    libvirt.VIR_ERR_INVALID_CONN,
    libvirt.VIR_ERR_RPC,
    libvirt.VIR_ERR_SYSTEM_ERROR,
    libvirt.VIR_ERR_AUTH_FAILED,
    libvirt.VIR_ERR_AUTH_CANCELLED,
    libvirt.VIR_ERR_AUTH_UNAVAILABLE,
    libvirt.VIR_ERR_NO_SERVER,
}


def _quiet(_context: object, _error: object) -> None:
    """libvirt prints every error to stderr by default; each is raised as an exception anyway."""


libvirt.registerErrorHandler(_quiet, None)


class LibvirtHost:
    """The host at *uri*. `on_change` is called on the loop when a domain starts, stops or changes its state."""

    def __init__(
        self,
        uri: str,
        call_timeout_s: float,
        on_change: Callable[[], None] = lambda: None,
        on_tuned: Callable[[DomainKey], None] = lambda key: None,
    ) -> None:
        self.uri = uri
        self._call_timeout_s = call_timeout_s
        self._on_change = on_change
        self._on_tuned = on_tuned
        self._connection: Any = None
        self._tells = False
        self._connecting = threading.Lock()  # two workers that find the connection broken open one new one
        self._domains: dict[DomainKey, Any] = {}
        self._sockets: dict[DomainKey, tuple[bool, str | None]] = {}
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="libvirt")

    @property
    def tells_of_tuning(self) -> bool:
        """Whether on_tuned is called for every change of pins, weight and vCPUs: QEMU's driver does that."""
        return self._tells

    async def open(self) -> None:
        """Connects. HypervisorUnreachable where that fails."""
        register_events()
        await self._call(self._connected)

    async def close(self) -> None:
        """Ends the connection and the workers. Harmless when called twice."""
        connection, self._connection = self._connection, None
        self._domains.clear()
        if connection is not None:
            try:
                connection.close()
            except libvirt.libvirtError as error:
                log.debug("closing the libvirt connection: %s", error)
        self._pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.sleep(0)  # lets libvirt's free callbacks run before the loop ends

    async def host_cpus(self) -> HostCpus:
        """The host's CPUs, from its capabilities and its online map."""

        def read() -> HostCpus:
            connection = self._connected()
            _count, online_map, _online = connection.getCPUMap()
            online = frozenset(cpu for cpu, is_online in enumerate(online_map) if is_online)
            return parse_capabilities(connection.getCapabilities(), online)

        return await self._call(read)

    async def defined(self, name: str) -> bool:
        """Whether there is a domain of that name, running or not."""

        def look() -> bool:
            try:
                self._connected().lookupByName(name)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return False
                raise
            return True

        return await self._call(look)

    async def observe(self) -> tuple[DomainSeen, ...]:
        """All active domains. Any error means that the state of *all* is unknown."""

        def look() -> tuple[DomainSeen, ...]:
            connection = self._connected()
            flags = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
            statistics = libvirt.VIR_DOMAIN_STATS_STATE | libvirt.VIR_DOMAIN_STATS_VCPU
            try:
                rows = connection.getAllDomainStats(statistics, flags)
            except libvirt.libvirtError as error:
                if error.get_error_code() not in _NOT_SUPPORTED | {libvirt.VIR_ERR_INVALID_ARG}:
                    raise
                rows = connection.getAllDomainStats(statistics, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE)
            seen: dict[DomainKey, Any] = {}
            result = []
            for domain, fields in rows:
                if domain.ID() < 0:
                    continue
                key = DomainKey(domain.UUIDString(), domain.ID())
                seen[key] = domain
                result.append(self._seen(key, domain, fields))
            self._domains = seen
            self._sockets = {key: value for key, value in self._sockets.items() if key in seen}
            return tuple(sorted(result, key=lambda one: one.name))

        return await self._call(look)

    def _seen(self, key: DomainKey, domain: Any, fields: Mapping[str, Any]) -> DomainSeen:
        if key not in self._sockets:
            description = ElementTree.fromstring(domain.XMLDesc())
            self._sockets[key] = (description.get("type") != "qemu", _agent_socket(description))
        accelerated, agent_socket = self._sockets[key]
        if "vcpu.current" not in fields:  # a driver without vCPU statistics: the domain's time stands for them
            live = libvirt.VIR_DOMAIN_AFFECT_LIVE
            fields = {
                **fields,
                "vcpu.current": domain.vcpusFlags(live),
                "vcpu.maximum": domain.vcpusFlags(live | libvirt.VIR_DOMAIN_VCPU_MAXIMUM),
                "vcpu.0.time": domain.info()[4],
            }
        return DomainSeen(
            key=key,
            name=domain.name(),
            accelerated=accelerated,
            state=RunState.RUNNING if fields.get("state.state") == libvirt.VIR_DOMAIN_RUNNING else RunState.PAUSED,
            vcpus=int(fields["vcpu.current"]),
            vcpus_maximum=int(fields["vcpu.maximum"]),
            vcpu_time_s={
                int(name.split(".")[1]): value / 1e9
                for name, value in fields.items()
                if name.startswith("vcpu.") and name.endswith(".time")
            },
            agent_socket=agent_socket,
        )

    async def settings(self, key: DomainKey) -> DomainSettings:
        """Everything that vscaf may change of the domain, as it is now."""

        def read() -> DomainSettings:
            domain = self._domain(key)
            live = libvirt.VIR_DOMAIN_AFFECT_LIVE
            return DomainSettings(
                vcpus=domain.vcpusFlags(live),
                vcpu_pins={number: _mask_cpus(mask) for number, mask in enumerate(domain.vcpuPinInfo(live))},
                emulator_pin=_mask_cpus(domain.emulatorPinInfo(live)),
                cpu_shares=_cpu_shares(domain),
            )

        return await self._call(read)

    async def pin_vcpus(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each vCPU run on its pCPUs alone. ValueError for an empty set, which libvirt's drivers may accept."""

        def pin() -> None:
            domain = self._domain(key)
            width = self._connected().getCPUMap()[0]
            for vcpu, cpus in pins.items():
                domain.pinVcpu(vcpu, _cpus_mask(cpus, width))

        await self._call(pin)

    async def pin_emulator(self, key: DomainKey, cpus: frozenset[int]) -> None:
        """Lets the emulator's own threads run on *cpus* alone."""

        def pin() -> None:
            mask = _cpus_mask(cpus, self._connected().getCPUMap()[0])
            self._domain(key).pinEmulator(mask, libvirt.VIR_DOMAIN_AFFECT_LIVE)

        await self._call(pin)

    async def set_cpu_shares(self, key: DomainKey, shares: int) -> None:
        """Sets the domain's cgroup CPU weight. NotSupported where there is no cgroup CPU controller."""

        def set_shares() -> None:
            self._domain(key).setSchedulerParametersFlags({"cpu_shares": shares}, libvirt.VIR_DOMAIN_AFFECT_LIVE)

        try:
            await self._call(set_shares)
        except DomainGone as error:
            if await self._active(key):  # the same code says "no CPU controller" of a domain that runs
                raise NotSupported(str(error)) from error
            raise

    async def pin_iothreads(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each I/O thread, by its id, run on its pCPUs alone."""

        def pin() -> None:
            domain = self._domain(key)
            width = self._connected().getCPUMap()[0]
            for iothread, cpus in pins.items():
                domain.pinIOThread(iothread, _cpus_mask(cpus, width), libvirt.VIR_DOMAIN_AFFECT_LIVE)

        await self._call(pin)

    async def plug(self, key: DomainKey, vcpus: int) -> None:
        """Plugs vCPUs of the running domain until *vcpus* are there."""
        await self._set_vcpus(key, vcpus)

    async def unplug(self, key: DomainKey, vcpus: int) -> None:
        """Unplugs vCPUs of the running domain until *vcpus* are there. It may end later, in part, or never."""
        await self._set_vcpus(key, vcpus)

    async def _set_vcpus(self, key: DomainKey, vcpus: int) -> None:
        def plug() -> None:
            self._domain(key).setVcpusFlags(vcpus, libvirt.VIR_DOMAIN_AFFECT_LIVE)

        try:
            await self._call(plug)
        except DomainGone as error:
            if await self._active(key):
                raise HypervisorError(str(error)) from error
            raise

    async def _active(self, key: DomainKey) -> bool:
        try:
            return bool(await self._call(lambda: self._domain(key).isActive()))
        except DomainGone:
            return False

    def _domain(self, key: DomainKey) -> Any:
        domain = self._domains.get(key)
        if domain is None:
            domain = self._connected().lookupByUUIDString(key.uuid)
            if domain.ID() != key.run_id:
                raise DomainGone(f"domain {domain.name()}: was restarted since it was looked at")
            self._domains[key] = domain
        return domain

    def _connected(self) -> Any:
        with self._connecting:
            if self._connection is None or not self._connection.isAlive():
                self._domains.clear()
                self._connection = self._opened()
            return self._connection

    def _opened(self) -> Any:
        connection = libvirt.open(self.uri)
        try:
            connection.setKeepAlive(KEEPALIVE_INTERVAL_S, 3)
        except libvirt.libvirtError as error:
            if error.get_error_code() not in _NOT_SUPPORTED:  # drivers inside this process have no peer to probe
                raise
        connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._lifecycle_event, None)
        self._tells = False
        return connection

    def _lifecycle_event(self, *_details: object) -> None:
        self._on_change()

    async def _call(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await loop.run_in_executor(self._pool, work)
        except TimeoutError as error:
            raise HypervisorUnreachable(
                f"libvirt at {self.uri} did not answer within {self._call_timeout_s:g} s: look at libvirtd's log"
            ) from error
        except libvirt.libvirtError as error:
            raise self._translated(error) from error

    def _translated(self, error: libvirt.libvirtError) -> HypervisorError:
        code, words = error.get_error_code(), error.get_error_message() or str(error)
        if code in _GONE:
            return DomainGone(words)
        if code in _NOT_SUPPORTED:
            return NotSupported(words)
        if code in _UNREACHABLE or self._connection is None or not self._connection.isAlive():
            return HypervisorUnreachable(f"libvirt at {self.uri}: {words}: is libvirtd running, and may you use it?")
        return HypervisorError(words)


def _agent_socket(description: ElementTree.Element) -> str | None:
    for channel in description.iterfind("./devices/channel"):
        target, source = channel.find("target"), channel.find("source")
        if target is not None and target.get("name") == AGENT_PORT and channel.get("type") == "unix":
            return source.get("path") if source is not None else None
    return None


def _cpu_shares(domain: Any) -> int | None:
    try:
        return int(domain.schedulerParametersFlags(libvirt.VIR_DOMAIN_AFFECT_LIVE)["cpu_shares"])
    except KeyError:
        return None
    except libvirt.libvirtError as error:
        refusals = _NOT_SUPPORTED | {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_INVALID_ARG}
        if error.get_error_code() in refusals and domain.isActive():
            return None
        raise


def _mask_cpus(mask: Iterable[bool]) -> frozenset[int]:
    return frozenset(cpu for cpu, allowed in enumerate(mask) if allowed)


def _cpus_mask(cpus: frozenset[int], width: int) -> tuple[bool, ...]:
    if not cpus or max(cpus) >= width:
        raise ValueError(f"no such pin: CPUs {sorted(cpus)} on a host with {width}")
    return tuple(cpu in cpus for cpu in range(width))
