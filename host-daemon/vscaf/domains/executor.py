"""Makes the calls on domains: those of the next steps, and reads that find changes by somebody else."""

from dataclasses import replace

from vscaf import clock
from vscaf.core.reconcile.state import Action, Apply, Look, Resume, Suspend, TransitionState
from vscaf.cpulist import format_cpu_list
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.drift import Drift
from vscaf.domains.inventory import Inventory
from vscaf.errors import HypervisorError
from vscaf.events import Kind

AUDITS = 16  # how many domains' pins are read each period if the host does not report changes
AUDIT_GAP_S = 5.0  # between single reads if the host reports changes: they find changes whose event was lost


class Executor:
    """Makes calls on the domains of *inventory*."""

    def __init__(self, inventory: Inventory, drift: Drift) -> None:
        self._inventory = inventory
        self._drift = drift
        self._audit_turn = 0
        self._audited_at_s = float("-inf")

    async def carry_out(self, domain: ManagedDomain, call: Action, before: TransitionState) -> None:
        """Makes a call. The next step uses its outcome."""
        adoptions = domain.adoptions
        try:
            if isinstance(call, Suspend) and not await self._written_down(domain):
                domain.not_begun(call, adoptions)
                self._inventory.on_news()
                return
            if isinstance(call, Apply):
                await self._write_claim(domain, call.partition)
            read = await domain.carry_out(call, adoptions)
        except HypervisorError as error:
            self._inventory.refused(domain, error)
            # Somebody else has paused it, or may do so now: no later daemon must resume it.
            if isinstance(call, Suspend) and not domain.suspended_by_us:
                await self._inventory.write_journal()
        except Exception as error:  # noqa: BLE001  it concerns only this domain: see domains/containment.py
            self._inventory.containment.failed(domain, f"a call to {type(call).__name__.lower()}", error)
        else:
            self._inventory.warnings.clear(domain.name)
            self._record_switch(domain, call, before)
            if read is not None:
                vcpus, affinity = read
                with self._inventory.containment.around(domain, "processing its guest's reports"):
                    domain.process_reports()  # it is known now which vCPUs the guest's CPUs are
                if vcpus != before.vcpus:
                    self._drift.vcpus_changed(domain, before.vcpus, vcpus)
                if before.last_affinity is not None:
                    self._drift.compare(domain, before.last_affinity, affinity)
        self._inventory.on_news()

    async def _written_down(self, domain: ManagedDomain) -> bool:
        """Writes the journal. Returns whether it has the domain as suspended: after a crash it must be resumed."""
        await self._inventory.write_journal()
        entry = self._inventory.journal.entries.get(domain.seen.key)
        return entry is not None and entry.suspended

    async def _write_claim(self, domain: ManagedDomain, partition: frozenset[int]) -> None:
        """Writes the journal if it does not have *partition* in the domain's claim yet.

        If this daemon is killed, and the next one cannot read the domain, no other domain may be let onto it. If the
        disk refuses, the call is made all the same: the found settings are on disk.
        """
        entry = self._inventory.journal.entries.get(domain.seen.key)
        if entry is None or not partition.issubset(entry.claim):
            await self._inventory.write_journal_soon()

    def _record_switch(self, domain: ManagedDomain, call: Action, before: TransitionState) -> None:
        if isinstance(call, Suspend) and domain.suspended_by_us:
            held = format_cpu_list(before.claim) or None
            self._inventory.events.record(Kind.SUSPENDED, domain.name, before=held, why=domain.waiting)
        elif isinstance(call, Resume) and not domain.suspended_by_us:
            self._inventory.events.record(Kind.RESUMED, domain.name, after=format_cpu_list(before.claim) or None)

    def audit(self) -> None:
        """Reads the pins of some domains again, to find what somebody else has changed."""
        settled = [
            domain
            for domain in self._inventory.domains.values()
            if domain.transition is not None and domain.transition.affinity is not None and not domain.transition.moving
        ]
        if not settled:
            return
        now_s, count = clock.now_s(), AUDITS
        if self._inventory.host.reports_tuning:
            count = 1 if now_s - self._audited_at_s >= AUDIT_GAP_S else 0
        if count:
            self._audited_at_s = now_s
        turn = self._audit_turn % len(settled)
        self._audit_turn = turn + count
        chosen = {domain.seen.key: domain for domain in (settled[turn:] + settled[:turn])[:count]}
        chosen |= {domain.seen.key: domain for domain in settled if domain.audit_due}
        for domain in chosen.values():
            domain.audit_due = False
            assert domain.transition is not None  # of the settled
            domain.transition = replace(domain.transition, moving=True)
            self._inventory.background(self.carry_out(domain, Look(domain.name), domain.transition))
