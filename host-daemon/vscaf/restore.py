"""Puts back what a daemon that is gone has changed, from its journal."""

import logging
from pathlib import Path

from vscaf.config import Config
from vscaf.errors import DomainGone, HypervisorError, UsageError, VscafError
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.journal import Journal, host_boot_id
from vscaf.managed import ManagedDomain
from vscaf.pool import HostPool
from vscaf.rules import DomainRules

log = logging.getLogger(__name__)

HEARING_S = 2.0  # how long an agent has to answer: without it the guest's CPUs stay as they are
GUEST_DEADLINE_S = 2.0


async def restore_from_journal(config: Config, domain: str | None) -> list[str]:
    """Gives back the domains in the journal (only the one named *domain*, where given); the names of those given back.

    For when no daemon runs: the journal's lock is taken. UsageError where a daemon holds it, or where *domain* is not
    in the journal; VscafError where something could not be put back: the journal then keeps it.
    """
    journal = Journal(Path(config.state_directory), host_boot_id())
    host = LibvirtHost(config.uri, config.call_timeout_ms / 1000)
    try:
        names = {entry.name for entry in journal.entries.values()}
        if domain is not None and domain not in names:
            raise UsageError(f"domain {domain}: the journal {journal.path} has nothing to be put back of it")
        if not names:
            return []
        await host.open()
        pool = HostPool(config, await host.host_cpus())
        return await _restore(journal, host, pool, domain)
    finally:
        await host.close()
        journal.close()


async def _restore(journal: Journal, host: LibvirtHost, pool: HostPool, name: str | None) -> list[str]:
    active = {one.key: one for one in await host.observe()}
    done, failed = [], []
    left = dict(journal.entries)
    for key, entry in journal.entries.items():
        if name is not None and entry.name != name:
            continue
        try:
            if key in active:
                domain = ManagedDomain(active[key], DomainRules(), host, None)
                await domain.adopt(entry, None, pool)
                await domain.link_for_release(HEARING_S)
                await domain.give_back(GUEST_DEADLINE_S)
                if domain.link is not None:
                    await domain.link.stop()
        except DomainGone:
            log.info("domain %s: has ended: nothing is left to be put back", entry.name)
        except HypervisorError as error:
            failed.append(f"domain {entry.name}: {error}")
            continue
        done.append(entry.name)
        del left[key]
    journal.write(left)
    if failed:
        raise VscafError("; ".join(failed))
    return sorted(done)
