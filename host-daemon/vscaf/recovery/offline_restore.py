"""Uses the journal of a daemon that has ended: puts its changes back, or only resumes the domains that it suspended."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from vscaf.config import Config
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.pool import HostPool
from vscaf.domains.rules import DomainRules
from vscaf.errors import DomainGone, HypervisorError, UsageError, VscafError
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.journal import Journal, JournalEntry, host_boot_id, lock_hypervisor
from vscaf.values import DomainSeen

log = logging.getLogger(__name__)

AGENT_TIMEOUT_S = 2.0  # how long to wait for an agent: without its answer the guest's CPUs stay as they are
GUEST_DEADLINE_S = 2.0


@asynccontextmanager
async def _standalone(config: Config, holder: str) -> AsyncIterator[tuple[Journal, LibvirtHost]]:
    """The locked journal, and the host, which is not open yet. UsageError if a daemon uses either."""
    lock = lock_hypervisor(config.uri, holder)
    journal: Journal | None = None
    host = LibvirtHost(config.uri, config.call_timeout_ms / 1000)
    try:
        journal = Journal(Path(config.state_directory), host_boot_id(), holder)
        yield journal, host
    finally:
        await host.close()
        if journal is not None:
            journal.close()
        lock.close()


async def restore_from_journal(config: Config, domain: str | None) -> list[str]:
    """Gives back the domains in the journal, or only the one named *domain*. Returns the names of those given back.

    Includes domains that were saved and came back with the pins that vscaf gave them. Entries of ended runs stay in the
    journal, as with a daemon. Takes the daemon's locks, so no daemon may run. UsageError if a daemon holds a lock, or
    if *domain* is not in the journal. VscafError if something could not be put back: the journal then keeps it.
    """
    async with _standalone(config, "release") as (journal, host):
        names = {entry.name for entry in (*journal.entries.values(), *journal.departed.values())}
        if domain is not None and domain not in names:
            raise UsageError(f"domain {domain}: the journal {journal.path} has no settings of it to put back")
        if not names:
            return []
        await host.open()
        pool = HostPool(config, await host.host_cpus())
        return await _restore(journal, host, pool, domain)


async def _restore(journal: Journal, host: LibvirtHost, pool: HostPool, name: str | None) -> list[str]:
    active = {one.key: one for one in await host.observe()}
    done, failed = [], []
    ended = [entry for key, entry in journal.entries.items() if key not in active and name in {None, entry.name}]
    left = {key: entry for key, entry in journal.entries.items() if entry not in ended}
    earlier = journal.departed | {entry.uuid: entry for entry in ended}
    for key, seen in active.items():
        entry, departed = journal.entries.get(key), earlier.get(key.uuid)
        about = entry or departed
        if about is None or name not in {None, about.name}:
            continue
        try:
            alone = journal.left_alone.get(key.uuid)
            spared = frozenset(alone.spared if alone is not None else ())
            if await _give_back(ManagedDomain(seen, DomainRules(), host, None), entry, departed, spared, pool):
                done.append(about.name)
                ended = [one for one in ended if one.uuid != key.uuid]
                journal.departed.pop(key.uuid, None)
            elif entry is not None:
                ended.append(entry)
        except DomainGone:
            if entry is not None:
                ended.append(entry)
        except HypervisorError as error:
            failed.append(f"domain {about.name}: {error}")
            continue
        left.pop(key, None)
    for entry in ended:
        log.info("domain %s: has ended: nothing has to be put back", entry.name)
    try:
        journal.write(left, ended)
    except OSError as error:
        message = f"journal {journal.path}: {error.strerror or error}: it still names domains put back: run this again"
        failed.append(message)
    if failed:
        raise VscafError("; ".join(failed))
    return sorted(done)


async def _give_back(
    domain: ManagedDomain,
    entry: JournalEntry | None,
    departed: JournalEntry | None,
    spared: frozenset[str],
    pool: HostPool,
) -> bool:
    """Gives the domain back. False: neither entry is about this run, so there was nothing to give back."""
    domain.spared = spared
    try:
        if await domain.adopt(entry, departed, pool) is None:
            return False
        await domain.session.reconnect(domain.seen, AGENT_TIMEOUT_S)
        await domain.give_back(GUEST_DEADLINE_S)
        return True
    finally:
        if domain.link is not None:
            await domain.link.stop()


async def resume_suspended(config: Config) -> list[str]:
    """Resumes the domains that are suspended according to the journal. Returns the names of those resumed.

    The next daemon does everything else. UsageError if a daemon has the journal; VscafError if some could not be
    resumed: the journal keeps them.
    """
    async with _standalone(config, "guard") as (journal, host):
        suspended = {key: entry for key, entry in journal.entries.items() if entry.suspended}
        if not suspended:
            return []
        await host.open()
        active = {one.key: one for one in await host.observe()}
        entries, done, failed = dict(journal.entries), [], []
        for key, entry in suspended.items():
            try:
                if await _resumed(host, entry, active.get(key)):
                    done.append(entry.name)
            except DomainGone:
                continue
            except HypervisorError as error:
                failed.append(f"domain {entry.name}: {error}")
                continue
            # It computes where it is pinned, and does not rest there. The next daemon must know this.
            entries[key] = msgspec.structs.replace(entry, suspended=False, partition=entry.partition or entry.reach)
        try:
            journal.write(entries)
        except OSError as error:
            failed.append(f"journal {journal.path}: {error.strerror or error}: it still names domains as suspended")
        if failed:
            raise VscafError("; ".join(failed))
        return sorted(done)


async def _resumed(host: LibvirtHost, entry: JournalEntry, seen: DomainSeen | None) -> bool:
    """Resumes the run of *entry*, if it is *seen* paused. Returns whether it runs now."""
    if seen is None or entry.is_of(seen) is False or not seen.paused:
        return False
    return await host.resume(seen.key)
