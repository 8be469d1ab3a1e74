"""The table of domains: a widget that makes and draws only the rows on the screen."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from vscaf.top.columns import COLUMNS, Order, fitted, row
from vscaf.top.domains import Domain
from vscaf.values import State

WIDTHS = [column.width for column in COLUMNS]
WIDTH = 2 + sum(WIDTHS) + 2 * (len(WIDTHS) - 1)
HEADER = Style(bold=True)
SORTED = Style(bold=True, underline=True)
COLOURS: Mapping[str, str] = {
    State.COOPERATING: "green",
    State.CONTAINED: "yellow",
    State.SHRINKING: "cyan",
    State.GROWING: "cyan",
    State.UNKNOWN: "red",
    State.UNMANAGED: "red",
}
STEP = 8
"""Cells that left and right scroll."""


class DomainTable(ScrollView, can_focus=True):
    """Domains in rows, with one selected. The first line is the header and does not scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("left", f"sideways(-{STEP})", show=False),
        Binding("right", f"sideways({STEP})", show=False),
    ]

    class Selected(Message):
        """Another domain is selected."""

    def __init__(self) -> None:
        super().__init__()
        self._domains: Sequence[Domain] = ()
        self._order = Order()
        self._node_of: Mapping[int, int] = {}
        self._letters: Mapping[str, str] = {}
        self._index = 0
        self._drawn: dict[int, tuple[object, ...]] = {}
        self.lines_drawn = 0
        """How many lines were drawn since the start, for tests."""

    @property
    def selected(self) -> Domain | None:
        """The selected domain; None if there is no row."""
        return self._domains[self._index] if self._domains else None

    @property
    def _rows(self) -> int:
        """How many domains fit between the header and the horizontal scrollbar."""
        return max(1, self.scrollable_content_region.height - 1)

    def show(
        self, domains: Sequence[Domain], order: Order, node_of: Mapping[int, int], letters: Mapping[str, str]
    ) -> None:
        """Shows these rows. The selected domain stays selected; if it has gone, the one in its place is."""
        selected, before = self.selected, self._domains
        self._domains, self._order, self._node_of, self._letters = domains, order, node_of, letters
        if selected is not None and not (self._index < len(domains) and domains[self._index].name == selected.name):
            at = next((index for index, one in enumerate(domains) if one.name == selected.name), self._index)
            self._index = max(0, min(at, len(domains) - 1))
        if len(domains) != len(before):
            self.virtual_size = Size(WIDTH, len(domains) + 1)
        self._draw_changes()

    def _draw_changes(self) -> None:
        for y in range(self.size.height):
            if self._drawn.get(y) != self._content(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def _content(self, y: int) -> tuple[object, ...]:
        """Everything that the line *y* of the screen depends on."""
        where = (self.scroll_offset.x, self.size.width)
        if y == 0:
            return (*where, self._order)
        index = self.scroll_offset.y + y - 1
        if index >= len(self._domains):
            return where
        domain = self._domains[index]
        letter = self._letters.get(domain.name, " ")
        return (*where, index == self._index, letter, domain.state, *row(domain, self._node_of))

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        content = self._drawn[y] = self._content(y)
        self.lines_drawn += 1
        offset, width = self.scroll_offset.x, self.size.width
        base = Style()
        if y == 0:
            segments = self._header()
        elif len(content) == 2:
            segments = []
        else:
            _, _, selected, letter, state, *cells = content
            base = Style(reverse=True) if selected else Style()
            colour = None if selected else COLOURS.get(str(state))
            texts = fitted([str(cell) for cell in cells], WIDTHS)
            segments = [Segment(f"{letter} ", base)]
            for number, text in enumerate(texts):
                style = base + Style(color=colour) if number == 1 and colour else base
                segments.append(Segment(text + ("  " if number < len(texts) - 1 else ""), style))
        return Strip(segments).crop(offset, offset + width).extend_cell_length(width, base)

    def _header(self) -> list[Segment]:
        segments = [Segment("  ")]
        for column, text in zip(COLUMNS, fitted([column.name for column in COLUMNS], WIDTHS), strict=True):
            before, name, after = text.partition(column.name)
            style = SORTED if column.name == self._order.column else HEADER
            segments += [Segment(before), Segment(name, style), Segment(after + "  ")]
        return segments

    def action_move(self, by: int) -> None:
        """Selects another row, and scrolls so far that it can be seen."""
        index = max(0, min(self._index + by, len(self._domains) - 1))
        if index == self._index:
            return
        self._index = index
        rows = self._rows
        top = min(max(self.scroll_offset.y, index - rows + 1), index)
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)
        self._draw_changes()
        self.post_message(self.Selected())

    def action_page(self, by: int) -> None:
        """Selects the row a screen further."""
        self.action_move(by * self._rows)

    def action_sideways(self, by: int) -> None:
        """Scrolls to other columns."""
        self.scroll_to(x=self.scroll_offset.x + by, animate=False)
