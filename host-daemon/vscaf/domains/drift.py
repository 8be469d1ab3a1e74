"""What somebody else changes of a domain: it is put right by the next steps, or respected."""

from dataclasses import replace

from vscaf.core.reconcile.drift import foreign_changes
from vscaf.core.reconcile.state import Affinity
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inventory import Inventory
from vscaf.domains.release import Release
from vscaf.events import Kind
from vscaf.values import State


class Drift:
    """Handles what somebody else has changed of the domains of *inventory*."""

    def __init__(self, inventory: Inventory, release: Release) -> None:
        self._inventory = inventory
        self._release = release

    def compare(self, domain: ManagedDomain, known: Affinity, read: Affinity) -> None:
        """Somebody else's changes are put right by the next step, or respected: then the domain is not managed."""
        changes = foreign_changes(known, read)
        if not changes or domain.transition is None:
            return
        words = "; ".join(changes.values())
        respected = self._inventory.config.foreign_changes == "respect"
        what = "respected" if respected else "put right"
        self._inventory.events.record(Kind.FOREIGN, domain.name, why=f"somebody changed {words}: {what}")
        if respected:
            why = f"somebody changed {words}"
            domain.set_aside(why)  # before the next step would put it right
            self._inventory.background(self._release.leave_alone(domain, State.UNMANAGED, why, frozenset(changes)))

    def vcpus_changed(self, domain: ManagedDomain, before: int, now: int) -> None:
        """Another number of vCPUs was seen: that was asked for, and may come late, or somebody else did it."""
        asked = domain.vcpus_asked == now
        why = "as was asked for" if asked else "somebody else changed it"
        self._inventory.events.record(Kind.VCPUS, domain.name, before=before, after=now, why=why)
        if asked or domain.found is None:
            return
        domain.found = replace(domain.found, vcpus=now)  # the count to be put back is theirs
        if self._inventory.config.foreign_changes == "respect":
            why = f"somebody else changed its vCPUs from {before} to {now}"
            domain.set_aside(why)
            self._inventory.background(self._release.leave_alone(domain, State.UNMANAGED, why))

    def look_for_waking(self, domain: ManagedDomain) -> None:
        """Somebody else may have resumed what vscaf has suspended: it is suspended again, or that is respected."""
        transition = domain.transition
        if transition is None or not transition.known_suspended or domain.seen.paused:
            return
        domain.wake_up()
        why = "somebody resumed it"
        respected = self._inventory.config.foreign_changes == "respect"
        what = "respected" if respected else "put right"
        self._inventory.events.record(Kind.FOREIGN, domain.name, why=f"{why}: {what}")
        if respected:
            domain.set_aside(why)
            self._inventory.background(self._release.leave_alone(domain, State.UNMANAGED, why))
