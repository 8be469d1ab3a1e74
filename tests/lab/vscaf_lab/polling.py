"""Waiting until something is so: asked again and again, for all tests. The deadline only catches what hangs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

HANG_S = 120.0  # far beyond what anything takes that is waited for, on a busy machine, too
POLL_S = 0.02


def until(
    truth: Callable[[], object], what: str | Callable[[], object] = "", hang_s: float = HANG_S, poll_s: float = POLL_S
) -> None:
    """Returns once *truth* holds. TimeoutError at the deadline. what: said then, or what is asked for it then."""
    end_s = time.monotonic() + hang_s
    while not truth():
        if time.monotonic() > end_s:
            raise TimeoutError(_words(what, hang_s))
        time.sleep(poll_s)


async def soon(
    truth: Callable[[], object], what: str | Callable[[], object] = "", hang_s: float = HANG_S, poll_s: float = 0.01
) -> None:
    """As `until`, for a coroutine: the loop's other tasks run meanwhile."""
    end_s = time.monotonic() + hang_s
    while not truth():
        if time.monotonic() > end_s:
            raise TimeoutError(_words(what, hang_s))
        await asyncio.sleep(poll_s)


def _words(what: str | Callable[[], object], hang_s: float) -> str:
    return f"not so after {hang_s:g} s: {what if isinstance(what, str) else what()}"
