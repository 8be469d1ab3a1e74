"""`vscaf record`: starts and stops recordings in the running daemon."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from vscaf.cli.client import run, with_daemon
from vscaf.command_line import find_socket, json_option
from vscaf.control.client import get, post
from vscaf.terminal import printable


@click.group()
def record() -> None:
    """Record every decision of the daemon, for `vscaf replay`.

    \b
    Examples:
      vscaf record start
      vscaf record show
    """


@record.command("start", short_help="Record from now on.")
@with_daemon
@json_option
def record_start(socket: Path | None, config: Path, as_json: bool) -> None:
    """Record from now on, until `vscaf record stop` or until the daemon ends.

    To record always, set `record = true` in the configuration.

    \b
    Example:
      vscaf record start
    """
    _tell(socket, config, as_json, on=True)


@record.command("stop")
@with_daemon
@json_option
def record_stop(socket: Path | None, config: Path, as_json: bool) -> None:
    """Record no more. The files stay.

    \b
    Example:
      vscaf record stop
    """
    _tell(socket, config, as_json, on=False)


@record.command("show", short_help="Show whether it records, and where.")
@with_daemon
@json_option
def record_show(socket: Path | None, config: Path, as_json: bool) -> None:
    """Show whether the daemon records, and where its recordings are.

    \b
    Example:
      vscaf record show
    """

    async def work() -> Any:
        return await get(find_socket(socket, config), "/v1/record")

    _show(run(work), as_json)


def _tell(socket: Path | None, config: Path, as_json: bool, *, on: bool) -> None:
    async def work() -> Any:
        return await post(find_socket(socket, config), "/v1/record", {"on": on})

    _show(run(work), as_json)


def _show(recording: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(recording, indent=2))
        return
    since = "records nothing" if recording["since"] is None else f"records since {recording['since']}"
    lines = [
        since,
        f"{recording['directory']}: {recording['files']} files, {recording['bytes'] / 1e6:.1f} of "
        f"{recording['most_bytes'] / 1e6:g} MB",
    ]
    if recording["failed"]:
        lines.append(f"the last recording ended by itself: {recording['failed']}")
    click.echo("\n".join(map(printable, lines)))
