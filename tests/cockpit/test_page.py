"""The page in a real Chromium, through a real cockpit-ws, beside the real daemon on a simulated host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import Page, chromium, page
from cockpit_host import BRIDGE, COCKPIT_WS, cockpit
from daemon_world import World
from vscaf.control.server import ControlServer
from vscaf.daemon.operations import Operations
from vscaf.lab.polling import soon
from vscaf.values import HostCpus

CHROMIUM = chromium()
MISSING = [str(one) for one in (COCKPIT_WS, BRIDGE) if not one.exists()] + ([] if CHROMIUM else ["chromium"])
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

HOST = HostCpus(
    online=frozenset(range(18)),
    cores=tuple(frozenset({first, first + 1}) for first in range(0, 18, 2)),
    node_of={cpu: int(cpu >= 10) for cpu in range(18)},
)
ROW = "[...document.querySelectorAll('#domains tbody tr')].find(one => one.cells[0].innerText.includes('{}'))"


@dataclass
class Seen:
    """The page, and the daemon that it shows."""

    page: Page
    world: World

    async def until_cell(self, domain: str, column: int, text: str) -> None:
        """Waits until a cell of a domain's row has this text."""
        await self.page.until(f"{ROW.format(domain)}?.cells[{column}].innerText === {text!r}")


@asynccontextmanager
async def seen(directory: Path, *domains: str, user: str | None = None) -> AsyncIterator[Seen]:
    world = World(*domains, machine=HOST)
    path = directory / "control.sock"
    server = ControlServer(path, Operations(world.daemon), world.daemon.events, read_group="nogroup" if user else None)
    await server.start()
    world.begin()
    assert CHROMIUM is not None
    try:
        async with cockpit(directory, path, HOST, user) as address, page(CHROMIUM) as tab:
            await tab.open(address)
            yield Seen(tab, world)
    finally:
        await server.stop()
        assert await world.end(), world.daemon.not_put_back


def with_page(directory: Path, work: Callable[[Seen], Awaitable[None]], *domains: str, user: str | None = None) -> None:
    async def main() -> None:
        async with seen(directory, *domains, user=user) as shown:
            await work(shown)

    asyncio.run(main())


def test_the_page_shows_domains_and_their_pcpus(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        await shown.page.until_text("max-speedup", "#facts")
        shown.world.computes("cfd")
        await soon(lambda: len(shown.world.held("cfd")) == 8, lambda: shown.world.held("cfd"))
        await shown.until_cell("cfd", 2, "8")
        assert await shown.page.value("document.querySelectorAll('#map .cell.domain').length") == 8
        assert await shown.page.value("document.querySelectorAll('#map .node').length") == 2
        assert await shown.page.value("document.querySelectorAll('#map .core').length") == 9
        await shown.until_cell("web", 1, "resting")

    with_page(tmp_path, work, "cfd", "web")
