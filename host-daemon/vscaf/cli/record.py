"""`vscaf record`: starts and stops recordings in the running daemon."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from vscaf.cli.client import find_socket, run, with_daemon
from vscaf.control.client import get, post
from vscaf.terminal import printable


@click.group()
def record() -> None:
    """Record every decision of the daemon, for `vscaf replay`."""


@record.command("start", short_help="Record from now on.")
@with_daemon
def record_start(socket: Path | None, config: Path) -> None:
    """Record from now on, until `vscaf record stop` or until the daemon ends.

    To record always, set `record = true` in the configuration.
    """
    _tell(socket, config, on=True)


@record.command("stop")
@with_daemon
def record_stop(socket: Path | None, config: Path) -> None:
    """Record no more. The files stay."""
    _tell(socket, config, on=False)


@record.command("show", short_help="Show whether it records, and where.")
@with_daemon
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def record_show(socket: Path | None, config: Path, as_json: bool) -> None:
    """Show whether the daemon records, and where its recordings are."""

    async def work() -> Any:
        return await get(find_socket(socket, config), "/v1/record")

    recording = run(work)
    click.echo(json.dumps(recording, indent=2) if as_json else _recording(recording))


def _tell(socket: Path | None, config: Path, *, on: bool) -> None:
    async def work() -> Any:
        return await post(find_socket(socket, config), "/v1/record", {"on": on})

    click.echo(_recording(run(work)))


def _recording(recording: Mapping[str, Any]) -> str:
    since = "records nothing" if recording["since"] is None else f"records since {recording['since']}"
    lines = [
        since,
        f"{recording['directory']}: {recording['files']} files, {recording['bytes'] / 1e6:.1f} of "
        f"{recording['most_bytes'] / 1e6:g} MB",
    ]
    if recording["failed"]:
        lines.append(f"the last recording ended by itself: {recording['failed']}")
    return "\n".join(map(printable, lines))
