"""An asyncio loop whose clock waits for libvirt, for each test."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from .faults import late_by
from .patient_loop import PatientLoop


@pytest.fixture
def loop_runner() -> Iterator[asyncio.Runner]:
    """Runs coroutines on a loop of the test's own."""
    with asyncio.Runner(loop_factory=PatientLoop) as runner, late_by(runner.get_loop().time):
        yield runner


@pytest.fixture(autouse=True)
def automatic_garbage_collection() -> Iterator[None]:
    """Calls of LibvirtHost end it, and other tests of this process never make any."""
    yield
    gc.enable()
