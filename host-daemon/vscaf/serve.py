"""The daemon's life: everything that it needs is opened, checked and closed here, in this order."""

import asyncio
import logging
import signal
from pathlib import Path

from vscaf.config import Config
from vscaf.control import ControlServer
from vscaf.errors import UsageError
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.hypervisor.values import DomainKey
from vscaf.journal import Journal, host_boot_id
from vscaf.loop import Daemon
from vscaf.operations import Operations

log = logging.getLogger("vscaf")


async def serve(config: Config) -> int:
    """Runs the daemon until SIGTERM or SIGINT. The exit status: 0 when everything was put back, else 1.

    UsageError where something cannot be used: then nothing was changed.
    """
    journal: Journal | None = None
    daemon: Daemon | None = None
    control: ControlServer | None = None

    def changed() -> None:
        if daemon is not None:
            daemon.wake()

    def tuned(key: DomainKey) -> None:
        if daemon is not None:
            daemon.tuned(key)

    host = LibvirtHost(config.uri, config.call_timeout_ms / 1000, changed, tuned)
    try:
        await host.open()
        for name in config.domains:
            if not await host.defined(name):
                raise UsageError(
                    f"domain {name}: libvirt at {config.uri} has none of that name: see `virsh list --all`"
                )
        cpus = await host.host_cpus()
        # All that can be refused is refused before anything is written.
        Daemon.check(config, cpus)
        journal = Journal(Path(config.state_directory), host_boot_id())
        daemon = Daemon(config, host, cpus, journal)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, daemon.stop)
        operations = Operations(daemon)
        control = ControlServer(Path(config.control_socket), operations.status)
        await control.start()
        who = ", ".join(sorted(config.domains)) or "domains that are tagged"
        log.info("policy %s shares CPUs %s among %s", config.policy.name, config.pool, who)
        return 0 if await daemon.run() else 1
    finally:
        if control is not None:
            await control.stop()
        if daemon is not None:
            await daemon.close()
        if journal is not None:
            journal.close()
        await host.close()
