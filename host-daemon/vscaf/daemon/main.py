"""The daemon's start and end: opens, checks and closes everything that it needs, in this order."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
from pathlib import Path

import msgspec
from vscaf_policies import PoolState

from vscaf import __version__
from vscaf.config import Config
from vscaf.control.metrics import MetricsServer, MetricsText
from vscaf.control.peers import group_id
from vscaf.control.server import ControlServer
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.daemon.reload import check_domains
from vscaf.daemon.service_manager import STOPPING, feed_watchdog, notify, ready
from vscaf.errors import VscafError
from vscaf.events import EventLog, Kind
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.journal import Journal, host_boot_id, lock_hypervisor
from vscaf.policy.loading import chosen_policy, ignored_weights
from vscaf.recovery.guard_keeper import GuardKeeper
from vscaf.values import DomainKey

log = logging.getLogger(__name__)


async def serve(config: Config, config_file: Path) -> int:
    """Runs the daemon until SIGTERM or SIGINT. Returns the exit status: 0 if everything was put back, else 1.

    SIGUSR1 ends it without putting anything back: the next daemon continues from there. Then the status is EX_TEMPFAIL.
    *config* was read from *config_file*, which a reload reads again. UsageError if the configuration, libvirt or a file
    cannot be used, HypervisorError if libvirt does not answer at the start. Then nothing was changed.
    """
    events = EventLog()
    daemon: Daemon | None = None

    def changed() -> None:
        if daemon is not None:
            daemon.wake()

    def tuned(key: DomainKey) -> None:
        if daemon is not None:
            daemon.tuned(key)

    async with contextlib.AsyncExitStack() as closing:
        closing.callback(asyncio.create_task(feed_watchdog()).cancel)
        host = LibvirtHost(config.uri, config.call_timeout_ms / 1000, changed, tuned)
        closing.push_async_callback(host.close)
        # All checks that may fail come before the first write.
        warning = check_host(config)
        if warning:
            log.warning("%s", warning)
        metrics = MetricsServer(config.metrics_address) if config.metrics_address is not None else None
        if metrics is not None:
            closing.push_async_callback(metrics.stop)
        await host.open()
        await check_domains(config.domains, config.uri, host)
        cpus = await host.host_cpus()
        Daemon.check(config, cpus)
        closing.callback(lock_hypervisor(config.uri).close)
        journal = Journal(Path(config.state_directory), host_boot_id())
        closing.callback(journal.close)
        # From here on an earlier daemon's guard leaves the domains that its daemon suspended to this process.
        guard = GuardKeeper(msgspec.json.encode(config).decode())
        closing.callback(guard.close)
        guard.start()
        daemon = Daemon(config, host, cpus, journal, events)
        closing.push_async_callback(daemon.close)
        _obey_signals(daemon)
        inventory = daemon.inventory
        operations = Operations(daemon, config_file)
        text = MetricsText(operations.status, lambda: events.counts)
        control = ControlServer(
            Path(config.control_socket),
            operations,
            events,
            read_group=config.control_read_group,
            write_group=config.control_write_group,
            metrics=text,
        )
        closing.push_async_callback(control.stop)
        # Like the other changes of an operator, and after those that are under way.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: inventory.background(_reload(control)))
        await control.start()
        if metrics is not None:
            await metrics.start(text)
        events.record(Kind.STARTED, None, pool=config.pool, policy=config.policy.name, version=__version__)
        gc.collect()
        gc.freeze()  # these objects stay for the daemon's life: the collector need not visit them again
        notify(*ready(f"pool {config.pool}, policy {config.policy.name}"))
        restored = await daemon.run()
        if daemon.handing_over:
            events.record(Kind.STOPPED, None, why="nothing was put back: the next daemon continues from here")
            return os.EX_TEMPFAIL
        why = "everything is as it was found" if restored else "something could not be put back; the journal keeps it"
        events.record(Kind.STOPPED, None, why=why)
        return 0 if restored else 1


def _obey_signals(daemon: Daemon) -> None:
    def stop(hand_over: bool) -> None:
        notify(STOPPING)
        daemon.stop(hand_over=hand_over)

    loop = asyncio.get_running_loop()
    for number, hand_over in ((signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGUSR1, True)):
        loop.add_signal_handler(number, stop, hand_over)


async def _reload(control: ControlServer) -> None:
    with contextlib.suppress(VscafError):  # an event says why it was refused
        await control.reload()


def check_host(config: Config) -> str:
    """A warning about what has no effect, or "". UsageError if the host lacks the groups or the policy of *config*."""
    group_id("control_read_group", config.control_read_group)
    group_id("control_write_group", config.control_write_group)
    return ignored_weights(config, chosen_policy(config.policy, PoolState(len(config.pool_cpus), 1, 0.0, ())))
