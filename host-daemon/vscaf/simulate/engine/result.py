"""The result of a simulated run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuestResult:
    """One guest's run.

    end_s None: it still ran at the end. work_s: work done, in seconds on one CPU. speedup: work done in the averaging
    window per second in which it ran and wanted to compute; 0 if there was no such second. claimed: the speedup that it
    last reported, None: it reported none.
    """

    name: str
    curve: str
    start_s: float
    end_s: float | None
    work_s: float
    speedup: float
    claimed: float | None


@dataclass(frozen=True, slots=True)
class Moment:
    """From time_s on, the guests were to have these numbers of CPUs; 0: no CPUs of their own."""

    time_s: float
    allocations: dict[str, int]


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario under one policy. The same scenario, policy and seed give an equal run, except for `wall_s`.

    moments: each change, oldest first; with many guests at most one in each thousandth of the time. decisions: how
    often allocations were decided. sum_of_speedups: of the guests' true speeds, mean over the averaging window;
    efficiency: that per pCPU of the pool. transitions: completed changes of partitions. moved_cpus: CPUs by which
    allocations rose, over all decisions. exploration_cost: share of the sum that exploration cost, 0 if none is
    reported. converged_periods: from the last arrival, departure or crash until every allocation stays within one
    chunk, or 5%, of its last value; None: not before the end. violations: broken laws; it should be empty. wall_s: real
    time that the simulation took.
    """

    scenario: str
    policy: str
    seed: int
    seconds: float
    pcpus: int
    guests: tuple[GuestResult, ...]
    moments: tuple[Moment, ...]
    decisions: int
    sum_of_speedups: float
    efficiency: float
    transitions: int
    moved_cpus: int
    exploration_cost: float
    converged_periods: int | None
    violations: tuple[str, ...]
    wall_s: float
