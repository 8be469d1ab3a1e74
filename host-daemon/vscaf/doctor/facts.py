"""Facts of a host and its domains as plain values. A fact that could not be read is Unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vscaf.config import Config
from vscaf.core.place.topology import SmtMode, Topology, remaining_topology
from vscaf.doctor.finding import NotKnown, Unknown, known
from vscaf.domains.rules import DomainRules, rules_for
from vscaf.hypervisor.libvirt.domain_xml import Description
from vscaf.values import HostCpus


class Irq(NamedTuple):
    """An interrupt with a handler, and the pCPUs that may serve it."""

    number: int
    cpus: frozenset[int]


class Process(NamedTuple):
    """A process of the host, but no kernel thread, and the pCPUs that it may run on."""

    pid: int
    name: str
    cpus: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """What the kernel's and other programs' files say.

    `libvirt_daemons`: those that are installed. `cpu_flags`: as in /proc/cpuinfo; None: this architecture lists none.
    `controllers`: the cgroup controllers that are mounted. `tuned_profile`: the active profile; "": none.
    `pinning_hooks`: libvirt's hook scripts that set CPUs. `pacemaker`: ids of Pacemaker's VirtualDomain resources that
    set utilization attributes. `hugepages`: how many there are, by node and by size in KiB. `default_hugepage_kib`: the
    size if none is named.
    """

    kvm_device: bool
    libvirt_daemons: tuple[str, ...]
    cpu_flags: frozenset[str] | Unknown | None
    controllers: frozenset[str] | Unknown
    isolated: frozenset[int] | Unknown
    nohz_full: frozenset[int] | Unknown
    irqs: tuple[Irq, ...] | Unknown
    processes: tuple[Process, ...] | Unknown
    tuned_profile: str | Unknown
    pinning_hooks: tuple[str, ...] | Unknown
    pacemaker: tuple[str, ...] | Unknown
    hugepages: Mapping[int, Mapping[int, int]] | Unknown
    default_hugepage_kib: int | Unknown

    def processes_named(self, name: str) -> list[Process]:
        """The processes of this name. NotKnown if the processes could not be read."""
        return [process for process in known(self.processes) if process.name == name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A domain's XML, live or as it will be at the next start.

    `fixed_vcpus`: plugged vCPUs that can never be unplugged, without vCPU 0, which never can. `topology_named`: whether
    the XML has a CPU topology. `channel`: whether there is a channel for the agent that the daemon can use.
    `wrong_channel`: whether there is one of its name that the daemon cannot use. `channel_opened`: whether a program in
    the guest has opened it; None: libvirt does not say. `placement_auto`: numad chooses CPUs or nodes at each start.
    `emulator_pin`: None: unset. `features`: names of the elements in <features>; None: there is no such element. `pmu`:
    whether the guest is given a virtual PMU; None: the XML does not say. `hugepages_kib`: the sizes of the pages of its
    memory, 0: the host's default size; empty: no hugepages.
    """

    description: Description
    vcpus: int
    maximum: int
    fixed_vcpus: frozenset[int]
    topology_named: bool
    channel: bool
    wrong_channel: bool
    channel_opened: bool | None
    arch: str | None
    machine: str | None
    placement_auto: bool
    emulator_pin: frozenset[int] | None
    features: frozenset[str] | None
    pmu: bool | None
    cpu_mode: str | None
    memory_kib: int
    hugepages_kib: frozenset[int]

    @property
    def plugged(self) -> frozenset[int]:
        """The numbers of the plugged vCPUs."""
        return self.description.enabled or frozenset(range(self.vcpus))

    def pinned(self, online: frozenset[int]) -> bool:
        """Whether vCPUs, the emulator or I/O threads are kept off a pCPU that is online.

        libvirt keeps a pin to all pCPUs in the XML: to it, that is how a pin is removed.
        """
        description = self.description
        pins = [
            *description.vcpu_pins.values(),
            *description.iothread_pins.values(),
            description.cpuset,
            self.emulator_pin,
        ]
        return any(pin is not None and not online <= pin for pin in pins)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainXml:
    """A domain of libvirt. `now`: live if it runs, else as defined. `next_start`: as defined, if it runs; None: it is
    transient, or does not run."""

    name: str
    running: bool
    persistent: bool
    now: Definition | Unknown
    next_start: Definition | None = None

    @property
    def defined(self) -> Definition | None:
        """As it will be at the next start. None: it runs, and has no definition that could be read. NotKnown if it does
        not run and could not be read."""
        return self.next_start if self.running else known(self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtFacts:
    """What libvirt says. `driver`: its name, "QEMU". Versions are libvirt's numbers: 9,000,001 is 9.0.1; 0: not known.

    `guest_types`: the types of domains that it can run, such as "kvm"; empty: it has no QEMU.
    """

    driver: str
    version: int
    driver_version: int
    guest_types: frozenset[str]
    cpus: HostCpus
    domains: Mapping[str, DomainXml]


@dataclass(frozen=True, slots=True)
class NoLibvirt:
    """Why libvirt could not be asked. `denied`: this user may not."""

    why: str
    denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """All facts. `status`: the daemon's status; None: no daemon runs. `config`: Unknown if there is no good file.

    `config_found`: whether the file is there, good or not.
    """

    config_file: str
    config_found: bool
    config: Config | Unknown
    system: SystemFacts
    libvirt: LibvirtFacts | NoLibvirt
    status: Mapping[str, Any] | Unknown | None
    named: frozenset[str] = field(default_factory=frozenset)
    """Domains that the operator asked about: they are checked like managed ones."""

    @property
    def virt(self) -> LibvirtFacts:
        """What libvirt says. NotKnown if it could not be asked."""
        if isinstance(self.libvirt, NoLibvirt):
            raise NotKnown(f"libvirt could not be asked: {self.libvirt.why}")
        return self.libvirt

    @property
    def rules_config(self) -> Config:
        """The configuration, or one with only defaults, so that domains can still be judged by their metadata."""
        return Config(pool="0") if isinstance(self.config, Unknown) else self.config

    @property
    def pool(self) -> frozenset[int]:
        """The pCPUs of the pool that are online. NotKnown without a configuration or libvirt."""
        return known(self.config).pool_cpus & self.virt.cpus.online

    @property
    def reserve(self) -> frozenset[int]:
        """pCPUs for domains at rest, may be empty. NotKnown as for the pool."""
        return known(self.config).reserve_cpus(self.virt.cpus.online) - self.pool

    @property
    def others(self) -> frozenset[int]:
        """The online pCPUs outside the pool, may be empty. NotKnown as for the pool."""
        return self.virt.cpus.online - self.pool

    @property
    def topology(self) -> Topology:
        """The chunks of the pool. NotKnown as for the pool."""
        config = known(self.config)
        return remaining_topology(config.pool_cpus, self.virt.cpus, SmtMode(config.smt))

    @property
    def pool_nodes(self) -> frozenset[int]:
        """The NUMA nodes of the pool. NotKnown as for the pool."""
        return frozenset(self.virt.cpus.node_of.get(cpu, 0) for cpu in self.pool)

    def managed(self) -> dict[str, tuple[DomainXml, DomainRules]]:
        """The domains that the configuration or their metadata name, with their rules, by name."""
        found = {}
        for name, domain in self.virt.domains.items():
            rules = None if isinstance(domain.now, Unknown) else self.rules_of(domain)
            if rules is not None:
                found[name] = (domain, rules)
        return found

    def rules_of(self, domain: DomainXml) -> DomainRules | None:
        """The rules in force for the domain. None: it is not managed. NotKnown if its XML could not be read."""
        return rules_for(self.rules_config, domain.name, known(domain.now).description.rules)


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """A domain on its host: what the checks of domains get."""

    domain: DomainXml
    host: HostFacts

    @property
    def name(self) -> str:
        return self.domain.name

    @property
    def now(self) -> Definition:
        """The XML now. NotKnown if it could not be read."""
        return known(self.domain.now)

    @property
    def status(self) -> Mapping[str, Any] | None:
        """The daemon's status of it. None: no daemon runs, or it does not know the domain. NotKnown: no answer."""
        status = known(self.host.status)
        if status is None:
            return None
        return next((one for one in status["domains"] if one["name"] == self.name), None)
