"""`vscaf top`: the daemon's decisions as they fall."""

import asyncio
import os
import sys
from pathlib import Path

import click

from vscaf.cli.client import find_socket, run, with_daemon
from vscaf.top.columns import BY_NAME, Order
from vscaf.top.host_cpus import read_host_cpus
from vscaf.top.printing import print_once, print_tables
from vscaf.values import HostCpus

NO_TEXTUAL = (
    "the live view needs textual 2.1 or later ({error}): apt-get install python3-textual (Debian 13) or "
    "pip install 'vscaf[top]'; `vscaf top --once` and `vscaf top | cat` work without it"
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
def top(
    *, socket: Path | None, config: Path, interval_s: float, once: bool, column: str, reverse: bool, words: str
) -> None:
    """Watch the domains live: their pCPUs, demand, speedup and losses, and each decision as it falls.

    If the output is not a terminal, this prints a plain table for each interval, and the decisions between two tables.
    While no daemon answers, the view says so and waits for one.

    \b
    Keys: s sorts by the next column, r reverses, / filters, Space pauses, q quits.
    """
    path, order, host = find_socket(socket, config), Order(column, reverse, words), read_host_cpus()
    if once:
        run(lambda: print_once(path, order, host, click.echo))
        return
    try:
        if sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM") != "dumb":
            _live(path, order, host, interval_s)
        else:
            asyncio.run(print_tables(path, order, host, interval_s=interval_s, write=click.echo, complain=_complain))
    except KeyboardInterrupt:
        sys.exit(0)  # the usual way to end it


def _complain(message: str) -> None:
    click.echo(f"vscaf: {message}", err=True)


def _live(path: Path, order: Order, host: HostCpus, interval_s: float) -> None:
    try:
        from vscaf.top.app import TopApp  # noqa: PLC0415  (slow to import, and textual is optional)
    except ImportError as error:
        click.echo(f"vscaf: {NO_TEXTUAL.format(error=error)}", err=True)
        sys.exit(1)
    TopApp(path, order, host, interval_s).run()
