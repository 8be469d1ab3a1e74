"""`vscaf plot`: allocations and where the vCPU threads ran, over time."""

import sys
import time
from pathlib import Path

import click

from vscaf.cli.client import run, with_daemon
from vscaf.cli.completion import complete_domain
from vscaf.command_line import find_socket

SUFFIXES = (".png", ".svg")
RECORDED_S = 10.0
"""How long is recorded for a picture, or for output that is no terminal, unless --seconds says."""


@click.command(short_help="Plot allocations and occupancy of pCPUs.")
@click.argument("domains", nargs=-1, metavar="[DOMAIN]...", shell_complete=complete_domain)
@with_daemon
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.5, max=86400),
    help=f"How long to record. Default: in a terminal until Ctrl-C, else {RECORDED_S:g}.",
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a picture: .png or .svg."
)
@click.option(
    "--bin",
    "bin_s",
    type=click.FloatRange(min=0.1, max=3600),
    default=0.25,
    show_default=True,
    metavar="SECONDS",
    help="The step of the timeline.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was recorded as JSON, at the end.")
def plot(
    *,
    domains: tuple[str, ...],
    socket: Path | None,
    config: Path,
    seconds: float | None,
    output: Path | None,
    bin_s: float,
    as_json: bool,
) -> None:
    """Plot which pCPUs each DOMAIN was allotted, and which ones it used.

    Live in the terminal, or as a picture. Without DOMAIN: all domains of libvirt on this host, managed or not. What
    they used comes from the kernel's accounting of the vCPU threads, also without a daemon. Ctrl-C ends the recording;
    the picture is still written.

    \b
    Examples:
      vscaf plot
      vscaf plot --seconds 60 --output timeline.svg
    """
    from vscaf.plot import session  # noqa: PLC0415  (other commands do not need it)

    live = output is None and not as_json and sys.stdout.isatty()
    if output is not None:
        session.check_output(output, SUFFIXES)
    recording = session.Recording(bin_s, domains)
    seconds = RECORDED_S if seconds is None and not live else seconds
    end_s = None if seconds is None else time.monotonic() + seconds
    path = find_socket(socket, config)
    doing = "" if live or seconds is None else f"recording for {seconds:g} s, or until Ctrl-C"
    run(lambda: session.run(path, recording, end_s, live=live), doing)
    session.finish(recording, output, live=live, as_json=as_json)
