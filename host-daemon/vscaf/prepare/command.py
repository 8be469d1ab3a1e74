"""`vscaf prepare`: only the command line; the work is in `apply`, which is imported when the command runs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vscaf.command_line import config_option, libvirt_uri, progress
from vscaf.cpulist import parse_cpu_list
from vscaf.errors import UsageError
from vscaf.terminal import one_line, printable

if TYPE_CHECKING:
    from vscaf.prepare.apply import Outcome


@click.command(short_help="Make a domain partitionable.")
@click.argument("domain")
@click.option("--maximum", type=click.IntRange(min=1), metavar="N", help="The most vCPUs that it can have.")
@click.option("--pool", metavar="CPUS", help="The same, as a CPU list: as many vCPUs as the list has pCPUs.")
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option("--undo", is_flag=True, help="Put back what prepare changed.")
@config_option("vscaf's configuration, for --uri.")
@click.option("--uri", metavar="URI", help="The libvirt to use. Default: the configuration's, else qemu:///system.")
@click.option("--json", "as_json", is_flag=True, help="Print what was changed as JSON.")
def prepare(
    *,
    domain: str,
    maximum: int | None,
    pool: str | None,
    dry_run: bool,
    undo: bool,
    config: Path,
    uri: str | None,
    as_json: bool,
) -> None:
    """Give DOMAIN what vscaf needs and it lacks: vCPUs that can be plugged, a topology for them, the agent's channel,
    and the metadata that mark it as managed.

    This changes the persistent definition and shows the difference. A running guest goes on: it gets at once what it
    can get while it runs. For the rest it needs a shutdown and a start. Without --maximum and --pool, the vCPU maximum
    stays as it is; it is never lowered.

    Exit status: 0: done, or nothing to change. 1: it could not be done, or --undo left something that was changed
    since. 2: the domain or the request is wrong, and nothing was changed.

    \b
    Examples:
      vscaf prepare cfd --maximum 8 --dry-run
      vscaf prepare cfd --maximum 8
      vscaf prepare cfd --undo
    """
    from vscaf.prepare import apply  # noqa: PLC0415  (needs libvirt, which other commands do not need)

    if undo and (maximum is not None or pool is not None):
        raise UsageError("--undo puts back what was changed: leave out --maximum and --pool")
    wanted, where = _wanted(maximum, pool), libvirt_uri(uri, config)
    with progress("changing the domain"):
        if undo:
            outcome = apply.undo(where, domain, dry_run=dry_run)
        else:
            outcome = apply.prepare(where, domain, wanted, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, **asdict(outcome)}, indent=2))
        sys.exit(int(bool(outcome.kept)))
    if undo:
        sys.exit(_show_undo(domain, outcome, dry_run))
    _show(domain, outcome, dry_run)


def _wanted(maximum: int | None, pool: str | None) -> int | None:
    if pool is None:
        return maximum
    if maximum is not None:
        raise UsageError("--maximum and --pool say the same thing: leave one of them out")
    try:
        cpus = parse_cpu_list(pool)
    except ValueError as error:
        raise UsageError(f"--pool: {error}") from error
    if not cpus:
        raise UsageError("--pool names no pCPU: give a list such as 2-7")
    return len(cpus)


def _show(domain: str, outcome: Outcome, dry_run: bool) -> None:
    _show_diff(outcome)
    if outcome.done:
        _list(f"{domain}: {'would be changed' if dry_run else 'changed'}", outcome.done)
    else:
        click.echo(f"{domain}: nothing to change")
    _list(f"{domain} runs, and {'would have' if dry_run else 'has'} at once", outcome.now)
    restart = "a shutdown and a start (a reboot from inside the guest is not enough)"
    _list(f"{domain} runs, and needs {restart} for", outcome.later)
    for note in outcome.notes:
        click.echo(printable(f"note: {note}"))


def _show_undo(domain: str, outcome: Outcome, dry_run: bool) -> int:
    """Prints the outcome of --undo. Returns the exit status."""
    _show_diff(outcome)
    if outcome.done:
        _list(f"{domain}: {'would be put back' if dry_run else 'put back'}", outcome.done)
    elif not outcome.kept:
        click.echo(f"{domain}: nothing to put back")
    for note in outcome.notes:
        click.echo(printable(f"note: {note}"))
    if not outcome.kept:
        return 0
    click.echo(
        f"vscaf: domain {one_line(domain)}: not put back: {one_line('; '.join(outcome.kept))}: change it by "
        "`virsh edit` if you do not want it",
        err=True,
    )
    return 1


def _show_diff(outcome: Outcome) -> None:
    for line in outcome.diff:
        click.echo(printable(line))


def _list(title: str, items: tuple[str, ...]) -> None:
    if items:
        click.echo(printable(f"{title}:"))
        for item in items:
            click.echo(printable(f"  {item}"))
