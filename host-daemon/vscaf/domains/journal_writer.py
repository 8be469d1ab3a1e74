"""Writes the journal, one write at a time, without blocking the event loop."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from vscaf.domains.deduplicated_warnings import DeduplicatedWarnings
from vscaf.domains.domain import ManagedDomain
from vscaf.journal import Journal, LeftAlone
from vscaf.values import DomainKey


class JournalWriter:
    """Writes *journal*, which the caller opens and closes. Failures are reported to *warnings*."""

    def __init__(self, journal: Journal, warnings: DeduplicatedWarnings) -> None:
        self.journal = journal
        self._warnings = warnings
        self._written: list[object] | None = None
        self._turn = asyncio.Lock()

    def stale(self, managed: Mapping[DomainKey, ManagedDomain]) -> bool:
        """Whether the journal is out of date."""
        return _content(managed) != self._written

    async def write_journal(self, managed: Mapping[DomainKey, ManagedDomain]) -> bool:
        """Brings the journal up to date with all active domains. False: it could not be written and is unchanged."""
        async with self._turn:
            content, self._written = _content(managed), None
            ended = [entry for key, entry in self.journal.entries.items() if key not in managed]
            entries = {key: entry for key, entry in self.journal.entries.items() if key in managed}
            for key, domain in managed.items():
                if domain.given_back:
                    entries.pop(key, None)
                elif domain.found is not None and domain.goal is not None:
                    entries[key] = domain.entry()
                elif key in entries and entries[key] is domain.outdated_entry:
                    ended.append(entries.pop(key))
                elif (
                    key in entries
                    and entries[key].suspended
                    and domain.found is not None
                    and not domain.suspended_by_us
                ):
                    entries[key] = msgspec.structs.replace(entries[key], suspended=False)
            done = entries == self.journal.entries or not await self._write(lambda: self.journal.write(entries, ended))
            if done:
                self._written = content
            return done

    async def _write(self, work: Callable[[], None]) -> str:
        """Writes on a worker thread, because a disk may be slow. Returns why it failed, empty if it succeeded.

        A caller that is cancelled still waits for the thread, because no other write may begin before it ends.
        """
        writing = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise
        except OSError as error:
            refused = f"journal {self.journal.path}: {error.strerror or error}"
            self._warnings.warn_once("journal", f"{refused}: nothing is changed until it can be written")
            return refused
        self._warnings.clear("journal")
        return ""

    async def write_left_alone(self, uuid: str, one: LeftAlone | None) -> str:
        """Writes that a domain must not be managed, or (None) that it may be. Returns the error, empty if none."""
        async with self._turn:
            return await self._write(lambda: self.journal.leave_alone(one, uuid))


def _content(managed: Mapping[DomainKey, ManagedDomain]) -> list[object]:
    """All values that the journal's entries are made from. Cheap to compare: unchanged values are the same object."""
    content: list[object] = []
    for domain in managed.values():
        goal, transition = domain.goal, domain.transition
        content += (
            domain.seen.name,
            domain.found,
            domain.given_back,
            goal and goal.partition,
            goal and goal.suspended,
            transition and transition.treatment,
            transition and transition.occupied,
            domain.suspended_by_us,
        )
    return content
