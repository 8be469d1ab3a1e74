"""Which domains are looked after: who has come and gone, what each look and each message of a guest tells of them.

Calls run in the background; whatever ends is told to the loop, which takes the next steps.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace

from vscaf import clock
from vscaf.agentlink.interface import Link, LinkMaker
from vscaf.domains.adoption import Adoption
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.drift import Drift
from vscaf.domains.executor import Executor
from vscaf.domains.inference import infer
from vscaf.domains.inventory import Inventory
from vscaf.domains.release import Release
from vscaf.domains.rules import DomainRules, rules_for
from vscaf.errors import HypervisorError
from vscaf.events import Kind
from vscaf.values import DomainKey, DomainSeen, MetadataRules

log = logging.getLogger(__name__)

LAST_TRIES, LAST_TRIES_GAP_S = 20, 0.1  # at the end, for what libvirt refuses or does not answer just now


class Registry:
    """Keeps `inventory` as the host shows it and as guests report. `links`: makes the channels to guests."""

    def __init__(self, inventory: Inventory, links: LinkMaker) -> None:
        self.inventory = inventory
        self.adoption = Adoption(inventory)
        self.release = Release(inventory, self.adoption)
        self._drift = Drift(inventory, self.release)
        self.executor = Executor(inventory, self._drift)
        self._links = links
        self._rules: dict[str, tuple[MetadataRules | None, DomainRules | None]] = {}

    async def note(self, seen: Iterable[DomainSeen], asked_at_s: float) -> None:
        """Keeps the records of active domains: new ones are linked, ended ones forgotten, others given back.

        asked_at_s: when the look began that has seen them; what was suspended or resumed since may look otherwise.
        """
        self.inventory.seen_any = True
        now_s = clock.now_s()
        present: dict[DomainKey, tuple[DomainSeen, DomainRules | None]] = {}
        known, self._rules = self._rules, {}
        for one in seen:
            own, rules = known.get(one.name, (None, None))
            if one.name not in known or own != one.rules:
                rules = rules_for(self.inventory.config, one.name, one.rules)
            self._rules[one.name] = (one.rules, rules)
            if rules is not None or one.key in self.inventory.journal.entries or one.key in self.inventory.domains:
                present[one.key] = (one, rules)
        for key, domain in list(self.inventory.domains.items()):
            if key not in present or present[key][0].replaces(domain.seen):
                self.inventory.forget(key)
        for key, (one, rules) in present.items():
            if key not in self.inventory.domains:
                self._appear(one, rules or DomainRules())
            domain = self.inventory.domains[key]
            domain.listed = rules is not None
            self.inventory.containment.review(domain)
            with self.inventory.containment.around(domain, "taking in what was seen of it"):
                self._see(domain, one, rules or domain.rules, now_s)
                if asked_at_s > domain.switched_at_s:
                    self._drift.look_for_waking(domain)
                    infer(domain, now_s, len(self.inventory.domains))
        self.release.give_back_due()
        if any(key not in self.inventory.domains for key in self.inventory.journal.entries):
            await self.inventory.write_journal()

    def _appear(self, seen: DomainSeen, rules: DomainRules) -> None:
        domain = self.inventory.domains[seen.key] = ManagedDomain(seen, rules, self.inventory.host, None)
        with self.inventory.containment.around(domain, "opening the channel to its agent"):
            domain.session.relink(self._link(seen))
        alone = self.inventory.journal.left_alone.get(seen.key.uuid)
        if alone is not None:
            domain.left_alone, domain.state, domain.spared = alone.why, alone.domain_state, frozenset(alone.spared)
        entry = self.inventory.journal.entries.get(seen.key)
        if entry is not None and entry.is_of(seen) is not False and alone is None:
            domain.assume(entry, self.inventory.pool)
        self.inventory.events.record(
            Kind.APPEARED, seen.name, vcpus=seen.vcpus, agent_channel=seen.agent_socket is not None
        )

    def _see(self, domain: ManagedDomain, seen: DomainSeen, rules: DomainRules, now_s: float) -> None:
        if seen.agent_socket != domain.seen.agent_socket:  # its channel was plugged, unplugged or moved
            if domain.link is not None:
                self.inventory.background(domain.link.stop())
            domain.session.relink(self._link(seen))
            domain.audit_due = True
        if seen.rules_error and seen.rules_error != domain.seen.rules_error:
            self.inventory.warnings.warn_once(
                f"rules {seen.name}", f"domain {seen.name}: {seen.rules_error}", seen.name
            )
        domain.seen = seen
        domain.booted = domain.booted or seen.booted
        if rules != domain.rules:
            self.inventory.events.record(Kind.RULES, seen.name, before=domain.rules.words(), after=rules.words())
            domain.rules = rules
            self.renew_treatment(domain)
        transition = domain.transition
        if transition is not None and not transition.moving:
            if transition.vcpus != seen.vcpus:
                domain.transition = replace(transition, vcpus=seen.vcpus, affinity=None, vcpus_refused=None)
                self._drift.vcpus_changed(domain, transition.vcpus, seen.vcpus)
            elif transition.vcpus_maximum != seen.vcpus_maximum:
                domain.transition = replace(transition, vcpus_maximum=seen.vcpus_maximum)
        domain.maximum = self.inventory.pool.maximum(rules, seen.vcpus_maximum)

    def renew_treatment(self, domain: ManagedDomain) -> None:
        """Brings changed rules or pCPUs into how the domain is treated."""
        if domain.transition is not None and domain.found is not None:
            treatment = self.inventory.pool.treatment(domain.rules, domain.found, domain.seen.accelerated)
            domain.transition = replace(domain.transition, treatment=treatment)

    def _link(self, seen: DomainSeen) -> Link | None:
        return self._links(seen, lambda: self._heard(seen.key))

    def _heard(self, key: DomainKey) -> None:
        """A guest said something: demand is looked at, an acknowledgement takes the next step."""
        domain = self.inventory.domains.get(key)
        if domain is None:
            return
        fresh = False
        with self.inventory.containment.around(domain, "hearing its guest"):
            link = domain.link
            if link is not None and link.fault is not None:
                error, link.fault = link.fault, None
                raise error
            fresh = domain.session.news()
            domain.hear()
        (self.inventory.on_change if fresh else self.inventory.on_news)()

    def hear_all(self) -> None:
        """Brings into all transition states what guests have said, and who has fallen silent."""
        for domain in self.inventory.domains.values():
            with self.inventory.containment.around(domain, "hearing its guest"):
                domain.hear()

    async def give_all_back(self) -> list[str]:
        """Puts everything back, also what an earlier daemon has changed and this one has not read yet; as give_back."""
        if not self.inventory.seen_any:
            asked_at_s = clock.now_s()
            try:
                await self.note(await self.inventory.host.observe(), asked_at_s)
            except HypervisorError as error:
                log.error("what domains there are is unknown (%s); the journal keeps what was found", error)
        unread = [domain for domain in self.inventory.domains.values() if self.adoption.left_unread(domain)]
        await asyncio.gather(*(self.adoption.adopt_one(domain) for domain in unread))
        left = set(await self.release.give_back(self.inventory.domains.values()))
        for _ in range(LAST_TRIES):
            if not left:
                break
            await asyncio.sleep(LAST_TRIES_GAP_S)
            left = set(await self.release.give_back(self.inventory.domains.values()))
        not_read = {domain.seen.key: domain.name for domain in unread if not domain.given_back}
        left |= set((await self.release.still_running(not_read)).values())
        if not self.inventory.seen_any:
            left |= {entry.name for entry in self.inventory.journal.entries.values()}
        await self.inventory.write_journal()
        return sorted(left)
