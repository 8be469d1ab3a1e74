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
FREE, OWN = 1, 3
# The sections that are not proven. is, lu and lu-hp declare themselves, so these sections are resized too. In bt and sp
# it is a section that runs once.
LU = {"time_step", "lu_set_forcing", "lu_residual"}
START = {"flow_set_start"}
OWN_NUMBER = {"is": {"rank"}, "lu": LU, "lu-hp": LU, "bt": START, "sp": START}


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
    verdicts = {OWN: set(), FREE: set()}
    for section in told["sections"]:
        verdicts[section["verdict"]].add(section["name"].partition(".")[0])
    assert verdicts[OWN] == OWN_NUMBER.get(name, set())
    assert told["samples_resized"] > 0, told
