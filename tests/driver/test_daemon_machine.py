"""Random histories of the real daemon on libvirt's test driver: its laws hold after every step, all is as found.

VSCAF_EXPLORE=N lives through N others.
"""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from .machine import live

EXPLORE = os.environ.get("VSCAF_EXPLORE")
HISTORIES = int(EXPLORE or 120)
AT_ONCE = 20  # most of a history is waiting
EVENTS = 25


@pytest.mark.parametrize("part", range(4))
def test_laws_hold_in_random_histories(part: int, loop_runner: asyncio.Runner) -> None:
    first = int.from_bytes(os.urandom(4)) if EXPLORE else 0

    async def one(seed: int, turn: asyncio.Semaphore) -> int:
        async with turn:
            with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:  # short: sockets are in it
                return (await live(seed, Path(directory), EVENTS)).checks

    async def work() -> None:
        turn = asyncio.Semaphore(AT_ONCE)
        seeds = range(first + part, first + HISTORIES, 4)
        outcomes = await asyncio.gather(*(one(seed, turn) for seed in seeds), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            raise failures[0]
        assert all(checks > 20 for checks in outcomes if isinstance(checks, int)), "next to nothing was looked at"

    loop_runner.run(work())
