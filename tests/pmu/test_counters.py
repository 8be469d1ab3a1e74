"""The metric ipc on an aarch64 processor that QEMU emulates, with its counters (`make test-counters`)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from guest import COUNTING, INSTRUCTIONS_PER_CYCLE, PARALLEL, Command, Result, run

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build" / "aarch64"
DIRECTORY = REPOSITORY / "build" / "pmu"
TESTS = BUILD / "guest-libgomp" / "tests" / "learn" / "counters"
SHIM = BUILD / "guest-libgomp" / "libvscaf-gomp.so"
REAL_COUNTERS = TESTS / "gomp-test-real-counters"
# In an emulated guest a copy may not begin before the section ends, or not fall asleep within its 20 ms of CPU time.
NEED_SPEED = ["ipc unseen spin", "ipc unseen sleep-on", "ipc unseen sleep-long"]


@pytest.fixture(scope="module")
def counted() -> dict[str, Result]:
    environment = {"LD_PRELOAD": str(SHIM), "GOMP_SPINCOUNT": "1000", "VSCAF_METRIC": "ipc"}
    paranoid = "/proc/sys/kernel/perf_event_paranoid"
    return run(
        DIRECTORY,
        [SHIM, REAL_COUNTERS],
        [
            Command("forbid", ["sh", "-c", f"echo 3 > {paranoid}"], {}),
            Command("forbidden", [str(REAL_COUNTERS), "balanced"], environment),
            Command("allow", ["sh", "-c", f"echo 2 > {paranoid}"], {}),
            Command("balanced", [str(REAL_COUNTERS), "balanced"], environment),
            Command("unbalanced", [str(REAL_COUNTERS), "unbalanced"], environment),
        ],
        COUNTING,
    )


def figures(result: Result) -> dict[str, float]:
    assert result.status == 0, result.output
    return {name: float(value) for name, value in re.findall(r"([a-z]+) (\d+\.\d+)", result.output)}


def test_a_team_with_equal_work_has_the_processors_ipc(counted: dict[str, Result]) -> None:
    found = figures(counted["balanced"])
    assert found["direct"] == pytest.approx(INSTRUCTIONS_PER_CYCLE, rel=0.1)
    assert found["ipc"] == pytest.approx(found["direct"], rel=0.1)
    assert found["speedup"] == pytest.approx(2.0, rel=0.1) and found["error"] > 0


def test_waiting_costs_ipc_and_speedup(counted: dict[str, Result]) -> None:
    balanced, unbalanced = figures(counted["balanced"]), figures(counted["unbalanced"])
    assert unbalanced["ipc"] == pytest.approx(unbalanced["direct"], rel=0.1)
    assert unbalanced["ipc"] < 0.9 * balanced["ipc"]
    assert 1.0 < unbalanced["speedup"] < 0.9 * balanced["speedup"]


def test_forbidden_counters_are_noticed(counted: dict[str, Result]) -> None:
    """PAPI 7 counts nothing at perf_event_paranoid 3, Debian's default, not even for root."""
    assert counted["forbidden"].status == 1 and "the shim found no counters" in counted["forbidden"].output


def test_the_copy_goes_unseen_on_aarch64() -> None:
    """The tests of the copy, which qemu-user cannot run, with scripted counts."""
    known = json.loads(
        subprocess.run(["meson", "introspect", "--tests", BUILD], capture_output=True, text=True, check=True).stdout
    )
    commands = [
        Command(test["name"], test["cmd"], test["env"])
        for test in known
        if test["name"].startswith(("ipc unseen ", "ipc no counters ", "ipc metric "))
        and test["name"] not in NEED_SPEED
    ]
    files = [SHIM, TESTS / "gomp-test-unseen", TESTS / "papi" / "libpapi.so.7"]
    results = run(DIRECTORY, files, commands, PARALLEL)
    assert len(results) == len(commands) > 50
    failed = {name: result for name, result in results.items() if result.status != 0}
    assert not failed, failed
