"""The `vscaf` command: the daemon, and what is asked of and told to one (in `commands`)."""

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from vscaf_policies import PolicyError, PoolState
from vscaf_policies.registry import load_policy

from vscaf import __version__
from vscaf.commands import COMMANDS, DEFAULT_CONFIG, one_line
from vscaf.config import HELP, Config, load_config
from vscaf.control import ControlServer
from vscaf.control.peers import group_id
from vscaf.errors import UsageError, VscafError
from vscaf.eventlog import EventLog, Kind
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.journal import Journal, host_boot_id
from vscaf.loop import Daemon, configured_policy, pool_topology
from vscaf.metrics import MetricsServer, MetricsText
from vscaf.status import status as daemon_status

log = logging.getLogger("vscaf")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 done; 1 it could not be done, or not all of it; 2 what was asked for, or the configuration, "
    "is wrong, and nothing was changed.",
)
@click.version_option(__version__, prog_name="vscaf")
def main() -> None:
    """Shares this host's CPUs among virtual machines that run parallel programs, by measured speedup."""


for command in COMMANDS:
    main.add_command(command)


@main.command(short_help="Run the daemon in the foreground.")
@click.option("--config", "path", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default=True)
@click.option("--verbose", is_flag=True, help="Log what is decided in every period, not only what changes.")
@click.option("--help-config", is_flag=True, help="Print every key of the configuration with its default, and exit.")
def daemon(path: Path, verbose: bool, help_config: bool) -> None:
    """Run the daemon in the foreground until SIGTERM or SIGINT; then put everything back as it was found.

    Exit status: 0 when everything was put back, 1 when something could not be, 2 when the configuration or libvirt
    is not usable; then nothing was changed.
    """
    if help_config:
        click.echo(HELP, nl=False)
        return
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    for library in ("asyncio", "aiohttp", "ThreadSafeEvents"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        sys.exit(asyncio.run(_serve(load_config(path))))
    except VscafError as error:
        click.echo(f"vscaf: {one_line(error)}", err=True)
        sys.exit(2)


async def _serve(config: Config) -> int:
    events = EventLog()
    journal: Journal | None = None
    running: Daemon | None = None
    control: ControlServer | None = None
    metrics: MetricsServer | None = None
    host = LibvirtHost(config.uri, config.call_timeout_ms / 1000, lambda: running.wake() if running else None)
    try:
        # All that can be refused is refused before anything is written.
        check_host(config)
        if config.metrics_address is not None:
            metrics = MetricsServer(config.metrics_address)
        await host.open()
        cpus = await host.host_cpus()
        for name in config.domains:
            if not await host.defined(name):
                raise UsageError(
                    f"domain {name}: libvirt at {config.uri} has none of that name: see `virsh list --all`"
                )
        configured_policy(config, len(pool_topology(config.pool_cpus, cpus).chunks[0]))
        journal = Journal(Path(config.state_directory), host_boot_id())
        running = Daemon(config, host, cpus, journal)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        target = _Target(running)
        text = MetricsText(target.status, lambda: events.counts)
        control = ControlServer(
            Path(config.control_socket),
            target,
            events,
            read_group=config.control_read_group,
            write_group=config.control_write_group,
            metrics=text,
        )
        await control.start()
        if metrics is not None:
            await metrics.start(text)
        events.record(Kind.STARTED, None, pool=config.pool, policy=config.policy.name, version=__version__)
        restored = await running.run()
        target.ended(restored)
        why = "everything is as it was found" if restored else "something could not be put back; the journal keeps it"
        events.record(Kind.STOPPED, None, why=why)
        return 0 if restored else 1
    finally:
        if control is not None:
            await control.stop()
        if metrics is not None:
            await metrics.stop()
        if running is not None:
            await running.close()
        if journal is not None:
            journal.close()
        await host.close()


class _Target:
    """A Daemon as a ControlTarget."""

    def __init__(self, running: Daemon) -> None:
        self._daemon = running
        self._ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def status(self) -> dict[str, Any]:
        return daemon_status(self._daemon)

    async def set_policy(self, name: str, options: Mapping[str, object]) -> None:
        raise UsageError("the policy of this daemon is the configuration's: change it there, and restart")

    async def rollback_policy(self) -> str:
        raise UsageError("no policy was set before this one: see `vscaf policy show`")

    async def release(self, domain: str | None) -> list[str]:
        raise UsageError("this daemon releases no domain: take it out of the configuration and restart, or `vscaf off`")

    async def manage(self, domain: str | None) -> list[str]:
        raise UsageError("no domain was released: see `vscaf status`")

    async def off(self) -> None:
        self._daemon.stop()
        if not await asyncio.shield(self._ended):
            raise VscafError("not everything could be put back: see the daemon's log; the journal keeps what was found")

    def ended(self, restored: bool) -> None:
        """The daemon has ended, and has put everything back or not."""
        self._ended.set_result(restored)


def check_host(config: Config) -> None:
    """UsageError where *config* names groups or a policy that this host does not have."""
    group_id("control_read_group", config.control_read_group)
    group_id("control_write_group", config.control_write_group)
    try:
        load_policy(config.policy.name)(PoolState(len(config.pool_cpus), 1, 0.0, ()), config.policy.options)
    except PolicyError as error:
        raise UsageError(str(error)) from error


@main.command("check-config", short_help="Say what is wrong with a configuration.")
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG)
def check_config(file: Path) -> None:
    """Say whether the daemon would take the configuration FILE (default: /etc/vscaf/vscaf.toml).

    Keys, values, groups and the policy with its options are checked. libvirt is not asked, so whether the pool's CPUs
    and the domains exist is seen when the daemon starts.
    """
    try:
        config = load_config(file)
        check_host(config)
    except VscafError as error:
        click.echo(f"vscaf: {one_line(error)}", err=True)
        sys.exit(2)
    named = ", ".join(sorted(config.domains)) or "none by name"
    also = ", and those whose metadata say so" if config.metadata else ""
    click.echo(f"{file}: good: pool {config.pool}, policy {config.policy.name}, domains: {named}{also}")
