"""Keeps the known domains up to date: which came and went, and what each look and each message of a guest shows.

Calls run in the background. When one ends, the loop is woken and takes the next steps.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace

from vscaf import clock
from vscaf.agentlink.interface import Link, LinkMaker
from vscaf.config import Config
from vscaf.core.reconcile.state import on_treatment
from vscaf.domains.adoption import Adoption
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.drift import Drift
from vscaf.domains.executor import Executor
from vscaf.domains.inference import infer
from vscaf.domains.inventory import Inventory
from vscaf.domains.release import Release
from vscaf.domains.rules import DomainRules, marking_unknown, rules_for
from vscaf.errors import HypervisorError
from vscaf.events import Kind
from vscaf.values import DomainKey, DomainSeen, MetadataRules

log = logging.getLogger(__name__)

LAST_TRIES, LAST_TRIES_GAP_S = 20, 0.1  # when the daemon ends, for calls that libvirt refuses or does not answer


class Registry:
    """Updates `inventory` from looks at the host and from guests' reports. `links`: makes the channels to guests."""

    def __init__(self, inventory: Inventory, links: LinkMaker) -> None:
        self.inventory = inventory
        self.adoption = Adoption(inventory)
        self.release = Release(inventory, self.adoption)
        self._drift = Drift(inventory, self.release)
        self.executor = Executor(inventory, self._drift)
        self._links = links
        self._rules: dict[str, tuple[MetadataRules | None, DomainRules | None]] = {}

    async def note(self, seen: Iterable[DomainSeen], asked_at_s: float) -> None:
        """Updates the records of the active domains *seen*: links new ones, forgets ended ones, gives others back.

        asked_at_s: when the look began. Domains that were suspended, resumed, plugged or unplugged since may be in
        another state by now.
        """
        self.inventory.seen_any = True
        now_s = clock.now_s()
        present: dict[DomainKey, tuple[DomainSeen, DomainRules | None]] = {}
        known, self._rules = self._rules, {}
        domains, containment = self.inventory.domains, self.inventory.containment
        for domain_seen in seen:
            name, key = domain_seen.name, domain_seen.key
            found = known.get(name)
            if found is None or found[0] != domain_seen.rules:
                found = (domain_seen.rules, rules_for(self.inventory.config, name, domain_seen.rules))
            self._rules[name] = found
            if found[1] is not None or key in domains or key in self.inventory.journal.entries:
                present[key] = (domain_seen, found[1])
        for key, domain in list(domains.items()):
            if key not in present or present[key][0].replaces(domain.seen):
                self.inventory.forget(key)
        for key, (domain_seen, rules) in present.items():
            if key not in domains:
                marked = rules or rules_for(self.inventory.config, domain_seen.name, MetadataRules())
                self._appear(domain_seen, marked or DomainRules())
            domain = domains[key]
            if not marking_unknown(self.inventory.config, domain_seen):  # else it stays as it was
                domain.listed = rules is not None
            containment.review(domain)
            with containment.around(domain, "processing what a look saw of it"):
                self._see(domain, domain_seen, rules or domain.rules, asked_at_s)
                if asked_at_s > domain.switched_at_s:
                    self._drift.look_for_waking(domain)
                    infer(domain, now_s, len(domains))
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
        # If it is unknown whether it is marked, the earlier daemon knew.
        domain.listed = entry is not None and entry.is_of(seen) is not False
        self.inventory.events.record(
            Kind.APPEARED, seen.name, vcpus=seen.vcpus, agent_channel=seen.agent_socket is not None
        )

    def _see(self, domain: ManagedDomain, seen: DomainSeen, rules: DomainRules, asked_at_s: float) -> None:
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
        if rules is not domain.rules and rules != domain.rules:
            self._change_rules(domain, rules)
            self.renew_treatment(domain)
        transition = domain.transition
        if transition is not None and not transition.moving:
            if transition.vcpus != seen.vcpus and asked_at_s > domain.counted_at_s:
                domain.transition = replace(transition, vcpus=seen.vcpus, affinity=None, vcpus_refused=None)
                self._drift.vcpus_changed(domain, transition.vcpus, seen.vcpus)
            elif transition.vcpus_maximum != seen.vcpus_maximum:
                domain.transition = replace(transition, vcpus_maximum=seen.vcpus_maximum)
        domain.maximum = self.inventory.pool.maximum(rules, seen.vcpus_maximum)

    def configure(self, config: Config, added: frozenset[int]) -> None:
        """Uses another configuration, which the pool has already. The rules are in force at once.

        Domains come and go with the next look. added: the pCPUs that came to the pool.
        """
        self.inventory.config, self._rules = config, {}
        for domain in self.inventory.domains.values():
            with self.inventory.containment.around(domain, "taking its rules from the configuration"):
                rules = rules_for(config, domain.name, domain.seen.rules)
                if rules is not None and rules != domain.rules:
                    self._change_rules(domain, rules)
                self.renew_treatment(domain, added)
                domain.maximum = self.inventory.pool.maximum(domain.rules, domain.seen.vcpus_maximum)

    def _change_rules(self, domain: ManagedDomain, rules: DomainRules) -> None:
        self.inventory.events.record(Kind.RULES, domain.name, before=domain.rules.summary(), after=rules.summary())
        domain.rules = rules

    def renew_treatment(self, domain: ManagedDomain, added: frozenset[int] = frozenset()) -> None:
        """Updates the domain's treatment after its rules or the pool's pCPUs changed. added: see on_treatment."""
        if domain.transition is not None and domain.found is not None:
            treatment = self.inventory.pool.treatment(domain.rules, domain.found, domain.seen.accelerated)
            domain.transition = on_treatment(domain.transition, treatment, added)

    def _link(self, seen: DomainSeen) -> Link | None:
        return self._links(seen, lambda: self._on_message(seen.key))

    def _on_message(self, key: DomainKey) -> None:
        """Handles a message of a guest. A new demand causes a look, an acknowledgement the next step."""
        domain = self.inventory.domains.get(key)
        if domain is None:
            return
        fresh = False
        with self.inventory.containment.around(domain, "processing its guest's reports"):
            link = domain.link
            if link is not None and link.fault is not None:
                error, link.fault = link.fault, None
                raise error
            fresh = domain.session.news()
            domain.process_reports()
        (self.inventory.on_change if fresh else self.inventory.on_news)()

    def process_all_reports(self) -> None:
        """Brings the guests' reports, and which agents stopped reporting, into all transition states."""
        for domain in self.inventory.domains.values():
            with self.inventory.containment.around(domain, "processing its guest's reports"):
                domain.process_reports()

    async def give_all_back(self) -> list[str]:
        """Puts everything back, as give_back. Includes domains of an earlier daemon that were not read yet."""
        if not self.inventory.seen_any:
            asked_at_s = clock.now_s()
            try:
                await self.note(await self.inventory.host.observe(), asked_at_s)
            except HypervisorError as error:
                log.error("domains cannot be listed (%s); the journal keeps the settings that were found", error)
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
