"""The table of domains and the map of pCPUs: widgets that make and draw only the lines on the screen."""

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
from vscaf.top.cpu_map import Cell, Line, Owners, colour, layout
from vscaf.top.domains import Domain
from vscaf.values import HostCpus, State

WIDTHS = [column.width for column in COLUMNS]
WIDTH = 2 + sum(WIDTHS) + 2 * (len(WIDTHS) - 1)
DIM = Style(dim=True)
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


class Lines(ScrollView):
    """A widget of lines that draws only those that have changed."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn: dict[int, object] = {}
        self.lines_drawn = 0
        """How many lines were drawn since the start, for tests."""

    def content(self, y: int) -> object:
        """Everything that the line *y* of the screen depends on."""
        raise NotImplementedError

    def segments(self, y: int) -> list[Segment]:
        """The line *y* of the screen."""
        raise NotImplementedError

    def draw_changes(self) -> None:
        """Draws the lines that have changed."""
        for y in range(self.size.height):
            if self._drawn.get(y) != self.content(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        self._drawn[y] = self.content(y)
        self.lines_drawn += 1
        segments, offset, width = self.segments(y), self.scroll_offset.x, self.size.width
        rest = segments[-1].style if segments else None
        return Strip(segments).crop(offset, offset + width).extend_cell_length(width, rest)


class TextLines(Lines, can_focus=False):
    """Plain text. What does not fit is cut."""

    def __init__(self, identifier: str) -> None:
        super().__init__()
        self.id = identifier
        self._texts: Sequence[str] = ()

    def show(self, texts: Sequence[str]) -> None:
        """Shows these lines."""
        self._texts = texts
        self.draw_changes()

    def content(self, y: int) -> object:
        """See Lines."""
        return self.size.width, self._texts[y] if y < len(self._texts) else ""

    def segments(self, y: int) -> list[Segment]:
        """See Lines."""
        return [Segment(self._texts[y])] if y < len(self._texts) else []


class CpuMap(Lines, can_focus=False):
    """The map of pCPUs, each domain in the colour of its letter. The pCPUs of the selected domain are inverse."""

    MOST = 8

    def __init__(self) -> None:
        super().__init__()
        self._owners = Owners("", "", (), frozenset())
        self._lines: list[Line] = []
        self._made_for: tuple[object, ...] = ()
        self._selected: str | None = None

    def show(self, owners: Owners, host: HostCpus, selected: str | None) -> None:
        """Shows these owners."""
        self._owners, self._selected = owners, selected
        made_for = (owners.cpus, self.size.width)
        if made_for != self._made_for:
            self._made_for = made_for
            self._lines = layout(owners.cpus, host, max(20, self.size.width))
            self.virtual_size = Size(self.size.width, len(self._lines))
            self.styles.height = min(self.MOST, len(self._lines))
        self.draw_changes()

    def _cells(self, y: int) -> list[tuple[Cell, ...]]:
        index = self.scroll_offset.y + y
        cores = self._lines[index].cores if index < len(self._lines) else ()
        return [tuple(map(self._owners.cell, core)) for core in cores]

    def content(self, y: int) -> object:
        """See Lines."""
        return self.scroll_offset.y, self.size.width, self._selected, self._cells(y)

    def segments(self, y: int) -> list[Segment]:
        """See Lines."""
        index = self.scroll_offset.y + y
        out = [Segment(self._lines[index].label, DIM)] if index < len(self._lines) else []
        for core in self._cells(y):
            for cell in core:
                style = DIM if cell.domain is None else Style(color=colour(cell.mark))
                inverse = Style(reverse=True) if cell.domain is not None and cell.domain == self._selected else Style()
                out.append(Segment(cell.mark, style + inverse))
            out.append(Segment(" ", Style()))
        return out


class DomainTable(Lines, can_focus=True):
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
        self.draw_changes()

    def content(self, y: int) -> tuple[object, ...]:
        """See Lines."""
        where = (self.scroll_offset.x, self.size.width)
        if y == 0:
            return (*where, self._order)
        index = self.scroll_offset.y + y - 1
        if index >= len(self._domains):
            return where
        domain = self._domains[index]
        letter = self._letters.get(domain.name, " ")
        return (*where, index == self._index, letter, domain.state, *row(domain, self._node_of))

    def segments(self, y: int) -> list[Segment]:
        """See Lines."""
        if y == 0:
            return self._header()
        content = self.content(y)
        if len(content) == 2:
            return []
        _, _, selected, letter, state, *cells = content
        base = Style(reverse=True) if selected else Style()
        colour_name = None if selected else COLOURS.get(str(state))
        texts = fitted([str(cell) for cell in cells], WIDTHS)
        segments = [Segment(f"{letter} ", base)]
        for number, text in enumerate(texts):
            style = base + Style(color=colour_name) if number == 1 and colour_name else base
            segments.append(Segment(text + ("  " if number < len(texts) - 1 else ""), style))
        return segments

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
        self.draw_changes()
        self.post_message(self.Selected())

    def action_page(self, by: int) -> None:
        """Selects the row a screen further."""
        self.action_move(by * self._rows)

    def action_sideways(self, by: int) -> None:
        """Scrolls to other columns."""
        self.scroll_to(x=self.scroll_offset.x + by, animate=False)
