"""Putting domains back from the journal where no daemon runs."""

from pathlib import Path

from vscaf.config import Config
from vscaf.errors import DomainGone, HypervisorError, UsageError, VscafError
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.journal import Journal, host_boot_id
from vscaf.managed import ManagedDomain


async def restore_from_journal(config: Config, domain: str | None) -> list[str]:
    """Puts *domain* (None: all) back as the journal has it, under the journal's lock; returns their names.

    UsageError where a daemon holds the lock, or the journal does not name the domain; VscafError where something could
    not be put back: the journal keeps that.
    """
    journal = Journal(Path(config.state_directory), host_boot_id())
    host = LibvirtHost(config.uri, config.call_timeout_ms / 1000)
    restored, failed = [], []
    try:
        entries = {key: one for key, one in journal.entries.items() if domain in (None, one.name)}
        if domain is not None and not entries:
            raise UsageError(f"domain {domain}: the journal {journal.path} does not name it: nothing to put back")
        if not entries:
            return []
        await host.open()
        running = {one.key: one for one in await host.observe({entry.name for entry in entries.values()})}
        for key, entry in entries.items():
            try:
                if key in running:
                    managed = ManagedDomain(running[key], host, None, config.deadline_ms / 1000)
                    await managed.adopt(entry)
                    await managed.give_back()
                    restored.append(entry.name)
            except DomainGone:
                pass  # it ended meanwhile: there is nothing to put back
            except HypervisorError as error:
                failed.append(f"domain {entry.name}: {error}")
                continue
            journal.write({other: one for other, one in journal.entries.items() if other != key})
    finally:
        await host.close()
        journal.close()
    if failed:
        raise VscafError(f"not put back, and kept in the journal: {'; '.join(failed)}")
    return sorted(restored)
