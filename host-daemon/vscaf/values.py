"""A host and its domains as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """The state of a domain, as the status and the metrics show it."""

    COOPERATING = "cooperating"
    SHRINKING = "shrinking"
    CONTAINED = "contained"
    GROWING = "growing"
    RESTING = "resting"
    QUEUED = "queued"
    SUSPENDED = "suspended"
    UNKNOWN = "unknown"
    UNMANAGED = "unmanaged"
    RELEASED = "released"
    NOT_RUNNING = "not running"


LEFT_ALONE = frozenset({State.UNMANAGED, State.RELEASED})
"""States in which a domain has no partition, because vscaf does not change it."""


class DomainKey(NamedTuple):
    """One run of one domain: a domain that was stopped and started again has another key."""

    uuid: str
    run_id: int


class RunState(StrEnum):
    """The state of an active domain, as libvirt reports it.

    A domain whose QEMU was stopped by a signal is still RUNNING here. It only shows in calls that do not return.
    """

    RUNNING = "running"
    STARTING = "starting"  # libvirt is starting or restoring it; its vCPUs have not run yet
    PAUSED = "paused"  # by request, by an I/O error, while it is saved or migrated, or the guest is asleep
    CRASHED = "crashed"
    OTHER = "other"  # it shuts down, or its state is not known


@dataclass(frozen=True, slots=True)
class MetadataRules:
    """The rules in a domain's own metadata. None: not given, so the configuration decides.

    `minimum` and `maximum` are pCPUs, `rest` is "reserve", "share" or "keep".
    """

    minimum: int | None = None
    maximum: int | None = None
    weight: float | None = None
    priority: int | None = None
    rest: str | None = None


class GuestCell(NamedTuple):
    """A NUMA cell of a guest: its vCPUs, and the host nodes that its memory is bound to (empty: any node)."""

    vcpus: frozenset[int]
    nodes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class GuestTopology:
    """The CPU topology that the guest sees. vCPU i is a thread of core i // `threads`: QEMU and libvirt both number
    threads first, then cores, clusters, dies and sockets. `cells` need not contain all vCPUs.
    """

    threads: int = 1
    cells: tuple[GuestCell, ...] = ()


@dataclass(frozen=True, slots=True)
class DomainSeen:
    """An active domain, as seen in one look.

    `accelerated` is False under TCG, where an unplug never completes.
    `agent_socket` is the host end of the channel org.vscaf.agent.0. None: the domain has no such channel.
    `plugged` are the numbers of its `vcpus` vCPUs: 0 and up, unless the vCPUs were enabled one by one.
    `vcpu_time_s` is the CPU time of each plugged vCPU since the domain started. If libvirt has no time for single
    vCPUs, the time of all is under 0. vCPUs whose time cannot be read are missing. `vcpu_delay_s` is the time that
    each was ready to run and had no pCPU; empty if libvirt does not report it.
    `home_nodes` are the NUMA nodes that its memory is bound to or preferred on; empty: any node.
    `iothreads` is how many I/O threads it has.
    `topology`: the CPU topology that its guest sees. `enabled_order`: the position of each plugged vCPU in the order in
    which they were enabled, if libvirt reports it.
    `booted`: libvirt still reports that this run began with a boot. False if the domain was restored or migrated to
    this host, and also if it was paused since, because libvirt then no longer reports it.
    `paused_by_request`: libvirt reports that vscaf or somebody else has asked for its pause, or for a start as paused.
    False for a domain that was restored as paused.
    `started_ns`: when this run began; 0: not known. It tells apart two runs that libvirt gives the same key.
    `rules` are those of its metadata, None if it has none. If the metadata are wrong now, `rules_error` is the reason,
    and `rules` are the last good ones of this run, None if they are not known.
    `described`: its description could be read. If not, all that comes from it is unknown: `accelerated`,
    `agent_socket`, `home_nodes`, `iothreads`, `topology`, `enabled_order` and `rules`.
    """

    key: DomainKey
    name: str
    accelerated: bool
    state: RunState
    vcpus: int
    vcpus_maximum: int
    vcpu_time_s: Mapping[int, float]
    plugged: frozenset[int] = frozenset()
    agent_socket: str | None = None
    home_nodes: frozenset[int] = frozenset()
    iothreads: int = 0
    rules: MetadataRules | None = None
    rules_error: str | None = None
    vcpu_delay_s: Mapping[int, float] = field(default_factory=dict)
    booted: bool = False
    topology: GuestTopology = field(default_factory=GuestTopology)
    enabled_order: Mapping[int, int] = field(default_factory=dict)
    started_ns: int = 0
    described: bool = True
    paused_by_request: bool = False

    @property
    def paused(self) -> bool:
        """Whether it does not run now; it keeps what it has."""
        return self.state is not RunState.RUNNING

    @property
    def starting(self) -> bool:
        """Whether libvirt is starting it. Only afterwards does libvirt report whether it was booted or restored."""
        return self.state is RunState.STARTING

    def replaces(self, before: "DomainSeen") -> bool:
        """Whether this is certainly another run than *before*, although libvirt gave both the same key."""
        return 0 not in (self.started_ns, before.started_ns) and self.started_ns != before.started_ns


@dataclass(frozen=True, slots=True)
class DomainSettings:
    """All settings of a domain that vscaf changes: read before the first change, put back at the end.

    `vcpu_pins` holds the pins of the plugged vCPUs, `iothread_pins` those of the I/O threads by their id.
    `unplugged_pins` are set for vCPUs that are not plugged, and take effect when these are plugged. `unpinned` is where
    a vCPU without a pin may run (empty: not known). vscaf does not change it. `online`: the pCPUs that were online
    before and after the pins were read (empty: not known). libvirt reports these as the pin of a vCPU or an emulator
    that has none.
    `cpu_shares` is None if the host has no cgroup CPU controller for domains.
    """

    vcpus: int
    vcpu_pins: Mapping[int, frozenset[int]]
    emulator_pin: frozenset[int]
    cpu_shares: int | None
    iothread_pins: Mapping[int, frozenset[int]] = field(default_factory=dict)
    unplugged_pins: Mapping[int, frozenset[int]] = field(default_factory=dict)
    unpinned: frozenset[int] = field(default=frozenset(), compare=False)
    online: frozenset[int] = field(default=frozenset(), compare=False)


class PlugOutcome(StrEnum):
    """The outcome of a plug or an unplug. None of these is an error."""

    DONE = "done"
    PARTIAL = "partial"  # some of the vCPUs were plugged or unplugged; this call will not do more
    LATE = "late"  # libvirt has asked the guest, which has not released all vCPUs yet, and may never do so
    REFUSED = "refused"  # nothing changed: the guest or its QEMU refused


@dataclass(frozen=True, slots=True)
class Plugged:
    """The result of a plug or unplug. `vcpus` was read again after it. `message`: libvirt's message, empty if none."""

    outcome: PlugOutcome
    vcpus: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class HostCpus:
    """The host's pCPUs.

    `online`: those that are online. `cores`: online pCPUs that share a core. `caches`: pCPUs that share a last-level
    cache. `node_of`, `sockets`: the NUMA node and the socket of each. `distances`: the firmware's distances between
    nodes, where 10 is local; may be empty.
    """

    online: frozenset[int]
    cores: tuple[frozenset[int], ...]
    node_of: Mapping[int, int]
    sockets: Mapping[int, int] = field(default_factory=dict)
    caches: tuple[frozenset[int], ...] = ()
    distances: Mapping[tuple[int, int], int] = field(default_factory=dict)
