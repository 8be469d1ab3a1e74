"""systemd accepts the daemon's unit file."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "host-daemon" / "service" / "vscaf.service"


def test_systemd_has_nothing_to_say_of_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not checked")
    unit = tmp_path / "vscaf.service"  # with a program that exists
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("=vscaf ", f"={sys.executable} "), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def settings_of_the_unit() -> list[tuple[str, str]]:
    return re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


def test_as_long_as_libvirt_does_not_answer_it_is_started_again() -> None:
    settings = dict(settings_of_the_unit())
    assert settings["RestartPreventExitStatus"].split() == ["1", "2"]
    assert str(os.EX_UNAVAILABLE) not in settings["SuccessExitStatus"].split()
    assert settings["Restart"] == "on-failure" and settings["StartLimitIntervalSec"] == "0"


def test_a_hand_over_is_no_failure_and_starts_the_next_daemon() -> None:
    settings = settings_of_the_unit()
    assert ("Type", "notify") in settings and ("Restart", "on-failure") in settings
    for name in ("SuccessExitStatus", "RestartForceExitStatus"):
        assert (name, str(os.EX_TEMPFAIL)) in settings
