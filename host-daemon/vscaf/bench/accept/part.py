"""A part of the acceptance: its verdict, its result, and its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec


class Outcome(StrEnum):
    """How a part ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_POSSIBLE = "not possible here"


class Verdict(msgspec.Struct, frozen=True):
    """What a part found. reason: one sentence. figures: the values that it was judged by."""

    outcome: Outcome
    reason: str
    figures: dict[str, Any] = {}


class Result(msgspec.Struct, frozen=True):
    """A part in the report. commands: what it ran. events: those of its daemons, in order."""

    part: str
    outcome: Outcome
    reason: str
    took_s: float
    figures: dict[str, Any]
    commands: list[str]
    events: list[dict[str, Any]]


class Deadline:
    """When a part must have ended. now: the clock, in seconds."""

    def __init__(self, end_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._end_s = end_s
        self._now = now

    def left_s(self) -> float:
        """Seconds that are left; 0 at the end."""
        return max(0.0, self._end_s - self._now())

    def within(self, limit_s: float) -> Deadline:
        """The deadline of a step that may take so long, but not beyond this deadline."""
        return Deadline(min(self._end_s, self._now() + limit_s), self._now)


def end_of_first(budgets_s: Sequence[float], end_s: float) -> float:
    """When the first part must have ended, so that each later one still has its budget before *end_s*.

    So a part has more than its budget if earlier ones took less.
    """
    return end_s - sum(budgets_s[1:])
