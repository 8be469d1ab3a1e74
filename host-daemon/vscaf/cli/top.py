"""`vscaf top`: the domains live, and the daemon's decisions as they are made."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import click

from vscaf.cli.client import run, with_daemon
from vscaf.command_line import find_socket
from vscaf.control.client import get_status
from vscaf.errors import UsageError, VscafError
from vscaf.terminal import one_line
from vscaf.top.columns import BY_NAME, Order
from vscaf.top.host_cpus import read_host_cpus
from vscaf.top.printing import print_once, print_tables
from vscaf.values import HostCpus

NO_TEXTUAL = (
    "the live view needs textual 2.1 or later ({error}): apt-get install python3-textual (from Debian 13 on), or "
    "pip install '.[top]' in a clone of vscaf; `vscaf top --once` and `vscaf top | cat` work without it"
)


@click.command(short_help="Watch domains and decisions live.")
@with_daemon
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.25, max=3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often the daemon is asked.",
)
@click.option("--once", is_flag=True, help="Print one table, and exit.")
@click.option("--sort", "column", type=click.Choice(list(BY_NAME)), default="domain", show_default=True)
@click.option("--reverse", is_flag=True, help="Sort the other way: numbers with the smallest first.")
@click.option("--filter", "words", default="", metavar="WORDS", help="Only domains with all WORDS in name or state.")
@click.option("--json", "as_json", is_flag=True, help="Print the status as one line of JSON for each interval.")
def top(
    *,
    socket: Path | None,
    config: Path,
    interval_s: float,
    once: bool,
    column: str,
    reverse: bool,
    words: str,
    as_json: bool,
) -> None:
    """Watch the domains live: pCPUs, demand, speedup, losses, and each decision.

    If the output is no terminal, it is a plain table for each interval, with the decisions between two tables. While no
    daemon answers, it says so and waits for one; but with --once it ends with status 1.

    Keys: s sorts by the next column, r reverses, / filters, Space pauses, q quits.

    \b
    Examples:
      vscaf top --sort steal
      vscaf top --once
    """
    path, order, host = find_socket(socket, config), Order(column, reverse, words), read_host_cpus()
    if as_json and order != Order():
        raise UsageError("--json prints the status as it is: leave out --sort, --reverse and --filter, or use jq")
    if once:
        if as_json:
            click.echo(_status_line(path))
        else:
            run(lambda: print_once(path, order, host, click.echo))
        return
    try:
        if as_json:
            _print_status_lines(path, interval_s)
        elif sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM") != "dumb":
            _live(path, order, host, interval_s)
        else:
            asyncio.run(print_tables(path, order, host, interval_s=interval_s, write=click.echo, complain=_complain))
    except KeyboardInterrupt:
        sys.exit(0)  # the usual way to end it


def _status_line(path: Path) -> str:
    """The status as `vscaf status --json` has it, in one line."""
    return json.dumps(run(lambda: get_status(path)))


def _print_status_lines(path: Path, interval_s: float) -> None:
    """Prints a status line for each interval. While the daemon is away, says so once."""
    complained = ""
    while True:
        try:
            click.echo(_status_line(path))
            complained = ""
        except VscafError as error:
            if one_line(error) != complained:
                complained = one_line(error)
                _complain(complained)
        time.sleep(interval_s)


def _complain(message: str) -> None:
    click.echo(f"vscaf: {message}", err=True)


def _live(path: Path, order: Order, host: HostCpus, interval_s: float) -> None:
    try:
        from vscaf.top.app import TopApp  # noqa: PLC0415  (slow to import, and textual is optional)
    except ImportError as error:
        click.echo(f"vscaf: {NO_TEXTUAL.format(error=error)}", err=True)
        sys.exit(1)
    if not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # empty means colours, but not to textual
    TopApp(path, order, host, interval_s).run()
