"""Pictures of runs: allocations over time, as in Creech 2015, Figure 7.8, and helpers for all pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vscaf.simulate.engine.result import Run
from vscaf.simulate.report.summary import finished_s, measure, quantile, short_names
from vscaf.simulate.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW_GUESTS = 8
"""Up to this many guests have an area each in a picture of allocations; for more, it shows totals and quantiles."""

WIDEST = 28
"""Characters of a name next to a picture."""

LINE = 98
"""Characters in a line above a picture, so that the legend fits next to it."""

LONGEST_SOURCE = 185
"""Characters of a scenario's source above a picture; the full source is in the scenario's file."""

LONG_S = 3 * 3600.0
"""Times of longer scenarios are in hours."""


def allocations_figure(scenario: Scenario, runs: Sequence[Run]) -> Figure:
    """CPUs of each guest over time, with a row for each run."""
    names = list(dict.fromkeys(guest.name for run in runs for guest in run.guests))
    few = len(names) <= FEW_GUESTS
    figure, rows = _grid(len(runs), 1 if few else 3)
    short = short_names(run.policy for run in runs)
    for run, axes in zip(runs, rows, strict=True):
        if few:
            _stacked(axes[0], run, names)
        else:
            _quantiles(axes, run)
        axes[0].set_title(_heading(scenario, run, narrow(short[run.policy])), loc="left", fontsize=10)
        axes[0].set_ylabel("CPUs")
    if not few:
        counts = [sum(cpus > 0 for cpus in one.values()) for run in runs for one in steps(run)[1]]
        rows[0][1].set_ylim(0, 1.08 * max([1, *counts]))  # all share it
    unit = "hours" if scenario.seconds > LONG_S else "seconds"
    for axis in rows[-1]:
        axis.set_xlabel(f"time ({unit})")
        axis.set_xlim(0, shown_s(runs) / _unit_s(runs[0]))  # all share it
    if few:
        figure.legend(handles=_guest_handles(runs, names), loc="outside right upper", fontsize=9, frameon=False)
    else:
        figure.legend(handles=_quantile_handles(), loc="outside lower center", ncols=6, fontsize=9, frameon=False)
    title(figure, "Allocations over time", scenario, runs)
    return figure


def shown_s(runs: Sequence[Run]) -> float:
    """The time to show: all of it, or until a little after the last guest has ended in every run."""
    ends = [finished_s(run) for run in runs]
    last_s = max((end_s for end_s in ends if end_s is not None), default=0.0)
    return runs[0].seconds if None in ends else min(runs[0].seconds, 1.05 * last_s)


def _grid(rows: int, columns: int) -> tuple[Figure, list[list[Axes]]]:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(11 if columns == 1 else 13, 1.6 + 1.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey="col", squeeze=False)
    return figure, [list(row) for row in grid]


def title(figure: Figure, subject: str, scenario: Scenario, runs: Sequence[Run]) -> None:
    """Sets the title: what the figure shows, the scenario, and its source."""
    host = f"{scenario.host.pcpus} pCPUs"
    if scenario.noise.speedup:
        host += f", {scenario.noise.speedup:.0%} noise"
    first = f"{subject}: {scenario.name} ({host}, seed {runs[0].seed})"
    lines = [first, *textwrap.wrap(scenario.title, LINE)]
    if scenario.source:
        source = textwrap.shorten(f"Source: {scenario.source}", LONGEST_SOURCE, placeholder=" ...")
        lines += textwrap.wrap(source, LINE)
    figure.suptitle("\n".join(plain(line) for line in lines), x=0.01, ha="left", fontsize=10)


def plain(text: str) -> str:
    """Escapes text so that matplotlib draws it unchanged: a dollar would begin a formula."""
    return text.replace("$", r"\$")


def narrow(text: str) -> str:
    """As `plain`, without the middle of text that is too long."""
    return plain(text if len(text) <= WIDEST else f"{text[: WIDEST // 2 - 2]}...{text[-(WIDEST // 2 - 1) :]}")


def legend_text(name: str, curve: str) -> str:
    """A guest and its curve, in one or two lines."""
    together = f"{narrow(name)} ({narrow(curve)})"
    return together if len(together) <= WIDEST else together.replace(" (", "\n(", 1)


def _heading(scenario: Scenario, run: Run, name: str) -> str:
    changes = f"{run.transitions} transition" + ("" if run.transitions == 1 else "s")
    text = f"{name}: sum of speedups {measure(scenario, run):.1f}, {changes}"
    if run.exploration_cost:
        text += f", exploring cost {run.exploration_cost:.1%}"
    return text


def colours(count: int) -> list[Any]:
    """Colours for *count* guests, from dark to light, so that they also differ in grey."""
    from matplotlib import colormaps  # noqa: PLC0415

    palette = colormaps["viridis"]
    return [palette(0.12 + 0.83 * number / max(1, count - 1)) for number in range(count)]


def steps(run: Run, unit_s: float = 1.0) -> tuple[list[float], list[dict[str, int]]]:
    """Times and allocations of each change, with the last repeated at the end, as a plot of steps needs them."""
    moments = [moment for moment in run.moments if moment.time_s <= run.seconds]
    times = [moment.time_s / unit_s for moment in moments]
    allocations = [moment.allocations for moment in moments]
    if moments:
        return [*times, run.seconds / unit_s], [*allocations, allocations[-1]]
    return [], []


def _unit_s(run: Run) -> float:
    return 3600.0 if run.seconds > LONG_S else 1.0


def _stacked(axis: Axes, run: Run, names: Sequence[str]) -> None:
    """Stacked areas with the first guest at the bottom, and marks above them where guests start and end."""
    unit_s = _unit_s(run)
    times, allocations = steps(run, unit_s)
    if any(cpus > 0 for one in allocations for cpus in one.values()):
        below = [0] * len(times)
        for name, colour in zip(names, colours(len(names)), strict=True):
            above = [low + one.get(name, 0) for low, one in zip(below, allocations, strict=True)]
            axis.fill_between(times, below, above, step="post", color=colour, linewidth=0, label=plain(name))
            axis.step(times, above, where="post", color="white", linewidth=0.8)
            below = above
    else:
        _draw_note(axis, "no CPUs of their own: every guest's vCPUs float over the whole pool")
    axis.axhline(run.pcpus, color="black", linestyle="--", linewidth=0.8)
    axis.set_ylim(0, run.pcpus * 1.14)
    of_guest = dict(zip(names, colours(len(names)), strict=True))
    for guest in run.guests:
        for time_s, marker in ((guest.start_s, "^"), (guest.end_s, "v")):
            if time_s is not None and 0 < time_s < run.seconds:
                axis.axvline(time_s / unit_s, color="black", linestyle=":", linewidth=0.7)
                axis.plot(
                    [time_s / unit_s],
                    [run.pcpus * 1.07],
                    marker,
                    color=of_guest[guest.name],
                    markeredgecolor="black",
                    markersize=7,
                )


def _draw_note(axis: Axes, text: str) -> None:
    """Writes *text* in the middle, over the marks where guests start and end."""
    behind = {"facecolor": "white", "edgecolor": "none"}
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", fontsize=10, bbox=behind, zorder=5)


def _guest_handles(runs: Sequence[Run], names: Sequence[str]) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    curve = {guest.name: guest.curve for run in runs for guest in run.guests}
    patches = [
        Patch(color=colour, label=legend_text(name, curve[name]))
        for name, colour in zip(names, colours(len(names)), strict=True)
    ]
    patches.reverse()  # in the order of the stack: the first at the bottom
    look: dict[str, Any] = {"color": "lightgrey", "markeredgecolor": "black", "linestyle": "none"}
    return [
        Line2D([], [], color="black", linestyle="--", linewidth=0.8, label="the pool"),
        *patches,
        Line2D([], [], marker="^", label="a guest starts", **look),
        Line2D([], [], marker="v", label="a guest ends", **look),
    ]


def _quantiles(axes: Sequence[Axes], run: Run) -> None:
    """For many guests: the CPUs of all, how many guests have CPUs of their own, and quantiles of their CPUs."""
    unit_s = _unit_s(run)
    times, allocations = steps(run, unit_s)
    held = [sorted(cpus for cpus in one.values() if cpus > 0) for one in allocations]
    total, count, per_guest = axes
    total.fill_between(times, [sum(one) for one in held], step="post", color="#7f9fbf", linewidth=0)
    if not any(held):
        _draw_note(total, "no CPUs of their own")
    total.axhline(run.pcpus, color="black", linestyle="--", linewidth=0.8)
    total.set_ylim(0, run.pcpus * 1.1)
    count.step(times, [len(one) for one in held], where="post", color="black", linewidth=1.0)
    count.set_ylabel("guests with CPUs")
    low, middle, high = ([quantile(one, share) for one in held] for share in (0.1, 0.5, 0.9))
    per_guest.fill_between(times, low, high, step="post", color="#c9c9c9", linewidth=0)
    per_guest.step(times, middle, where="post", color="black", linewidth=1.2)
    per_guest.step(
        times, [quantile(one, 1.0) for one in held], where="post", color="#b04a00", linestyle="-.", linewidth=0.8
    )
    per_guest.set_yscale("log", base=2)
    per_guest.yaxis.set_major_formatter("{x:g}")
    per_guest.set_ylabel("CPUs of a guest")


def _quantile_handles() -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    return [
        Line2D([], [], color="black", linestyle="--", linewidth=0.8, label="the pool"),
        Patch(color="#7f9fbf", label="CPUs of all guests"),
        Line2D([], [], color="black", linewidth=1.2, label="a guest's CPUs: median"),
        Patch(color="#c9c9c9", label="10% to 90%"),
        Line2D([], [], color="#b04a00", linestyle="-.", linewidth=0.8, label="most"),
    ]
