"""What the tests with real guests share: a private libvirtd for the tests of a file, and what they run on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from vscaf_lab import PrivateLibvirt

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGE = Path(os.environ.get("VSCAF_IMAGE", REPOSITORY / "build" / "image" / "current"))
CACHE = REPOSITORY / "build" / "lab" / "cache"
POOL = sorted(os.sched_getaffinity(0))[:2]
POOL_LIST = ",".join(map(str, POOL))
DEADLINE_S = 0.4  # the daemon's defaults
PERIOD_S = 0.25


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateLibvirt]:
    """One private libvirtd for all tests of a file."""
    if len(POOL) < 2:
        pytest.fail("these tests need two CPUs: run them on a machine that has them")
    with PrivateLibvirt(logs=tmp_path_factory.mktemp("logs"), cache=CACHE) as lab:
        yield lab
