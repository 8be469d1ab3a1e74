"""What is seen of a host and its domains, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """What a domain is doing, in a word. The status and the metrics show these."""

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
"""States in which a domain has no partition, because vscaf changes nothing of it."""


class DomainKey(NamedTuple):
    """One run of one domain: a domain that was stopped and started again is another key."""

    uuid: str
    run_id: int


class RunState(StrEnum):
    """What an active domain does, as libvirt says.

    A domain whose QEMU was stopped by a signal is still RUNNING here: only its calls tell, by not answering.
    """

    RUNNING = "running"
    PAUSED = "paused"  # by somebody, by an I/O error, while it is saved, migrated, or asleep in the guest
    CRASHED = "crashed"
    OTHER = "other"  # shutting down, or no state known


@dataclass(frozen=True, slots=True)
class MetadataRules:
    """What a domain's own metadata say about its partition. None: not said, so the configuration decides.

    `minimum` and `maximum` are pCPUs, `rest` is "reserve", "share" or "keep".
    """

    minimum: int | None = None
    maximum: int | None = None
    weight: float | None = None
    priority: int | None = None
    rest: str | None = None


class GuestCell(NamedTuple):
    """A NUMA cell of a guest: its vCPUs, and the host's nodes that its memory is bound to; empty: anywhere."""

    vcpus: frozenset[int]
    nodes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class GuestTopology:
    """The CPUs as the guest is shown them. vCPU i is a thread of core i // `threads`: threads are numbered first, then
    cores, clusters, dies and sockets, by QEMU and libvirt alike. `cells` may leave vCPUs out.
    """

    threads: int = 1
    cells: tuple[GuestCell, ...] = ()


@dataclass(frozen=True, slots=True)
class DomainSeen:
    """An active domain at one look.

    `accelerated` is False under TCG, where an unplug never completes.
    `agent_socket` is the host end of the channel org.vscaf.agent.0, None where the domain has none.
    `plugged` are the numbers of its `vcpus` vCPUs: 0 and up, but for domains whose vCPUs were enabled one by one.
    `vcpu_time_s` is the CPU time of each plugged vCPU since the domain started; where libvirt gives none for single
    vCPUs that of all stands under 0, and vCPUs whose time cannot be read are missing. `vcpu_delay_s` is the time that
    each was ready to run and had no pCPU; empty where libvirt does not tell.
    `home_nodes` are the NUMA nodes that its memory is bound to or preferred on; empty: anywhere.
    `iothreads` is how many I/O threads it has.
    `topology`: the CPUs as its guest is shown them. `enabled_order`: the place of each plugged vCPU in the order in
    which they were enabled, where libvirt tells.
    `booted`: this run began by a boot, as libvirt still says; False where it was restored or moved here, and where
    nobody can tell any more (it was paused since).
    `started_ns` tells two runs apart that libvirt gives the same key: when this one began; 0: not known.
    `rules` are those of its metadata, None where it has none. Where what they say now is wrong, `rules_error` says so,
    and `rules` are the last good ones of this run.
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

    @property
    def paused(self) -> bool:
        """Whether it does not run now; it keeps what it has."""
        return self.state is not RunState.RUNNING

    def replaces(self, before: "DomainSeen") -> bool:
        """Whether it is known to be another run than *before*, although libvirt gave both the same key."""
        return 0 not in (self.started_ns, before.started_ns) and self.started_ns != before.started_ns


@dataclass(frozen=True, slots=True)
class DomainSettings:
    """Everything that vscaf changes of a domain: read before the first change, put back at the end.

    `vcpu_pins` holds the pins of the plugged vCPUs, `iothread_pins` those of the I/O threads by their id.
    `unplugged_pins` were set for vCPUs that are not plugged, and come into force when they are. `unpinned` is where a
    vCPU may run for which none was set (empty: not known); vscaf does not change it.
    `cpu_shares` is None where the host has no cgroup CPU controller for domains.
    """

    vcpus: int
    vcpu_pins: Mapping[int, frozenset[int]]
    emulator_pin: frozenset[int]
    cpu_shares: int | None
    iothread_pins: Mapping[int, frozenset[int]] = field(default_factory=dict)
    unplugged_pins: Mapping[int, frozenset[int]] = field(default_factory=dict)
    unpinned: frozenset[int] = field(default=frozenset(), compare=False)


class PlugOutcome(StrEnum):
    """What became of a plug or an unplug; none of these is an error."""

    DONE = "done"
    PARTIAL = "partial"  # some of the vCPUs came or went, and no more will by this call
    LATE = "late"  # asked for, and the guest has not let go of all yet: it may, or never
    REFUSED = "refused"  # nothing changed, by what the guest or its QEMU said


@dataclass(frozen=True, slots=True)
class Plugged:
    """How a plug or unplug ended. `vcpus` was read again after it; `words` are libvirt's, empty where it is done."""

    outcome: PlugOutcome
    vcpus: int
    words: str = ""


@dataclass(frozen=True, slots=True)
class HostCpus:
    """The host's pCPUs.

    Which are `online`; which share a core (`cores`, online ones only), a last-level cache (`caches`); the NUMA node
    (`node_of`) and socket (`sockets`) of each; and the firmware's `distances` between nodes, 10 being local (may be
    empty).
    """

    online: frozenset[int]
    cores: tuple[frozenset[int], ...]
    node_of: Mapping[int, int]
    sockets: Mapping[int, int] = field(default_factory=dict)
    caches: tuple[frozenset[int], ...] = ()
    distances: Mapping[tuple[int, int], int] = field(default_factory=dict)
