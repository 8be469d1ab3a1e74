"""The picture of all splits of the CPUs of each pair, after Creech 2015, Figures 7.9 to 7.12. It needs matplotlib."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from vscaf.bench.figures import ArrangementFigures, Figures, GroupFigures
from vscaf.bench.report.pictures import (
    INTERVAL,
    WHISKERS,
    WIDTH,
    Look,
    Picture,
    arrangements_of,
    legend,
    looks,
    shown,
    whiskers,
)
from vscaf.bench.report.recommendation import name_of
from vscaf.simulate.report.pictures import narrow, plain

COLUMNS = 3


def split_pictures(figures: Figures) -> list[Picture]:
    """The picture of the pairs of which several splits were measured. No picture if there are none."""
    groups = [group for group in figures.groups if len(group.workloads) == 2 and len(splits_of(group)) > 1]
    if not groups:
        return []
    about = (
        "Each point of the line is a split by hand: the CPUs of the first program; the second one has all others. "
        "The highest point is the best split. A horizontal line is the sum of another arrangement. The closer the line "
        "of a policy is to the highest point, the better. Disturbed runs are left out. Figures 7.9 to 7.12 of the "
        "thesis show this for other machines."
    )
    return [Picture("splits", "The sum of speedups under every split", about, splits_figure(figures, groups))]


def splits_of(group: GroupFigures) -> list[ArrangementFigures]:
    """The undisturbed figures of each split of a pair by hand, by the CPUs of the first program."""
    some = [one for one in group.arrangements if one.arrangement == "static" and not one.only_disturbed]
    return sorted(some, key=lambda one: one.allocations)


def splits_figure(figures: Figures, groups: Sequence[GroupFigures]) -> Canvas:
    """A panel for each pair: the sum of speedups against the CPUs of the first program."""
    others = [name for name in arrangements_of(figures) if name != "static"]
    look = looks(arrangements_of(figures))
    columns = min(COLUMNS, len(groups))
    count = math.ceil(len(groups) / columns)
    canvas = Canvas(figsize=(WIDTH, 0.8 + count * 2.6), layout="constrained")
    panels = canvas.subplots(count, columns, sharey=True, squeeze=False).flatten()
    for axis, group in itertools.zip_longest(panels, groups):
        if group is None:
            axis.set_visible(False)
        else:
            _panel(axis, group, others, look)
    canvas.supxlabel("CPUs of the first program", fontsize=10)
    canvas.supylabel("sum of speedups (each relative to the program alone on one thread)", fontsize=10)
    handles: list[Any] = [
        Line2D([], [], color=look["static"].colour, marker=look["static"].marker, label="static, each split")
    ]
    handles += [Line2D([], [], **_line(look[name]), label=plain(name)) for name in others]
    if any(one.total.n > 1 for group in groups for one in splits_of(group)):
        handles.append(INTERVAL)
    legend(canvas, handles)
    return canvas


def _panel(axis: Axes, group: GroupFigures, others: Sequence[str], look: dict[str, Look]) -> None:
    splits = splits_of(group)
    cpus, totals = [one.allocations[0] for one in splits], [one.total for one in splits]
    static: dict[str, Any] = {
        "color": look["static"].colour,
        "marker": look["static"].marker,
        "markeredgecolor": "black",
    }
    axis.errorbar(cpus, [total.value for total in totals], yerr=whiskers(totals), **static, **WHISKERS)
    for name in others:
        one = shown(group, name)
        if one is not None and not one.only_disturbed:
            axis.axhline(one.total.value, **_line(look[name]))
    axis.set_title(narrow(name_of(group.workloads)), fontsize=10)
    axis.set_ylim(bottom=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(color="0.92")


def _line(look: Look) -> dict[str, Any]:
    """How the horizontal line of an arrangement looks. Light greys are darker here, because lines are thin."""
    return {
        "color": "0.55" if look.colour in ("#808080", "#d0d0d0") else look.colour,
        "linestyle": ":" if look.hatch else "--",
        "linewidth": 1.4,
    }
