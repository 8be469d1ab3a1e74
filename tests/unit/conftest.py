"""Settings of all property tests in this directory, and a directory for sockets.

The examples are the same ones each time, so that a check fails for what was changed and not by chance. With
VSCAF_EXPLORE set they are others each time.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Time says nothing about these laws, and machines that run the tests are busy: no deadline for an example.
settings.register_profile(
    "vscaf",
    deadline=None,
    derandomize="VSCAF_EXPLORE" not in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("vscaf")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="vscaf-control-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
