"""What is seen of a host and its domains, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DomainKey:
    """One run of one domain: a domain that was stopped and started again is another key."""

    uuid: str
    run_id: int


@dataclass(frozen=True, slots=True)
class DomainSeen:
    """A running domain at one look.

    `accelerated` is False under TCG, where an unplug never completes. `paused` domains keep what they have.
    `agent_socket` is the host end of the channel org.vscaf.agent.0, None where the domain has none.
    `vcpu_time_s` is the CPU time of each plugged vCPU since the domain started.
    """

    key: DomainKey
    name: str
    accelerated: bool
    paused: bool
    vcpus: int
    vcpus_maximum: int
    vcpu_time_s: Mapping[int, float]
    agent_socket: str | None


@dataclass(frozen=True, slots=True)
class DomainSettings:
    """Everything that vscaf changes of a domain: read before the first change, put back at the end.

    `cpu_shares` is None where the host has no cgroup CPU controller for domains.
    """

    vcpus: int
    vcpu_pins: Mapping[int, frozenset[int]]
    emulator_pin: frozenset[int]
    cpu_shares: int | None


@dataclass(frozen=True, slots=True)
class HostCpus:
    """The host's CPUs: which are online, which share a core, and the NUMA node of each."""

    online: frozenset[int]
    cores: tuple[frozenset[int], ...]
    node_of: Mapping[int, int]
