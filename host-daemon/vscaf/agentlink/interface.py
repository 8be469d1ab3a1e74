"""The interface of a channel to a guest's agent: a socket, or a simulated guest."""

from collections.abc import Callable
from typing import Protocol

from vscaf.agentlink import messages
from vscaf.values import DomainSeen


class Link(Protocol):
    """The channel to one guest's agent, as AgentLink describes it."""

    fault: Exception | None

    @property
    def report(self) -> messages.Report | None: ...

    @property
    def demand(self) -> int | None: ...

    @property
    def online(self) -> tuple[int, ...] | None: ...

    @property
    def connected(self) -> bool: ...

    @property
    def agent_version(self) -> str | None: ...

    @property
    def condition(self) -> str: ...

    @property
    def acknowledged(self) -> int | None: ...

    @property
    def generation(self) -> int: ...

    @property
    def bad_lines(self) -> int: ...

    @property
    def quiet(self) -> bool: ...

    def age_s(self) -> float: ...

    def send(self, message: messages.HostHello | messages.Allocate | messages.WireError) -> bool: ...

    async def stop(self) -> None: ...


LinkMaker = Callable[[DomainSeen, Callable[[], None]], Link | None]
"""Makes a started link to the agent of a domain. The link calls the second argument on news. None: no channel."""
