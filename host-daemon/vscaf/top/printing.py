"""`vscaf top` without a terminal: a plain table for each interval, and the decisions between them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vscaf.errors import VscafError
from vscaf.terminal import one_line
from vscaf.top import feed
from vscaf.top.columns import Order
from vscaf.top.plain import decision, table
from vscaf.values import HostCpus


async def print_once(path: Path, order: Order, host: HostCpus, write: Callable[[str], None]) -> None:
    """Writes one table. VscafError if the daemon does not answer."""
    for line in table(await feed.state(path), order, host):
        write(line)


async def print_tables(
    path: Path,
    order: Order,
    host: HostCpus,
    *,
    interval_s: float,
    write: Callable[[str], None],
    complain: Callable[[str], None],
) -> None:
    """Writes a table for each interval until it is cancelled. While the daemon is away, says so once to *complain*."""
    pending: list[dict[str, Any]] = []
    began = datetime.now(UTC).isoformat(timespec="milliseconds")

    async def listen() -> None:
        async for event in feed.events(path):
            if event["time"][:23] >= began[:23]:  # older ones were decided before we looked
                pending.append(event)

    listening = asyncio.create_task(listen())
    complained = ""
    try:
        while True:
            try:
                lines = table(await feed.state(path), order, host)
                complained = ""
            except VscafError as error:
                lines = []
                if one_line(error) != complained:
                    complained = one_line(error)
                    complain(complained)
            for event in pending:
                write(decision(event))
            pending.clear()
            if lines:
                for line in (*lines, ""):
                    write(line)
            await asyncio.sleep(interval_s)
    finally:
        listening.cancel()
