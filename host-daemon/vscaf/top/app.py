"""The live view of `vscaf top`."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from vscaf.errors import VscafError
from vscaf.terminal import one_line
from vscaf.top import feed
from vscaf.top.columns import Order, ordered
from vscaf.top.cpu_map import LEGEND, Owners, marks
from vscaf.top.detail import detail
from vscaf.top.domains import State
from vscaf.top.plain import heading, newest
from vscaf.top.widgets import CpuMap, DomainTable, TextLines
from vscaf.values import HostCpus

KEYS = "s sort  r reverse  / filter  Space pause  q quit"
KEPT_EVENTS = 200


class TopApp(App[None]):
    """Asks the daemon at *path* every *interval_s*, and follows its events."""

    TITLE = "vscaf top"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", show=False),
        Binding("r", "reverse", show=False),
        Binding("slash", "filter", show=False),
        Binding("space", "pause", show=False),
        Binding("escape", "clear_filter", show=False),
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),  # else textual copies text with it
    ]

    def __init__(self, path: Path, order: Order, host: HostCpus, interval_s: float = 1.0) -> None:
        # With the terminal's own colours NO_COLOR means none at all; otherwise textual would draw greys.
        super().__init__(ansi_color=True)
        self._path = path
        self._host = host
        self._interval_s = interval_s
        self._wake = asyncio.Event()
        self._events: deque[Mapping[str, Any]] = deque(maxlen=KEPT_EVENTS)
        self._texts: dict[str, Text] = {}
        self._state_at = ""
        self._problem = ""
        self._drawing_events = False
        self.order = order
        self.paused = False
        self.state: State | None = None

    def compose(self) -> ComposeResult:
        """The parts of the screen, from top to bottom."""
        yield Static("", id="heading", markup=False)
        yield Static("", id="problem", markup=False)
        yield CpuMap()
        yield DomainTable()
        with Horizontal(id="below"):
            yield TextLines("detail")
            yield TextLines("events")
        yield Input(id="filter", placeholder="words in name, state or agent's state")
        yield Static(f"{KEYS}   {LEGEND}", id="keys", markup=False)

    def on_mount(self) -> None:
        """Begins to ask and to listen."""
        self.table.focus()
        self._draw()
        self.run_worker(self._ask())
        self.run_worker(self._listen())

    @property
    def table(self) -> DomainTable:
        """The table of domains."""
        return self.query_one(DomainTable)

    async def _ask(self) -> None:
        while True:
            if not self.paused:
                try:
                    answer: State | VscafError = await feed.state(self._path)
                except VscafError as error:
                    answer = error
                self._take(answer)
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._interval_s)

    def _take(self, answer: State | VscafError) -> None:
        """Shows what the daemon answered, unless the view was paused meanwhile."""
        if self.paused:
            return
        if isinstance(answer, VscafError):
            self._problem = one_line(answer)
        else:
            self.state, self._problem = answer, ""
            self._state_at = f"{datetime.now(UTC):%H:%M:%S}"
        self._draw()

    async def _listen(self) -> None:
        async for event in feed.events(self._path):
            self._events.append(event)
            if not self._drawing_events:  # many come at once at the start
                self._drawing_events = True
                self.set_timer(0.05, self._draw_events)

    def _draw(self) -> None:
        """Draws what has changed."""
        if not self.is_running:
            return  # it is closing, and its widgets go one by one
        parts = [] if self.state is None else [heading(self.state)]
        parts += [f"by {self.order.column} {'▼' if self.order.descending else '▲'}"]
        parts += [f"filter: {self.order.words}"] if self.order.words else []
        parts += ["PAUSED"] if self.paused else []
        self._set("heading", Text(" | ".join(parts), style="bold"))
        old = f" (the values below are of {self._state_at} UTC)" if self._state_at else ""
        self._set("problem", Text(self._problem + old if self._problem else "", style="bold red"))
        self.query_one("#problem").display = bool(self._problem)
        if self.state is not None:
            domains = ordered(self.state.domains, self.order)
            self.table.show(domains, self.order, self._host.node_of, marks(self.state.domains))
        self._draw_selected()
        self._draw_events()

    def _draw_selected(self) -> None:
        """Draws what depends on the selected domain."""
        selected = self.table.selected
        widget = self.query_one("#detail", TextLines)
        none = [] if self.state is None else ["no domain"]
        widget.show(detail(selected, widget.size.width) if selected else none)
        if self.state is not None:
            owners = Owners(self.state.pool, self.state.reserve, self.state.domains, self._host.online)
            self.query_one(CpuMap).show(owners, self._host, selected.name if selected else None)

    def _draw_events(self) -> None:
        self._drawing_events = False
        if self.paused or not self.is_running:
            return
        widget = self.query_one("#events", TextLines)
        width, height = widget.size
        if height > 0:
            widget.show(newest(list(self._events)[-height:], width, height))

    def _set(self, name: str, text: Text) -> None:
        """Changes a part of the screen, if its text is new."""
        if self._texts.get(name) != text:
            self._texts[name] = text
            self.query_one(f"#{name}", Static).update(text)

    def on_domain_table_selected(self) -> None:
        """Shows the domain that the table has selected."""
        self._draw_selected()

    def on_resize(self) -> None:
        """Fills the new size."""
        self.call_after_refresh(self._draw)

    def action_sort(self) -> None:
        """Sorts by the next column."""
        self.order = self.order.by_next_column()
        self._draw()

    def action_reverse(self) -> None:
        """Turns the order."""
        self.order = replace(self.order, turned=not self.order.turned)
        self._draw()

    def action_pause(self) -> None:
        """Stops asking and drawing, or goes on at once."""
        self.paused = not self.paused
        self._wake.set()
        self._draw()

    def action_filter(self) -> None:
        """Opens the line for the filter."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def action_clear_filter(self) -> None:
        """Shows all domains again."""
        self.query_one("#filter", Input).value = ""
        self._filter("")
        self._close_filter()

    def on_input_changed(self, changed: Input.Changed) -> None:
        """Filters while the words are written."""
        self._filter(changed.value)

    def on_input_submitted(self) -> None:
        """Keeps the filter."""
        self._close_filter()

    def _filter(self, words: str) -> None:
        if words != self.order.words:
            self.order = replace(self.order, words=words)
            self._draw()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self.table.focus()
