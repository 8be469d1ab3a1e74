"""The pictures of a bench, after Creech 2015, Figures 7.1 to 7.7. They need matplotlib."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from vscaf.bench.figures import EVEN, ArrangementFigures, Figures, GroupFigures
from vscaf.bench.intervals import Figure
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.recommendation import name_of, word_for
from vscaf.bench.report.table import arrangement_order, baselines_of
from vscaf.occupancy.pictures import COLOURS
from vscaf.simulate.report.pictures import narrow, plain

WIDTH = 10.0  # inches

FEW_PAIRS = 15
"""Up to this many pairs have their number next to their point. More numbers would hide the points."""

# Baselines are grey, because policies are what is looked for.
GREYS = {
    "passive": ("#404040", ""),
    "static": ("#808080", ""),
    "unmanaged": ("#d0d0d0", ""),
    "pinned": ("#d0d0d0", "////"),
    "quota": ("#808080", "...."),
    "steal-governor": ("#d0d0d0", "...."),
}
MARKERS = "osD^vP*X"


@dataclass(frozen=True)
class Look:
    """How an arrangement looks in every picture."""

    colour: str
    hatch: str
    marker: str

    def bar(self) -> dict[str, Any]:
        """What a bar or a patch needs."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": "black", "linewidth": 0.6}


def looks(names: Sequence[str]) -> dict[str, Look]:
    """The look of each of these arrangements."""
    policies = [name for name in names if name not in BASELINES]
    out = {}
    for name, marker in zip(names, itertools.cycle(MARKERS), strict=False):
        if name in GREYS:
            out[name] = Look(*GREYS[name], marker)
        else:
            cycle, place = divmod(policies.index(name), len(COLOURS))
            out[name] = Look(COLOURS[place], ("", "xxxx", "----")[cycle % 3], marker)
    return out


@dataclass(frozen=True)
class Picture:
    """A picture. name: of its files."""

    name: str
    title: str
    caption: str
    canvas: Canvas


def pictures(figures: Figures, cpus: int) -> list[Picture]:
    """All pictures of these figures that have something to show. cpus: of the pool."""
    out, word = [], word_for(figures)
    if figures.groups:
        out.append(Picture("sums", f"Sum of speedups of each {word}", _about_sums(figures, cpus), sums_figure(figures)))
    for name in baselines_of(figures):
        if not _is_compared_with(figures, name):
            continue
        about = _about_ratios(figures, name, cpus)
        out.append(Picture(f"ratio-{name}", f"Improvement over {name}", about, ratios_figure(figures, name)))
    if any(len(group.workloads) == 2 for group in figures.groups):
        out.append(
            Picture("programs", "Each program's own speedup", _about_programs(figures), programs_figure(figures))
        )
    if any(one.speedup is not None for one in figures.workloads):
        about = (
            f"How well each program uses {cpus} CPUs that it has for itself. A policy gives more CPUs to programs that "
            "use them better, so it needs programs that differ."
        )
        out.append(Picture("alone", "Speedup of each program alone", about, alone_figure(figures, cpus)))
    return out


def _is_compared_with(figures: Figures, baseline: str) -> bool:
    """Whether an arrangement that the picture of ratios shows has a ratio to the baseline."""
    every = [one for group in figures.groups for one in group.arrangements]
    return any(baseline in one.ratios and one.arrangement != "unmanaged" for one in every)


def _about_sums(figures: Figures, cpus: int) -> str:
    splits = {one.allocations for group in figures.groups for one in group.arrangements if one.allocations}
    best = " Of several splits of static, the best is shown." if len(splits) > 1 else ""
    return (
        "Longer bars are better. Bars are medians over the rounds. This is what Figures 7.3 to 7.7 of the thesis show "
        f"for other machines.{best}{_unequal(cpus, word_for(figures))}"
    )


def _unequal(cpus: int, word: str) -> str:
    """What a machine with two CPUs cannot show."""
    if cpus > 2 or word == "program":
        return ""
    limit = "a pair can only be split 1 + 1" if word == "pair" else "no program of a group can have more than one"
    return (
        f" The thesis's machines have 16 to 240 hardware contexts, and much of the gain there is from unequal splits. "
        f"With {cpus} CPUs, {limit}, so this run cannot show that."
    )


def _about_ratios(figures: Figures, baseline: str, cpus: int) -> str:
    text = {
        "unmanaged": "This is what Figure 7.2 of the thesis shows.",
        "static": "Figure 7.1 of the thesis shows this for equal parts made by a runtime, not by hand.",
    }.get(baseline, "Figures 7.1 and 7.2 of the thesis show this for other baselines.")
    skipped = sum(all(baseline not in one.ratios for one in group.arrangements) for group in figures.groups)
    word = word_for(figures)
    missing = f" {skipped} of {len(figures.groups)} {word}s have no undisturbed runs to compare." if skipped else ""
    unequal = _unequal(cpus, word) if baseline == "static" else ""
    return (
        f"{word.capitalize()}s are sorted by their largest ratio. Right of the grey band is better than {baseline}. "
        f"Each ratio is of runs of the same round. {text}{missing}{unequal}"
    )


def _about_programs(figures: Figures) -> str:
    pairs = [
        f"{number} {name_of(group.workloads)}"
        for number, group in enumerate(figures.groups, start=1)
        if len(group.workloads) == 2
    ]
    key = f"Pairs: {', '.join(pairs)}." if len(pairs) <= FEW_PAIRS else "The table has the names of the pairs."
    return (
        "A point far from the diagonal is a pair in which one program is much faster than the other. Points on the "
        f"same dashed line have the same sum. Disturbed runs are left out. The thesis shows only sums. {key}"
    )


def arrangements_of(figures: Figures) -> list[str]:
    """The measured arrangements, in their order."""
    return arrangement_order(one.arrangement for group in figures.groups for one in group.arrangements)


def shown(group: GroupFigures, arrangement: str) -> ArrangementFigures | None:
    """The figures of an arrangement that pictures show: of several allocations, those with the largest sum."""
    some = [one for one in group.arrangements if one.arrangement == arrangement]
    return max(some, key=lambda one: one.total.value, default=None)


def sums_figure(figures: Figures) -> Canvas:
    """The sum of speedups of each group in each arrangement, as bars."""
    names = arrangements_of(figures)
    look = looks(names)
    canvas = Canvas(figsize=(WIDTH, 1.3 + len(figures.groups) * (0.16 * len(names) + 0.16)), layout="constrained")
    axis = canvas.subplots()
    height = 0.8 / len(names)
    any_disturbed = False
    for place, group in enumerate(figures.groups):
        for number, name in enumerate(names):
            one = shown(group, name)
            if one is None:
                continue
            at = place + (number - (len(names) - 1) / 2) * height
            style = look[name].bar()
            if one.only_disturbed:
                any_disturbed = True
                style |= DISTURBED_BAR
            axis.barh(at, one.total.value, height * 0.94, xerr=whiskers([one.total]), error_kw=WHISKERS, **style)
    _names_of_groups(axis, figures.groups)
    axis.set_xlim(left=0)
    axis.set_xlabel("sum of speedups (each relative to the program alone on one thread)")
    handles: list[Any] = [Patch(label=plain(name), **look[name].bar()) for name in names]
    if any_disturbed:
        handles.append(Patch(edgecolor="black", label="disturbed: does not count", **DISTURBED_BAR))
    if any(one.total.n > 1 for group in figures.groups for one in group.arrangements):
        handles.append(INTERVAL)
    legend(canvas, handles)
    return canvas


def ratios_figure(figures: Figures, baseline: str) -> Canvas:
    """The ratio to a baseline of each group in the other arrangements, sorted by the largest ratio of a group.

    `unmanaged` is left out: how far it is below another baseline is in the picture of the ratios to `unmanaged`.
    """
    names = [name for name in arrangements_of(figures) if name not in (baseline, "unmanaged")]
    look = looks(arrangements_of(figures))
    rows = []
    for group in figures.groups:
        ratios = {
            name: one.ratios[baseline]
            for name in names
            if (one := shown(group, name)) is not None and baseline in one.ratios
        }
        if ratios:
            rows.append((group, ratios))
    rows.sort(key=lambda row: max(ratio.value for ratio in row[1].values()))
    canvas = Canvas(figsize=(WIDTH, 1.4 + len(rows) * (0.13 * len(names) + 0.14)), layout="constrained")
    axis = canvas.subplots()
    axis.axvspan(1 - EVEN, 1 + EVEN, color="0.93", zorder=0)
    axis.axvline(1, color="black", linewidth=0.8, zorder=1)
    step = 0.7 / max(1, len(names))
    for place, (_, ratios) in enumerate(rows):
        for number, name in enumerate(names):
            if name in ratios:
                at = place + (number - (len(names) - 1) / 2) * step
                _point(axis, look[name], ratios[name].value, at, xerr=whiskers([ratios[name]]))
    _names_of_groups(axis, [group for group, _ in rows])
    _log_axis(axis, [value for _, ratios in rows for one in ratios.values() for value in (one.low, one.high)])
    axis.set_xlabel(f"sum of speedups relative to {baseline} (ratio, logarithmic scale)")
    handles = [_marker(look[name], plain(name)) for name in names]
    legend(canvas, [*handles, Patch(color="0.93", label=f"even: within {EVEN:.0%} of {baseline}")])
    return canvas


def programs_figure(figures: Figures) -> Canvas:
    """The speedup of the first program of each pair against that of the second, with a panel for each arrangement."""
    names = arrangements_of(figures)
    look = looks(names)
    pairs = [(number, group) for number, group in enumerate(figures.groups, start=1) if len(group.workloads) == 2]
    columns = min(3, len(names))
    count = math.ceil(len(names) / columns)
    canvas = Canvas(figsize=(WIDTH, 0.6 + count * (WIDTH / columns + 0.2)), layout="constrained")
    panels = canvas.subplots(count, columns, sharex=True, sharey=True, squeeze=False).flatten()
    most = max([1.0, *(speedup.high for _, group in pairs for one in group.arrangements for speedup in one.speedups)])
    for axis, name in itertools.zip_longest(panels, names):
        if name is None:
            axis.set_visible(False)
            continue
        points = {}
        for number, group in pairs:
            one = shown(group, name)
            if one is None or one.only_disturbed:
                continue
            first, second = one.speedups
            points[str(number)] = (first.value, second.value)
            _point(axis, look[name], first.value, second.value, xerr=whiskers([first]), yerr=whiskers([second]), size=5)
        if len(pairs) <= FEW_PAIRS:
            _label(axis, points, 72 * 0.85 * WIDTH / columns / (most * 1.1))
        axis.set_title(plain(name), fontsize=10)
        axis.set_aspect("equal")
        axis.grid(color="0.92")
    for axis in panels[: len(names)]:
        for total in range(1, math.ceil(2 * most)):
            axis.plot([0, total], [total, 0], color="0.75", linewidth=0.8, linestyle="--", zorder=0)
        axis.plot([0, most * 1.1], [0, most * 1.1], color="0.75", linewidth=0.8, zorder=0)
        axis.set_xlim(0, most * 1.1)
        axis.set_ylim(0, most * 1.1)
    canvas.supxlabel("speedup of the first program", fontsize=10)
    canvas.supylabel("speedup of the second program", fontsize=10)
    handles = [
        Line2D([], [], color="0.75", linewidth=0.8, label="both equally fast"),
        Line2D([], [], color="0.75", linewidth=0.8, linestyle="--", label="sum of speedups 1, 2, ..."),
    ]
    legend(canvas, handles)
    return canvas


def alone_figure(figures: Figures, cpus: int) -> Canvas:
    """The speedup of each program alone on all CPUs of the pool."""
    some = [(one.name, one.speedup) for one in figures.workloads if one.speedup is not None]
    canvas = Canvas(figsize=(WIDTH, 1.2 + 0.36 * len(some)), layout="constrained")
    axis = canvas.subplots()
    for place, (_, speedup) in enumerate(some):
        axis.barh(
            place,
            speedup.value,
            0.6,
            xerr=whiskers([speedup]),
            error_kw=WHISKERS,
            facecolor=COLOURS[0],
            edgecolor="black",
            linewidth=0.6,
        )
    axis.axvline(cpus, color="black", linestyle="--", linewidth=1)
    axis.set_yticks(range(len(some)), [narrow(name) for name, _ in some])
    axis.invert_yaxis()
    axis.set_xlim(0, max([cpus * 1.05, *(speedup.high * 1.05 for _, speedup in some)]))
    axis.set_xlabel(f"speedup alone on {cpus} CPUs (relative to one thread)")
    legend(
        canvas,
        [
            Patch(facecolor=COLOURS[0], edgecolor="black", label="median"),
            *([INTERVAL] if any(speedup.n > 1 for _, speedup in some) else []),
            Line2D([], [], color="black", linestyle="--", linewidth=1, label=f"linear speedup: {cpus}"),
        ],
    )
    return canvas


DISTURBED_BAR: Mapping[str, Any] = {"facecolor": "white", "hatch": "", "linestyle": "--", "linewidth": 1.2}
INTERVAL = Line2D([], [], color="black", linewidth=1, label="95% interval")
"""In a legend: what WHISKERS are."""
WHISKERS: Mapping[str, Any] = {"elinewidth": 1, "capsize": 2, "capthick": 1, "ecolor": "black"}


def whiskers(some: Sequence[Figure]) -> list[list[float]]:
    """Distances from the values down and up to the ends of their intervals, as matplotlib wants them: it draws nothing
    for NaN, of what has no interval."""
    known = [one if one.n > 1 else Figure(math.nan, math.nan, math.nan, 1) for one in some]
    return [[one.value - one.low for one in known], [one.high - one.value for one in known]]


def _point(axis: Axes, look: Look, x: float, y: float, size: float = 6, **errors: Any) -> None:
    axis.errorbar(
        [x],
        [y],
        fmt=look.marker,
        markersize=size,
        color=look.colour,
        markeredgecolor="black",
        markeredgewidth=0.6,
        ecolor="0.35",
        elinewidth=0.9,
        capsize=1.5,
        **errors,
    )


def _label(axis: Axes, points: Mapping[str, tuple[float, float]], unit_pt: float) -> None:
    """Writes a name next to each point, where neither a name nor a point is yet. unit_pt: points on paper of 1."""
    taken = [(x * unit_pt, y * unit_pt) for x, y in points.values()]
    for name, (x, y) in points.items():
        offsets = [
            (radius * math.cos(angle), radius * math.sin(angle))
            for radius in range(10, 60, 5)
            for angle in (math.pi * step / 8 for step in range(2, 18))
        ]
        free = (
            offset
            for offset in offsets
            if all(math.dist((x * unit_pt + offset[0], y * unit_pt + offset[1]), other) >= 9 for other in taken)
        )
        offset = next(free, offsets[0])
        taken.append((x * unit_pt + offset[0], y * unit_pt + offset[1]))
        line = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        axis.annotate(
            name,
            (x, y),
            xytext=offset,
            textcoords="offset points",
            fontsize=7,
            ha="center",
            va="center",
            arrowprops=line,
            bbox={"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )


def _marker(look: Look, label: str) -> Line2D:
    return Line2D([], [], marker=look.marker, linestyle="none", color=look.colour, markeredgecolor="black", label=label)


def _names_of_groups(axis: Axes, groups: Sequence[GroupFigures]) -> None:
    axis.set_yticks(range(len(groups)), [narrow(name_of(group.workloads)) for group in groups])
    axis.set_ylim(len(groups) - 0.5, -0.5)  # the first at the top
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)


def _log_axis(axis: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis with ticks at plain numbers."""
    low, high = min([1 - EVEN, *values]) / 1.05, max([1 + EVEN, *values]) * 1.05
    axis.set_xscale("log")
    axis.set_xlim(low, high)
    closest = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4)
    close = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 1.75, 2, 2.5, 3)
    far = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)
    steps = closest if high / low < 1.6 else close if high / low < 4 else far
    ticks = [tick for tick in steps if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)


def legend(canvas: Canvas, handles: Sequence[Any]) -> None:
    """Puts the legend above the picture."""
    canvas.legend(handles=handles, loc="outside upper center", ncols=min(5, len(handles)), fontsize=9, frameon=False)
