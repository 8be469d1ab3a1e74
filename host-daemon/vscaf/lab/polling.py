"""Polls until a condition is true, for all tests. The deadline is only for tests that hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

HANG_S = 120.0  # much longer than any awaited event takes, even on a busy machine
POLL_S = 0.02


def until(
    condition: Callable[[], object],
    what: str | Callable[[], object] = "",
    hang_s: float = HANG_S,
    poll_s: float = POLL_S,
) -> None:
    """Returns once *condition* is true. TimeoutError at the deadline. what: its text, or a function that returns it."""
    end_s = time.monotonic() + hang_s
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(_timeout_message(what, hang_s))
        time.sleep(poll_s)


async def soon(
    condition: Callable[[], object], what: str | Callable[[], object] = "", hang_s: float = HANG_S, poll_s: float = 0.01
) -> None:
    """Like `until`, as a coroutine: the loop's other tasks run meanwhile."""
    end_s = time.monotonic() + hang_s
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(_timeout_message(what, hang_s))
        await asyncio.sleep(poll_s)


def _timeout_message(what: str | Callable[[], object], hang_s: float) -> str:
    return f"not true after {hang_s:g} s: {what if isinstance(what, str) else what()}"
