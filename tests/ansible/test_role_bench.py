"""The role bench on this machine: two commands of no length as plain processes, and the report on the controller."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from conftest import BIN, COLLECTION, Played

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
