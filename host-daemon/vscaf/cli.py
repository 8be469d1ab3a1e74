"""The `vscaf` command."""

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from vscaf import __version__
from vscaf.config import HELP, Config, load_config
from vscaf.control import ControlServer, ask_status
from vscaf.core.topology import pool_topology
from vscaf.errors import UsageError, VscafError
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.journal import Journal, host_boot_id
from vscaf.loop import Daemon, configured_policy
from vscaf.status import status as daemon_status
from vscaf.status import table

log = logging.getLogger("vscaf")

USAGE_STATUS = 2
DEFAULT_CONFIG = Path("/etc/vscaf/vscaf.toml")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vscaf")
def main() -> None:
    """Shares this host's CPUs among virtual machines that run parallel programs, by measured speedup."""


@main.command()
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
        click.echo(f"vscaf: {error}", err=True)
        sys.exit(USAGE_STATUS)


async def _serve(config: Config) -> int:
    journal: Journal | None = None
    running: Daemon | None = None
    control: ControlServer | None = None
    host = LibvirtHost(config.uri, config.call_timeout_ms / 1000, lambda: running.wake() if running else None)
    try:
        await host.open()
        cpus = await host.host_cpus()
        for name in config.domains:
            if not await host.defined(name):
                raise UsageError(
                    f"domain {name}: libvirt at {config.uri} has none of that name: see `virsh list --all`"
                )
        # All that can be refused is refused before anything is written.
        configured_policy(config, pool_topology(config.pool_cpus, cpus).chunk)
        journal = Journal(Path(config.state_directory), host_boot_id())
        running = Daemon(config, host, cpus, journal)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        control = ControlServer(Path(config.control_socket), lambda: daemon_status(running))
        await control.start()
        log.info(
            "policy %s shares CPUs %s among %s", config.policy.name, config.pool, ", ".join(sorted(config.domains))
        )
        return 0 if await running.run() else 1
    finally:
        if control is not None:
            await control.stop()
        if running is not None:
            await running.close()
        if journal is not None:
            journal.close()
        await host.close()


@main.command()
@click.option(
    "--socket",
    type=click.Path(path_type=Path),
    default=Path("/run/vscaf/control.sock"),
    show_default=True,
    help="The daemon's control socket (control_socket in its configuration).",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything, as JSON.")
def status(socket: Path, as_json: bool) -> None:
    """Show what each domain has, wants and runs."""
    try:
        state = asyncio.run(ask_status(socket))
    except VscafError as error:
        click.echo(f"vscaf: {error}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(state, indent=2))
    else:
        Console().print(table(state))
