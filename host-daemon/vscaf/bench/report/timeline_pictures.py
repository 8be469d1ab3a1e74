"""Pictures of timelines: which member computed on which pCPU over time. They need matplotlib.

After `pidpcpu` and `plotpidpcpu` of Creech 2015, but for guests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from vscaf.bench.report.pictures import WIDTH, Picture
from vscaf.bench.report.recommendation import name_of
from vscaf.bench.report.table import arrangement_order
from vscaf.bench.report.timelines import Timeline
from vscaf.occupancy.pictures import COLOURS, draw_row, draw_waits
from vscaf.simulate.report.pictures import plain

ABOUT = (
    "Each row is a pCPU in one arrangement. Above its line, a colour's height is the part of the pCPU's time that a "
    "member used, in steps of a tenth of a second; white is unused. Below its line, pale: vCPUs of a member "
    "(without guests: threads) were ready to run and waited for this pCPU. Down to the edge, at least one waited "
    "all the time. A row that is full on both sides is a pCPU for which vCPUs fight, also those of one member. "
    "White above and pale below: another process had the pCPU. Dotted lines: a member's first execution begins, its "
    "last one ends. The runs are those of {rounds}."
)


def timeline_pictures(timelines: Sequence[Timeline]) -> list[Picture]:
    """A picture for each group of workloads, with its arrangements among each other."""
    out = []
    for workloads in sorted({one.workloads for one in timelines}):
        some = [one for one in timelines if one.workloads == workloads and one.track.shares]
        if some:
            name = name_of(workloads)
            about = ABOUT.format(rounds=_rounds({one.round for one in some}))
            title = f"Who computed where: {name}"
            out.append(Picture(f"timeline-{name}", title, about, timeline_figure(some)))
    return out


def _rounds(numbers: set[int]) -> str:
    """Text for the rounds of the last runs: an interrupted bench has them of two."""
    return f"round{'s' if len(numbers) > 1 else ''} {' and '.join(map(str, sorted(numbers)))}"


def timeline_figure(timelines: Sequence[Timeline]) -> Canvas:
    """The timelines of one group: a row for each arrangement and pCPU."""
    order = arrangement_order(one.arrangement for one in timelines)
    some = sorted(timelines, key=lambda one: (order.index(one.arrangement), one.allocations))
    members = list(dict.fromkeys(name for one in some for name in one.computed))
    colours = dict(zip(members, COLOURS, strict=False))
    rows = [(one, pcpu) for one in some for pcpu in one.track.shares]
    canvas = Canvas(figsize=(WIDTH, 1.0 + 0.6 * len(rows)), layout="constrained")
    axes = canvas.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for (one, pcpu), axis in zip(rows, axes, strict=True):
        track = one.track
        begin_s = min(start_s for start_s, _ in one.computed.values())
        draw_row(axis, track, pcpu, colours, begin_s)
        draw_waits(axis, track, pcpu, colours, begin_s)
        for name, ends in one.computed.items():
            for at_s in ends:
                axis.axvline(at_s - begin_s, color=colours[name], linestyle=":", linewidth=1.2)
        allocations = f" {'+'.join(map(str, one.allocations))}" if one.allocations else ""
        axis.set_ylabel(
            f"{plain(one.arrangement)}{allocations}, pCPU {pcpu}", rotation=0, ha="right", va="center", fontsize=8
        )
    axes[-1].set_xlabel("seconds since the first program began")
    handles: list[Any] = [
        Patch(color=colours[name], label=f"{name}: {workload}")
        for name, workload in zip(members, some[0].workloads, strict=False)
    ]
    if any(one.track.waits for one in some):
        handles.append(Patch(color="black", alpha=0.5, linewidth=0, label="below the line: waits for the pCPU"))
    handles.append(Line2D([], [], color="black", linestyle=":", label="begins, ends"))
    canvas.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8)
    return canvas
