"""What the daemon asks of a host, whichever is behind it: libvirt, or a simulated one."""

from collections.abc import Mapping
from typing import Protocol

from vscaf.values import DomainKey, DomainSeen, DomainSettings, HostCpus, Plugged


class Hypervisor(Protocol):
    """A host with domains. Every call may raise HypervisorError or one of its kinds, and ends within a time-out.

    DomainGone: that run of the domain has ended. HypervisorUnreachable: what domains do is unknown, not nothing.
    NotSupported: this host or domain can never do it. ValueError: a pin to no pCPU.
    """

    @property
    def tells_of_tuning(self) -> bool:
        """Whether on_tuned is called for changes of pins, weight and vCPUs, so that they need not be looked for."""
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
        """Everything that vscaf may change of the domain, as it is now."""
        ...

    async def pin_vcpus(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each vCPU run on its pCPUs alone; pins of vCPUs that are not plugged hold once they are."""
        ...

    async def pin_emulator(self, key: DomainKey, cpus: frozenset[int]) -> None:
        """Lets the emulator's own threads run on *cpus* alone."""
        ...

    async def pin_iothreads(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
        """Lets each I/O thread, by its id, run on its pCPUs alone."""
        ...

    async def set_cpu_shares(self, key: DomainKey, shares: int) -> None:
        """Sets the domain's cgroup CPU weight."""
        ...

    async def plug(self, key: DomainKey, vcpus: int, cpus: frozenset[int] | None = None) -> Plugged:
        """Plugs vCPUs until *vcpus* are there; *cpus*: where the new ones may run, from their first moment on."""
        ...

    async def unplug(self, key: DomainKey, vcpus: int) -> Plugged:
        """Asks for vCPUs to be unplugged until *vcpus* are left. Late, partial and refused are normal outcomes."""
        ...

    async def suspend(self, key: DomainKey) -> bool:
        """Stops all vCPUs of the domain, and returns once they are seen stopped. False: it was paused already."""
        ...

    async def resume(self, key: DomainKey) -> bool:
        """Lets the domain run that suspend() stopped, and returns once it is seen to run; True where it runs already.

        False: it is paused for a reason that is not a request to pause it (an I/O error, a migration), and stays so.
        """
        ...
