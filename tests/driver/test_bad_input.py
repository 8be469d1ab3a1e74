"""Bad input gives a one-line error that says what is wrong and what to do, exit status 2, and changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from vscaf.lab.polling import HANG_S

from .node import write_node

# The test driver's host has CPUs 0, 2 and 4 online, whatever its XML contains.
GOOD = 'uri = "{uri}"\npool = "0,2"\nstate_directory = "{state}"\ncontrol_socket = "{state}/control.sock"\n'
CASES = {
    "unknown key": (GOOD + "colour = 1\n[domains.a]\n", ["colour", "--help-config"]),
    "unknown key in a domain": (GOOD + "[domains.a]\ncolour = 1\n", ["colour", "domains"]),
    "pool outside the host": (
        GOOD.replace('pool = "0,2"', 'pool = "0,6"') + "[domains.a]\n",
        ["pool", "CPU 6", "not online", "name only"],
    ),
    "pool is no list": (GOOD.replace('pool = "0,2"', 'pool = "0-"') + "[domains.a]\n", ["pool", "0-", "write it like"]),
    "empty pool": (GOOD.replace('pool = "0,2"', 'pool = ""') + "[domains.a]\n", ["pool", "write it like"]),
    "no such domain": (GOOD + "[domains.nobody]\n", ["nobody", "virsh list --all"]),
    "minimum above maximum": (GOOD + "[domains.a]\nminimum = 3\nmaximum = 2\n", ["domain a", "3", "2", "lower"]),
    "minimum is zero": (GOOD + "[domains.a]\nminimum = 0\n", ["minimum", ">= 1"]),
    "no such policy": (GOOD + '[policy]\nname = "best"\n[domains.a]\n', ["best", "max-speedup"]),
    "options that the policy refuses": (
        GOOD + '[policy]\nname = "static"\n[domains.a]\n',
        ["policy static", "allocations", "set it"],
    ),
    "not TOML": (GOOD + "[domains.a\n", ["not TOML", "fix that line"]),
    "a number where words go": (GOOD.replace('"0,2"', "2") + "[domains.a]\n", ["pool", "Expected `str`"]),
}


def run_daemon(config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from vscaf.cli.main import main; main()", "daemon", "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def assert_one_line(done: subprocess.CompletedProcess[str], expected: list[str], status: int = 2) -> None:
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("vscaf: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for word in expected:
        assert word in done.stderr


@pytest.mark.parametrize("case", CASES)
def test_bad_input(case: str, tmp_path: Path) -> None:
    text, expected = CASES[case]
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})
    state = tmp_path / "state"
    config = tmp_path / "vscaf.toml"
    config.write_text(text.replace("{uri}", uri).replace("{state}", str(state)), encoding="utf-8")
    assert_one_line(run_daemon(config), expected)
    assert not state.exists()


def test_without_libvirt_it_ends_with_a_status_after_which_the_service_starts_it_again(tmp_path: Path) -> None:
    state = tmp_path / "state"
    config = tmp_path / "vscaf.toml"
    uri = f"qemu+unix:///system?socket={tmp_path}/absent"
    config.write_text(GOOD.replace("{uri}", uri).replace("{state}", str(state)), encoding="utf-8")
    expected = ["libvirt at qemu+unix", "check that libvirtd runs"]
    assert_one_line(run_daemon(config), expected, os.EX_UNAVAILABLE)
    assert not state.exists()


def test_unreadable_config(tmp_path: Path) -> None:
    assert_one_line(run_daemon(tmp_path / "absent.toml"), ["absent.toml", "No such file", "--config"])
    assert_one_line(run_daemon(tmp_path), ["Is a directory", "--config"])


def test_status_without_daemon(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from vscaf.cli.main import main; main()", "status", "--socket", f"{tmp_path}/s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is `vscaf daemon` running" in done.stderr
