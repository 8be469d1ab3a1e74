"""Sums of speedups over all splits of the pool between two or three guests, and the split that each policy chose.

After Creech 2015, Figures 7.9 to 7.12: what an oracle that tries every static split would know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vscaf.simulate.document import Outcomes
from vscaf.simulate.pictures import colours, legend_text, narrow, title
from vscaf.simulate.result import Run
from vscaf.simulate.scenario import GuestPlan, Scenario
from vscaf.simulate.summary import Split, measure, short_names, usual_split

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osDP^vX<>h"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy chose, and the true sum of speedups there. split None: it gives nobody CPUs of their own.

    policy: its name as it is drawn.
    """

    policy: str
    split: Split | None
    value: float


def splits_figure(one: Outcomes, runs: Sequence[Run]) -> Figure | None:
    """The picture for a scenario of two or three guests with one curve each; None for any other."""
    plans = one.scenario.expanded(runs[0].seed)
    if len(plans) not in (2, 3) or one.scenario.host.pcpus < len(plans) * one.scenario.host.threads_per_core:
        return None
    if any(len(plan.phases) > 1 or plan.phases[0].curve != plan.curve or plan.phases[0].serial for plan in plans):
        return None
    short = short_names(run.policy for run in runs)
    choices = [_choice(one.scenario, run, plans, narrow(short[run.policy])) for run in runs]
    figure = _of_two(one, plans, choices) if len(plans) == 2 else _of_three(one, plans, choices)
    title(figure, "Sum of speedups over splits", one.scenario, runs)
    return figure


def value_of(plans: Sequence[GuestPlan], cpus: Sequence[int]) -> float:
    """The sum of speedups with these CPUs for the guests, by their true curves."""
    return sum(speedup_of(plan, some) for plan, some in zip(plans, cpus, strict=True))


def speedup_of(plan: GuestPlan, cpus: int) -> float:
    """Of one guest, who has no use for more CPUs than vCPUs."""
    return plan.curve.speedup(min(cpus, plan.vcpus))


def _choice(scenario: Scenario, run: Run, plans: Sequence[GuestPlan], name: str) -> Choice:
    split = usual_split(run, [plan.name for plan in plans])
    return Choice(name, split, measure(scenario, run) if split is None else value_of(plans, split.cpus))


def best_split(plans: Sequence[GuestPlan], scenario: Scenario) -> tuple[tuple[int, ...], float]:
    """Of all splits of the whole pool the best by the true curves, and its sum of speedups."""
    return max(((cpus, value_of(plans, cpus)) for cpus in all_splits(len(plans), scenario)), key=lambda one: one[1])


def all_splits(guests: int, scenario: Scenario) -> list[tuple[int, ...]]:
    """All ways to give away the whole pool in whole cores, a core at least for each of two or three guests."""
    chunk, pool = scenario.host.threads_per_core, scenario.host.pcpus
    firsts = range(chunk, pool, chunk)
    if guests == 2:
        return [(first, pool - first) for first in firsts]
    return [(first, second, pool - first - second) for first in firsts for second in range(chunk, pool - first, chunk)]


def _of_two(one: Outcomes, plans: Sequence[GuestPlan], choices: Sequence[Choice]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    height = 0.5 + 0.32 * (len(choices) + 1)
    figure = Figure(figsize=(11, 5.6 + height), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4.6, height])
    splits = all_splits(2, one.scenario)
    firsts = [cpus[0] for cpus in splits]
    dark, light = colours(5)[0], colours(5)[2]
    names = [narrow(plan.name) for plan in plans]
    sums = [value_of(plans, cpus) for cpus in splits]
    above.plot(firsts, sums, color="black", linewidth=2.2, label="sum of both")
    above.plot(
        firsts,
        [speedup_of(plans[0], cpus[0]) for cpus in splits],
        color=dark,
        linewidth=1.5,
        linestyle="--",
        label=legend_text(plans[0].name, plans[0].curve.name),
    )
    above.plot(
        firsts,
        [speedup_of(plans[1], cpus[1]) for cpus in splits],
        color=light,
        linewidth=1.5,
        linestyle="-.",
        label=legend_text(plans[1].name, plans[1].curve.name),
    )
    best, most = best_split(plans, one.scenario)
    above.plot([best[0]], [most], "*", color="gold", markeredgecolor="black", markersize=17, label="oracle", zorder=3)
    for choice, marker in zip(choices, MARKERS * len(choices), strict=False):
        _mark(above, choice, marker)
    above.set_ylim(0, 1.12 * max(most, *(choice.value for choice in choices)))
    above.set_ylabel("speedup against one CPU")
    above.grid(color="0.9")
    figure.legend(*above.get_legend_handles_labels(), loc="outside right upper", fontsize=9, frameon=False)
    _strip(below, choices, (best, most), one.scenario)
    pool = one.scenario.host.pcpus
    below.set_xlabel(f"CPUs of {names[0]} ({names[1]} has the rest of {pool})")
    below.set_xlim(0, pool)
    return figure


def _mark(axis: Axes, choice: Choice, marker: str) -> None:
    look: dict[str, Any] = {"markeredgecolor": "black", "markerfacecolor": "white", "markersize": 8, "zorder": 4}
    label = choice.policy
    if choice.split is None:
        axis.axhline(choice.value, color="0.45", linewidth=1.2, linestyle=":", label=f"{label} (measured sum)")
    else:
        axis.plot([choice.split.cpus[0]], [choice.value], marker, linestyle="none", label=label, **look)


def _strip(axis: Axes, choices: Sequence[Choice], oracle: tuple[tuple[int, ...], float], scenario: Scenario) -> None:
    """A line for each policy: the split chosen most of the time, and between which ones it went to and fro."""
    best, most = oracle
    axis.plot([best[0]], [0], "*", color="gold", markeredgecolor="black", markersize=13)
    _say(axis, 0, f"{best[0]}:{best[1]}, {most:.1f}", scenario, right=best[0])
    for row, (choice, marker) in enumerate(zip(choices, MARKERS * len(choices), strict=False), start=1):
        figures = f"{choice.value:.1f} ({choice.value / most:.1%} of the oracle's)"
        if choice.split is None:
            _say(axis, row, f"no split: {figures}", scenario, right=0)
            continue
        (first, second), (least, _), (utmost, _) = choice.split.cpus, choice.split.least, choice.split.most
        axis.plot([least, utmost], [row, row], color="0.5", linewidth=3, zorder=1)
        axis.plot([first], [row], marker, markeredgecolor="black", markerfacecolor="white", markersize=8)
        _say(axis, row, f"{first}:{second}, {figures}", scenario, right=utmost, left=least)
    axis.set_yticks(range(len(choices) + 1), ["oracle", *(choice.policy for choice in choices)])
    axis.set_ylim(len(choices) + 0.6, -0.6)
    axis.grid(axis="x", color="0.9")
    axis.set_title("splits: marker, in force longest; bar, all that were in the later half", fontsize=9, loc="left")


def _say(axis: Axes, row: int, words: str, scenario: Scenario, *, right: int, left: int | None = None) -> None:
    """Words beside a mark, on the side where there is room."""
    room_right = right < 0.6 * scenario.host.pcpus
    at = right if room_right or left is None else left
    axis.annotate(
        words,
        (at, row),
        xytext=(10 if room_right else -10, 0),
        textcoords="offset points",
        ha="left" if room_right else "right",
        va="center",
        fontsize=9,
    )


def _of_three(one: Outcomes, plans: Sequence[GuestPlan], choices: Sequence[Choice]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    chunk, pool = one.scenario.host.threads_per_core, one.scenario.host.pcpus
    figure = Figure(figsize=(11, 7.6), layout="constrained")
    axis = figure.subplots()
    sums = {(cpus[0], cpus[1]): value_of(plans, cpus) for cpus in all_splits(3, one.scenario)}
    sizes = list(range(chunk, pool - chunk, chunk))
    values = [[sums.get((first, second), math.nan) for first in sizes] for second in sizes]
    edges = [size - chunk / 2 for size in [*sizes, sizes[-1] + chunk]]
    image = axis.pcolormesh(edges, edges, values, cmap="cividis")
    best, most = best_split(plans, one.scenario)
    axis.plot(
        [best[0]],
        [best[1]],
        "*",
        color="gold",
        markeredgecolor="black",
        markersize=18,
        linestyle="none",
        label=f"oracle: {_split(best)}, {most:.1f}",
    )
    for choice, marker in zip(choices, MARKERS * len(choices), strict=False):
        name = choice.policy
        share = f"{choice.value:.1f} ({choice.value / most:.1%})"
        if choice.split is None:
            axis.plot([], [], linestyle="none", label=f"{name}: no split, {share}")
            continue
        axis.plot(
            [choice.split.cpus[0]],
            [choice.split.cpus[1]],
            marker,
            markeredgecolor="black",
            markersize=9,
            markerfacecolor="white",
            linestyle="none",
            label=f"{name}: {_split(choice.split.cpus)}, {share}",
        )
    names = [f"{narrow(plan.name)} ({narrow(plan.curve.name)})" for plan in plans]
    axis.set_xlabel(f"CPUs of {names[0]}")
    axis.set_ylabel(f"CPUs of {names[1]}")
    axis.set_aspect("equal")
    axis.set_xlim(0, pool)
    axis.set_ylim(0, pool)
    figure.colorbar(image, ax=axis, label=f"sum of speedups; {names[2]} has the rest of {pool}", shrink=0.85)
    axis.legend(loc="upper right", fontsize=9, framealpha=0.95, title="split, sum of speedups (of the oracle's)")
    return figure


def _split(cpus: Sequence[int]) -> str:
    return ":".join(map(str, cpus))
