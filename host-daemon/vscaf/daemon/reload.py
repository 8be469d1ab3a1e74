"""Takes a changed configuration file into the running daemon: as a whole and in one step, or not at all."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from vscaf.config import load_config
from vscaf.control.messages import ConfigChange
from vscaf.daemon.config_changes import config_changes, need_restart
from vscaf.daemon.loop import Daemon
from vscaf.domains.pool import HostPool
from vscaf.errors import UsageError, VscafError
from vscaf.events import Kind
from vscaf.hypervisor.interface import Hypervisor
from vscaf.policy.input import shown_pool
from vscaf.policy.loading import ignored_weights, loaded_policy, tried_policy

log = logging.getLogger(__name__)


async def reload(daemon: Daemon, file: Path, allow: Callable[[str | None, str | None], None]) -> list[ConfigChange]:
    """Makes *daemon* use the configuration in *file* from now on. Returns what has changed.

    allow: changes who may ask the daemon, given the names of the two groups. UsageError if the file is wrong, or if it
    changes what only a restart can change. VscafError if libvirt does not answer a question about it. Then nothing was
    changed. What the file does not change is not checked again: a pCPU of the pool may be offline now.

    A policy that was set at run time stays in use, unless the file now names another policy or other options.
    """
    try:
        return await _reload(daemon, file, allow)
    except VscafError as error:
        daemon.events.record(Kind.REFUSED, None, why=f"configuration not reloaded, nothing was changed: {error}")
        raise


async def _reload(daemon: Daemon, file: Path, allow: Callable[[str | None, str | None], None]) -> list[ConfigChange]:
    present, config = daemon.config, await asyncio.to_thread(load_config, file)
    changes = config_changes(present, config)
    if keys := need_restart(changes):
        raise UsageError(
            f"config {file}: {', '.join(keys)}: only a restart can change this: restart the daemon, or undo the change"
        )
    await check_domains(config.domains.keys() - present.domains.keys(), config.uri, daemon.inventory.host)
    cpus, pool = None, daemon.pool
    if (config.pool, config.reserve, config.smt) != (present.pool, present.reserve, present.smt):
        cpus = await daemon.inventory.host.host_cpus()
        pool = HostPool(config, cpus)
    replaced = config.policy not in (present.policy, daemon.policy)
    chosen = config.policy if replaced else daemon.policy
    policy = tried_policy(await asyncio.to_thread(loaded_policy, chosen), chosen, shown_pool(pool))
    # From here on nothing is waited for, and only `allow` can still refuse.
    allow(config.control_read_group, config.control_write_group)
    for change in changes:
        daemon.events.record(Kind.RELOADED, None, before=change.before, after=change.after, key=change.key)
    if not changes:
        daemon.events.record(Kind.RELOADED, None, why="the configuration has not changed")
    daemon.configure(config, cpus, policy if replaced else None)
    if chosen == config.policy and (warning := ignored_weights(config, policy)):
        log.warning("%s", warning)
    return changes


async def check_domains(names: Iterable[str], uri: str, host: Hypervisor) -> None:
    """UsageError if libvirt has no domain of one of these names."""
    for name in sorted(names):
        if not await host.defined(name):
            raise UsageError(f"domain {name}: libvirt at {uri} has none of that name: see `virsh list --all`")
