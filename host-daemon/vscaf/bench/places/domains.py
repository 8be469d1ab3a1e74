"""Libvirt domains whose guests share a pool: how a place with guests arranges them, whoever started them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import libvirt

from vscaf.agentlink.link import CONNECTED, NO_CHANNEL
from vscaf.bench.observe.watch import Watch
from vscaf.bench.places.baselines import QUOTA_PERIOD_US, Setting, setting
from vscaf.bench.places.member import Member, run
from vscaf.bench.places.place import BASELINES, Arranged, PlaceError, Started, WithoutDaemon, raise_also
from vscaf.bench.places.steal_governor import STEAL_GOVERNOR, refuse_without_steal_governor, steal_governor_on
from vscaf.config import PolicyConfig
from vscaf.errors import VscafError
from vscaf.hypervisor.libvirt.calls import Call
from vscaf.hypervisor.libvirt.connection import NOT_SUPPORTED
from vscaf.hypervisor.libvirt.pinning import set_pins
from vscaf.lab.daemon import DaemonProcess, Site
from vscaf.lab.errors import LabError
from vscaf.lab.polling import until
from vscaf.policy.loading import loaded_policy
from vscaf.values import State

AGENTS_DEADLINE_S = 120.0
DECISION_DEADLINE_S = 120.0
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
QUOTA = ("vcpu_period", "vcpu_quota")
LARGEST_QUOTA_US = 17_592_186_044_415
"""libvirt's largest quota. With cgroup v2 it stands for none: libvirt reports it where there is no quota."""
SETTLED = frozenset({State.COOPERATING, State.CONTAINED, State.RESTING, State.QUEUED, State.SUSPENDED})
"""States in which a domain has the partition that was decided for it."""


@dataclass
class Managed:
    """Members that a daemon manages."""

    daemon: DaemonProcess
    launcher: str = "vscaf-run "
    helpers: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        self.helpers = (self.daemon.pid,)

    def transitions(self) -> int:
        return int(self.daemon.status()["transitions"])


class DomainsPlace:
    """A place whose members are guests of one libvirt. site: that libvirt, and where daemons keep their files.

    helpers: pids of processes that serve the guests. settings: further top-level keys of the daemons' configuration.
    """

    def __init__(
        self,
        guests: Sequence[Member],
        pool: Sequence[int],
        site: Site,
        description: str,
        *,
        helpers: Sequence[int] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._guests = guests
        self._pool = pool
        self._site = site
        self._helpers = helpers
        self._settings = settings
        self._daemons = 0
        self._environment: Mapping[str, str] = {}  # of the arrangement
        self.members: Sequence[str] = [guest.name for guest in guests]
        self.cpus = len(pool)
        self.on_one_cpu = "taskset -c 0 "
        self.description = description

    def start(self, member: str, command: str, environment: Mapping[str, str]) -> Started:
        guest = self._guests[self.members.index(member)]
        return guest.start(shell_lines(guest.directory, command, {**self._environment, **environment}))

    def clock_ahead_s(self, member: str) -> float | None:
        return self._guests[self.members.index(member)].clock_ahead_s()

    @contextmanager
    def arrange(self, arrangement: str, allocations: Sequence[int]) -> Iterator[Arranged]:
        settings = [
            setting(arrangement, self._pool, len(guest.vcpus), allocations, number)
            for number, guest in enumerate(self._guests)
        ]
        wanted = [one for one in settings if one is not None]
        if len(wanted) == len(settings):
            try:
                for guest, one in zip(self._guests, wanted, strict=True):
                    # An agent without a host puts CPUs online that were put offline by hand.
                    guest.use_agent(one.online == len(one.pins))
                    apply(guest, one)
                governed = [guest for guest, one in zip(self._guests, wanted, strict=True) if one.steal_governor]
                self._environment = wanted[0].environment
                with steal_governor_on(governed):
                    yield WithoutDaemon()
            finally:
                self._environment = {}
                self.neutral()
            return
        for guest in self._guests:
            guest.use_agent(True)
        self._daemons += 1
        daemon = DaemonProcess(
            self._site,
            ",".join(map(str, self._pool)),
            {guest.name: {} for guest in self._guests},
            policy=arrangement,
            settings=self._settings,
            name=f"{arrangement}-{self._daemons}",
        )
        with daemon:
            try:
                wait_for_agents(daemon, self.members)
                wait_for_decision(daemon, self.members)
                yield Managed(daemon)
            except BaseException as error:
                if left := _stop(daemon):
                    raise_also(error, left)
                raise
            if left := _stop(daemon):
                raise PlaceError(left)

    def commands(self, arrangement: str, allocations: Sequence[int]) -> list[str]:
        if arrangement == "unmanaged":
            return []
        found = []
        for number, guest in enumerate(self._guests):
            one = setting(arrangement, self._pool, len(guest.vcpus), allocations, number)
            found += one.commands(guest.name, guest.vcpus) if one is not None else []
        return found

    def refuse_unless_possible(self, arrangements: Sequence[str]) -> None:
        """Raises PlaceError if these guests cannot have one of these arrangements."""
        if STEAL_GOVERNOR in arrangements:
            refuse_without_steal_governor(self._guests)

    def neutral(self) -> None:
        """All members float over the pool with all their CPUs. Raises PlaceError after trying each."""
        failed: list[str] = []
        for guest in self._guests:
            one = setting("unmanaged", self._pool, len(guest.vcpus), (), 0)
            assert one is not None, "unmanaged is a baseline"
            try:
                apply(guest, one)
            except VscafError as error:
                failed.append(str(error))
        if failed:
            raise PlaceError("; ".join(failed))

    def watch(self, helpers: Sequence[int]) -> Watch:
        return Watch(self._pool, {guest.name: guest.qemu_pid for guest in self._guests}, [*self._helpers, *helpers])


def _stop(daemon: DaemonProcess) -> str:
    """Ends the daemon. Returns why not everything is as it was found; empty: it is."""
    try:
        status = daemon.stop()
    except LabError as error:
        return str(error)
    if status == 0:
        return ""
    return (
        f"the daemon ended with status {status}, so not everything was put back: see {daemon.log}; "
        f"{daemon.journal} keeps what was found"
    )


def wait_for_agents(daemon: DaemonProcess, names: Sequence[str], deadline_s: float = AGENTS_DEADLINE_S) -> None:
    """Waits until the daemon is connected to the agents of these domains. In daily use it is, long before a program
    starts, so a bench does not measure it. A domain without an agent's channel is not waited for. Raises PlaceError."""
    agents: dict[str, str] = {}

    def connected(domains: dict[str, dict[str, Any]]) -> bool:
        agents.update({name: domains[name]["agent"] or "it does not run" for name in names if name in domains})
        return all(agents.get(name) in {CONNECTED, NO_CHANNEL} for name in names)

    try:
        daemon.wait(connected, deadline_s)
    except TimeoutError:
        found = ", ".join(f"{name}: {agents.get(name, 'unknown to the daemon')}" for name in names)
        raise PlaceError(
            f"the daemon is not connected to the guests' agents ({found}): start vscaf-agent there; see {daemon.log}"
        ) from None


def wait_for_decision(daemon: DaemonProcess, names: Sequence[str], deadline_s: float = DECISION_DEADLINE_S) -> None:
    """Waits until the daemon has made its first decision and has carried it out. In daily use it has run for days when
    a program starts, so a bench does not measure its start. Raises PlaceError, which says what was not true."""
    missing = ["the daemon does not answer"]

    def decided() -> bool:
        missing[:] = not_settled(daemon.status(), names)
        return not missing

    try:
        until(decided, hang_s=deadline_s)
    except TimeoutError:
        raise PlaceError(
            f"the daemon has not given the guests their first partitions within {deadline_s:g} s "
            f"({'; '.join(missing)}): see {daemon.log}"
        ) from None


def not_settled(status: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """What is not true yet of a daemon that has given these domains their partitions. status: as `vscaf status --json`.

    A policy that changes nothing has nothing to carry out.
    """
    if status["unknown"]:
        return ["libvirt does not answer"]
    if status["managing"] is None:
        return ["it has not decided anything yet"]
    domains = {one["name"]: one for one in status["domains"]}
    missing = [f"{name}: the daemon does not know it" for name in names if name not in domains]
    if status["managing"]:
        missing += [
            f"{name}: {domains[name]['state']}" + (f", {domains[name]['why']}" if domains[name]["why"] else "")
            for name in names
            if name in domains and domains[name]["state"] not in SETTLED
        ]
    return missing


def check_policies(arrangements: Sequence[str]) -> None:
    """Raises UsageError if an arrangement is neither a baseline nor a policy that can be loaded."""
    for arrangement in arrangements:
        if arrangement not in BASELINES:
            loaded_policy(PolicyConfig(name=arrangement))


def shell_lines(directory: str, command: str, environment: Mapping[str, str]) -> str:
    """A shell script that runs a command in a directory, with variables added to the environment."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join([f"cd {shlex.quote(directory)} || exit 126", *exports, command])


def apply(guest: Member, wanted: Setting) -> None:
    """Sets a guest's pins, quota and online CPUs. Raises PlaceError."""
    pin(guest, dict(zip(guest.vcpus, wanted.pins, strict=True)))
    now = quota(guest)
    if now is None and wanted.quota_us is not None:
        raise PlaceError(f"guest {guest.name}: its hypervisor has no CPU quota: leave out the arrangement quota")
    if now is not None and (wanted.quota_us is not None or _is_limit(now)):
        set_quota(guest, {"vcpu_period": QUOTA_PERIOD_US, "vcpu_quota": wanted.quota_us or -1})
    switch(guest, guest.cpus[: wanted.online])


def pin(guest: Member, pins: Mapping[int, frozenset[int]]) -> None:
    """Pins vCPUs. HypervisorError if a vCPU would have no online pCPU, PlaceError if libvirt refuses."""
    with told(guest, "pin its vCPUs"):
        set_pins(guest.domain, Call("pin"), pins, lambda domain, vcpu, mask: domain.pinVcpu(vcpu, mask))


def quota(guest: Member) -> dict[str, int] | None:
    """The quota of a domain's vCPUs, as libvirt's scheduler parameters; None if its hypervisor has none."""
    with told(guest, "read its quota"):
        try:
            found = guest.domain.schedulerParametersFlags(LIVE)
        except libvirt.libvirtError as error:
            refusals = NOT_SUPPORTED | {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_INVALID_ARG}
            if error.get_error_code() in refusals and guest.domain.isActive():
                return None
            raise
    return {name: int(found[name]) for name in QUOTA} if set(QUOTA) <= found.keys() else None


def set_quota(guest: Member, wanted: Mapping[str, int]) -> None:
    """Sets the quota of a domain's vCPUs, as `quota` returns it. Raises PlaceError."""
    with told(guest, "set its quota"):
        if _is_limit(wanted):
            guest.domain.setSchedulerParametersFlags(dict(wanted), LIVE)
            return
        try:
            guest.domain.setSchedulerParametersFlags({**wanted, "vcpu_quota": -1}, LIVE)
        except libvirt.libvirtError:
            # Some libvirts cannot take away a quota in cgroup v2 like this: they write -1, which the kernel refuses.
            guest.domain.setSchedulerParametersFlags({**wanted, "vcpu_quota": LARGEST_QUOTA_US}, LIVE)


def _is_limit(quota: Mapping[str, int]) -> bool:
    """Whether it limits anything: to libvirt 0 is no value, and what is negative is no limit."""
    return 0 < quota["vcpu_quota"] < LARGEST_QUOTA_US


def switch(guest: Member, online: Collection[int]) -> None:
    """Puts the guest's CPUs on- and offline, so that of `cpus` exactly these are online. Raises PlaceError."""
    lines = switch_lines(guest.cpus, online)
    if not lines:
        return
    done = run(guest, lines)
    if done.status != 0:
        raise PlaceError(
            f"guest {guest.name}: its CPUs could not be switched: commands there must run as root: {done.output[-300:]}"
        )


def switch_lines(cpus: Collection[int], online: Collection[int]) -> str:
    """A shell script that switches a guest's CPUs, if they are not already as wanted. CPU 0 stays online."""
    return "\n".join(
        f"f=/sys/devices/system/cpu/cpu{cpu}/online; [ $(cat $f) = {int(cpu in online)} ] || "
        f"echo {int(cpu in online)} > $f || exit 1"
        for cpu in cpus
        if cpu != 0
    )


@contextmanager
def told(guest: Member, what: str) -> Iterator[None]:
    """Turns an error of libvirt into a PlaceError that says what was to be done."""
    try:
        yield
    except libvirt.libvirtError as error:
        raise PlaceError(f"guest {guest.name}: libvirt could not {what}: {reason(error)}") from error


def reason(error: libvirt.libvirtError) -> str:
    """What an error of libvirt means and what to do, by its code; else libvirt's own text."""
    advice = _ADVICE.get(error.get_error_code())
    return str(error) if advice is None else f"{advice} ({error})"


_NOT_PERMITTED = "not permitted: run this as root, or in the group libvirt"
_ADVICE = {
    libvirt.VIR_ERR_NO_DOMAIN: "there is no such domain: see `virsh list --all`",
    libvirt.VIR_ERR_OPERATION_INVALID: "the domain does not run: start it",
    libvirt.VIR_ERR_OPERATION_DENIED: _NOT_PERMITTED,
    libvirt.VIR_ERR_ACCESS_DENIED: _NOT_PERMITTED,
    libvirt.VIR_ERR_AUTH_FAILED: _NOT_PERMITTED,
    libvirt.VIR_ERR_AUTH_CANCELLED: _NOT_PERMITTED,
    libvirt.VIR_ERR_AUTH_UNAVAILABLE: _NOT_PERMITTED,
}
