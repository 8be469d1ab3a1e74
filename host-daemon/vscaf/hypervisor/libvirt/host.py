"""The host through libvirt. No libvirt call blocks the loop's thread, and a domain that hangs does not delay others."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import libvirt

from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable, NotSupported
from vscaf.hypervisor.libvirt.calls import Call, GivenUp, Line, start
from vscaf.hypervisor.libvirt.capabilities import parse_capabilities
from vscaf.hypervisor.libvirt.connection import Connections
from vscaf.hypervisor.libvirt.descriptions import Descriptions
from vscaf.hypervisor.libvirt.domain_events import register_domain_events
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.hypervisor.libvirt.events import start_events
from vscaf.hypervisor.libvirt.jobs import blocking_ms
from vscaf.hypervisor.libvirt.listing import LIVE, Row, list_domains
from vscaf.hypervisor.libvirt.masks import cpus_mask, mask_cpus
from vscaf.hypervisor.libvirt.pinning import set_pins
from vscaf.hypervisor.libvirt.plugging import MonitorSlots, plug_vcpus, unplug_vcpus
from vscaf.hypervisor.libvirt.probe import refuse_unable_to_pin, refuse_unusable
from vscaf.hypervisor.libvirt.run_starts import RunStarts
from vscaf.hypervisor.libvirt.settings import read_settings
from vscaf.hypervisor.libvirt.suspending import resume_domain, suspend_domain
from vscaf.values import DomainKey, DomainSeen, DomainSettings, HostCpus, Plugged

log = logging.getLogger(__name__)
T = TypeVar("T")

LISTING_PATIENCE_S = 0.5  # after this the domains are listed without asking any QEMU
DESCRIPTION_PATIENCE_S = 0.5  # after this a domain is returned without the data of its description
NOT_DESCRIBED = "the domain's description could not be read yet"
LISTINGS = 2  # listings of each kind under way at once
PLUG_TIMEOUT_S = 30.0  # libvirt waits 5 s for each vCPU that the guest should release


class LibvirtHost:
    """The host at *uri*. Errors are those of `vscaf.errors`, and their messages name the domain.

    `on_change` is called on the loop when a domain starts, stops, or changes its state or its description. `on_tuned`
    is called when pins, weight or vCPU count of a domain were changed, by vscaf or by others, and when a call to the
    domain returned that had been given up. Calls to one domain never overlap. While one is stuck, others fail at once.
    """

    def __init__(
        self,
        uri: str,
        call_timeout_s: float,
        on_change: Callable[[], None] = lambda: None,
        on_tuned: Callable[[DomainKey], None] = lambda key: None,
        *,
        opener: Callable[[str], Any] = libvirt.open,
    ) -> None:
        self.uri = uri
        self._call_timeout_s = call_timeout_s
        self._on_change = on_change
        self._on_tuned = on_tuned
        self._connections = Connections(uri, opener, self._register)
        self._descriptions = Descriptions()
        self._run_starts = RunStarts(uri)
        self._names: dict[DomainKey, str] = {}
        self._plugged: dict[DomainKey, frozenset[int]] = {}
        self._lines: dict[DomainKey, Line] = {}
        self._host_line = Line("the host", lambda: None)
        self._listings: dict[bool, list[asyncio.Future[tuple[Row, ...]]]] = {True: [], False: []}
        self._reading: dict[DomainKey, asyncio.Task[None]] = {}
        self._capabilities: tuple[frozenset[int], HostCpus] | None = None
        self._slots = MonitorSlots()
        self._reports_tuning = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Connects. HypervisorUnreachable if that fails; UsageError if the connection cannot do what vscaf needs."""
        start_events()
        self._loop = asyncio.get_running_loop()
        await self._on_host("connect", lambda connection: None)
        await self._on_host("try what may be done", lambda connection: refuse_unusable(connection, self.uri))
        try:  # in a line of its own: it must not delay other calls if it hangs
            line = Line("the host", lambda: None)
            await self._on_host("try to pin", lambda one: refuse_unable_to_pin(one, self.uri), line)
        except HypervisorUnreachable as error:  # the domain hangs, or libvirt has begun a job on it just now
            log.info("not tried whether vCPUs may be pinned: %s", error)

    async def close(self) -> None:
        """Ends the connections. Harmless when called twice."""
        for task in self._reading.values():
            task.cancel()
        self._connections.close()

    async def host_cpus(self) -> HostCpus:
        """The host's pCPUs. The capabilities are read again only if a pCPU went online or offline."""

        def read(connection: Any) -> HostCpus:
            _count, online_map, _online = connection.getCPUMap()
            online = mask_cpus(online_map)
            known = self._capabilities
            if known is None or known[0] != online:
                known = self._capabilities = (online, parse_capabilities(connection.getCapabilities(), online))
            return known[1]

        return await self._on_host("read the host's CPUs", read)

    async def defined(self, name: str) -> bool:
        """Whether there is a domain of that name, running or not."""

        def look(connection: Any) -> bool:
            try:
                connection.lookupByName(name)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return False
                raise
            return True

        return await self._on_host("look up a domain", look)

    async def observe(self) -> tuple[DomainSeen, ...]:
        """All active domains, by name. Any error means that the state of *all* is unknown.

        A domain that hangs does not delay the others. It is returned with the data that is known. A domain whose
        description could not be read yet is returned without agent, KVM and rules of its own, with a `rules_error`,
        as not `described`.
        """
        rows = await self._list()
        self._names = {row.key: row.name for row in rows}
        before, self._plugged = self._plugged, {row.key: row.plugged for row in rows}
        for key, plugged in self._plugged.items():  # libvirt has no event for a plug
            if before.get(key, plugged) != plugged:
                self._on_tuned(key)
        self._descriptions.keep(self._names)
        for key in [key for key, line in self._lines.items() if key not in self._names and not line.stuck]:
            del self._lines[key]
        await self._describe(rows)
        return tuple(self._seen(row) for row in rows)

    async def settings(self, key: DomainKey) -> DomainSettings:
        """The present values of all settings that vscaf may change. Does not ask QEMU, so it works if QEMU hangs."""

        return await self._on_domain(key, "read its settings", lambda domain, _call: read_settings(domain))

    async def pin_vcpus(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each vCPU run only on its pCPUs. ValueError for an empty set, which libvirt's drivers may accept.

        QEMU's driver also accepts pins of vCPUs that are not plugged. They take effect at the moment of the plug.
        """
        await self._pin(key, "pin vCPUs", pins, lambda domain, vcpu, mask: domain.pinVcpu(vcpu, mask))

    async def pin_emulator(self, key: DomainKey, cpus: frozenset[int]) -> None:
        """Lets the emulator's own threads run only on *cpus*. ValueError for an empty set."""
        await self._pin(key, "pin the emulator", {0: cpus}, lambda domain, _all, mask: domain.pinEmulator(mask, LIVE))

    async def pin_iothreads(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each I/O thread, by its id, run only on its pCPUs. ValueError for an empty set."""
        await self._pin(key, "pin I/O threads", pins, lambda domain, one, mask: domain.pinIOThread(one, mask, LIVE))

    async def set_cpu_shares(self, key: DomainKey, shares: int) -> None:
        """Sets the domain's cgroup CPU weight. NotSupported if there is no cgroup CPU controller."""

        def set_shares(domain: Any, call: Call) -> None:
            call.proceed()
            domain.setSchedulerParametersFlags({"cpu_shares": shares}, LIVE)

        await self._on_domain(key, "set its weight", set_shares, acts=True, invalid=NotSupported)

    async def plug(self, key: DomainKey, vcpus: int, cpus: frozenset[int] | None = None) -> Plugged:
        """Plugs vCPUs of the running domain until *vcpus* are plugged. The returned number was read afterwards.

        `cpus`: where the new ones may run from the start. NotSupported above the domain's maximum.
        """

        def plug(domain: Any, call: Call) -> Plugged:
            width = domain.connect().getCPUMap()[0]
            with self._slots:
                return plug_vcpus(domain, call, vcpus, None if cpus is None else cpus_mask(cpus, width))

        return await self._on_domain(key, "plug vCPUs", plug, acts=True, timeout_s=PLUG_TIMEOUT_S)

    async def unplug(self, key: DomainKey, vcpus: int) -> Plugged:
        """Asks the guest to release vCPUs until *vcpus* are left. The returned number was read afterwards.

        Late, partial and refused are normal outcomes. NotSupported under TCG, where an unplug never completes.
        """

        def unplug(domain: Any, call: Call) -> Plugged:
            if not parse_description(domain.XMLDesc()).accelerated:
                raise NotSupported(
                    f"domain {domain.name()}: vCPUs cannot be unplugged: without KVM an unplug never completes: "
                    "take them offline in the guest instead"
                )
            with self._slots:
                return unplug_vcpus(domain, call, vcpus)

        return await self._on_domain(key, "unplug vCPUs", unplug, acts=True, timeout_s=PLUG_TIMEOUT_S)

    async def suspend(self, key: DomainKey) -> bool:
        """Stops all vCPUs of the domain, and returns once they are seen stopped. False: it was paused already."""
        return await self._on_domain(key, "suspend it", suspend_domain, acts=True)

    async def resume(self, key: DomainKey) -> bool:
        """Resumes a suspended domain, and returns once it is seen to run. False: it was not paused by request."""
        return await self._on_domain(key, "resume it", resume_domain, acts=True)

    async def _pin(
        self,
        key: DomainKey,
        operation: str,
        pins: Mapping[int, frozenset[int]],
        apply: Callable[[Any, int, tuple[bool, ...]], object],
    ) -> None:
        def pin(domain: Any, call: Call) -> None:
            set_pins(domain, call, pins, apply)

        await self._on_domain(key, operation, pin, acts=True)

    async def _list(self) -> tuple[Row, ...]:
        """The listing that asks every QEMU. If it hangs or takes long: the one that asks no QEMU."""
        waiting: set[asyncio.Future[tuple[Row, ...]]] = set()
        if not self._under_way(ask_qemu=True):
            waiting.add(self._begin_listing(ask_qemu=True))
            await asyncio.wait(waiting, timeout=min(LISTING_PATIENCE_S, self._call_timeout_s))
        if not any(future.done() for future in waiting):
            if len(self._under_way(ask_qemu=False)) >= LISTINGS:
                raise HypervisorUnreachable(f"libvirt at {self.uri} still does not answer: look at libvirtd's log")
            waiting.add(self._begin_listing(ask_qemu=False))
            await self._first_answer(waiting)
        answered = sorted((one for one in waiting if one.done()), key=lambda one: one.exception() is not None)
        if not answered:
            raise HypervisorUnreachable(
                f"libvirt at {self.uri} did not answer within {self._call_timeout_s:g} s: look at libvirtd's log"
            )
        try:
            return answered[0].result()
        except libvirt.libvirtError as error:
            raise self._connections.translated(error, "listing the domains") from error

    async def _first_answer(self, waiting: set["asyncio.Future[tuple[Row, ...]]"]) -> None:
        """Waits until one listing has answered, or the time-out. A listing that was given up does not count."""
        pending, loop = waiting, asyncio.get_running_loop()
        until_s = loop.time() + self._call_timeout_s
        while pending and (left_s := until_s - loop.time()) > 0.0:
            done, pending = await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if any(not isinstance(one.exception(), GivenUp) for one in done):
                return

    def _under_way(self, *, ask_qemu: bool) -> list[asyncio.Future[tuple[Row, ...]]]:
        self._listings[ask_qemu] = [future for future in self._listings[ask_qemu] if not future.done()]
        return self._listings[ask_qemu]

    def _begin_listing(self, *, ask_qemu: bool) -> "asyncio.Future[tuple[Row, ...]]":
        def look(call: Call) -> tuple[Row, ...]:
            self._connections.listen()
            with self._connections.connection(call) as connection:
                return list_domains(connection, call, ask_qemu=ask_qemu, started_ns=self._run_starts.started_ns)

        call = Call("list the domains")
        future = start(call, look)
        self._listings[ask_qemu].append(future)

        def give_up() -> None:  # its connection then counts as hung, so another one may be opened
            call.given_up = not future.done()

        asyncio.get_running_loop().call_later(self._call_timeout_s, give_up)
        return future

    async def _describe(self, rows: Iterable[Row]) -> None:
        """Starts to read unknown and outdated descriptions. Waits up to DESCRIPTION_PATIENCE_S for the unknown ones."""
        now_s = asyncio.get_running_loop().time()
        for row in rows:
            if row.key not in self._reading and self._descriptions.due(row.key, now_s):
                self._reading[row.key] = asyncio.create_task(self._read_description(row.key))
        new = {task for key, task in self._reading.items() if key not in self._descriptions}
        if new:
            await asyncio.wait(new, timeout=min(DESCRIPTION_PATIENCE_S, self._call_timeout_s))

    async def _read_description(self, key: DomainKey) -> None:
        epoch = self._descriptions.begin(key, asyncio.get_running_loop().time())
        known = key in self._descriptions
        try:
            described = await self._on_domain(
                key, "read its description", lambda domain, _call: parse_description(domain.XMLDesc())
            )
        except DomainGone:
            return
        except HypervisorError as error:
            if self._descriptions.failed(key):
                log.warning("domain %s: its description cannot be read: %s", self._names.get(key, key.uuid), error)
            return
        finally:
            self._reading.pop(key, None)
        changed = self._descriptions.store(key, described, epoch)
        if changed and known:
            self._on_change()

    def _seen(self, row: Row) -> DomainSeen:
        described = self._descriptions.get(row.key)
        if described is None:
            return DomainSeen(
                row.key,
                row.name,
                accelerated=False,
                state=row.state,
                vcpus=row.vcpus,
                vcpus_maximum=row.vcpus_maximum,
                vcpu_time_s=row.vcpu_time_s,
                vcpu_delay_s=row.vcpu_delay_s,
                plugged=row.plugged,
                booted=row.booted,
                started_ns=row.started_ns,
                paused_by_request=row.paused_by_request,
                rules_error=NOT_DESCRIBED,
                described=False,
            )
        return DomainSeen(
            row.key,
            row.name,
            accelerated=described.accelerated,
            state=row.state,
            vcpus=row.vcpus,
            vcpus_maximum=row.vcpus_maximum,
            vcpu_time_s=row.vcpu_time_s,
            vcpu_delay_s=row.vcpu_delay_s,
            plugged=row.plugged,
            booted=row.booted,
            started_ns=row.started_ns,
            paused_by_request=row.paused_by_request,
            agent_socket=described.agent_socket,
            home_nodes=described.home_nodes,
            iothreads=len(described.iothread_pins),
            topology=described.topology,
            enabled_order=described.enabled_order,
            rules=self._descriptions.rules(row.key),
            rules_error=described.rules_error,
        )

    async def _on_host(self, operation: str, work: Callable[[Any], T], line: Line | None = None) -> T:
        """The result of *work*. line: that of the calls that it must not overlap; None: the calls on the host."""

        def do(call: Call) -> T:
            with self._connections.connection(call) as connection:
                return work(connection)

        try:
            return await (line or self._host_line).run(operation, do, self._call_timeout_s)
        except libvirt.libvirtError as error:
            raise self._connections.translated(error, operation) from error

    async def _on_domain(
        self,
        key: DomainKey,
        operation: str,
        work: Callable[[Any, Call], T],
        *,
        acts: bool = False,
        invalid: type[HypervisorError] = HypervisorError,
        timeout_s: float = 0.0,
    ) -> T:
        """The result of *work* on the domain, run after earlier calls to it.

        `acts`: the work changes something, so it is refused while the domain hangs. `invalid`: the error to raise when
        libvirt reports an invalid operation although the domain runs.
        """
        subject = f"domain {self._names.get(key, key.uuid)}"
        begun: list[Call] = []

        def do(call: Call) -> T:
            begun.append(call)
            with self._connections.connection(call) as connection:
                domain = connection.lookupByUUIDString(key.uuid)
                if domain.ID() != key.run_id:
                    raise DomainGone(f"{subject}: this run of the domain has ended")
                if acts:
                    _refuse_hung(domain, subject)
                try:
                    return work(domain, call)
                except libvirt.libvirtError as error:
                    if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
                        raise
                    # libvirt uses one code for two cases: the domain does not run, or it runs but cannot be changed so.
                    runs = connection.lookupByUUIDString(key.uuid).ID() == key.run_id
                    kind = invalid if runs else DomainGone
                    raise kind(f"{subject}: {error.get_error_message()}") from error

        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(subject, lambda: self._on_tuned(key))
        try:
            try:
                return await line.run(operation, do, max(timeout_s, self._call_timeout_s))
            except libvirt.libvirtError as error:
                raise self._connections.translated(error, subject) from error
        except HypervisorError as error:
            error.not_begun = not any(call.acted for call in begun)
            raise

    def _register(self, connection: Any) -> None:
        loop = self._loop
        assert loop is not None  # open() connects

        def on_loop(told: Callable[[DomainKey], None]) -> Callable[[DomainKey], None]:
            def tell(key: DomainKey) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended: nobody listens any more
                    loop.call_soon_threadsafe(told, key)

            return tell

        complete = register_domain_events(connection, on_loop(self._domain_changed), on_loop(self._domain_tuned))
        loop.call_soon_threadsafe(self._listening_again, complete)

    def _listening_again(self, complete: bool) -> None:
        self._descriptions.events_complete = complete
        self._descriptions.outdate_all()
        self._on_change()

    def _domain_changed(self, key: DomainKey) -> None:
        """Event callback, called on the asyncio loop."""
        self._descriptions.outdate(key.uuid)
        self._on_change()

    @property
    def reports_tuning(self) -> bool:
        """Whether this driver has reported a changed pin. Some drivers accept the registration and never report any."""
        return self._reports_tuning

    def _domain_tuned(self, key: DomainKey) -> None:
        """Event callback, called on the asyncio loop."""
        self._reports_tuning = True
        self._on_tuned(key)


def _refuse_hung(domain: Any, subject: str) -> None:
    """HypervisorUnreachable while a job holds the domain. Any change would wait for it, for 30 s in libvirtd."""
    since_ms = blocking_ms(domain)
    if since_ms is not None:
        raise HypervisorUnreachable(
            f"{subject}: still waiting for its QEMU or for a job such as a migration, for {since_ms / 1000:.1f} s: "
            "see `virsh domcontrol` and `virsh domjobinfo`"
        )
