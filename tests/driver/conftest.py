"""One asyncio loop for all tests of a process: libvirt's events are bound to one."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def loop_runner() -> Iterator[asyncio.Runner]:
    """Runs coroutines on the session's loop."""
    with asyncio.Runner() as runner:
        yield runner
