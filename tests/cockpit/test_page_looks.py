"""Pictures of the page for people to look at, in build/screenshots: half a minute of five guests in virtual time.

`make screenshots` copies one of them to docs/pictures.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import screenshots
from browser import chromium, page
from cockpit_host import cockpit, missing
from screenshots import HOST, SECONDS, Recorded, recorded
from vscaf.control.server import ControlServer, ControlTarget
from vscaf.simulate.engine.virtual_time import run_virtual

PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
DARK = "document.documentElement.classList.contains('pf-v6-theme-dark')"
pytestmark = pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")


def state() -> Recorded:
    """What the daemon says, as if it had just happened."""
    screenshots.BEGIN = datetime.now(UTC) - timedelta(seconds=SECONDS)
    return run_virtual(recorded())


async def pictures(directory: Path, told: Recorded) -> dict[str, bytes]:
    """PNG files by name."""
    path = directory / "control.sock"
    server = ControlServer(path, cast(ControlTarget, SimpleNamespace(status=lambda: told.status)), told.events)
    await server.start()
    program = chromium()
    assert program is not None
    taken = {}
    try:
        async with cockpit(directory, path, HOST) as address, page(program) as tab:
            await tab.open(address)
            await tab.until_text("weather", "#domains")
            await tab.until_text("allocation", "#events")
            await tab.until_text("node 1", "#map")
            await tab.click("#domains button.name", "chemistry")
            await tab.until_text("lu.C.x", "#detail")
            for width, size in ((1280, "wide"), (420, "narrow")):
                for theme in ("light", "dark"):
                    await tab.look(width, theme == "dark")
                    # No part of the page is wider than the window: nobody has to scroll sideways.
                    await tab.until("document.documentElement.scrollWidth <= window.innerWidth")
                    await tab.until(f"{DARK} === {str(theme == 'dark').lower()}")
                    # The frame of the selected domain's pCPUs is around them and as clear as the page's text.
                    style = "getComputedStyle(document.querySelector('#map .cell.selected'))"
                    text = "getComputedStyle(document.body).color"
                    assert await tab.value(f"{style}.outlineColor === {text} && {style}.outlineOffset === '0px'")
                    taken[f"{size}-{theme}"] = await tab.screenshot()
            # The shell's choice counts more than the browser's, and at once.
            for theme in ("light", "dark"):
                await tab.value(f"localStorage.setItem('shell:style', '{theme}')")
                await tab.value("window.dispatchEvent(new Event('cockpit-style'))")
                await tab.until(f"{DARK} === {str(theme == 'dark').lower()}")
            await tab.click("#set-policy")
            await tab.until("document.querySelectorAll('#policy-name option').length > 3")
            taken["dialog"] = await tab.screenshot(whole=False)
            assert not tab.log, tab.log
    finally:
        await server.stop()
    return taken


def test_the_page_fits_and_follows_the_theme(tmp_path: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, png in asyncio.run(pictures(tmp_path, state())).items():
        (PICTURES / f"cockpit-{name}.png").write_bytes(png)
