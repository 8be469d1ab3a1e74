"""The page in a real Chromium, through a real cockpit-ws, beside the real daemon on a simulated host."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import Page, chromium, page
from cockpit_host import cockpit, missing
from daemon_world import World
from vscaf.control.server import ControlServer
from vscaf.daemon.operations import Operations
from vscaf.events import EventLog
from vscaf.lab.polling import soon
from vscaf.values import HostCpus

CHROMIUM = chromium()
pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="without a login only root has administrative access"),
]

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
    server: ControlServer
    path: Path

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
            shown = Seen(tab, world, server, path)
            yield shown
            server = shown.server
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


def test_what_does_not_change_keeps_its_element(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        tab = shown.page
        await shown.until_cell("web", 1, "resting")
        await tab.value("window.nodes = [...document.querySelectorAll('#map .node')]")
        shown.world.computes("web")
        await tab.until("document.querySelectorAll('#map .cell.domain').length === 8")
        kept = "[...document.querySelectorAll('#map .node')].map((one, index) => one === window.nodes[index])"
        assert sorted(await tab.value(kept)) == [False, True], "one NUMA node has another use, and the other has not"
        assert await tab.value("document.querySelectorAll('#timeline .lane').length") == 1
        shown.world.computes("cfd")
        await tab.until("document.querySelectorAll('#timeline .lane').length === 2")
        names = "[...document.querySelectorAll('#timeline .lane-name')].map(one => one.innerText)"
        assert await tab.value(names) == ["cfd", "web"]
        times = "[...document.querySelectorAll('#events tbody tr')].map(one => one.cells[0].innerText)"
        assert await tab.value(times) == sorted(await tab.value(times), reverse=True)

    with_page(tmp_path, work, "cfd", "web")


def test_a_policy_is_set_after_confirmation_and_rolled_back(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        tab, daemon = shown.page, shown.world.daemon
        await tab.click("#set-policy")
        await tab.until_text("in place of max-speedup", "#dialog-text")
        await tab.until("document.querySelectorAll('#policy-name option').length > 3")
        await tab.click("#dialog-cancel")
        await tab.until("!document.querySelector('dialog').open")
        await tab.click("#set-policy")
        await tab.until("document.querySelectorAll('#policy-name option').length > 3")
        assert daemon.policy_name == "max-speedup", "not before the confirmation"
        await tab.value("document.querySelector('#policy-name').value = 'static'")
        await tab.value("""document.querySelector('#policy-options').value = '{"cpus": 3}'""")
        await tab.click("#dialog-do")
        await tab.until("document.querySelector('#dialog-error').textContent.includes('static')")
        assert daemon.policy_name == "max-speedup", "the daemon has refused the options"
        await tab.value("document.querySelector('#policy-name').value = 'equipartition'")
        await tab.value("document.querySelector('#policy-options').value = ''")
        await tab.click("#dialog-do")
        await tab.until("!document.querySelector('dialog').open")
        await tab.until_text("equipartition", "#facts")
        assert daemon.policy_name == "equipartition"
        await tab.until_text("max-speedup → equipartition", "#events")
        await tab.click("#rollback")
        await tab.until_text("uses the policy max-speedup again", "#dialog-text")
        await tab.click("#dialog-do")
        await tab.until("!document.querySelector('dialog').open")
        assert daemon.policy_name == "max-speedup"

    with_page(tmp_path, work, "cfd")


def test_a_domain_is_released_and_managed_again(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        tab, world = shown.page, shown.world
        world.computes("cfd")
        await soon(lambda: len(world.held("cfd")) == 8, lambda: world.held("cfd"))
        await tab.click("#domains button.name", "cfd")
        await tab.click("#detail button", "Release")
        await tab.until_text("vscaf puts back the vCPUs, pins and weight of cfd", "#dialog-text")
        assert world.pins("cfd") != world.found["cfd"], "not before the confirmation"
        await tab.click("#dialog-do")
        await shown.until_cell("cfd", 1, "released")
        assert world.pins("cfd") == world.found["cfd"]
        await tab.until_text("released", "#events")
        await tab.click("#detail button", "Manage")
        await tab.click("#dialog-do")
        await shown.until_cell("cfd", 2, "8")
        assert world.pins("cfd") != world.found["cfd"]

    with_page(tmp_path, work, "cfd")


def test_a_change_that_changes_nothing_says_so(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        tab = shown.page
        await tab.click("#domains button.name", "cfd")
        await tab.click("#detail button", "Release")
        await Operations(shown.world.daemon).release("cfd")
        await tab.click("#dialog-do")
        await tab.until("document.querySelector('#dialog-error').textContent.startsWith('Nothing was changed')")
        await tab.click("#dialog-cancel")
        await tab.until("!document.querySelector('dialog').open")

    with_page(tmp_path, work, "cfd")


def test_a_domain_is_explained_by_vscaf_explain(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        tab, world = shown.page, shown.world
        world.computes("cfd")
        await soon(lambda: len(world.held("cfd")) == 8, lambda: world.held("cfd"))
        await shown.until_cell("cfd", 2, "8")
        await tab.click("#domains button.name", "cfd")
        await tab.click("#detail button", "Explain")
        await tab.until_text("It has 8 of the 16 pCPUs of the pool", "#explanation")
        await tab.until_text("What would change it", "#explanation")
        await tab.click("#domains button.name", "web")
        await tab.until("document.querySelector('#explanation').innerText === ''")

    with_page(tmp_path, work, "cfd", "web")


def test_names_are_text_wherever_they_are_shown(tmp_path: Path) -> None:
    hostile = "<img src=x onerror='window.hurt = 1'>"

    async def work(shown: Seen) -> None:
        tab = shown.page
        shown.world.computes(hostile)
        await tab.until_text(hostile, "#domains")
        await tab.click("#domains button.name", hostile)
        await tab.until_text(hostile, "#detail-title")
        await tab.until_text(hostile, "#timeline")
        await tab.until_text(hostile, "#events")
        await tab.click("#detail button", "Release")
        await tab.until_text(hostile, "#dialog-text")
        assert await tab.value("document.querySelectorAll('img').length") == 0
        assert not await tab.value("'hurt' in window")

    with_page(tmp_path, work, hostile)


def test_the_keyboard_selects_and_sorts_and_the_focus_stays(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        tab = shown.page
        await shown.until_cell("web", 1, "resting")
        await tab.value(f"{ROW.format('cfd')}.querySelector('button').focus()")
        await tab.press_enter()
        await tab.until_text("cfd", "#detail-title")
        shown.world.computes("cfd")
        await shown.until_cell("cfd", 2, "8")
        assert await tab.value("document.activeElement.innerText.includes('cfd')"), (
            "the row has changed under the focus"
        )
        await tab.value("document.querySelectorAll('#domains thead button')[2].focus()")
        await tab.press_enter()
        await tab.press_enter()
        await tab.until("document.querySelector('#domains tbody tr').innerText.includes('web')")
        assert await tab.value("document.querySelector('[aria-sort=ascending]').innerText") == "CPUs ▲"

    with_page(tmp_path, work, "cfd", "web")


def test_on_a_narrow_screen_a_choice_sorts(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        tab = shown.page
        visible = "document.querySelector('{}').checkVisibility()"
        first = "document.querySelector('#domains tbody tr').cells[0].innerText.includes('{}')"
        shown.world.computes("web")
        await shown.until_cell("web", 2, "8")
        await tab.look(1280, dark=False)
        await tab.until(f"{visible.format('#domains thead')} && !{visible.format('#order')}")
        await tab.look(420, dark=False)
        await tab.until(f"!{visible.format('#domains thead')} && {visible.format('#order')}")
        assert await tab.value("document.querySelector('#order-column').value") == "domain"
        assert await tab.value(first.format("cfd"))
        await tab.value("document.querySelector('#order-column').focus()")
        await tab.value("document.querySelector('#order-column').value = 'CPUs'")
        await tab.value("document.querySelector('#order-column').dispatchEvent(new Event('change'))")
        await tab.until(first.format("web"))
        assert await tab.value("document.activeElement.id") == "order-column"
        await tab.click("#order-turn", "descending")
        await tab.until(first.format("cfd"))
        assert await tab.value("document.querySelector('#order-turn').innerText") == "▲ ascending"
        await tab.look(1280, dark=False)  # the header knows it too
        assert await tab.value("document.querySelector('[aria-sort=ascending]').innerText") == "CPUs ▲"

    with_page(tmp_path, work, "cfd", "web")


def test_without_administrative_access_the_page_shows_all_and_offers_no_change() -> None:
    async def work(shown: Seen) -> None:
        tab = shown.page
        await shown.until_cell("web", 1, "resting")
        await tab.click("#domains button.name", "web")
        await tab.until("document.querySelectorAll('#detail button').length === 3")
        await tab.until_text("get administrative access", "#access")
        buttons = "[...document.querySelectorAll('#detail button:not(:first-child), #set-policy')]"
        assert await tab.value(f"{buttons}.every(one => one.disabled && one.title.includes('administrative access'))")

    # Below pytest's own directory another user can read nothing.
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        with_page(Path(directory), work, "web", user="nobody")


def test_if_the_daemon_is_away_the_page_says_so_and_goes_on_afterwards(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        await shown.until_cell("web", 1, "resting")
        await shown.server.stop()
        await shown.page.until_text("The vscaf daemon does not run", "#problems")
        await shown.page.until_text("All values are old", "#problems")
        events = EventLog()
        server = shown.server = ControlServer(shown.path, Operations(shown.world.daemon), events)
        await server.start()
        events.record("started", None, why="the second daemon")
        await shown.page.until_text("the second daemon", "#events")
        await shown.page.until("document.querySelector('#problems').innerText === ''")

    with_page(tmp_path, work, "web")


async def answering(path: Path, body: bytes | None, asked: list[bytes]) -> asyncio.Server:
    """A server that is no daemon. body None: it never answers. asked: what it is asked for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if body is None:
            await reader.read()
            writer.close()
            return
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    return await asyncio.start_unix_server(answer, path)


async def recovers(shown: Seen, other: asyncio.Server) -> None:
    """Ends a stand-in for the daemon. Then a daemon answers, and the page shows no problem any more."""
    other.close()
    shown.path.unlink(missing_ok=True)
    server = shown.server = ControlServer(shown.path, Operations(shown.world.daemon), EventLog())
    await server.start()
    await shown.page.until("document.querySelector('#problems').innerText === ''")


def test_if_an_answer_is_cut_off_the_page_says_so_and_asks_again(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        await shown.until_cell("web", 1, "resting")
        await shown.server.stop()
        broken = await answering(shown.path, b"{", [])
        await shown.page.until_text("was cut off", "#problems")
        await recovers(shown, broken)

    with_page(tmp_path, work, "web")


def test_if_the_daemon_never_answers_the_page_says_so_and_asks_again(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def work(shown: Seen) -> None:
        await shown.until_cell("web", 1, "resting")
        await shown.server.stop()
        silent = await answering(shown.path, None, asked)
        await shown.page.until_text("has not answered for 5 s", "#problems")
        await shown.page.until_text("All values are old", "#problems")
        await soon(lambda: sum(b"/v1/status" in one for one in asked) > 1)
        await recovers(shown, silent)

    with_page(tmp_path, work, "web")


def test_after_an_answer_that_cannot_be_shown_the_page_asks_again(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def work(shown: Seen) -> None:
        await shown.until_cell("web", 1, "resting")
        await shown.server.stop()
        for body in (b'{"domains": []}', b"{}"):
            asked.clear()
            other = await answering(shown.path, body, asked)
            await soon(lambda: sum(b"/v1/status" in one for one in asked) > 1)
            await shown.page.until_text("This answer cannot be shown", "#problems")
            await shown.page.until_text("All values are old", "#problems")
            other.close()
            shown.path.unlink(missing_ok=True)
            await shown.page.until_text("The vscaf daemon does not run", "#problems")
        server = shown.server = ControlServer(shown.path, Operations(shown.world.daemon), EventLog())
        await server.start()
        shown.world.computes("web")
        await shown.until_cell("web", 2, "8")
        assert await shown.page.value("document.querySelector('#problems').innerText") == ""

    with_page(tmp_path, work, "web")


def test_events_from_before_the_page_are_not_called_lost(tmp_path: Path) -> None:
    async def work(shown: Seen) -> None:
        await shown.until_cell("web", 1, "resting")
        await shown.server.stop()
        events = EventLog(capacity=2)
        for why in ("the first", "the second", "the third"):
            events.record("started", None, why=why)
        server = shown.server = ControlServer(shown.path, Operations(shown.world.daemon), events)
        await server.start()
        await shown.page.until_text("the third", "#events")
        assert "no longer kept" not in await shown.page.value("document.querySelector('#events').innerText")

    with_page(tmp_path, work, "web")


def test_events_that_the_page_has_missed_are_called_lost(tmp_path: Path) -> None:
    async def serve(shown: Seen, events: EventLog) -> None:
        server = shown.server = ControlServer(shown.path, Operations(shown.world.daemon), events)
        await server.start()

    async def work(shown: Seen) -> None:
        tab, events = shown.page, EventLog(capacity=2)
        await shown.until_cell("web", 1, "resting")
        await shown.server.stop()
        await tab.until_text("No new events. The vscaf daemon does not run", "#events-problem")
        events.record("started", None, why="the first")
        await serve(shown, events)
        await tab.until_text("the first", "#events")
        await tab.until("document.querySelector('#events-problem').innerText === ''")
        await shown.server.stop()
        for why in ("the second", "the third", "the fourth"):
            events.record("started", None, why=why)
        await serve(shown, events)
        await tab.until_text("2 events from number 1 on are no longer kept", "#events")

    with_page(tmp_path, work, "web")


def with_tab(work: Callable[[Page], Awaitable[None]]) -> None:
    """As with_page, for an empty page."""

    async def main() -> None:
        assert CHROMIUM is not None
        async with page(CHROMIUM) as tab:
            await work(tab)

    asyncio.run(main())


def test_what_is_not_there_yet_is_waited_for() -> None:
    with_tab(lambda tab: tab.until("(window.asked = (window.asked ?? 0) + 1) > 1 || document.querySelector('p').id"))


def test_a_page_that_loads_again_meanwhile_is_asked_again() -> None:
    once = "(window.name = 'asked', location.reload(), new Promise(() => {}))"
    with_tab(lambda tab: tab.until(f"window.name === 'asked' || {once}"))
