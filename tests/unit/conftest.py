"""Settings of all property tests in this directory, a directory for sockets, and promtool.

The examples are the same in each run, so that a check fails because of a change and not by chance. With VSCAF_EXPLORE
set, each run has new examples.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Examples have no deadline: time says nothing about these laws, and machines that run the tests are busy.
settings.register_profile(
    "vscaf",
    deadline=None,
    derandomize="VSCAF_EXPLORE" not in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("vscaf")


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of Prometheus's promtool. tests/setup-machine puts it into build/."""
    found = shutil.which("promtool") or shutil.which("promtool", path=Path(__file__).parents[2] / "build")
    if found is None:
        pytest.skip("promtool is not installed: run tests/setup-machine, or install the package prometheus")
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="vscaf-control-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
