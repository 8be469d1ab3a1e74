"""A runtime that comes with a Python wheel: scikit-learn's own libgomp, which dlopen loads under a name of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

BUILD = Path(os.environ["VSCAF_BUILD"]) / "guest-libgomp"
PROGRAM = Path(__file__).with_name("wheel_program.py")
# With more spinning, the barriers of two runtimes would take minutes on a loaded machine.
ENVIRONMENT = {**os.environ, "GOMP_SPINCOUNT": "1000", "OMP_NUM_THREADS": "4"}


def run(before: list[str | Path], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*map(str, before), sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True, timeout=600)


def test_the_wheel_brings_its_own_runtime() -> None:
    libraries = Path(sklearn.__file__).parent.parent / "scikit_learn.libs"
    assert list(libraries.glob("libgomp-*.so*")), "this wheel bundles no libgomp: pin another version"


def test_sections_of_a_wheel_are_managed_and_its_results_stay(tmp_path: Path) -> None:
    if not (BUILD / "tests" / "wheels" / "gomp-test-resized").exists():
        pytest.fail(f"no gomp-test-resized in {BUILD}/tests/wheels: run `tests/build-c` with gcc")
    alone = run([])
    assert len(alone.stdout.splitlines()) == 1
    enough = tmp_path / "enough"
    managed = run([BUILD / "tests" / "wheels" / "gomp-test-resized", enough, BUILD / "vscaf-run"], enough)
    page = json.loads(managed.stderr.splitlines()[-1])
    assert managed.stdout == alone.stdout, "the same predictions, bit for bit, in every round"
    assert page["changes"] >= 10, page
    assert page["asked"] > 3 and page["started"] == page["finished"] > 100, page
