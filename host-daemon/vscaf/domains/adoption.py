"""Adopts domains: reads their settings and their journal entries before they are managed."""

from vscaf import clock
from vscaf.core.backoff import Backoff
from vscaf.cpulist import format_cpu_list
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inventory import Inventory
from vscaf.errors import HypervisorError
from vscaf.events import Kind
from vscaf.values import State


class Adoption:
    """Adopts the domains of *inventory*."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def adopt(self, managing: bool) -> None:
        """Starts to read the settings of domains that should be managed. managing: whether any should."""
        for domain in self._inventory.domains.values():
            if not domain.unread or domain.adopting or domain.seen.starting:
                continue
            # Other domains are read too if an earlier daemon could not give them back.
            wanted = self.left_unread(domain) or (managing and domain.listed and not domain.left_alone)
            if wanted and domain.retry.due(clock.now_s()):
                domain.adopting = True
                self._inventory.background(self.adopt_one(domain))

    def left_unread(self, domain: ManagedDomain) -> bool:
        """Whether an earlier daemon has changed the domain, and this daemon has not read its settings yet."""
        return domain.found is None and not domain.given_back and domain.seen.key in self._inventory.journal.entries

    async def adopt_one(self, domain: ManagedDomain) -> None:
        try:
            entry = self._inventory.journal.entries.get(domain.seen.key)
            departed = self._inventory.journal.departed.get(domain.seen.key.uuid)
            left = await domain.adopt(entry, departed, self._inventory.pool)
            domain.retry = Backoff()
            self._inventory.warnings.clear(domain.name)
            if domain.left_alone:  # it was left alone before, or is since the reading began
                domain.set_aside(domain.left_alone)
            if left is not None and left is entry:
                where = "rests" if domain.transition and domain.transition.resting else format_cpu_list(domain.held)
                self._inventory.events.record(
                    Kind.ADOPTED, domain.name, after=where, why="as an earlier daemon left it"
                )
        except HypervisorError as error:
            domain.retry = domain.retry.failed(clock.now_s())
            if domain.transition is None and domain.found is None and not domain.left_alone:
                error = type(error)(f"{error}: until its settings can be read it may compute on pCPUs of others")
                domain.enter(State.UNKNOWN)
            self._inventory.refused(domain, error)
        except Exception as error:  # noqa: BLE001  it concerns only this domain: see domains/containment.py
            domain.retry = domain.retry.failed(clock.now_s())
            self._inventory.containment.failed(domain, "reading its settings", error)
        finally:
            domain.adopting = False
        self._inventory.on_change()
