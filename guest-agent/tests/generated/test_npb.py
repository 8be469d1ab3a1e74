"""The shipped benchmark programs, while their teams change: each verifies and is resized."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from attempt import Tools, clean_environment

BUILD = Path(os.environ["VSCAF_BUILD"])
FREE, UP_TO, OWN = 1, 2, 3
OWN_NUMBER = {"is": {"rank"}}  # by its code; the program declares itself, so it is resized too
UP_TO_TOLD = {"lu": {"time_step"}}


@pytest.mark.parametrize("name", ["bt", "cg", "ep", "ft", "is", "lu", "lu-hp", "mg", "sp"])
def test_it_verifies_and_is_resized(name: str, tmp_path: Path) -> None:
    tools, report = Tools.of(BUILD), tmp_path / "report"
    words = ["--told", "4", "--limit", "6", "--every", "5", "--known", "--hang", "300"]
    done = subprocess.run(
        [tools.driver, "--shim", tools.shim, "--report", report, *words, "--", BUILD / "images/npb" / f"{name}.S"],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
    )
    told: dict[str, Any] = json.loads(report.read_text())
    assert done.returncode == 0 and "SUCCESSFUL" in done.stdout, (done.returncode, done.stdout, done.stderr, told)
    assert told["joined"] and told["changes"] > 0 and told["asked"] == 0  # all verdicts were known when it joined
    verdicts = {OWN: set(), UP_TO: set(), FREE: set()}
    for section in told["sections"]:
        verdicts[section["verdict"]].add(section["name"].partition(".")[0])
    assert verdicts[OWN] == OWN_NUMBER.get(name, set())
    assert verdicts[UP_TO] == UP_TO_TOLD.get(name, set())
    assert told["samples_resized"] > 0
