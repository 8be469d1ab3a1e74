"""The interface of a host with domains: libvirt, or a simulated host."""

from collections.abc import Mapping
from typing import Protocol

from vscaf.values import DomainKey, DomainSeen, DomainSettings, HostCpus, Plugged


class Hypervisor(Protocol):
    """A host with domains. Every call may raise HypervisorError or a subclass, and ends within a time-out.

    DomainGone: that run of the domain has ended. HypervisorUnreachable: the state of the domains is unknown, they may
    still run. NotSupported: this host or domain can never do it. ValueError: a pin to no pCPU.
    """

    @property
    def reports_tuning(self) -> bool:
        """Whether on_tuned is called for changes of pins, weight and vCPUs, so that no polling is needed."""
        ...

    async def open(self) -> None:
        """Connects."""
        ...

    async def close(self) -> None:
        """Ends the connection. Harmless when called twice."""
        ...

    async def host_cpus(self) -> HostCpus:
        """The host's pCPUs."""
        ...

    async def defined(self, name: str) -> bool:
        """Whether there is a domain of that name, running or not."""
        ...

    async def observe(self) -> tuple[DomainSeen, ...]:
        """All active domains, by name. Any error means that the state of *all* is unknown."""
        ...

    async def settings(self, key: DomainKey) -> DomainSettings:
        """The present values of all settings of the domain that vscaf may change."""
        ...

    async def pin_vcpus(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each vCPU run only on its pCPUs. Pins of vCPUs that are not plugged take effect when they are."""
        ...

    async def pin_emulator(self, key: DomainKey, cpus: frozenset[int]) -> None:
        """Lets the emulator's own threads run only on *cpus*."""
        ...

    async def pin_iothreads(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each I/O thread, by its id, run only on its pCPUs."""
        ...

    async def set_cpu_shares(self, key: DomainKey, shares: int) -> None:
        """Sets the domain's cgroup CPU weight."""
        ...

    async def plug(self, key: DomainKey, vcpus: int, cpus: frozenset[int] | None = None) -> Plugged:
        """Plugs vCPUs until *vcpus* are plugged. *cpus*: where the new ones may run from the start."""
        ...

    async def unplug(self, key: DomainKey, vcpus: int) -> Plugged:
        """Asks the guest to release vCPUs until *vcpus* are left. Late, partial and refused are normal outcomes."""
        ...

    async def suspend(self, key: DomainKey) -> bool:
        """Stops all vCPUs of the domain, and returns once they are seen stopped. False: it was paused already."""
        ...

    async def resume(self, key: DomainKey) -> bool:
        """Resumes a domain that suspend() stopped, and returns once it is seen to run. True also if it runs already.

        False: it is paused for another reason than a request (an I/O error, a migration), and stays paused.
        """
        ...
