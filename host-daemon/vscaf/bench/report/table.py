"""The figures of a bench as a table: its cells, for the page and for a terminal, and its numbers, for table.csv."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from vscaf.bench.barriers import BarrierFigures
from vscaf.bench.figures import ArrangementFigures, Comparison, Figures, GroupFigures, Verdict, verdict
from vscaf.bench.intervals import Figure
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.recommendation import Recommendation, name_of, word_for
from vscaf.terminal import printable

DISTURBED, FAILED = "disturbed", "FAILED"
STYLES = {Verdict.WIN: "green", Verdict.EVEN: "", Verdict.LOSS: "red", DISTURBED: "yellow", FAILED: "red"}
SUCCESSFUL = "successful"
LEFT = ("programs", "arrangement", "compared with", "program", "verification")  # columns of text


@dataclass(frozen=True)
class Cell:
    """A cell. text: its value. interval: the 95% interval of that, if it has one. mark: a verdict, or a warning."""

    text: str
    interval: str = ""
    mark: str = ""


NAME_MOST = 24  # columns of a terminal for the names of a group; a longer one has a line for each program
BARRIERS = "Wall-clock nanoseconds a barrier, in each of so many guests at once"
WIDE = 110  # columns of a terminal
SILENT = (Cell(""), Cell(SUCCESSFUL))


def arrangement_order(names: Iterable[str]) -> list[str]:
    """These arrangements, each once, in the order of tables and pictures: baselines first, then policies by name."""
    every = set(names)
    return [name for name in BASELINES if name in every] + sorted(every - set(BASELINES))


def ordered(group: GroupFigures) -> list[ArrangementFigures]:
    """The arrangements of a group in their order."""
    places = {
        name: place for place, name in enumerate(arrangement_order(one.arrangement for one in group.arrangements))
    }
    return sorted(group.arrangements, key=lambda one: (places[one.arrangement], one.allocations))


def arrangement_name(one: ArrangementFigures) -> str:
    """An arrangement with its allocations: "static 1+1"."""
    return f"{one.arrangement} {'+'.join(map(str, one.allocations))}".strip()


def baselines_of(figures: Figures) -> list[str]:
    """The baselines to which something is compared."""
    return arrangement_order(name for group in figures.groups for one in group.arrangements for name in one.ratios)


def members_of(figures: Figures) -> int:
    """The most programs that computed together."""
    return max((len(group.workloads) for group in figures.groups), default=0)


def columns(figures: Figures, baselines: Sequence[str]) -> list[str]:
    """The names of the table's columns, with ratios to these baselines."""
    programs = [f"program {number + 1}" for number in range(members_of(figures))]
    ratios = [f"to {name}" for name in baselines]
    ended = ["seconds"] if _ended(figures) else []
    return ["programs", "arrangement", *programs, "sum", *ended, *ratios, "runs", "verification", "disturbed"]


def _ended(figures: Figures) -> bool:
    """Whether programs were executed once, so that the time until all have ended tells something."""
    return any(one.ended_s is not None for group in figures.groups for one in group.arrangements)


def rows(figures: Figures, baselines: Sequence[str]) -> list[list[Cell]]:
    """A row of cells for each group and arrangement, in the order of `columns`."""
    members, ended = members_of(figures), _ended(figures)
    out = []
    for group in figures.groups:
        for one in ordered(group):
            mark = DISTURBED if one.only_disturbed else ""
            speedups = [_cell(speedup) for speedup in one.speedups]
            speedups += [Cell("")] * (members - len(speedups))
            out.append(
                [
                    Cell(name_of(group.workloads)),
                    Cell(arrangement_name(one)),
                    *speedups,
                    _cell(one.total, mark),
                    *([] if not ended else [Cell("") if one.ended_s is None else _cell(one.ended_s)]),
                    *(_ratio(one.ratios.get(name)) for name in baselines),
                    Cell(str(one.total.n)),
                    Cell(SUCCESSFUL) if one.verified else Cell("", mark=FAILED),
                    Cell(str(one.disturbed)) if one.disturbed else Cell(""),
                ]
            )
    return out


def _cell(figure: Figure, mark: str = "") -> Cell:
    return Cell(f"{figure.value:.2f}", figure.interval(2), mark)


def _ratio(ratio: Figure | None) -> Cell:
    return Cell("") if ratio is None else _cell(ratio, verdict(ratio))


def summary_columns(figures: Figures) -> tuple[str, ...]:
    """The names of the columns of the table of all groups together."""
    return ("compared with", "arrangement", f"{word_for(figures)}s", "mean ratio", "wins", "even", "losses")


def summary_rows(comparisons: Sequence[Comparison]) -> list[list[Cell]]:
    """A row for each arrangement and baseline, in the order of `summary_columns`. After Creech 2015, Table 7.1."""
    some = [one for one in comparisons if one.arrangement != "unmanaged"]  # it is what others are compared with
    order = arrangement_order(name for one in some for name in (one.arrangement, one.baseline))
    some.sort(key=lambda one: (order.index(one.baseline), order.index(one.arrangement)))
    return [
        [
            Cell(one.baseline),
            Cell(one.arrangement),
            Cell(str(one.groups)),
            _cell(one.mean),
            _share(one.wins, one.win_mean, one.groups),
            _share(one.even, one.even_mean, one.groups),
            _share(one.losses, one.loss_mean, one.groups),
        ]
        for one in some
    ]


def _share(groups: Sequence[tuple[str, ...]], mean: float | None, every: int) -> Cell:
    """How many of all groups these are, and their mean ratio: "9 (90%), 2.03"."""
    return Cell(f"{len(groups)} ({len(groups) / every:.0%})" + (f", {mean:.2f}" if mean is not None else ""))


ALONE_COLUMNS = ("program", "seconds on one thread", "speedup on all CPUs", "verification", "disturbed")


def alone_rows(figures: Figures) -> list[list[Cell]]:
    """A row for each workload alone, in the order of ALONE_COLUMNS."""
    return [
        [
            Cell(one.name),
            _cell(one.seconds),
            Cell("not measured yet") if one.speedup is None else _cell(one.speedup),
            Cell(SUCCESSFUL) if one.verified else Cell("", mark=FAILED),
            Cell("", mark=DISTURBED if one.only_disturbed else ""),
        ]
        for one in figures.workloads
    ]


BARRIER_COLUMNS = ("program", "guests", "arrangement", "threads", "ns a barrier", "runs")


def barrier_rows(figures: Sequence[BarrierFigures]) -> list[list[Cell]]:
    """A row for each number of guests and arrangement of a barrier loop, in the order of BARRIER_COLUMNS."""
    return [
        [
            Cell(one.workload),
            Cell(str(one.guests)),
            Cell(one.arrangement),
            Cell(str(one.threads or "all CPUs")),
            Cell(f"{one.ns.value:.0f}", one.ns.interval(0)),
            Cell(str(one.ns.n)),
        ]
        for one in figures
    ]


def numbers(figures: Figures) -> list[dict[str, object]]:
    """The table as numbers: a mapping for each group and arrangement, all with the same keys in the same order."""
    members, baselines = members_of(figures), baselines_of(figures)
    out = []
    for group in figures.groups:
        for one in ordered(group):
            row: dict[str, object] = {
                "programs": name_of(group.workloads),
                "arrangement": one.arrangement,
                "allocations": "+".join(map(str, one.allocations)),
            }
            for number in range(members):
                row |= _numbers(f"speedup_{number + 1}", one.speedups[number] if number < len(one.speedups) else None)
            row |= _numbers("sum", one.total) | _numbers("ended_s", one.ended_s)
            for name in baselines:
                ratio = one.ratios.get(name)
                row |= _numbers(f"to_{name}", ratio)
                row[f"to_{name}_n"] = "" if ratio is None else ratio.n
                row[f"to_{name}_verdict"] = "" if ratio is None else verdict(ratio).value
            row |= {
                "runs": one.total.n,
                "verified": one.verified,
                "disturbed_runs": one.disturbed,
                "only_disturbed": one.only_disturbed,
            }
            out.append(row)
    return out


def _numbers(name: str, figure: Figure | None) -> dict[str, object]:
    """A figure as columns: its value, and its 95% interval if it has one."""
    if figure is None:
        values: tuple[object, ...] = ("", "", "")
    else:
        values = (figure.value, "", "") if figure.n == 1 else (figure.value, figure.low, figure.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def terminal_report(figures: Figures, recommendation: Recommendation, width: int) -> Group:
    """The tables and the recommendation for a terminal, which has no room for the ratios to all baselines.

    width: of the terminal. A narrow one has no room for each program's speedup either.
    """
    baselines = baselines_of(figures)[:2]
    time = "from the first start to the last end" if _ended(figures) else "while all compute"
    speedups = f"Speedups {time}, each relative to the program alone on one thread"
    together = f"All {word_for(figures)}s together: geometric means of the ratios of the sums"
    cells = [[_narrow(row[0]), *row[1:]] for row in rows(figures, baselines)]
    return Group(
        _terminal_table(speedups, columns(figures, baselines), cells, programs=width >= WIDE),
        _terminal_table(together, summary_columns(figures), summary_rows(figures.comparisons)),
        *([_terminal_table(BARRIERS, BARRIER_COLUMNS, barrier_rows(figures.barriers))] if figures.barriers else []),
        *(Text(printable(sentence)) for sentence in recommendation.sentences),
    )


def _narrow(names: Cell) -> Cell:
    """The names of a group, with a line for each program if they are long: figures need the room."""
    return names if len(names.text) <= NAME_MOST else replace(names, text=names.text.replace("+", "+\n"))


def _terminal_table(
    title: str, names: Sequence[str], cells: Sequence[Sequence[Cell]], *, programs: bool = True
) -> Table:
    """A table for a narrow terminal: only means have intervals, and a column that says nothing is left out."""
    told = [
        place
        for place, name in enumerate(names)
        if any(row[place] not in SILENT for row in cells) and (programs or not name.startswith("program "))
    ]
    names, cells = [names[place] for place in told], [[row[place] for place in told] for row in cells]
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(
            printable(name), justify="left" if name in LEFT else "right", no_wrap=name in LEFT, overflow="fold"
        )
    for number, row in enumerate(cells):
        first = number == 0 or cells[number - 1][0].text != row[0].text
        last = number + 1 == len(cells) or cells[number + 1][0].text != row[0].text
        texts = [_terminal_text(cell, interval=name.startswith("mean")) for name, cell in zip(names, row, strict=True)]
        table.add_row(*(texts if first else [Text(""), *texts[1:]]), end_section=last)
    return table


def _terminal_text(cell: Cell, *, interval: bool) -> Text:
    parts: list[str | tuple[str, str]] = ["\n".join(map(printable, cell.text.split("\n")))]
    if interval and cell.interval:
        parts.append((f" {cell.interval}", "dim"))
    if cell.mark:
        parts.append((f" {cell.mark}", STYLES[cell.mark]))
    return Text.assemble(*parts)
