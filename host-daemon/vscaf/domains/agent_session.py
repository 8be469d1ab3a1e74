"""The exchange with one guest: what it was told, under which number, and whether it has acknowledged that."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from vscaf.agentlink.interface import Link
from vscaf.agentlink.link import AgentLink
from vscaf.agentlink.messages import Allocate
from vscaf.core.reconcile.state import AnnouncedSize
from vscaf.values import DomainSeen

GUEST_DEADLINE_SHARE = 0.6  # of the deadline: the guest needs the rest to offline CPUs after its sections have ended


class AgentSession:
    """The exchange over `link` (None: the domain has no channel).

    `announced_any`: whether this daemon or an earlier one has sent the guest a size.
    """

    def __init__(self, link: Link | None) -> None:
        self.link = link
        self.announced_any = False
        self._sequence = 0
        self._sent_to = -1
        self._noted: tuple[object, ...] = ()
        self._received = asyncio.Event()

    @property
    def starts_over(self) -> bool:
        """Whether nothing was sent to the present agent yet."""
        return self.link is not None and self.link.generation != self._sent_to

    @property
    def acknowledged(self) -> bool:
        """Whether the guest has confirmed the last message."""
        return self.link is not None and self.link.acknowledged == self._sequence

    @property
    def sequence(self) -> int:
        """The number of the last message to the guest."""
        return self._sequence

    def relink(self, link: Link | None) -> None:
        """Uses another channel. Nothing was sent to its agent yet."""
        self.link, self._sent_to = link, -1

    async def reconnect(self, seen: DomainSeen, timeout_s: float) -> None:
        """Links to the agent of *seen*, and waits at most *timeout_s* until it answers."""
        self.relink(agent_link(seen, self._received.set))
        await self._wait(lambda: self.link is None or self.link.connected, timeout_s)

    def news(self) -> bool:
        """Whether the guest has sent something since the last call that may change a decision."""
        link = self.link
        if link is None:
            return False
        self._received.set()
        current = (link.connected, link.generation, link.demand)
        fresh = current != self._noted
        self._noted = current
        return fresh

    def announce(self, announced: AnnouncedSize, again: bool, deadline_s: float) -> None:
        """Sends the guest its allocation, under a new number unless it is told again."""
        if not again:
            # Numbers grow across daemons without being stored, and no guest can influence them.
            self._sequence = max(self._sequence + 1, time.time_ns() // 1_000_000)
        self.announced_any = True
        if self.link is None:
            return
        self._sent_to = self.link.generation
        self.link.send(
            Allocate(
                sequence=self._sequence,
                cpus=announced.cpus,
                limit=announced.limit,
                competition=announced.competition,
                deadline_ms=int(deadline_s * 1000 * GUEST_DEADLINE_SHARE),
            )
        )

    async def announce_all_cpus(self, announced: AnnouncedSize, deadline_s: float) -> bool:
        """Tells the guest that it may use all its CPUs, and waits up to *deadline_s*. False: it did not confirm."""
        self.announce(announced, False, deadline_s)
        link = self.link
        if link is None or not link.connected:
            return True
        return await self._wait(lambda: self.acknowledged or not link.connected, deadline_s)

    async def _wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until *condition* holds; checks it after each message of the guest. False: it does not hold in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._received.clear()
                    await self._received.wait()
        except TimeoutError:
            return False
        return True


def agent_link(seen: DomainSeen, on_news: Callable[[], None]) -> AgentLink | None:
    """A started link to the agent of *seen*. None: the domain has no channel."""
    if seen.agent_socket is None:
        return None
    link = AgentLink(seen.name, Path(seen.agent_socket), on_news)
    link.start()
    return link
