"""Figures from runs: spreads over seeds, and ratios to other runs and to the oracle. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from vscaf.simulate.engine.result import Run
from vscaf.simulate.scenarios.scenario import Scenario

EQUIPARTITION = "equipartition"
"""The policy that the others are compared with, as in Creech 2015, chapter 7."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """The largest sum of speedups that one split, or several in turn, can give by the true curves.

    split: CPUs by guest if one split is the best all the time, else None.
    """

    sum_of_speedups: float
    split: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the least and the largest of some values."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratios:
    """A run's sum of speedups divided by equipartition's with the same seed, and by the oracle's. None: no such run.

    The sum is that of `measure`.
    """

    to_equipartition: float | None
    to_oracle: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one policy on one scenario, over its seeds. None: no run has this figure.

    sum_of_speedups: that of `measure`. finished_s: when the last guest ended, in the runs in which all guests ended.
    unsettled: runs that did not converge; `converged_periods` is for the others. violations: in all runs together.
    """

    policy: str
    runs: int
    sum_of_speedups: Spread
    to_equipartition: Spread | None
    to_oracle: Spread | None
    finished_s: Spread | None
    converged_periods: Spread | None
    unsettled: int
    transitions: Spread
    moved_cpus: Spread
    exploration_cost: Spread
    wall_s: Spread
    violations: int
    guests: Mapping[str, Spread]


def spread(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that are not None; None if there are none."""
    there = [float(value) for value in values if value is not None]
    return Spread(median(there), min(there), max(there)) if there else None


def has_end(scenario: Scenario) -> bool:
    """Whether guests do their work and end. A mean over time would then depend on when they end."""
    return any(guest.work_s is not None for guest in scenario.guests)


def measure(scenario: Scenario, run: Run) -> float:
    """The sum of speedups by which policies are compared.

    It is the mean of the sum over the averaging window. If guests do their work and end, it is the sum of each guest's
    own speedup, as in Creech 2015, Table 7.2.
    """
    return guest_speedups(run) if has_end(scenario) else run.sum_of_speedups


def guest_speedups(run: Run) -> float:
    """The sum of the guests' speedups, each over the guest's own life."""
    return sum(guest.speedup for guest in run.guests)


def finished_s(run: Run) -> float | None:
    """When the last guest ended; None if one did not."""
    ends = [guest.end_s for guest in run.guests if guest.end_s is not None]
    return max(ends) if ends and len(ends) == len(run.guests) else None


def ratios(scenario: Scenario, runs: Sequence[Run], oracles: Mapping[int, Oracle]) -> list[Ratios]:
    """The ratios of each run of one scenario, in the order of *runs*. oracles: by seed."""
    equal = {run.seed: measure(scenario, run) for run in runs if run.policy == EQUIPARTITION}
    best = {seed: oracle.sum_of_speedups for seed, oracle in oracles.items()}
    return [
        Ratios(_ratio(measure(scenario, run), equal.get(run.seed)), _ratio(measure(scenario, run), best.get(run.seed)))
        for run in runs
    ]


def _ratio(value: float, reference: float | None) -> float | None:
    return value / reference if reference else None


def summaries(scenario: Scenario, runs: Sequence[Run], oracles: Mapping[int, Oracle]) -> list[Summary]:
    """For each policy in *runs*, in the order of first appearance. All runs are of one scenario."""
    of_policy: dict[str, list[tuple[Run, Ratios]]] = defaultdict(list)
    for run, ratio in zip(runs, ratios(scenario, runs, oracles), strict=True):
        of_policy[run.policy].append((run, ratio))
    return [_summary(scenario, policy, some) for policy, some in of_policy.items()]


def _summary(scenario: Scenario, policy: str, some: Sequence[tuple[Run, Ratios]]) -> Summary:
    runs = [run for run, _ in some]
    speedups: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for guest in run.guests:
            speedups[guest.name].append(guest.speedup)
    return Summary(
        policy,
        len(runs),
        _full(measure(scenario, run) for run in runs),
        spread(ratio.to_equipartition for _, ratio in some),
        spread(ratio.to_oracle for _, ratio in some),
        spread(finished_s(run) for run in runs),
        spread(run.converged_periods for run in runs),
        sum(run.converged_periods is None for run in runs),
        _full(run.transitions for run in runs),
        _full(run.moved_cpus for run in runs),
        _full(run.exploration_cost for run in runs),
        _full(run.wall_s for run in runs),
        sum(len(run.violations) for run in runs),
        {name: _full(values) for name, values in speedups.items()},
    )


WIN, LOSS = 1.05, 0.95
"""A run with more than WIN times equipartition's sum of speedups is a win, with less than LOSS times a loss: Creech
2015, Table 7.1."""


@dataclass(frozen=True, slots=True)
class Together:
    """The figures of one policy on several scenarios, where all its runs count the same.

    even: neither a win nor a loss against equipartition; all three are 0 if equipartition did not run. to_oracle: mean
    and least of the runs whose oracle is known. None: there is no such run.
    """

    policy: str
    runs: int
    wins: int
    even: int
    losses: int
    to_equipartition: float | None
    to_oracle: float | None
    least_to_oracle: float | None


def together(found: Iterable[tuple[str, Ratios]]) -> list[Together]:
    """For each policy, in the order of first appearance. found: the policy and the ratios of every run."""
    of_policy: dict[str, list[Ratios]] = defaultdict(list)
    for policy, ratio in found:
        of_policy[policy].append(ratio)
    return [_together(policy, some) for policy, some in of_policy.items()]


def _together(policy: str, some: Sequence[Ratios]) -> Together:
    equal = [one.to_equipartition for one in some if one.to_equipartition is not None]
    best = [one.to_oracle for one in some if one.to_oracle is not None]
    wins, losses = sum(one > WIN for one in equal), sum(one < LOSS for one in equal)
    return Together(
        policy,
        len(some),
        wins,
        len(equal) - wins - losses,
        losses,
        mean(equal) if equal else None,
        mean(best) if best else None,
        min(best) if best else None,
    )


def _full(values: Iterable[float]) -> Spread:
    """The spread of at least one value."""
    found = spread(values)
    assert found is not None
    return found


def short_names(policies: Iterable[str]) -> dict[str, str]:
    """A short name of each policy: for `file.py:function` the function, if no other policy has that name."""
    names = {policy: policy.rpartition(":")[2] for policy in policies}
    shared = Counter(names.values())
    return {policy: short if shared[short] == 1 else policy for policy, short in names.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which *share* of the values are, linear between two of them. NaN if there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True, slots=True)
class Split:
    """The split that was used longest in a period of time, and the least and most CPUs of each guest in it."""

    cpus: tuple[int, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]


def usual_split(run: Run, names: Sequence[str]) -> Split | None:
    """How the run split the pool among *names* in the later half of the time in which it gave CPUs to all of them.

    None if it never did: the policy changes nothing, or the guests were not there at the same time.
    """
    moments = run.moments
    ends = [*(moment.time_s for moment in moments[1:]), run.seconds][: len(moments)]
    stretches = [
        (moment.time_s, min(end_s, run.seconds), tuple(moment.allocations.get(name, 0) for name in names))
        for moment, end_s in zip(moments, ends, strict=True)
    ]
    together = [one for one in stretches if min(one[2]) > 0 and one[1] > one[0]]
    if not together:
        return None
    left_s = sum(end_s - start_s for start_s, end_s, _ in together) / 2
    lasted: dict[tuple[int, ...], float] = defaultdict(float)
    for start_s, end_s, cpus in reversed(together):
        lasted[cpus] += min(left_s, end_s - start_s)
        left_s -= end_s - start_s
        if left_s <= 0:
            break
    longest = max(lasted, key=lambda cpus: (lasted[cpus], cpus))
    by_guest = list(zip(*lasted, strict=True))
    return Split(longest, tuple(min(some) for some in by_guest), tuple(max(some) for some in by_guest))
