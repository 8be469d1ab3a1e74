"""Records, shows the timeline while it grows, and writes the picture at the end."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from vscaf.cpulist import format_cpu_list
from vscaf.drawing import why_no_pictures
from vscaf.errors import UsageError, VscafError
from vscaf.plot.recording import Recording, record
from vscaf.plot.terminal import text, timeline

REDRAW_S = 0.5
PIPE_WIDTH = 120

__all__ = ["Recording", "check_output", "finish", "run"]


def check_output(output: Path, suffixes: Iterable[str]) -> None:
    """UsageError if no picture can be written there, before anything is recorded."""
    if output.suffix.lower() not in suffixes:
        raise UsageError(f"--output {output}: the name must end in {' or '.join(suffixes)}")
    if not output.parent.is_dir():
        raise UsageError(f"--output {output}: there is no directory {output.parent}: make it first")
    if why_not := why_no_pictures():
        raise UsageError(f"{why_not}; without --output the timeline is drawn in the terminal")


async def run(path: Path, recording: Recording, end_s: float | None, *, live: bool) -> None:
    """Records until end_s (CLOCK_MONOTONIC; None: without end) or SIGINT. live: draws in the terminal meanwhile."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    recording_task = asyncio.create_task(record(path, recording))
    console = Console()
    screen = Live(console=console, auto_refresh=False, screen=True) if live else contextlib.nullcontext()
    try:
        with screen as shown:
            while not stop.is_set() and not recording_task.done() and (end_s is None or time.monotonic() < end_s):
                left_s = REDRAW_S if end_s is None else min(REDRAW_S, max(0.0, end_s - time.monotonic()))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), left_s)
                if shown is not None:
                    shown.update(_lines(recording, console.width, console.height), refresh=True)
                    if end_s is None:  # a view without end keeps only what fits
                        recording.forget(time.monotonic() - (console.width + 2) * recording.bins.bin_s)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        recording_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await recording_task


def _lines(recording: Recording, width: int, height: int | None) -> Text:
    wanted = int((recording.bins.last_s - recording.bins.start_s) / recording.bins.bin_s)
    domains = recording.domains
    rows = timeline(recording.bins.track(max(0, wanted - width)), recording.changes, domains, recording.pcpus, width)
    notes = [*recording.problems.values()]
    notes += [] if domains else ["no domain of libvirt runs that this user may see, or none of those that were named"]
    most = len(rows) if height is None else max(0, height - len(notes) - 1)
    if len(rows) > most:
        notes.append(f"{len(rows) - most} more lines do not fit: --output FILE.svg has all")
    return Text("\n").join([*map(Text, notes), *([text(rows[:most])] if rows else [])])


def as_json_text(recording: Recording) -> str:
    """What was recorded. Times are in seconds since the recording began; null pCPUs: not known."""
    track = recording.bins.track()
    document = {
        "bin_s": track.bin_s,
        "pool": format_cpu_list(recording.pool),
        "not_known": list(recording.problems.values()),
        "allotted": [
            {
                "at_s": round(one.at_s - track.start_s, 3),
                "domain": one.domain,
                "pcpus": None if one.cpus is None else format_cpu_list(one.cpus),
            }
            for one in recording.changes
        ],
        "used": {
            str(pcpu): {name: [round(share, 4) for share in values] for name, values in shares.items()}
            for pcpu, shares in track.shares.items()
        },
    }
    return json.dumps(document)


def finish(recording: Recording, output: Path | None, *, live: bool, as_json: bool) -> None:
    """Writes what was recorded, unless it was drawn already. VscafError if the file cannot be written."""
    if as_json:
        click.echo(as_json_text(recording))
    if output is None:
        if not live and not as_json:
            click.echo(_lines(recording, PIPE_WIDTH, None).plain)
        return
    from vscaf.plot.figure import occupancy_figure  # noqa: PLC0415  (it imports matplotlib)

    figure = occupancy_figure(
        recording.bins.track(),
        recording.changes,
        recording.domains,
        recording.pcpus,
        "; ".join(recording.problems.values()),
    )
    try:
        figure.savefig(output, dpi=120)
    except OSError as error:
        raise VscafError(f"{output}: {error.strerror or error}: give another --output") from error
    click.echo(f"written to {output}", err=as_json)
