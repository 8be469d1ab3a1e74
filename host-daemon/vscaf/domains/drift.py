"""Drift: somebody else changed a domain. The next steps put that right, or it is respected."""

from dataclasses import replace

from vscaf.core.reconcile.drift import foreign_changes
from vscaf.core.reconcile.state import Affinity
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inventory import Inventory
from vscaf.domains.release import Release
from vscaf.events import Kind
from vscaf.values import State


class Drift:
    """Handles changes that somebody else has made to the domains of *inventory*."""

    def __init__(self, inventory: Inventory, release: Release) -> None:
        self._inventory = inventory
        self._release = release

    def compare(self, domain: ManagedDomain, known: Affinity, read: Affinity) -> None:
        """Handles differences between *known* and *read*: put right by the next step, or respected.

        A domain whose changes are respected is not managed any more.
        """
        changes = foreign_changes(known, read)
        if not changes or domain.transition is None:
            return
        summary = "; ".join(changes.values())
        respected = self._inventory.config.foreign_changes == "respect"
        what = "respected" if respected else "put right"
        self._inventory.events.record(Kind.FOREIGN, domain.name, why=f"somebody changed {summary}: {what}")
        if respected:
            why = f"somebody changed {summary}"
            domain.set_aside(why)  # at once, so that the next step does not put it right
            self._inventory.background(self._release.leave_alone(domain, State.UNMANAGED, why, frozenset(changes)))

    def vcpus_changed(self, domain: ManagedDomain, before: int, now: int) -> None:
        """Handles another number of vCPUs: vscaf asked for it, perhaps some time ago, or somebody else changed it.

        A number on the way to what vscaf asked for is vscaf's: vCPUs come and go one by one, and QEMU may refuse some.
        """
        asked = domain.vcpus_asked
        ours = asked is not None and (before < now <= asked or asked <= now < before)
        why = "as vscaf asked" if ours else "somebody else changed it"
        self._inventory.events.record(Kind.VCPUS, domain.name, before=before, after=now, why=why)
        if ours or domain.found is None:
            return
        domain.vcpus_asked = None
        domain.found = replace(domain.found, vcpus=now)  # from now on their number is the one to put back
        if self._inventory.config.foreign_changes == "respect":
            why = f"somebody else changed its vCPUs from {before} to {now}"
            domain.set_aside(why)
            self._inventory.background(self._release.leave_alone(domain, State.UNMANAGED, why))

    def look_for_waking(self, domain: ManagedDomain) -> None:
        """Checks whether somebody else resumed a domain that vscaf suspended. It is suspended again, or respected."""
        transition = domain.transition
        if transition is None or not transition.known_suspended or domain.seen.paused:
            return
        domain.note_external_resume()
        why = "somebody resumed it"
        respected = self._inventory.config.foreign_changes == "respect"
        what = "respected" if respected else "put right"
        self._inventory.events.record(Kind.FOREIGN, domain.name, why=f"{why}: {what}")
        if respected:
            domain.set_aside(why)
            self._inventory.background(self._release.leave_alone(domain, State.UNMANAGED, why))
