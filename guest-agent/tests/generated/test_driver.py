"""The scripted agent of the generated programs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from attempt import Tools

OWN, FREE = 3, 1
NO_OBJECT = 1


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools.of(Path(os.environ["VSCAF_BUILD"]))


def drive(tools: Tools, report: Path, *words: str) -> tuple[int, str, dict[str, object]]:
    done = subprocess.run(
        [str(tools.driver), "--report", str(report), *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, json.loads(report.read_text())


@pytest.mark.parametrize("known", [[], ["--known"]])
def test_it_answers_as_an_agent(tools: Tools, tmp_path: Path, known: list[str]) -> None:
    asker = str(tools.driver.with_name("generated-asker"))
    options = ["--told", "3", "--limit", "5", "--every", "2", *known, "--", asker]
    status, output, report = drive(tools, tmp_path / "report", *options)
    lines = output.splitlines()
    assert status == report["status"] == 3
    assert lines[0].startswith("told 3 limit 5 known ")
    # It is a function of a file, but no section.
    assert lines[1].startswith(f"own code: verdict {OWN} ")
    assert lines[2] == f"no file: verdict {OWN} reason {NO_OBJECT}"
    assert lines[3] == f"libc: verdict {OWN} reason {NO_OBJECT}"
    assert lines[4:] == ["changes"]
    assert report["joined"] and not report["hung"] and report["asked"] == 3
    assert isinstance(report["changes"], int) and report["changes"] >= 10


def test_all_sections_may_count_as_free(tools: Tools, tmp_path: Path) -> None:
    asker = str(tools.driver.with_name("generated-asker"))
    _, output, _ = drive(tools, tmp_path / "report", "--told", "3", "--limit", "5", "--all-free", "--", asker)
    assert output.count(f"verdict {FREE} reason 0") == 3


def test_a_program_that_hangs_is_killed(tools: Tools, tmp_path: Path) -> None:
    status, _, report = drive(tools, tmp_path / "report", "--hang", "0.2", "--", "/bin/sleep", "600")
    assert status == 124
    assert report["hung"] and not report["joined"]


def test_a_program_that_crashes_is_told_by_its_signal(tools: Tools, tmp_path: Path) -> None:
    status, _, report = drive(tools, tmp_path / "report", "--", "/bin/sh", "-c", "kill -SEGV $$")
    assert status == 128 + 11
    assert not report["hung"]
