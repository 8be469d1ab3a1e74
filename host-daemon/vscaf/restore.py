"""Puts back what a daemon that is gone has changed, from its journal."""

import logging
from pathlib import Path

from vscaf.config import Config
from vscaf.errors import DomainGone, HypervisorError, UsageError, VscafError
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.journal import Journal, JournalEntry, host_boot_id
from vscaf.managed import ManagedDomain
from vscaf.pool import HostPool
from vscaf.rules import DomainRules

log = logging.getLogger(__name__)

HEARING_S = 2.0  # how long an agent has to answer: without it the guest's CPUs stay as they are
GUEST_DEADLINE_S = 2.0


async def restore_from_journal(config: Config, domain: str | None) -> list[str]:
    """Gives back the domains in the journal (only the one named *domain*, where given); the names of those given back.

    What has ended is not among them: the journal keeps it as it does for a daemon, for when it is restored. This is
    for when no daemon runs: the journal's lock is taken. UsageError where a daemon holds it, or where *domain* is not
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
    done, failed, ended = [], [], []
    left = dict(journal.entries)
    for key, entry in journal.entries.items():
        if name is not None and entry.name != name:
            continue
        try:
            if key in active:
                alone = journal.left_alone.get(key.uuid)
                spared = frozenset(alone.spared if alone is not None else ())
                await _give_back(ManagedDomain(active[key], DomainRules(), host, None), entry, spared, pool)
                done.append(entry.name)
            else:
                ended.append(entry)
        except DomainGone:
            ended.append(entry)
        except HypervisorError as error:
            failed.append(f"domain {entry.name}: {error}")
            continue
        del left[key]
    for entry in ended:
        log.info("domain %s: has ended: nothing is left to be put back", entry.name)
    try:
        journal.write(left, ended)
    except OSError as error:
        words = f"journal {journal.path}: {error.strerror or error}: it still names what was put back, run this again"
        failed.append(words)
    if failed:
        raise VscafError("; ".join(failed))
    return sorted(done)


async def _give_back(domain: ManagedDomain, entry: JournalEntry, spared: frozenset[str], pool: HostPool) -> None:
    domain.spared = spared
    try:
        await domain.adopt(entry, None, pool)
        await domain.words.link_anew(domain.seen, HEARING_S)
        await domain.give_back(GUEST_DEADLINE_S)
    finally:
        if domain.link is not None:
            await domain.link.stop()
