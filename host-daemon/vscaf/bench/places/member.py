"""A running guest that is a member of a place, and commands in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from vscaf.bench.places.place import Ended, PlaceError, Started

COMMAND_DEADLINE_S = 120.0


class Member(Protocol):
    """A running guest."""

    name: str
    vcpus: Sequence[int]
    """The numbers of its vCPUs in libvirt."""
    cpus: Sequence[int]
    """The numbers of the CPUs in the guest that may be online."""
    directory: str
    """The directory of the workloads' files in the guest."""

    @property
    def domain(self) -> Any:
        """The virDomain."""

    @property
    def qemu_pid(self) -> int:
        """The pid of its QEMU."""

    def start(self, command: str) -> Started:
        """Starts a shell command in the guest. Raises PlaceError if the guest is gone."""

    def use_agent(self, running: bool) -> None:
        """Stops the guest's agent, if it has one, or lets it run again. Raises PlaceError."""

    def clock_ahead_s(self) -> float | None:
        """How far the guest's clock is ahead of the host's; None if that is not known."""


def run(guest: Member, command: str, deadline_s: float = COMMAND_DEADLINE_S) -> Ended:
    """The end of a shell command in a guest. Raises PlaceError also if it takes too long."""
    started = guest.start(command)
    try:
        return started.wait(deadline_s)
    except TimeoutError as error:
        started.kill()
        raise PlaceError(f"guest {guest.name}: {error}") from None
