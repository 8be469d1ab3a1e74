"""One run of `make bench-scaled` in a real guest of six slow CPUs: what it keeps, and that it goes on from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import HANGS_S, IMAGE, REPOSITORY

pytestmark = [pytest.mark.guest, pytest.mark.long, pytest.mark.timeout(HANGS_S)]


def bench(output: Path, arrangements: str) -> str:
    """Runs a short pair, and returns what was printed."""
    command = [sys.executable, "-m", "vscaf_bench.scaled", "--image", str(IMAGE), "--output", str(output), "--quick"]
    command += ["--only", "mg.S+serial-half.S", "--arrangements", arrangements, "--seconds", "4", "--without-gate"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": "tests/bench"},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def kept(output: Path, name: str) -> list[dict[str, Any]]:
    """The lines of the only state, without a header."""
    (file,) = (output / "scaled").glob(f"*/{name}")
    return [line for line in map(json.loads, file.read_text().splitlines()) if "key" in line]


def test_each_run_is_kept_with_the_split_over_time_and_not_made_again(tmp_path: Path) -> None:
    printed = bench(tmp_path, "5+1")
    assert "by hand 5+1" in printed
    first = kept(tmp_path, "samples.jsonl")
    assert {tuple(one["key"]["workloads"]) for one in first} == {
        ("mg.S",),
        ("serial-half.S",),
        ("mg.S", "serial-half.S"),
    }
    assert all(execution["verified"] for one in first for run in one["programs"] for execution in run["executions"])

    printed = bench(tmp_path, "5+1,max-speedup")
    assert "max-speedup: the split over time" in printed and "by hand 5+1" in printed
    second = kept(tmp_path, "samples.jsonl")
    assert second[: len(first)] == first
    assert {one["key"]["arrangement"] for one in second[len(first) :]} == {"max-speedup"}
    (cell,) = [one for one in kept(tmp_path, "cells.jsonl") if one["key"]["arrangement"] == "max-speedup"]
    assert {status["policy"] for _, status in cell["status"]} == {"max-speedup"}
    names = {process["name"] for _, status in cell["status"] for process in status["processes"]}
    assert names == {"mg.S", "serial-half.S"}
    assert not (tmp_path / "scaled.json").exists()
