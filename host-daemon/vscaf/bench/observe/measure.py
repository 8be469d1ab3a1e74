"""The speed of a pair of programs on a host: pure arithmetic on progress marks.

A mark is (fraction of the timed work that is done, time in seconds), as the workloads write it. The first mark has
0.0, the last 1.0. All times are on the host's clock.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

Marks = Sequence[tuple[float, float]]


def parse_marks(text: str, guest_ahead_s: float) -> list[tuple[float, float]]:
    """Parses the workloads' marks and converts them to the host's clock. The guest's is *guest_ahead_s* ahead of it."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [(float(fraction), float(seconds) - guest_ahead_s) for fraction, seconds in rows]


def done_at(marks: Marks, time_s: float) -> float:
    """Fraction of the work done at *time_s*, linear between marks."""
    times = [at for _, at in marks]
    after = bisect.bisect_right(times, time_s)
    if after == 0:
        return marks[0][0]
    if after == len(marks):
        return marks[-1][0]
    (low, low_s), (high, high_s) = marks[after - 1], marks[after]
    return low + (high - low) * (time_s - low_s) / (high_s - low_s)


@dataclass(frozen=True, slots=True)
class Run:
    """One program's run: its marks, and the seconds that the same work takes alone on one thread."""

    marks: Marks
    alone_one_thread_s: float

    @property
    def seconds(self) -> float:
        """Length of the timed part."""
        return self.marks[-1][1] - self.marks[0][1]

    @property
    def speedup(self) -> float:
        """Speedup over the whole run, relative to the program alone on one thread, by the clock."""
        return self.alone_one_thread_s / self.seconds

    def work_between(self, start_s: float, end_s: float) -> float:
        """Fraction of the work that was done between two times."""
        return done_at(self.marks, end_s) - done_at(self.marks, start_s)


def overlap(runs: Sequence[Run]) -> tuple[float, float] | None:
    """Start and end of the time in which all runs compute; None if there is no such time."""
    start_s = max(run.marks[0][1] for run in runs)
    end_s = min(run.marks[-1][1] for run in runs)
    return (start_s, end_s) if start_s < end_s else None
