"""The figures of a bench, from its samples: pure functions. Reports only show what stands here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from vscaf.bench.barriers import BarrierFigures, barrier_figures
from vscaf.bench.intervals import Figure, figure
from vscaf.bench.samples import ALONE, RunKey, Sample, counted
from vscaf.bench.speed import alone_rate, rate, speedups

EVEN = 0.05  # a ratio within 1 +- EVEN is neither a win nor a loss


class Verdict(StrEnum):
    """What a ratio to a baseline says. It is a win or a loss if its whole 95% interval is above 1 + EVEN or below
    1 - EVEN. A single round has no interval: then the ratio itself is."""

    WIN = "win"
    EVEN = "even"
    LOSS = "loss"


class WorkloadFigures(msgspec.Struct, frozen=True):
    """One workload alone. seconds: of one execution on one thread. speedup: on all CPUs, relative to one thread; None
    if that was not measured yet. only_disturbed: whether a figure is from disturbed runs, as there are no others."""

    name: str
    seconds: Figure
    speedup: Figure | None
    verified: bool
    only_disturbed: bool


class ArrangementFigures(msgspec.Struct, frozen=True):
    """A group of workloads in one arrangement. speedups: of each program while all compute, relative to itself alone on
    one thread. total: their sum. ratios: to each baseline, from undisturbed runs of the same round. disturbed: runs
    whose figures do not count. only_disturbed: whether there are no other runs; then the speedups are from those.
    ended_s: if each program was executed once, the seconds until all had ended, by the clock."""

    arrangement: str
    allocations: tuple[int, ...]
    speedups: tuple[Figure, ...]
    total: Figure
    ratios: dict[str, Figure]
    verified: bool
    disturbed: int
    only_disturbed: bool
    ended_s: Figure | None = None


class GroupFigures(msgspec.Struct, frozen=True):
    """A group of workloads that computed together, in each arrangement."""

    workloads: tuple[str, ...]
    arrangements: tuple[ArrangementFigures, ...]


class Comparison(msgspec.Struct, frozen=True):
    """One arrangement relative to a baseline, over all groups. mean: the geometric mean of the groups' ratios; its n is
    the fewest rounds that a group's ratio is from, so that it has an interval if each of the groups has one.
    win_mean, even_mean, loss_mean: that of the wins, the even groups and the losses alone; None if there are none. If
    the arrangement was measured with several allocations, those with the largest sum of speedups count."""

    arrangement: str
    baseline: str
    mean: Figure
    wins: tuple[tuple[str, ...], ...]
    even: tuple[tuple[str, ...], ...]
    losses: tuple[tuple[str, ...], ...]
    win_mean: float | None = None
    even_mean: float | None = None
    loss_mean: float | None = None

    @property
    def groups(self) -> int:
        """How many groups were compared."""
        return len(self.wins) + len(self.even) + len(self.losses)


class Figures(msgspec.Struct, frozen=True):
    """All figures of a bench. left_out: groups without figures, because there is no run of one of their workloads alone
    on one thread in which it was right. verified: whether every execution that counts was right, of all runs.
    barriers: what a barrier costs, if loops of barriers were measured."""

    workloads: tuple[WorkloadFigures, ...]
    groups: tuple[GroupFigures, ...]
    comparisons: tuple[Comparison, ...]
    left_out: tuple[tuple[str, ...], ...] = ()
    verified: bool = True
    barriers: tuple[BarrierFigures, ...] = ()


def verdict(ratio: Figure) -> Verdict:
    """Whether a ratio to a baseline is a win, a loss, or neither."""
    if ratio.low > 1 + EVEN:
        return Verdict.WIN
    return Verdict.LOSS if ratio.high < 1 - EVEN else Verdict.EVEN


def figures(samples: Sequence[Sample], baselines: Sequence[str]) -> Figures:
    """The figures of all samples so far. Disturbed runs do not count where there is another round.

    baselines: arrangements to which the others are compared.
    """
    chosen = list(counted(samples))
    references = _references(chosen)
    measured = sorted({sample.key.workloads for sample in chosen if sample.key.arrangement != ALONE})
    left_out = tuple(group for group in measured if not set(group) <= references.keys())
    groups = tuple(_group(group, chosen, samples, baselines, references) for group in measured if group not in left_out)
    workloads = tuple(_workload(chosen, samples, name, one) for name, one in references.items())
    comparisons = tuple(_comparisons(groups, baselines))
    return Figures(
        workloads, groups, comparisons, left_out, all(map(_verified, samples)), tuple(barrier_figures(samples))
    )


class _Reference(msgspec.Struct, frozen=True):
    """A workload alone on one thread. sound: whether its rate is from undisturbed runs."""

    rate: float
    samples: list[Sample]
    sound: bool


def _references(chosen: Sequence[Sample]) -> dict[str, _Reference]:
    """The reference of each workload that was right when it ran alone on one thread."""
    found = {}
    for name in sorted({sample.key.workloads[0] for sample in chosen if sample.key.arrangement == ALONE}):
        right = [one for one in _alone(chosen, name) if one.key.threads == 1 and _verified(one)]
        best = _undisturbed(right)
        if best:
            found[name] = _Reference(alone_rate(best, name, 1, steady=True), best, not best[0].disturbed)
    return found


def _undisturbed(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if not sample.disturbed] or list(samples)


def _alone(samples: Sequence[Sample], name: str) -> list[Sample]:
    return [one for one in samples if one.key.arrangement == ALONE and one.key.workloads == (name,)]


def _workload(chosen: Sequence[Sample], samples: Sequence[Sample], name: str, reference: _Reference) -> WorkloadFigures:
    every = _undisturbed([one for one in _alone(chosen, name) if one.key.threads == 0 and _verified(one)])
    on_all = [rate(sample, sample.programs[0], steady=True) / reference.rate for sample in every]
    return WorkloadFigures(
        name,
        figure([1 / rate(sample, sample.programs[0], steady=False) for sample in reference.samples]),
        figure(on_all) if on_all else None,
        all(map(_verified, _alone(samples, name))),
        not reference.sound or any(sample.disturbed for sample in every),
    )


def _group(
    group: tuple[str, ...],
    chosen: Sequence[Sample],
    every: Sequence[Sample],
    baselines: Sequence[str],
    references: Mapping[str, _Reference],
) -> GroupFigures:
    rates = [references[name].rate for name in group]
    sound = all(references[name].sound for name in group)
    mine = [sample for sample in chosen if sample.key.arrangement != ALONE and sample.key.workloads == group]
    totals: dict[tuple[str, tuple[int, ...]], dict[int, float]] = {}
    parts: dict[tuple[str, tuple[int, ...]], list[list[float]]] = {}
    ended_s: dict[tuple[str, tuple[int, ...]], list[float]] = {}
    for kind in sorted({_kind(sample.key) for sample in mine}):
        rows = _undisturbed([sample for sample in mine if _kind(sample.key) == kind])
        parts[kind] = [speedups(sample, rates, steady=True) for sample in rows]
        ended_s[kind] = [sample.window[1] - sample.window[0] for sample in rows if sample.once]
        totals[kind] = {
            sample.key.round: sum(row)
            for sample, row in zip(rows, parts[kind], strict=True)
            # No ratio is from a disturbed run, or from one in which a program was wrong.
            if sound and not sample.disturbed and _verified(sample)
        }
    return GroupFigures(
        group,
        tuple(
            ArrangementFigures(
                kind[0],
                kind[1],
                tuple(figure([row[place] for row in rows]) for place in range(len(group))),
                figure([sum(row) for row in rows]),
                _ratios(kind, totals, baselines),
                all(
                    _verified(sample) for sample in every if sample.key.workloads == group and _kind(sample.key) == kind
                ),
                sum(sample.disturbed for sample in mine if _kind(sample.key) == kind),
                not sound or all(sample.disturbed for sample in mine if _kind(sample.key) == kind),
                figure(ended_s[kind]) if ended_s[kind] else None,
            )
            for kind, rows in parts.items()
        ),
    )


def _kind(key: RunKey) -> tuple[str, tuple[int, ...]]:
    return key.arrangement, key.allocations


def _verified(sample: Sample) -> bool:
    return all(execution.verified for program in sample.programs for execution in program.executions)


def _ratios(
    kind: tuple[str, tuple[int, ...]],
    totals: dict[tuple[str, tuple[int, ...]], dict[int, float]],
    baselines: Sequence[str],
) -> dict[str, Figure]:
    """The ratio to each baseline in the rounds that have both. A baseline with several splits: the one with the largest
    median, as an operator would choose. The best split of each round would be the largest noise too."""
    found = {}
    for name in baselines:
        if name == kind[0]:
            continue
        splits = [by_round for (arrangement, _), by_round in totals.items() if arrangement == name and by_round]
        best = max(splits, key=lambda by_round: statistics.median(by_round.values()), default={})
        rounds = [number for number, total in totals[kind].items() if total > 0 and best.get(number, 0.0) > 0]
        if rounds:
            found[name] = figure([totals[kind][number] / best[number] for number in rounds])
    return found


def _comparisons(groups: Sequence[GroupFigures], baselines: Sequence[str]) -> list[Comparison]:
    out = []
    for arrangement in sorted({one.arrangement for group in groups for one in group.arrangements}):
        for baseline in baselines:
            ratios = {
                group.workloads: max(compared, key=lambda one: one.total.value).ratios[baseline]
                for group in groups
                if (
                    compared := [
                        one for one in group.arrangements if one.arrangement == arrangement and baseline in one.ratios
                    ]
                )
            }
            if not ratios:
                continue
            wins, even, losses = (
                tuple(name for name, ratio in ratios.items() if verdict(ratio) is kind)
                for kind in (Verdict.WIN, Verdict.EVEN, Verdict.LOSS)
            )
            means = [
                _geometric([ratios[name] for name in names]).value if names else None for names in (wins, even, losses)
            ]
            mean = _geometric(list(ratios.values()))
            out.append(Comparison(arrangement, baseline, mean, wins, even, losses, *means))
    return out


def _geometric(ratios: Sequence[Figure]) -> Figure:
    """The geometric mean. Its interval: the groups' logarithms are independent, so their half-widths add in squares. If
    a group has a single round, its half-width is not known, so there is no interval."""
    n = len(ratios)
    middle = sum(math.log(one.value) for one in ratios) / n
    rounds = min(one.n for one in ratios)
    if rounds == 1:
        return Figure(math.exp(middle), math.exp(middle), math.exp(middle), 1)
    below = math.sqrt(sum((math.log(one.value) - math.log(one.low)) ** 2 for one in ratios)) / n
    above = math.sqrt(sum((math.log(one.high) - math.log(one.value)) ** 2 for one in ratios)) / n
    return Figure(math.exp(middle), math.exp(middle - below), math.exp(middle + above), rounds)
