"""Gives domains back as they were found: on request, at the daemon's end, or when they are no longer to be managed."""

import asyncio
import logging
from collections.abc import Iterable

from vscaf import clock
from vscaf.core.backoff import Backoff
from vscaf.domains.adoption import Adoption
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inventory import Inventory
from vscaf.errors import HypervisorError, VscafError
from vscaf.events import Kind
from vscaf.journal import LeftAlone
from vscaf.values import DomainKey, State

log = logging.getLogger(__name__)


class Release:
    """Gives domains of *inventory* back."""

    def __init__(self, inventory: Inventory, adoption: Adoption) -> None:
        self._inventory = inventory
        self._adoption = adoption

    async def leave_alone(
        self, domain: ManagedDomain, state: State, why: str, but: frozenset[str] = frozenset()
    ) -> bool:
        """Gives the domain back. It is not managed again before manage(). False: something could not be put back.

        VscafError if a release cannot be written to the journal: then nothing is changed. If a foreign change cannot be
        written, it is still respected until this daemon ends.
        """
        if state != State.RELEASED:
            domain.set_aside(why)
            domain.spared = but
        one = LeftAlone(uuid=domain.seen.key.uuid, state=state, why=why, spared=sorted(but))
        refused = await self._inventory.journal_writer.write_left_alone(one.uuid, one)
        if refused and state == State.RELEASED:
            self._inventory.events.record(Kind.REFUSED, domain.name, why=f"not released: {refused}")
            raise VscafError(f"domain {domain.name}: is not released: {refused}")
        if refused:
            why += f"; until the daemon ends: {refused}"
        domain.set_aside(why)
        domain.spared = but
        if self._adoption.left_unread(domain):
            await self._adoption.adopt_one(domain)
        done = not await self.give_back([domain]) and not self._adoption.left_unread(domain)
        if domain.left_alone:  # still
            domain.enter(state)
        self._inventory.events.record(
            Kind.RELEASED if state == State.RELEASED else Kind.UNMANAGED, domain.name, why=why
        )
        self._inventory.on_change()
        return done

    async def manage(self, domain: ManagedDomain) -> None:
        """Undoes leave_alone. VscafError if that cannot be written to the journal: then nothing is changed."""
        if refused := await self._inventory.journal_writer.write_left_alone(domain.seen.key.uuid, None):
            self._inventory.events.record(Kind.REFUSED, domain.name, why=f"still left alone: {refused}")
            raise VscafError(f"domain {domain.name}: is still left alone: {refused}")
        domain.left_alone, domain.state, domain.spared = "", State.UNMANAGED, frozenset()
        domain.retry = Backoff()
        self._inventory.events.record(Kind.MANAGED, domain.name)
        self._inventory.on_change()

    async def give_back(self, domains: Iterable[ManagedDomain]) -> list[str]:
        """Puts domains back as they were found. They are not managed any more. Returns the names of those that failed.

        A domain that has ended needs nothing put back. A domain that failed keeps its entry in the journal.
        """
        changed = [domain for domain in domains if domain.found is not None]
        outcomes = await asyncio.gather(*(self._give_back_one(domain) for domain in changed))
        left = {domain.seen.key: domain.name for domain, done in zip(changed, outcomes, strict=True) if not done}
        left = await self.still_running(left)
        await self._inventory.write_journal()
        return sorted(left.values())

    async def _give_back_one(self, domain: ManagedDomain) -> bool:
        try:
            anything = await domain.give_back(self._inventory.config.deadline_ms / 1000)
        except HypervisorError as error:
            self._inventory.refused(domain, error)
            return False
        except Exception as error:  # noqa: BLE001  it concerns only this domain: see domains/containment.py
            self._inventory.containment.failed(domain, "giving it back", error)
            return False
        if anything:
            domain.enter(State.UNMANAGED)
            if domain.seen.key in self._inventory.journal.entries:
                self._inventory.events.record(Kind.GIVEN_BACK, domain.name)
        return True

    async def still_running(self, left: dict[DomainKey, str]) -> dict[DomainKey, str]:
        """Of the runs that could not be given back, those that may still run."""
        if not left:
            return left
        try:
            active = {one.key for one in await self._inventory.host.observe()}
        except HypervisorError as error:
            log.error("the other domains may still run (%s); the journal keeps the settings that were found", error)
            return left
        for key in (left.keys() - active) & self._inventory.domains.keys():
            self._inventory.forget(key)
        return {key: name for key, name in left.items() if key in active}

    def give_back_due(self) -> None:
        """Gives back domains that are left alone, or no longer in the configuration nor marked by their metadata."""
        for domain in list(self._inventory.domains.values()):
            unlisted = not domain.listed and not domain.adopting and not domain.giving_back
            if unlisted and domain.found is None and domain.seen.key not in self._inventory.journal.entries:
                log.info("domain %s: neither in the configuration nor marked by its metadata: not managed", domain.name)
                del self._inventory.domains[domain.seen.key]
                if domain.link is not None:
                    self._inventory.background(domain.link.stop())
            elif unlisted or domain.left_alone:
                self.begin_give_back(domain)

    def begin_give_back(self, domain: ManagedDomain) -> None:
        """Gives it back in the background, because a call may take long. After a failure it waits for its retry."""
        known = domain.found is not None or (domain.given_back and domain.seen.key in self._inventory.journal.entries)
        if known and not domain.giving_back and domain.retry.due(clock.now_s()):
            domain.giving_back = True
            self._inventory.background(self._give_back_alone(domain))

    async def _give_back_alone(self, domain: ManagedDomain) -> None:
        try:
            done = await self._give_back_one(domain)
            await self._inventory.write_journal_soon()
        finally:
            domain.giving_back = False
        domain.retry = Backoff() if done else domain.retry.failed(clock.now_s())
        alone = self._inventory.journal.left_alone.get(domain.seen.key.uuid)
        if domain.left_alone and alone is not None:
            domain.enter(alone.domain_state)
