"""One asyncio loop for all tests of a process, because libvirt's events are bound to one loop."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from .faults import late_by
from .patient_loop import PatientLoop


@pytest.fixture(scope="session")
def loop_runner() -> Iterator[asyncio.Runner]:
    """Runs coroutines on the session's loop."""
    with asyncio.Runner(loop_factory=PatientLoop) as runner, late_by(runner.get_loop().time):
        yield runner


@pytest.fixture(autouse=True)
def automatic_garbage_collection() -> Iterator[None]:
    """Calls of LibvirtHost end it, and other tests of this process never make any."""
    yield
    gc.enable()
