"""The oracle: the best split for one that knows every true curve. Policies are compared with it.

`best_static` gives one split of the pool for all the time. It is exact for curves of any shape, by dynamic programming
over the true curves (max-plus convolution). `best_dynamic` solves this again whenever a guest comes, goes or enters
another phase, and changes splits at no cost. At each instant no partition has a larger sum for the same computing
guests, if each has CPUs of its own (with too few CPUs, some have none). Other ways to share may have more: guests that
are suspended or queued while others compute, and unmanaged guests that do not spin and so use the time that others
leave on the same CPUs. Both functions ignore the cost of SMT siblings and NUMA nodes, so on such hosts they are only
upper bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.scenario import GuestPlan, PhasePlan, Scenario

Values = NDArray[np.float64]


class HasSpeedup(Protocol):
    """A curve, or an object with the same method."""

    def speedup(self, cpus: float) -> float:
        """S(cpus) against one CPU."""


_SMALLEST_STEP_S = 1e-9
"""Two events closer than this count as one."""


def best_static(
    curves: Sequence[HasSpeedup],
    chunks: int,
    chunk: int = 1,
    bounds: Sequence[tuple[int, int]] | None = None,
) -> tuple[tuple[int, ...], float]:
    """The split of chunks * chunk CPUs with the largest sum of true speedups, in CPUs, and that sum.

    bounds: the least (0: it may have none) and the most CPUs of each guest, rounded up to whole chunks; absent: one
    chunk and all CPUs. CPUs that would only harm stay free. If sums are equal, later guests get less.
    ValueError if the minima do not fit or are above the maxima.
    """
    if not curves:
        return (), 0.0
    limits = [(1, chunks)] * len(curves)
    if bounds is not None:
        limits = [(-(-low // chunk), min(chunks, -(-high // chunk))) for low, high in bounds]
    if len(limits) != len(curves):
        raise ValueError(f"{len(limits)} bounds for {len(curves)} curves: give one for each")
    if any(low > high for low, high in limits) or sum(low for low, _high in limits) > chunks:
        raise ValueError(f"minima of {[low for low, _high in limits]} chunks in {chunks}: they do not fit: lower them")
    best = np.zeros(chunks + 1)
    choices = []
    for curve, (low, high) in zip(curves, limits, strict=True):
        values = speedups(curve, high * chunk)[::chunk]
        best, choice = _with_one_more(best, values, low)
        choices.append(choice)
    left, split = chunks, []
    for choice in reversed(choices):
        part = int(choice[left])
        split.append(part * chunk)
        left -= part
    return tuple(reversed(split)), float(best[chunks])


def speedups(curve: HasSpeedup, most: int) -> Values:
    """The true speedup on 0, 1, ... *most* CPUs."""
    return np.array([curve.speedup(cpus) for cpus in range(most + 1)])


def _with_one_more(best: Values, values: Values, low: int) -> tuple[Values, NDArray[np.int64]]:
    """The best sums with one more guest, by the most chunks that are given out, and this guest's chunks for each.

    values[k]: what k chunks are worth to the guest; it has at least *low*.
    """
    size = len(best)
    sums = np.full(size, -np.inf)
    choice = np.zeros(size, dtype=np.int64)
    for part in range(low, min(len(values), size)):
        candidate = best[: size - part] + values[part]
        better = candidate > sums[part:]
        sums[part:][better] = candidate[better]
        choice[part:][better] = part
    return sums, choice


@dataclass(frozen=True, slots=True)
class Stretch:
    """From start_s to end_s the same guests compute: the best split among them, in CPUs, and its sum of speedups."""

    start_s: float
    end_s: float
    split: dict[str, int]
    sum_of_speedups: float


@dataclass(frozen=True, slots=True)
class BestDynamic:
    """The best split at every instant. sum_of_speedups: its mean over the scenario's averaging window.

    exact: the guests' phases and ends do not depend on their speed. Only then is the mean an upper bound. Otherwise
    another order of events, in which some guests end earlier, may have a larger mean.
    """

    stretches: tuple[Stretch, ...]
    sum_of_speedups: float
    exact: bool


@dataclass(slots=True)
class _GuestState:
    """A guest's position in its phases."""

    plan: GuestPlan
    ends_s: float
    work_left_s: float
    phase: int = 0
    seconds_left: float = np.inf
    phase_work_left_s: float = np.inf

    def enter(self, number: int) -> None:
        self.phase = number % len(self.plan.phases)
        seconds, work_s = self.now.seconds, self.now.work_s
        self.seconds_left = np.inf if seconds is None else seconds
        self.phase_work_left_s = np.inf if work_s is None else work_s

    @property
    def now(self) -> PhasePlan:
        return self.plan.phases[self.phase]


def best_dynamic(scenario: Scenario, seed: int | None = None) -> BestDynamic:
    """The best split of *scenario*'s guests at each instant, by their true curves, with changes in no time."""
    waiting = list(expanded(scenario, seed))
    present: list[_GuestState] = []
    stretches: list[Stretch] = []
    chunk, now_s = scenario.host.threads_per_core, 0.0
    while now_s < scenario.seconds:
        while waiting and waiting[0].start_s <= now_s + _SMALLEST_STEP_S:
            present.append(_started(waiting.pop(0)))
        busy = [guest for guest in present if guest.now.curve is not None]
        split, total = _split(busy, scenario.host.pcpus // chunk, chunk)
        speeds = {guest.plan.name: _speed(guest, cpus) for guest, cpus in zip(busy, split, strict=True)}
        steps = [scenario.seconds - now_s, *(one.start_s - now_s for one in waiting[:1])]
        for guest in present:
            speed = speeds.get(guest.plan.name, 0.0)
            steps += [guest.ends_s - now_s, guest.seconds_left]
            if speed > 0.0:
                steps.append(min(guest.work_left_s, guest.phase_work_left_s) / speed)
        step = max(_SMALLEST_STEP_S, min(steps))
        names = [guest.plan.name for guest in busy]
        stretches.append(Stretch(now_s, now_s + step, dict(zip(names, split, strict=True)), total))
        now_s += step
        present = [guest for guest in present if _advance(guest, now_s, step, speeds.get(guest.plan.name, 0.0))]
    plans = expanded(scenario, seed)
    exact = all(
        plan.work_s is None and all(phase.work_s is None or len(plan.phases) == 1 for phase in plan.phases)
        for plan in plans
    )
    return BestDynamic(tuple(stretches), _mean(stretches, scenario), exact)


def _started(plan: GuestPlan) -> _GuestState:
    ends = [end for end in (plan.end_s, plan.crash_s) if end is not None]
    guest = _GuestState(plan, min(ends, default=np.inf), np.inf if plan.work_s is None else plan.work_s)
    guest.enter(0)
    return guest


def _split(busy: Sequence[_GuestState], chunks: int, chunk: int) -> tuple[tuple[int, ...], float]:
    """The best split among the guests that compute; if there are more guests than chunks, some have none."""
    low = [guest.plan.minimum for guest in busy]
    if len(busy) > chunks:
        low = [0] * len(busy)
    elif sum(-(-one // chunk) for one in low) > chunks:
        # If the minima do not fit, one chunk each gives an upper bound; the daemon cuts the minima, too.
        low = [1] * len(busy)
    most = chunks * chunk
    bounds = [
        (least, max(least, min(most, guest.plan.vcpus, guest.plan.maximum or most)))
        for least, guest in zip(low, busy, strict=True)
    ]
    return best_static([_PhaseCurve(guest) for guest in busy], chunks, chunk, bounds)


class _PhaseCurve:
    """What CPUs are worth to a guest in its present phase."""

    def __init__(self, guest: _GuestState) -> None:
        self._guest = guest

    def speedup(self, cpus: float) -> float:
        return _speed(self._guest, cpus)


def _speed(guest: _GuestState, cpus: float) -> float:
    phase = guest.now
    usable = min(cpus, guest.plan.vcpus, 1.0 if phase.serial else np.inf)
    return 0.0 if phase.curve is None else phase.curve.speedup(usable)


def _advance(guest: _GuestState, now_s: float, step_s: float, speed: float) -> bool:
    """Advances *guest* by *step_s*; returns whether the guest goes on."""
    work_s = speed * step_s
    guest.work_left_s -= work_s
    guest.phase_work_left_s -= work_s
    guest.seconds_left -= step_s
    if guest.ends_s <= now_s + _SMALLEST_STEP_S or guest.work_left_s <= _SMALLEST_STEP_S:
        return False
    if guest.seconds_left <= _SMALLEST_STEP_S or guest.phase_work_left_s <= _SMALLEST_STEP_S:
        guest.enter(guest.phase + 1)
    return True


def _mean(stretches: Sequence[Stretch], scenario: Scenario) -> float:
    total = 0.0
    for stretch in stretches:
        overlap_s = min(stretch.end_s, scenario.seconds) - max(stretch.start_s, scenario.settle_s)
        total += max(0.0, overlap_s) * stretch.sum_of_speedups
    return total / (scenario.seconds - scenario.settle_s)
