"""`vscaf doctor`: what is ready on the host and in its domains, what is not, and the command that fixes it."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from vscaf.cli.client import with_daemon
from vscaf.cli.completion import complete_domain
from vscaf.command_line import config_was_asked_for, find_socket, progress
from vscaf.config import Config, load_config
from vscaf.doctor.finding import Severity, Unknown
from vscaf.errors import UsageError


@click.command(short_help="Check host and domains; show how to fix problems.")
@click.argument("domains", nargs=-1, metavar="[DOMAIN]...", shell_complete=complete_domain)
@with_daemon
@click.option("--json", "as_json", is_flag=True, help="Print all findings, as a JSON array.")
@click.option("--verbose", is_flag=True, help="Also show what was found where all is ready.")
@click.option("--strict", is_flag=True, help="Exit with status 1 also if something is unknown.")
def doctor(
    *, domains: tuple[str, ...], socket: Path | None, config: Path, as_json: bool, verbose: bool, strict: bool
) -> None:
    """Check the host and its domains: what is ready, what is not, and the command that fixes it. Changes nothing.

    Without DOMAIN: all domains. Those that are not managed are only checked for being in the way. A DOMAIN that is
    named is checked as if it were managed.

    Exit status: 0: no problem. 1: at least one problem. 2: the configuration or a domain that was asked for cannot be
    used. What could not be read is unknown, and is no problem without --strict.

    \b
    Examples:
      vscaf doctor
      vscaf doctor web --verbose
    """
    from vscaf.doctor.examination import examine, gather  # noqa: PLC0415  (needs libvirt, as other commands do not)
    from vscaf.doctor.report import report  # noqa: PLC0415

    settings = _config(config)
    where = find_socket(socket, config)
    with progress("looking at the host and its domains"):
        findings = examine(asyncio.run(gather(config, settings, where, domains)))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in findings], indent=2))
    else:
        click.echo(report(findings, verbose=verbose))
    bad = {Severity.PROBLEM, *((Severity.UNKNOWN,) if strict else ())}
    sys.exit(int(any(one.severity in bad for one in findings)))


def _config(path: Path) -> Config | Unknown:
    """The configuration. Unknown if it is the default file and cannot be used; UsageError if it was asked for."""
    try:
        return load_config(path)
    except UsageError as error:
        if config_was_asked_for():
            raise
        return Unknown(str(error))
