"""What make would run."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("target", ["bench-daemon", "bench-pairs", "bench-parking"])
def test_the_directory_of_the_benches_is_not_made_by_root(target: str) -> None:
    """Benches without root write there too."""
    command = ["make", "--dry-run", "ROOT=sudo", "SETUP=", target]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    made = next(number for number, line in enumerate(lines) if line.startswith("mkdir -p build/bench"))
    used = next(number for number, line in enumerate(lines) if "--output build/bench" in line)
    assert made < used and lines[used].startswith("sudo ")
