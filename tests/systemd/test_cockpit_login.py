"""Cockpit's login, its shell around the page, and administrative access in a session, in a guest with systemd.

For `make test-systemd`. The daemon is the service of the guest, on libvirt's test driver.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from browser import Page, chromium, page
from cockpit_guest import COCKPIT, HANG_S, PASSWORD, REPOSITORY, status
from guests import USER, DebianGuest

PICTURES = REPOSITORY / "build" / "screenshots"
pytestmark = [
    pytest.mark.timeout(4 * HANG_S),
    pytest.mark.skipif(chromium() is None, reason="chromium is not installed: apt-get install chromium"),
]
SET_POLICY = json.dumps({"name": "equipartition", "options": {}})


async def refusal(tab: Page, request: str) -> str:
    """Why a request that is made in the page is refused; "": it is not."""
    said = await tab.value(f"{request}.then(() => '', error => error.problem || error.message)")
    assert isinstance(said, str)
    return said


async def logged_in(tab: Page, guest: DebianGuest) -> None:
    """Logs in, without administrative access, and enters the page."""
    await tab.call("Security.setIgnoreCertificateErrors", ignore=True)  # Cockpit has signed its own
    await tab.open(f"https://127.0.0.1:{guest.ports[COCKPIT]}/vscaf")
    await tab.type("#login-user-input", USER)
    await tab.type("#login-password-input", "not " + PASSWORD)
    await tab.click("#login-button")
    await tab.until_text("Wrong user name or password")
    await tab.value("document.querySelector('#login-password-input').value = ''")
    await tab.type("#login-password-input", PASSWORD)
    await tab.click("#login-button")
    tab.enter("/vscaf/index.html")


async def session(guest: DebianGuest) -> None:
    program = chromium()
    assert program is not None
    before = status(guest)["policy"]
    async with page(program, HANG_S) as tab:
        await tab.look(1280, dark=False)
        await logged_in(tab, guest)
        await tab.until_text(before, "#facts")
        await tab.until_text("test", "#domains")
        await tab.until_text("get administrative access", "#access")
        assert await tab.value("document.querySelector('#set-policy').disabled")
        # Without the buttons it is refused too: by Cockpit, and by the daemon.
        asked = f"import('./api.js').then(api => api.post('/v1/policy', {SET_POLICY}))"
        assert await refusal(tab, asked) != ""
        asked = f"cockpit.http('/run/vscaf/control.sock').post('/v1/policy', {json.dumps(SET_POLICY)})"
        assert await refusal(tab, asked) != ""
        assert status(guest)["policy"] == before

        tab.enter("")
        await tab.click("button", "Limited access")
        await tab.type("[role=dialog] input[type=password]", PASSWORD)
        await tab.click("[role=dialog] button", "Authenticate")
        await tab.until("![...document.querySelectorAll('button')].some(one => one.innerText === 'Limited access')")
        await tab.until_text("Administrative access")

        tab.enter("/vscaf/index.html")
        await tab.until("!document.querySelector('#set-policy').disabled && document.querySelector('#access').hidden")
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / "cockpit-shell.png").write_bytes(await tab.screenshot(whole=False))
        await tab.click("#set-policy")
        await tab.until(
            "[...document.querySelectorAll('#policy-name option')].some(one => one.value === 'equipartition')"
        )
        await tab.value("document.querySelector('#policy-name').value = 'equipartition'")
        await tab.value("document.querySelector('#policy-options').value = ''")
        await tab.click("#dialog-do")
        await tab.until("!document.querySelector('dialog').open")
        await tab.until_text("equipartition", "#facts")
        await tab.until_text(f"{before} → equipartition", "#events")
        assert status(guest)["policy"] == "equipartition"
        await tab.click("#domains button.name", "test")
        await tab.click("#detail button", "Release")
        await tab.click("#dialog-do")
        await tab.until("!document.querySelector('dialog').open")
        assert [one["state"] for one in status(guest)["domains"]] == ["released"]

        tab.enter("")
        await tab.click("button", "Administrative access")
        await tab.click("[role=dialog] button", "Limit access")
        await tab.until_text("Limited access")
        tab.enter("/vscaf/index.html")
        await tab.until("!document.querySelector('#access').hidden")  # the page has loaded again
        assert await tab.value("document.querySelector('#set-policy').disabled")


def test_a_user_logs_in_and_changes_something_only_with_administrative_access(guest: DebianGuest) -> None:
    asyncio.run(session(guest))
    assert guest.output("systemctl show --value -p NRestarts vscaf").strip() == "0"
