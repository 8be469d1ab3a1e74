"""Pictures of the sum of speedups for all splits of the pool between two or three guests, with each policy's split.

After Creech 2015, Figures 7.9 to 7.12: an oracle would try every static split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vscaf.simulate.engine.result import Run
from vscaf.simulate.report.document import Outcomes
from vscaf.simulate.report.pictures import colours, legend_text, narrow, title
from vscaf.simulate.report.summary import Split, has_end, measure, short_names, usual_split
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.scenario import GuestPlan, Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osDP^vX<>h"
DOTS = (":", (0, (1, 4)), (0, (4, 2, 1, 2)), (0, (8, 4)))
"""Line styles of the policies that have no split."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The split that a policy chose, and its true sum of speedups.

    policy: its name in the picture. split None: the policy never gave all guests CPUs of their own at once; value is
    then the mean of the measured sum, or None if that includes times in which not all guests were there.
    """

    policy: str
    split: Split | None
    value: float | None

    def label(self, most: float) -> str:
        """The split, the sum, and the sum as a share of *most*, the oracle's sum."""
        if self.value is None:
            return "no split"
        split = "no split" if self.split is None else _split(self.split.cpus)
        return f"{split}, {self.value:.1f} ({self.value / most:.1%})"


def splits_figure(outcomes: Outcomes, runs: Sequence[Run]) -> Figure | None:
    """The picture for a scenario of two or three guests with one curve each; None for any other."""
    plans = expanded(outcomes.scenario, runs[0].seed)
    if len(plans) not in (2, 3) or outcomes.scenario.host.pcpus < len(plans) * outcomes.scenario.host.threads_per_core:
        return None
    if any(len(plan.phases) > 1 or plan.phases[0].curve != plan.curve or plan.phases[0].serial for plan in plans):
        return None
    short = short_names(run.policy for run in runs)
    choices = [_choice(outcomes.scenario, run, plans, narrow(short[run.policy])) for run in runs]
    figure = _of_two(outcomes, plans, choices) if len(plans) == 2 else _of_three(outcomes, plans, choices)
    title(figure, "Sum of speedups over splits", outcomes.scenario, runs)
    return figure


def value_of(plans: Sequence[GuestPlan], cpus: Sequence[int]) -> float:
    """The sum of speedups with these CPUs for the guests, by their true curves."""
    return sum(speedup_of(plan, some) for plan, some in zip(plans, cpus, strict=True))


def speedup_of(plan: GuestPlan, cpus: int) -> float:
    """The speedup of one guest, which cannot use more CPUs than it has vCPUs."""
    return plan.curve.speedup(min(cpus, plan.vcpus))


def _choice(scenario: Scenario, run: Run, plans: Sequence[GuestPlan], name: str) -> Choice:
    split = usual_split(run, [plan.name for plan in plans])
    if split is not None:
        return Choice(name, split, value_of(plans, split.cpus))
    # For guests that end, the sum of speedups includes times in which they were alone: it cannot be compared.
    return Choice(name, None, None if has_end(scenario) else measure(scenario, run))


def best_split(plans: Sequence[GuestPlan], scenario: Scenario) -> tuple[tuple[int, ...], float]:
    """The best split of the whole pool by the true curves, and its sum of speedups."""
    return max(((cpus, value_of(plans, cpus)) for cpus in all_splits(len(plans), scenario)), key=lambda one: one[1])


def all_splits(guests: int, scenario: Scenario) -> list[tuple[int, ...]]:
    """All splits of the whole pool in whole cores, with at least one core for each of two or three guests."""
    chunk, pool = scenario.host.threads_per_core, scenario.host.pcpus
    firsts = range(chunk, pool, chunk)
    if guests == 2:
        return [(first, pool - first) for first in firsts]
    return [(first, second, pool - first - second) for first in firsts for second in range(chunk, pool - first, chunk)]


def _of_two(outcomes: Outcomes, plans: Sequence[GuestPlan], choices: Sequence[Choice]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    height = 0.5 + 0.32 * (len(choices) + 1)
    figure = Figure(figsize=(13, 5.6 + height), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4.6, height])
    splits = all_splits(2, outcomes.scenario)
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
    best, most = best_split(plans, outcomes.scenario)
    above.plot([best[0]], [most], "*", color="gold", markeredgecolor="black", markersize=17, label="oracle", zorder=3)
    for number, choice in enumerate(choices):
        _mark(above, choice, number)
    above.set_ylim(0, 1.12 * max(most, *(choice.value or 0.0 for choice in choices)))
    above.set_ylabel("speedup against one CPU")
    above.grid(color="0.9")
    figure.legend(*above.get_legend_handles_labels(), loc="outside right upper", fontsize=9, frameon=False)
    _strip(below, choices, (best, most))
    pool = outcomes.scenario.host.pcpus
    below.set_xlabel(f"CPUs of {names[0]} ({names[1]} has the rest of {pool})")
    below.set_xlim(0, pool)
    return figure


def _mark(axis: Axes, choice: Choice, number: int) -> None:
    """Draws the choice of policy *number*."""
    look: dict[str, Any] = {"markeredgecolor": "black", "markerfacecolor": "white", "markersize": 8, "zorder": 4}
    if choice.value is None:
        return
    if choice.split is None:
        dots: Any = DOTS[number % len(DOTS)]
        label = f"{choice.policy} (measured sum)"
        axis.axhline(choice.value, color="0.45", linewidth=1.2, linestyle=dots, label=label)
    else:
        marker = MARKERS[number % len(MARKERS)]
        axis.plot([choice.split.cpus[0]], [choice.value], marker, linestyle="none", label=choice.policy, **look)


def _strip(axis: Axes, choices: Sequence[Choice], oracle: tuple[tuple[int, ...], float]) -> None:
    """Draws a line for each policy: the split used most of the time, and the range of splits that it used."""
    best, most = oracle
    axis.plot([best[0]], [0], "*", color="gold", markeredgecolor="black", markersize=13)
    for row, (choice, marker) in enumerate(zip(choices, MARKERS * len(choices), strict=False), start=1):
        if choice.split is None:
            continue
        (least, _), (utmost, _) = choice.split.least, choice.split.most
        axis.plot([least, utmost], [row, row], color="0.5", linewidth=3, zorder=1)
        axis.plot([choice.split.cpus[0]], [row], marker, markeredgecolor="black", markerfacecolor="white", markersize=8)
    axis.set_yticks(range(len(choices) + 1), ["oracle", *(choice.policy for choice in choices)])
    axis.set_ylim(len(choices) + 0.6, -0.6)
    axis.grid(axis="x", color="0.9")
    legend = "marker: the split used longest; bar: all in the later half; right: sum of speedups (of the oracle's)"
    axis.set_title(legend, fontsize=9, loc="left")
    sums_axis = axis.twinx()  # next to the marks, where nothing else is drawn
    sums = [f"{_split(best)}, {most:.1f}", *(choice.label(most) for choice in choices)]
    sums_axis.set_yticks(range(len(choices) + 1), sums, fontsize=9)
    sums_axis.set_ylim(axis.get_ylim())
    sums_axis.tick_params(length=0)


def _of_three(outcomes: Outcomes, plans: Sequence[GuestPlan], choices: Sequence[Choice]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    chunk, pool = outcomes.scenario.host.threads_per_core, outcomes.scenario.host.pcpus
    figure = Figure(figsize=(11, 7.6), layout="constrained")
    axis = figure.subplots()
    sums = {(cpus[0], cpus[1]): value_of(plans, cpus) for cpus in all_splits(3, outcomes.scenario)}
    sizes = list(range(chunk, pool - chunk, chunk))
    values = [[sums.get((first, second), math.nan) for first in sizes] for second in sizes]
    edges = [size - chunk / 2 for size in [*sizes, sizes[-1] + chunk]]
    image = axis.pcolormesh(edges, edges, values, cmap="cividis")
    best, most = best_split(plans, outcomes.scenario)
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
        label = f"{choice.policy}: {choice.label(most)}"
        if choice.split is None:
            axis.plot([], [], linestyle="none", label=label)
            continue
        axis.plot(
            [choice.split.cpus[0]],
            [choice.split.cpus[1]],
            marker,
            markeredgecolor="black",
            markersize=9,
            markerfacecolor="white",
            linestyle="none",
            label=label,
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
