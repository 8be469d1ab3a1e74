"""The known domains, and what all work on them shares: the journal, events, background tasks."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from vscaf.config import Config
from vscaf.cpulist import format_cpu_list
from vscaf.domains.containment import Containment
from vscaf.domains.deduplicated_warnings import DeduplicatedWarnings
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.journal_writer import JournalWriter
from vscaf.domains.pool import HostPool
from vscaf.errors import DomainGone, HypervisorError
from vscaf.events import EventLog, Kind
from vscaf.hypervisor.interface import Hypervisor
from vscaf.values import DomainKey

log = logging.getLogger(__name__)


class Inventory:
    """The domains of *pool*: those of the configuration, those marked by metadata, and those that an earlier daemon has
    changed.

    `on_news`: called when the next steps may have changed. `on_change`: called when the host should be looked at too.
    `seen_any`: whether the host has been looked at.
    """

    def __init__(
        self,
        config: Config,
        host: Hypervisor,
        pool: HostPool,
        *,
        journal_writer: JournalWriter,
        warnings: DeduplicatedWarnings,
        events: EventLog,
        on_news: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self.domains: dict[DomainKey, ManagedDomain] = {}
        self.config = config
        self.host = host
        self.pool = pool
        self.journal_writer = journal_writer
        self.journal = journal_writer.journal
        self.warnings = warnings
        self.events = events
        self.containment = Containment(events)
        self.on_news = on_news
        self.on_change = on_change
        self.seen_any = False
        self._tasks: set[asyncio.Task[object]] = set()
        self._write_wanted = False
        self._write_turn = asyncio.Lock()

    async def close(self) -> None:
        """Ends the background tasks and the links to the guests."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(one.link.stop() for one in self.domains.values() if one.link is not None))

    def taking_part(self) -> dict[str, ManagedDomain]:
        """The domains for which pCPUs are decided, by name."""
        return {one.name: one for one in self.domains.values() if one.transition is not None and one.listed}

    async def write_journal(self) -> None:
        """Brings the journal up to date. Does nothing before the first look, when ended runs are not known yet."""
        if self.seen_any:
            await self.journal_writer.write_journal(self.domains)

    async def write_journal_soon(self) -> None:
        """As write_journal. One write serves all calls that wait at the same time."""
        self._write_wanted = True
        async with self._write_turn:
            if self._write_wanted:
                self._write_wanted = False
                await self.write_journal()

    def forget(self, key: DomainKey) -> None:
        """Forgets a run that has ended."""
        gone = self.domains.pop(key)
        self.warnings.clear(gone.name)
        self.events.record(Kind.GONE, gone.name, before=format_cpu_list(gone.held) or None)
        if gone.link is not None:
            self.background(gone.link.stop())

    def refused(self, domain: ManagedDomain, error: HypervisorError) -> None:
        """Reports that a call on the domain failed, once for each cause. If the domain has gone, it only logs that."""
        if isinstance(error, DomainGone):
            log.info("domain %s: went away while it was being changed", domain.name)
            self.on_change()
        else:
            self.warnings.warn_once(domain.name, str(error), domain.name)

    def background(self, work: Coroutine[Any, Any, object]) -> None:
        """Runs *work* in the background. An unexpected error is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("unexpected error, please report this: %r", error, exc_info=error)
        self.on_news()
