"""The user's own running guests. What is changed is read first, kept in a file, and put back at the end.

If the bench is killed, the file is left. The next bench with the same directory puts back what it says.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

import libvirt
import msgspec

from vscaf.bench.places.domains import (
    DomainsPlace,
    check_policies,
    pin,
    quota,
    reason,
    set_quota,
    switch,
    told,
)
from vscaf.bench.places.guest_agent import agent_of
from vscaf.bench.places.member import Member, run
from vscaf.bench.places.place import BASELINES, PlaceError, Started
from vscaf.bench.places.ssh import Ssh
from vscaf.bench.workloads.workload import Workload
from vscaf.config import Config
from vscaf.control.client import NoDaemon, get_status
from vscaf.cpulist import format_cpu_list, parse_cpu_list
from vscaf.errors import UsageError, VscafError
from vscaf.hypervisor.libvirt.masks import mask_cpus
from vscaf.hypervisor.libvirt.settings import read_settings
from vscaf.journal import host_boot_id, lock_bench, lock_hypervisor
from vscaf.occupancy.qemu import qemu_pid_of

FOUND = "found.json"  # in the bench's directory
CONTROL_SOCKET = Path(Config(pool="0").control_socket)
INSTALL_AGENT = (
    "install vscaf in the guest (meson install), give the domain a channel named org.vscaf.agent.0, and start "
    "vscaf-agent there (systemctl enable --now vscaf-agent)"
)


class Found(msgspec.Struct, frozen=True):
    """What a domain was like before the bench. pins: CPU lists by vCPU. online: CPU list in the guest. agent_service:
    whether its agent ran as a service of systemd."""

    pins: dict[int, str]
    quota: dict[str, int] | None
    online: str
    agent_service: bool = False


class FoundFile(msgspec.Struct, frozen=True):
    """What the domains of a bench were like, by their UUID and the number of their run."""

    boot_id: str
    domains: dict[str, Found]


class Channel(Protocol):
    """A way to run commands in a guest and to write files there."""

    shows_output: bool
    """Whether the output of a command comes while it runs, so that its pieces are known."""

    def start(self, command: str) -> Started: ...

    def write(self, path: str, content: bytes) -> None: ...

    def close(self) -> None: ...


@dataclass
class RunningGuest:
    """A running domain of the user."""

    domain: Any
    channel: Channel
    directory: str = ""
    vcpus: Sequence[int] = ()
    cpus: Sequence[int] = ()
    agent_service: bool = False

    def __post_init__(self) -> None:
        self.name: str = self.domain.name()

    @property
    def key(self) -> str:
        """Names this run of the domain."""
        return _run_key(self.domain)

    @property
    def qemu_pid(self) -> int:
        pid = qemu_pid_of(self.domain.UUIDString())
        if pid is None:
            raise PlaceError(f"guest {self.name}: its QEMU does not run on this machine: use its own host's libvirt")
        return pid

    def start(self, command: str) -> Started:
        return self.channel.start(command)

    def use_agent(self, running: bool) -> None:
        if self.agent_service:
            done = run(self, f"systemctl {'start' if running else 'stop'} vscaf-agent")
            if done.status != 0:
                raise PlaceError(f"guest {self.name}: its agent could not be switched: {done.output[-300:]}")

    def clock_ahead_s(self) -> float | None:
        return None  # a guest agent tells the time of day alone


@dataclass(frozen=True)
class Site:
    """A libvirt, and the directories of the daemons that the bench starts on it."""

    uri: str
    directory: Path
    logs: Path


def open_libvirt(uri: str, opener: Callable[[str], Any] = libvirt.open) -> Any:
    """A connection. Raises PlaceError."""
    try:
        return opener(uri)
    except libvirt.libvirtError as error:
        raise PlaceError(
            f"libvirt at {uri}: {reason(error)}: is it running? else give its address with --uri"
        ) from None


def running_domains(connection: Any, names: Sequence[str]) -> list[Any]:
    """The domains of these names. Raises UsageError if one of them does not run."""
    domains = []
    for name in names:
        try:
            domain = connection.lookupByName(name)
            if not domain.isActive():
                raise UsageError(f"domain {name} does not run: start it with `virsh start {name}`")
        except libvirt.libvirtError as error:
            raise UsageError(f"domain {name}: {reason(error)}") from None
        domains.append(domain)
    return domains


def pool_of(
    uri: str,
    names: Sequence[str],
    pool: str | None,
    opener: Callable[[str], Any] = libvirt.open,
    *,
    output: Path | None = None,
) -> list[int]:
    """The pCPUs of the bench: the CPU list *pool*, by default those where the domains' vCPUs may run now. output: the
    bench's directory. If a bench that was killed has changed pins, those that it found there count.

    Raises UsageError if they are not online or fewer than the domains, PlaceError if libvirt does not answer.
    """
    earlier = _left_behind(output / FOUND) if output is not None else {}
    connection = open_libvirt(uri, opener)
    try:
        domains = running_domains(connection, names)
        try:
            online = mask_cpus(connection.getCPUMap()[1])
            pins = [cpus for domain in domains for cpus in _pins(domain, earlier)]
        except libvirt.libvirtError as error:
            raise PlaceError(f"libvirt at {uri}: {reason(error)}") from None
    finally:
        connection.close()
    try:
        cpus = parse_cpu_list(pool) if pool is not None else frozenset().union(*pins) & online
    except ValueError as error:
        raise UsageError(f"--pool: {error}: write it like 0-3,8") from None
    if not cpus <= online:
        raise UsageError(
            f"--pool: CPU {format_cpu_list(cpus - online)} is not online: choose among {format_cpu_list(online)}"
        )
    if len(cpus) < len(names):
        raise UsageError(f"the pool has {len(cpus)} CPUs and there are {len(names)} domains: give a larger --pool")
    return sorted(cpus)


def guests_of(
    uri: str,
    channels: Mapping[str, Callable[[Any], Channel]],
    opener: Callable[[str], Any] = libvirt.open,
    *,
    output: Path,
) -> list[str]:
    """What figures depend on in each guest: its vCPUs, what executes them, and its version of vscaf. Arguments as those
    of `existing_place`. After a bench that was killed, the vCPUs that it found count.

    Raises UsageError if a domain does not run, PlaceError if libvirt or a guest does not answer.
    """
    earlier = _left_behind(output / FOUND)
    connection = open_libvirt(uri, opener)
    try:
        return [
            _described(domain, channels[domain.name()], earlier)
            for domain in running_domains(connection, list(channels))
        ]
    finally:
        connection.close()


def _described(domain: Any, channel: Callable[[Any], Channel], earlier: Mapping[str, Found]) -> str:
    guest = RunningGuest(domain, channel(domain))
    try:
        with told(guest, "describe it"):
            vcpus, kind = len(_pins(domain, earlier)), _type(domain)
        version = run(guest, "vscaf-agent --version 2>/dev/null").output.strip()
    finally:
        guest.channel.close()
    return f"{vcpus} vCPUs, {kind}, {version[-300:] or 'no vscaf-agent'}"


def _type(domain: Any) -> str:
    """What executes its vCPUs: "kvm", or "qemu" for TCG."""
    return str(ElementTree.fromstring(domain.XMLDesc()).get("type"))


def _run_key(domain: Any) -> str:
    """Names this run of a domain."""
    return f"{domain.UUIDString()} {domain.ID()}"


def _pins(domain: Any, earlier: Mapping[str, Found]) -> list[frozenset[int]]:
    """Where each of its vCPUs may run or, if a bench that was killed found that out *earlier*, might run then."""
    found = earlier.get(_run_key(domain))
    if found is not None:
        return [parse_cpu_list(cpus) for cpus in found.pins.values()]
    return [mask_cpus(mask) for mask in domain.vcpuPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE)]


def refuse_beside_a_daemon(control_socket: Path, uri: str) -> None:
    """Raises PlaceError if a vscaf daemon answers, because it would change the same domains. UsageError if one does not
    answer there and manages domains of the same libvirt: it has another socket, or a bench that was killed left it. One
    that starts later is refused by the bench's lock."""
    try:
        asyncio.run(get_status(control_socket))
    except NoDaemon:
        lock_hypervisor(uri, "bench").close()
        return
    raise PlaceError(
        f"a vscaf daemon answers at {control_socket}: stop it while the bench runs (systemctl stop vscaf): "
        "the bench starts one of its own for each policy"
    )


def refuse_progress_at_the_end(guests: Sequence[RunningGuest], workloads: Sequence[Workload]) -> None:
    """Raises UsageError if a workload's progress is known by when its lines come, and they come only at its end."""
    for guest in guests:
        for workload in workloads:
            if workload.progress is not None and not workload.timed and not guest.channel.shows_output:
                raise UsageError(
                    f"{workload.name} in guest {guest.name}: progress needs output while the program runs: "
                    f"give --ssh {guest.name}=USER@HOST"
                )


def read_found(guest: RunningGuest) -> Found:
    """What a guest is like now. Raises PlaceError."""
    try:
        pins = read_settings(guest.domain).vcpu_pins
    except libvirt.libvirtError as error:
        raise PlaceError(f"guest {guest.name}: its pins could not be read: {reason(error)}") from None
    done = run(guest, "cat /sys/devices/system/cpu/online")
    try:
        online = parse_cpu_list(done.output) if done.status == 0 else frozenset()
    except ValueError:
        online = frozenset()
    if not online:
        raise PlaceError(f"guest {guest.name}: it does not tell its CPUs: {done.output[-300:]}")
    service = run(guest, "systemctl --quiet is-active vscaf-agent").status == 0
    by_vcpu = {vcpu: format_cpu_list(cpus) for vcpu, cpus in pins.items()}
    return Found(by_vcpu, quota(guest), format_cpu_list(online), service)


def put_back(guest: RunningGuest, found: Found) -> None:
    """Puts back what was found, all that can be. Raises PlaceError with all that could not be put back."""
    failed: list[str] = []
    steps: list[Callable[[], None]] = [
        lambda: pin(guest, {vcpu: parse_cpu_list(cpus) for vcpu, cpus in found.pins.items()}),
        lambda: switch(guest, parse_cpu_list(found.online)),
        lambda: guest.use_agent(True),
    ]
    if found.quota is not None:
        wanted = found.quota
        steps.append(lambda: set_quota(guest, wanted) if quota(guest) != wanted else None)
    for step in steps:
        try:
            step()
        except VscafError as error:
            failed.append(str(error))
    if failed:
        raise PlaceError("; ".join(failed))


def check_agent(guest: Member) -> None:
    """Raises PlaceError if programs in the guest cannot join a vscaf agent there."""
    checked = run(guest, "command -v vscaf-run >/dev/null && vscaf-agent --check")
    if checked.status != 0:
        missing = "; ".join(line for line in checked.output.splitlines() if line.startswith("missing"))
        raise PlaceError(
            f"guest {guest.name} has no vscaf agent that works, so no policy can be measured: "
            f"{missing or checked.output[-300:].strip() or 'there is no vscaf-run in its PATH'}: {INSTALL_AGENT}"
        )
    if run(guest, "vscaf-agent --status --json").status != 0:
        raise PlaceError(f"guest {guest.name}: its vscaf agent does not run: systemctl enable --now vscaf-agent")


def refuse_static_beside_an_agent(guest: RunningGuest) -> None:
    """Raises PlaceError if an agent that the bench cannot stop would put CPUs online that the bench puts offline."""
    if not guest.agent_service and run(guest, "vscaf-agent --status --json").status == 0:
        raise PlaceError(
            f"guest {guest.name}: its vscaf agent would put CPUs online that static puts offline, and it is no service "
            "that the bench can stop (systemctl): stop it yourself, or leave static out of --arrangements"
        )


def bring_files(guest: RunningGuest, workloads: Sequence[Workload], programs: Path) -> None:
    """Copies the workloads' files into a guest. programs: shipped workloads that the guest has not in its PATH.

    Raises PlaceError if one of them is not there.
    """
    files: dict[str, Path] = {}
    for workload in workloads:
        files |= workload.files
        shipped = workload.npb and not workload.files
        if shipped and run(guest, f"command -v {shlex.quote(workload.command)}").status != 0:
            files[workload.command] = programs / workload.command
    for name, file in files.items():
        if not file.exists():
            raise PlaceError(f"guest {guest.name} has no {name}, and there is no {file}: build it with `make programs`")
        path = f"{guest.directory}/{name}"
        run(guest, f"mkdir -p {shlex.quote(str(Path(path).parent))}")
        guest.channel.write(path, file.read_bytes())
        run(guest, f"chmod {file.stat().st_mode & 0o777:o} {shlex.quote(path)}")


class _ExistingPlace(DomainsPlace):
    """Programs are also looked for in the directory of the workloads' files."""

    def start(self, member: str, command: str, environment: Mapping[str, str]) -> Started:
        return super().start(member, f"PATH=$PWD:$PATH\n{command}", environment)


@contextmanager
def existing_place(
    uri: str,
    channels: Mapping[str, Callable[[Any], Channel]],
    pool: Sequence[int],
    *,
    workloads: Sequence[Workload],
    arrangements: Sequence[str],
    programs: Path,
    output: Path,
    control_socket: Path = CONTROL_SOCKET,
    opener: Callable[[str], Any] = libvirt.open,
) -> Iterator[DomainsPlace]:
    """The running domains named in *channels*; that also says how to reach each guest. programs: where the shipped
    workloads were built. output: the bench's directory. opener: opens a connection.

    Raises PlaceError or UsageError; then everything is as it was found, or the message says what is not.
    """
    check_policies(arrangements)
    with ExitStack() as stack:
        stack.callback(lock_bench(uri).close)
        refuse_beside_a_daemon(control_socket, uri)
        connection = open_libvirt(uri, opener)
        stack.callback(connection.close)
        guests: list[RunningGuest] = []
        for domain in running_domains(connection, list(channels)):
            guest = RunningGuest(domain, channels[domain.name()](domain))
            stack.callback(guest.channel.close)
            guests.append(guest)
        refuse_progress_at_the_end(guests, workloads)
        for guest in guests:
            _make_directory(guest, stack)
            bring_files(guest, workloads, programs)
        stack.enter_context(_as_found_at_the_end(guests, output / FOUND))
        if set(arrangements) - set(BASELINES):
            for guest in guests:
                guest.use_agent(True)  # a bench that was killed may have stopped it
                check_agent(guest)
        if "static" in arrangements:
            for guest in guests:
                refuse_static_beside_an_agent(guest)
        # A socket's path is short, so the directory is not in *output*.
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vscaf-bench-")))
        logs = output.resolve() / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with told(guests[0], "describe it"):
            kind = _type(guests[0].domain)
        vcpus = " and ".join(str(len(guest.vcpus)) for guest in guests)
        place = _ExistingPlace(
            guests,
            pool,
            Site(uri, directory, logs),
            f"{len(guests)} running guests of {vcpus} vCPUs on {len(pool)} pCPUs ({format_cpu_list(pool)}), {kind}",
            settings={"state_directory": str(output.resolve() / "state")},
        )
        place.neutral()
        place.refuse_unless_possible(arrangements)
        yield place


def guest_agent_channel(domain: Any) -> Channel:
    """The channel to a guest through its QEMU guest agent."""
    return agent_of(domain)


def ssh_channel(target: str) -> Callable[[Any], Channel]:
    """Makes channels over SSH to USER@HOST."""
    return lambda _domain: Ssh(target)


def _make_directory(guest: RunningGuest, stack: ExitStack) -> None:
    made = run(guest, "mktemp -d /var/tmp/vscaf-bench-XXXXXX")
    if made.status != 0:
        raise PlaceError(f"guest {guest.name}: no directory for the workloads could be made: {made.output[-300:]}")
    guest.directory = made.output.strip()
    stack.callback(run, guest, f"rm -rf {shlex.quote(guest.directory)}")


@contextmanager
def _as_found_at_the_end(guests: Sequence[RunningGuest], path: Path) -> Iterator[None]:
    """Reads what the guests are like and puts it back at the end.

    Where a bench that was killed has left its file, what the guests were like before that bench is put back.
    """
    earlier = _left_behind(path)
    found = {guest.key: earlier.get(guest.key) or read_found(guest) for guest in guests}
    for guest in guests:
        guest.vcpus = sorted(found[guest.key].pins)
        guest.cpus = sorted(parse_cpu_list(found[guest.key].online))
        guest.agent_service = found[guest.key].agent_service
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_found(path, {**earlier, **found})
    try:
        yield
    finally:
        failed: list[str] = []
        for guest in guests:
            try:
                put_back(guest, found[guest.key])
            except VscafError as error:
                failed.append(str(error))
        if failed:
            raise PlaceError(f"not everything could be put back: {'; '.join(failed)}: {path} keeps what was found")
        ours = {guest.domain.UUIDString() for guest in guests}
        others = {key: one for key, one in earlier.items() if key.split()[0] not in ours}
        if others:  # a bench of other domains was killed: its next one puts them back
            _write_found(path, others)
        else:
            path.unlink()


def _write_found(path: Path, domains: Mapping[str, Found]) -> None:
    path.write_bytes(msgspec.json.encode(FoundFile(host_boot_id(), dict(domains))))


def _left_behind(path: Path) -> dict[str, Found]:
    """What a bench that was killed has left in its file, if this host has not been booted since."""
    if not path.exists():
        return {}
    try:
        left = msgspec.json.decode(path.read_bytes(), type=FoundFile)
    except msgspec.DecodeError as error:
        raise PlaceError(
            f"{path} cannot be read: {error}: put the domains' settings back by hand and remove it"
        ) from None
    return left.domains if left.boot_id == host_boot_id() else {}
