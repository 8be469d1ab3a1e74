"""The `vscaf` command: the daemon, `check-config`, and where the other commands are."""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import click

from vscaf import __version__
from vscaf.cli.lazy_group import LazyGroup
from vscaf.command_line import config_option
from vscaf.config import DEFAULT_CONFIG, HELP, Config, load_config
from vscaf.core.place.topology import SmtMode, pool_topology
from vscaf.errors import HypervisorError, NotSupported, UsageError, VscafError
from vscaf.terminal import one_line
from vscaf.top.host_cpus import read_host_cpus

COMMANDS_AT = {
    "bench": "vscaf.bench.command:bench",
    "completion": "vscaf.cli.completion:completion",
    "doctor": "vscaf.cli.doctor:doctor",
    "events": "vscaf.cli.client:events",
    "explain": "vscaf.cli.explain:explain",
    "manage": "vscaf.cli.client:manage",
    "off": "vscaf.cli.client:off",
    "plot": "vscaf.cli.plot:plot",
    "policy": "vscaf.cli.client:policy",
    "prepare": "vscaf.prepare.command:prepare",
    "record": "vscaf.cli.record:record",
    "release": "vscaf.cli.client:release",
    "reload": "vscaf.cli.client:reload",
    "replay": "vscaf.cli.replay:replay",
    "simulate": "vscaf.simulate.command:simulate",
    "status": "vscaf.cli.client:status",
    "top": "vscaf.cli.top:top",
}


class Commands(LazyGroup):
    """The commands. They end in the same way: with status 2 after a UsageError, with 1 after another VscafError,
    each printed as one line, and with 130 when they are interrupted."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except VscafError as error:
            click.echo(f"vscaf: {one_line(error)}", err=True)
            sys.exit(2 if isinstance(error, UsageError) else 1)
        except KeyboardInterrupt:
            click.echo("vscaf: interrupted", err=True)
            sys.exit(130)


@click.group(
    cls=Commands,
    commands_at=COMMANDS_AT,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0: done. 1: it could not be done, or only in part. 2: the request or the configuration is "
    "wrong, and nothing was changed. 130: interrupted.",
)
@click.version_option(__version__, prog_name="vscaf")
@click.pass_context
def main(context: click.Context) -> None:
    """Shares this host's CPUs among virtual machines that run parallel programs, by measured speedup.

    \b
    Examples:
      vscaf doctor
      vscaf status
    """
    if os.environ.get("NO_COLOR"):
        context.color = False  # what rich prints obeys it by itself


@main.command(short_help="Run the daemon in the foreground.")
@config_option("The daemon's configuration.")
@click.option("--verbose", is_flag=True, help="Log the decision of every period, not only changes.")
@click.option("--help-config", is_flag=True, help="Print every key of the configuration with its default, and exit.")
def daemon(config: Path, verbose: bool, help_config: bool) -> None:
    """Run the daemon in the foreground until SIGTERM or SIGINT. Then put everything back as it was found.

    SIGHUP makes it read the configuration again, like `vscaf reload`. SIGUSR1 ends it and puts nothing back: the next
    daemon continues from there.

    Exit status: 0: everything was put back. 1: something could not be put back. 2: the configuration or libvirt is
    not usable, and nothing was changed. 69: libvirt did not answer at the start, and nothing was changed. 70: an
    unexpected error: please report it. 75: it ended after SIGUSR1.

    \b
    Example:
      vscaf daemon --config my.toml --verbose
    """
    if help_config:
        click.echo(HELP, nl=False)
        return
    from vscaf.daemon.main import serve  # noqa: PLC0415  (needs libvirt, which other commands do not need)

    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    for library in ("asyncio", "aiohttp"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        sys.exit(asyncio.run(serve(load_config(config), config.absolute())))
    except VscafError as error:
        click.echo(f"vscaf: {one_line(error)}", err=True)
        passing = isinstance(error, HypervisorError) and not isinstance(error, NotSupported)
        sys.exit(os.EX_UNAVAILABLE if passing else 2)
    except Exception:
        logging.getLogger("vscaf").exception("please report this error; the guard resumes suspended domains")
        sys.exit(os.EX_SOFTWARE)


@main.command("check-config", short_help="Check a configuration.")
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, envvar="VSCAF_CONFIG")
@click.option("--json", "as_json", is_flag=True, help="Print what it says as JSON.")
def check_config(file: Path, as_json: bool) -> None:
    """Check whether the daemon would accept the configuration FILE (default: VSCAF_CONFIG, else /etc/vscaf/vscaf.toml).

    This checks keys, values, groups and the policy with its options. It warns of weights that the policy ignores, and
    of a pool that the daemon would refuse on this host. It does not ask libvirt: `vscaf doctor` does.

    \b
    Example:
      vscaf check-config my.toml
    """
    from vscaf.daemon.main import check_host  # noqa: PLC0415  (as above)

    try:
        config = load_config(file)
        warnings = [one for one in (check_host(config), refused_here(config)) if one]
    except VscafError as error:
        click.echo(f"vscaf: {one_line(error)}", err=True)
        sys.exit(2)
    for one in warnings:
        click.echo(f"vscaf: warning: {one_line(one)}", err=True)
    if as_json:
        found = {
            "file": str(file),
            "pool": config.pool,
            "policy": config.policy.name,
            "domains": sorted(config.domains),
        }
        click.echo(json.dumps(found | {"metadata": config.metadata, "warning": "; ".join(warnings) or None}, indent=2))
        return
    named = ", ".join(sorted(config.domains)) or "none by name"
    also = ", and those marked by their metadata" if config.metadata else ""
    click.echo(f"{file}: good: pool {config.pool}, policy {config.policy.name}, domains: {named}{also}")


def refused_here(config: Config) -> str:
    """Why the daemon would refuse the pool on this host, or "". No error, because the file may be for another host."""
    host = read_host_cpus()
    if not host.online:
        return ""
    try:
        pool_topology(config.pool_cpus, host, SmtMode(config.smt))
    except UsageError as error:
        return f"the daemon would not start on this host: {error}"
    return ""
