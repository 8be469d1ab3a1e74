"""The live view of `vscaf top`, with a real control server."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from control_recorder import Recorder, serving
from screens import screen_text
from textual.pilot import Pilot
from textual.widgets import Input
from top_states import DOMAINS, HOST, domain, program, status
from vscaf.control.messages import DomainStatus
from vscaf.events import EventLog
from vscaf.lab.polling import soon
from vscaf.top.app import TopApp
from vscaf.top.columns import COLUMNS, Order
from vscaf.top.widgets import CpuMap

GOLDEN = Path(__file__).parent / "golden"
INTERVAL_S = 0.02


@dataclass
class View:
    """A view that is open, and the daemon that it shows."""

    app: TopApp
    pilot: Pilot[None]
    target: Recorder
    events: EventLog

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def shows(self, text: str) -> None:
        """Waits until the screen contains *text*."""
        await soon(lambda: text in screen_text(self.app), lambda: f"{text!r} in\n{screen_text(self.app)}")

    def says(self, *domains: DomainStatus, **others: Any) -> None:
        """From now on the daemon has this status."""
        answer = status(domains or DOMAINS, **others)
        self.target.status = lambda: answer  # type: ignore[method-assign]

    async def lists(self, condition: Callable[[list[str]], bool]) -> None:
        """Waits until the names of the domains on the screen are so: parts of the screen are drawn one by one."""
        await soon(lambda: condition(self.rows()), lambda: f"other domains in\n{screen_text(self.app)}")

    def rows(self) -> list[str]:
        """The names of the domains on the screen, in order."""
        lines = screen_text(self.app).splitlines()
        header = next(number for number, line in enumerate(lines) if line.startswith("  domain"))
        names = [
            line[2 : 2 + COLUMNS[0].width].strip()
            for line in lines[header + 1 : lines.index("─" * self.app.size.width)]
        ]
        return [name for name in names if name]


@asynccontextmanager
async def opened(path: Path, *domains: DomainStatus, size: tuple[int, int] = (120, 24)) -> AsyncIterator[View]:
    async with serving(path) as (_, target, events):
        events._now = lambda: datetime(2026, 1, 1, 12, 34, 56, tzinfo=UTC)
        app = TopApp(path, Order(), HOST, INTERVAL_S)
        async with app.run_test(size=size) as pilot:
            view = View(app, pilot, target, events)
            view.says(*domains)
            await view.shows((domains or DOMAINS)[0].name)
            yield view


def in_view(directory: Path, work: Callable[[View], Awaitable[None]], *domains: DomainStatus, **options: Any) -> None:
    async def main() -> None:
        async with opened(directory / "s", *domains, **options) as view:
            await work(view)

    asyncio.run(main())


def test_the_screen_is_as_the_golden_file_says(directory: Path) -> None:
    async def work(view: View) -> None:
        view.events.record("allocation", "cfd", before="2-5", after="2-7", why="demand 8")
        view.events.record("queued", "idle", why="no room")
        golden = (GOLDEN / "screen.txt").read_text(encoding="utf-8")
        await soon(lambda: screen_text(view.app) == golden, lambda: f"as {GOLDEN}/screen.txt:\n{screen_text(view.app)}")

    in_view(directory, work, size=(130, 30))


def test_keys_sort_and_the_selected_domain_stays_selected(directory: Path) -> None:
    async def work(view: View) -> None:
        await view.lists(lambda names: names == ["cfd", "chemistry", "idle", "off", "weather"])
        await view.press("down")
        await view.shows("chemistry: growing")
        await view.press("s", "s")
        await view.shows("by CPUs ▼")
        await view.lists(lambda names: names == ["cfd", "chemistry", "weather", "idle", "off"])
        await view.press("r")
        await view.shows("by CPUs ▲")
        await view.lists(lambda names: names == ["idle", "weather", "chemistry", "cfd", "off"])
        assert "chemistry: growing" in screen_text(view.app)

    in_view(directory, work)


def test_the_filter(directory: Path) -> None:
    async def work(view: View) -> None:
        await view.press("slash", *"stale")
        await view.lists(lambda names: names == ["weather"])
        await view.press("enter", "s")
        assert view.app.order.column == "state", "after Enter keys are keys again"
        await view.lists(lambda names: names == ["weather"])
        await view.shows("filter: stale")
        await view.press("slash", "s", "escape")
        await view.lists(lambda names: len(names) == 5)
        assert not view.app.query_one(Input).display

    in_view(directory, work)


def test_pause_keeps_the_screen(directory: Path) -> None:
    async def work(view: View) -> None:
        await view.press("space")
        await view.shows("PAUSED")
        before, asked = screen_text(view.app), view.app.state
        view.says(domain("new", "2-3"))
        view.events.record("appeared", "new")
        await soon(lambda: view.app._events and not view.app._drawing_events)
        await view.pilot.pause()
        assert screen_text(view.app) == before and view.app.state is asked
        await view.press("space")
        await view.lists(lambda names: names == ["new"])
        await view.shows("12:34:56 appeared new")

    in_view(directory, work)


def test_an_answer_that_comes_after_the_pause_is_not_shown(directory: Path) -> None:
    async def work(view: View) -> None:
        shown, take, taken = view.app.state, view.app._take, []
        view.app._take = lambda answer: (take(answer), taken.append(answer))  # type: ignore[method-assign,assign]

        def late() -> Any:
            view.app.action_pause()
            taken.clear()
            return status([domain("new", "2-3")])

        view.target.status = late  # type: ignore[method-assign]
        await soon(lambda: view.app.paused and taken)
        assert view.app.state is not taken[0]
        assert [one.name for one in view.app.state.domains] == [one.name for one in shown.domains]

    in_view(directory, work)


def test_a_daemon_that_goes_away_and_comes_back(directory: Path) -> None:
    async def main() -> None:
        path = directory / "s"
        app = TopApp(path, Order(), HOST, INTERVAL_S)
        async with app.run_test(size=(200, 24)) as pilot:
            for name in ("first", "second"):
                async with serving(path) as (_, target, events):
                    view = View(app, pilot, target, events)
                    view.says(domain(name, "2-3"))
                    await view.shows(f"{name}: cooperating")
                    await soon(lambda: "is `vscaf daemon` running?" not in screen_text(app))
                await view.shows("is `vscaf daemon` running? (the values below are of")
                await view.lists(lambda names, name=name: names == [name])  # the last values are kept

    asyncio.run(main())


def test_without_a_daemon_the_view_says_so(directory: Path) -> None:
    async def main() -> None:
        app = TopApp(directory / "s", Order(), HOST, INTERVAL_S)
        async with app.run_test(size=(200, 24)):
            await soon(lambda: "is `vscaf daemon` running?" in screen_text(app))
            assert "the values below" not in screen_text(app)
            assert "no domain" not in screen_text(app), "nobody has said that there is none"

    asyncio.run(main())


@pytest.mark.parametrize("keys", [["ctrl+c"], ["slash", "a", "ctrl+c"]], ids=" ".join)
def test_ctrl_c_ends_the_view(directory: Path, keys: list[str]) -> None:
    async def work(view: View) -> None:
        await view.pilot.press(*keys)
        await soon(lambda: not view.app.is_running)

    in_view(directory, work)


def test_all_pcpus_of_the_selected_domain_are_listed(directory: Path) -> None:
    async def work(view: View) -> None:
        await view.shows("pCPUs 0, 2, 4, 6, 8,")
        await view.shows("58, 60, 62")

    in_view(directory, work, domain("spread", ",".join(map(str, range(0, 64, 2)))), size=(100, 30))


def many(busy_cpus: float = 1.0) -> list[DomainStatus]:
    out = [domain(f"d{number:04}", str(2 + number % 14), processes=[program("a", 2)]) for number in range(1000)]
    out[3] = msgspec.structs.replace(out[3], busy_cpus=busy_cpus)
    return out


def test_of_many_domains_only_visible_lines_that_change_are_drawn(directory: Path) -> None:
    async def work(view: View) -> None:
        table = view.app.table
        for _ in range(20):  # the first layouts draw all lines again
            before, state = table.lines_drawn, view.app.state
            await soon(lambda state=state: view.app.state is not state)
            await view.pilot.pause()
            if table.lines_drawn == before:
                break
        assert table.lines_drawn == before < 10 * view.app.size.height, "nothing has changed, and lines are drawn"
        view.says(*many(busy_cpus=3.21))
        await view.shows("3.21")
        await view.pilot.pause()
        assert table.lines_drawn == before + 1

    in_view(directory, work, *many(), size=(120, 40))


def test_scrolling(directory: Path) -> None:
    async def work(view: View) -> None:
        await view.press("end")
        await view.shows("d0999: cooperating")
        await view.lists(lambda names: names[-1:] == ["d0999"])
        await view.press("home")
        await view.shows("d0000: cooperating")
        await view.lists(lambda names: names[:1] == ["d0000"])
        await view.press("pagedown", "up", "up")
        selected = view.app.table.selected
        assert selected is not None
        await view.lists(lambda names: selected.name in names)

    in_view(directory, work, *many(), size=(100, 24))


def test_columns_that_do_not_fit_can_be_reached(directory: Path) -> None:
    async def work(view: View) -> None:
        assert "3.40 on 4" not in screen_text(view.app)
        await view.press(*["right"] * 8)
        await view.shows("3.40 on 4")

    in_view(directory, work, size=(70, 24))


def test_the_map_fits_a_terminal_that_becomes_narrow(directory: Path) -> None:
    async def work(view: View) -> None:
        view.says(domain("big", "0-63"), pool="0-63", reserve="")
        shown = view.app.query_one(CpuMap)
        await soon(lambda: shown.size.height == 3)
        await view.pilot.resize_terminal(60, 30)
        await soon(lambda: shown.size.height == 4)

    in_view(directory, work, size=(120, 30))


def test_the_map_of_many_pcpus_leaves_room(directory: Path) -> None:
    async def work(view: View) -> None:
        view.says(domain("big", "0-1999"), pool="0-3999", reserve="")
        await view.shows("big")
        await soon(lambda: view.app.query_one(CpuMap).size.height == CpuMap.MOST)
        await view.lists(lambda names: "big" in names)

    in_view(directory, work)


def colours(app: TopApp) -> set[str]:
    """The colours on the screen that are no grey."""
    found = re.findall(r"fill: #([0-9a-f]{6})", app.export_screenshot())
    return {one for one in found if max(bytes.fromhex(one)) - min(bytes.fromhex(one)) > 8}


@pytest.mark.parametrize("wanted", [True, False], ids=["colours", "NO_COLOR"])
def test_no_color_is_obeyed(directory: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not wanted:
        monkeypatch.setenv("NO_COLOR", "1")

    async def work(view: View) -> None:
        view.events.record("allocation", "cfd")
        await view.shows("12:34:56")
        assert bool(colours(view.app)) is wanted, colours(view.app)

    in_view(directory, work)


def test_names_are_no_markup(directory: Path) -> None:
    async def work(view: View) -> None:
        await view.shows("[red]x[/red]: cooperating")

    in_view(directory, work, domain("[red]x[/red]", "2-3"))
