"""What a simulated run came to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuestResult:
    """One guest's run.

    end_s None: it was still there at the end. work_s: work done, in seconds on one CPU. speedup: work done in the
    averaging window for each second in which it was there and wanted to compute; 0 where there was none. claimed: the
    speedup that it last said it had, None: it never said.
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
    """From time_s on the guests had been decided these numbers of CPUs; 0: none of their own."""

    time_s: float
    allocations: dict[str, int]


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario under one policy. The same scenario, policy and seed give an equal run but for `wall_s`.

    moments: each change, oldest first; of many guests at most one a thousandth of the time. decisions: how often
    allocations were decided. sum_of_speedups: of the guests' true speeds, mean over the averaging window; efficiency:
    that for each pCPU of the pool. transitions: changes of partitions that came about. moved_cpus: CPUs by which
    allocations rose, over all decisions. exploration_cost: share of the sum that trying out cost, 0 where none is
    reported. converged_periods: from the last arrival, departure or crash until every allocation stays within one
    chunk, or 5%, of what it ends at; None: it does not by the end. violations: broken laws; it should be empty.
    wall_s: how long the simulation itself took.
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
