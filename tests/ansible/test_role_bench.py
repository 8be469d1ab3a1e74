"""The role bench on this machine: two commands of no length as plain processes, and the report on the controller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BIN, COLLECTION, TIMEOUT_S, Played
from vscaf.lab.polling import until

BENCH = [{"name": "Bench", "ansible.builtin.include_role": {"name": "vscaf.vscaf.bench"}}]
UNINSTALL = [
    {"name": "Bench", "ansible.builtin.include_role": {"name": "vscaf.vscaf.bench", "tasks_from": "uninstall"}}
]


def test_a_bench_is_run_once_and_its_report_fetched(play: Callable[..., Played], archive: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "vscaf_packages_manage": False,
        "vscaf_bench_source": str(archive),
        "vscaf_bench_command": str(BIN / "vscaf"),
        "vscaf_bench_place": "no_vm",
        "vscaf_bench_service": "none",
        "vscaf_bench_directory": str(tmp_path / "bench"),
        "vscaf_bench_fetch_to": str(tmp_path / "fetched"),
        "vscaf_bench_arrangements": ["unmanaged"],
        "vscaf_bench_rounds": 1,
        "vscaf_bench_seconds": 0.2,
        "vscaf_bench_arguments": ["--command", "one=true", "--command", "two=true", "--pairs", "one+two"],
    }
    checked = play(BENCH, "--check", variables=given)
    assert checked.status == 0 and not (tmp_path / "bench").exists(), checked.output
    first = play(BENCH, variables=given)
    assert first.status == 0 and "Run pairs of programs" in first.changed, first.output
    fetched = tmp_path / "fetched/here"
    assert {path.name for path in fetched.iterdir()} == {"report.html", "results.json", "table.csv", "samples.csv"}
    command = json.loads((fetched / "results.json").read_text(encoding="utf-8"))["context"]["command"]
    assert "--command one=true" in command and "--no-vm" in command and "--arrangements unmanaged" in command
    assert play(BENCH, variables=given).changed == () == play(BENCH, "--check", variables=given).changed
    more = play(BENCH, "--check", variables={**given, "vscaf_bench_rounds": 2})
    assert "Run pairs of programs" in more.changed, more.output
    assert play(UNINSTALL, variables=given).changed == ("Remove the directory of the bench",)
    assert not (tmp_path / "bench").exists() and fetched.exists()


def test_two_domains_are_needed(play: Callable[..., Played], tmp_path: Path) -> None:
    done = play(BENCH, variables={"vscaf_bench_domains": ["one"], "vscaf_bench_directory": str(tmp_path / "bench")})
    assert done.status != 0 and "give the two domains of a pair" in done.output
    assert not (tmp_path / "bench").exists()


def test_the_command_for_guests_and_the_users_archive(play: Callable[..., Played]) -> None:
    """Only the arguments: the bench itself needs guests."""
    load = [
        {"name": "Load", "ansible.builtin.include_vars": {"file": "{{ role }}/vars/main.yml"}},
        {"name": "Show", "ansible.builtin.debug": {"msg": "{{ vscaf_bench_argv | join(' ') }}"}},
    ]
    role = COLLECTION / "roles/bench"
    given = yaml.safe_load((role / "defaults/main.yml").read_text(encoding="utf-8"))
    given |= {
        "vscaf_bench_source": "",
        "role": str(role),
        "vscaf_bench_domains": ["cfd", "chemistry"],
        "vscaf_bench_ssh": {"cfd": "root@cfd", "chemistry": "root@chem"},
        "vscaf_bench_npb_archive": "/home/me/NPB3.4.3.tar.gz",
        "vscaf_bench_npb_class": "A",
        "vscaf_bench_pairs": ["cg.A+lu.A", "mg.A+ep.A"],
    }
    done = play(load, variables=given)
    assert (
        "/usr/local/bin/vscaf bench pairs --output /var/lib/vscaf-bench/pairs --existing cfd,chemistry"
        " --uri qemu:///system --ssh cfd=root@cfd --ssh chemistry=root@chem"
        " --npb-source /var/lib/vscaf-bench/NPB3.4.3.tar.gz --class A --pairs cg.A+lu.A,mg.A+ep.A"
        " --rounds 5 --seconds 10"
    ) in done.output


# A vscaf and a systemctl for the role. What they were asked for is in a file beside them.
VSCAF = """#!/bin/sh
here=${0%/*}
echo "bench ${VSCAF_BUILD:+$("$VSCAF_BUILD/host-daemon/pace")}" >>"$here/calls"
while [ -e "$here/wait" ]; do sleep 0.1; done
echo a line, which fails if nobody reads it
touch pairs/report.html pairs/results.json pairs/table.csv pairs/samples.csv
[ ! -e "$here/broken" ]
"""
SYSTEMCTL = """#!/bin/sh
here=${0%/*}
case "$1" in
    show) cat "$here/active" ;;
    *) echo "$*" >>"$here/calls" ;;
esac
"""


class Fakes:
    """Their directory, and the variables of a bench with them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        for name, text in (("vscaf", VSCAF), ("systemctl", SYSTEMCTL)):
            (directory / name).write_text(text, encoding="utf-8")
            (directory / name).chmod(0o755)
        self.systemd_says("inactive")
        self.variables: dict[str, Any] = {
            "vscaf_packages_manage": False,
            "vscaf_bench_source": "",
            "vscaf_bench_command": str(directory / "vscaf"),
            "vscaf_bench_place": "no_vm",
            "vscaf_bench_directory": str(directory / "bench"),
            "vscaf_bench_fetch_to": str(directory / "fetched"),
        }

    def systemd_says(self, state: str) -> None:
        (self.directory / "active").write_text(f"{state}\n", encoding="utf-8")

    def calls(self) -> list[str]:
        path = self.directory / "calls"
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def source(self, name: str) -> str:
        """An archive whose pace prints its name."""
        program = self.directory / "pace.c"
        program.write_text(f'#include <stdio.h>\nint main(void)\n{{\n    puts("{name}");\n}}\n', encoding="utf-8")
        archive = self.directory / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(program, "host-daemon/pace.c")
        return str(archive)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    made = Fakes(tmp_path / "fakes")
    monkeypatch.setenv("PATH", f"{made.directory}:{os.environ['PATH']}")
    return made


def test_the_c_programs_of_a_bench_are_those_of_its_source(play: Callable[..., Played], fakes: Fakes) -> None:
    """Without a source, those of the packages: nothing may be in their place."""
    for rounds, name in enumerate(("one", "two"), start=1):
        given = {**fakes.variables, "vscaf_bench_source": fakes.source(name), "vscaf_bench_rounds": rounds}
        done = play(BENCH, variables=given)
        assert done.status == 0, done.output
    assert fakes.calls() == ["bench one", "bench two"]
    workloads = (fakes.directory / "bench").glob("build-*/images/*")
    assert [path.readlink() for path in workloads] == [Path("/usr/libexec/vscaf/npb")] * 2
    done = play(BENCH, variables={**fakes.variables, "vscaf_bench_rounds": 3})
    assert done.status == 0, done.output
    assert fakes.calls()[2:] == ["bench"] and not (fakes.directory / "bench/build").exists()


def test_the_daemon_is_stopped_meanwhile(play: Callable[..., Played], fakes: Fakes) -> None:
    fakes.systemd_says("active")
    (fakes.directory / "broken").touch()
    assert play(BENCH, variables=fakes.variables).status != 0
    assert fakes.calls() == ["stop vscaf", "bench", "start vscaf"]


def test_the_daemon_comes_back_when_the_connection_breaks(play: Callable[..., Played], fakes: Fakes) -> None:
    fakes.systemd_says("active")
    role, found = COLLECTION / "roles/bench", fakes.directory / "run.json"
    given = yaml.safe_load((role / "defaults/main.yml").read_text(encoding="utf-8")) | fakes.variables
    write = [
        {"name": "Load", "ansible.builtin.include_vars": {"file": f"{role}/vars/main.yml"}},
        {
            "name": "Write",
            "ansible.builtin.copy": {"content": "{{ vscaf_bench_run | to_json }}", "dest": str(found), "mode": "0644"},
        },
    ]
    assert play(write, variables=given).status == 0
    (fakes.directory / "wait").touch()
    (fakes.directory / "pairs").mkdir()
    session = subprocess.Popen(
        ["/bin/sh", "-c", '"$@"; :', "sh", *json.loads(found.read_text(encoding="utf-8"))],
        cwd=fakes.directory,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until(lambda: fakes.calls() == ["stop vscaf", "bench"], lambda: f"{fakes.calls()}", TIMEOUT_S)
    finally:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):  # as sshd and sudo end what they have started
            os.killpg(session.pid, number)
        assert session.stdout is not None
        session.stdout.close()
        session.wait()
        (fakes.directory / "wait").unlink()
    until(lambda: fakes.calls()[2:] == ["start vscaf"], lambda: f"{fakes.calls()}", TIMEOUT_S)
