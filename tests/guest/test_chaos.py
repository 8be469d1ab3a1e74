"""A minute of chaos: parts of vscaf, libvirt and the guests die, hang and come back, and partitions hold.

`make chaos ARGS="--seconds 300 --seed N"` runs it for longer, or repeats a run.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from vscaf_lab.chaos_run import run, summary

from .conftest import CACHE, IMAGE

pytestmark = pytest.mark.guest

SECONDS = 60.0


def test_chaos(tmp_path: Path) -> None:
    """VSCAF_CHAOS_SEED repeats a run."""
    seed = int(os.environ.get("VSCAF_CHAOS_SEED", random.SystemRandom().randrange(10**6)))
    print(f"chaos seed {seed}")  # shown if the test fails or hangs
    verdict = run(IMAGE, CACHE, tmp_path / "logs", seed=seed, seconds=SECONDS)
    assert verdict.violations == [], f"seed {seed}\n{summary(verdict, tmp_path / 'logs')}"
