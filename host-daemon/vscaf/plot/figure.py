"""The recording as a picture, after `pidpcpu` and `plotpidpcpu` of Creech 2015, but for guests. It needs matplotlib."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from vscaf.occupancy.pictures import COLOURS, draw_row
from vscaf.occupancy.timeline import Track
from vscaf.plot.allocations import Change, allocated, sizes
from vscaf.plot.terminal import used
from vscaf.simulate.report.pictures import narrow, plain

WIDTH = 11.0  # inches
BAND = 0.22
"""The height of the band above a pCPU's row that shows whose it is."""
FEW_ROWS, MOST_HEIGHT = 16, 40.0


def colours(domains: Sequence[str]) -> dict[str, str]:
    """A colour for each domain. Beyond 20 they repeat."""
    if len(domains) <= len(COLOURS):
        return dict(zip(domains, COLOURS, strict=False))
    return {name: to_hex(colormaps["tab20"](index % 20)) for index, name in enumerate(domains)}


def occupancy_figure(
    track: Track, changes: Sequence[Change], domains: Sequence[str], pcpus: Sequence[int], note: str = ""
) -> Figure:
    """Above: pCPUs allotted to each domain (line) and used by it (area). Below: a row for each pCPU.

    In a row the height of a colour is the part of the pCPU's time that the domain used, and the band above it has the
    colour of the domain that the pCPU is allotted to. note: what is not known.
    """
    drawing = _Drawing(track, changes, colours(domains))
    heights = [0.9] * len(domains) + [0.42 if len(pcpus) <= FEW_ROWS else 0.25] * len(pcpus)
    canvas = Figure(figsize=(WIDTH, min(MOST_HEIGHT, 1.4 + sum(heights))), layout="constrained")
    rows = max(1, len(heights))
    axes = canvas.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=heights or [1.0])[:, 0]
    for name, axis in zip(domains, axes, strict=False):
        drawing.domain(axis, name)
    for pcpu, axis in zip(pcpus, axes[len(domains) :], strict=False):
        drawing.pcpu(axis, pcpu)
    axes[-1].set_xlim(0, max(track.bin_s, drawing.end_s - track.start_s))
    axes[-1].set_xlabel("seconds" + (f" ({plain(note)})" if note else ""))
    handles = [Patch(color=colour, label=narrow(name)) for name, colour in drawing.colour.items()]
    line = Line2D([], [], color="black", drawstyle="steps-post", label="line and band: allotted; area: used")
    canvas.legend(handles=[*handles, line], loc="outside upper center", ncols=min(6, len(handles) + 1), fontsize=8)
    return canvas


class _Drawing:
    """What all rows of a picture have in common."""

    def __init__(self, track: Track, changes: Sequence[Change], colour: Mapping[str, str]) -> None:
        self.track, self.changes, self.colour = track, changes, colour
        self.bins = max((len(one) for shares in track.shares.values() for one in shares.values()), default=0)
        self.end_s = track.start_s + max(0, self.bins - 1) * track.bin_s  # the last bin is not over

    def domain(self, axis: Axes, name: str) -> None:
        """Draws the sizes of a domain's allocation and of its use."""
        start_s, values = self.track.start_s, used(self.track, name, self.bins)
        times = [number * self.track.bin_s for number in range(self.bins)]
        axis.fill_between(times, values, step="post", color=self.colour[name], alpha=0.45, linewidth=0)
        at, counts = sizes(self.changes, name, self.end_s)
        axis.step([one - start_s for one in at], counts, where="post", color=self.colour[name], linewidth=1.8)
        axis.set_ylim(0, 1.1 * max([1.0, *values, *(count for count in counts if not math.isnan(count))]))
        axis.set_ylabel(f"{narrow(name)}\nCPUs", rotation=0, ha="right", va="center", fontsize=8)
        axis.tick_params(axis="y", labelsize=7)
        axis.yaxis.set_major_locator(MaxNLocator(3, integer=True))

    def pcpu(self, axis: Axes, pcpu: int) -> None:
        """Draws who used a pCPU, and above it to whom it was allotted."""
        start_s = self.track.start_s
        draw_row(axis, self.track, pcpu, self.colour, start_s)
        marks = sorted({start_s, *(one.at_s for one in self.changes if start_s < one.at_s < self.end_s), self.end_s})
        for name, colour in self.colour.items():
            spans = [
                (low - start_s, high - low)
                for low, high in itertools.pairwise(marks)
                if pcpu in (allocated(self.changes, name, low) or ())
            ]
            axis.broken_barh(spans, (1.05, BAND), facecolors=colour, linewidth=0)
        axis.set_ylim(0, 1.05 + BAND)
        axis.set_ylabel(f"pCPU {pcpu}", rotation=0, ha="right", va="center", fontsize=8)
