"""The playbook test_host: a minimal Debian becomes a test host, whose lab guests run a pair of NPB programs.

That is for `make check-ansible-site`: it needs root, debootstrap, Debian's mirror and PyPI, and builds all of vscaf
there. The other test builds made-up sources on this machine.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Played
from roots import by_chroot, debian, overlay

HANG_S = 7200.0
# What a made-up source builds as the command vscaf: the report of a bench has the name of the source.
MAKEFILE = """image:
	mkdir -p build/venv/bin build/image
	cp vscaf build/venv/bin
	touch build/image/current
"""
VSCAF = """#!/bin/sh
for file in report.html results.json table.csv samples.csv; do echo NAME >"pairs/$file"; done
"""


@pytest.fixture
def system() -> Iterator[Path]:
    """Debian 12 in a directory on a disk, because it gets a few GB."""
    lower = debian(ROOT / "build" / "ansible-roots", "bookworm")
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch, overlay(lower, Path(scratch)) as root:
        yield root


@pytest.mark.skipif("VSCAF_ANSIBLE_SITE" not in os.environ, reason="only make check-ansible-site sets it")
@pytest.mark.timeout(3 * HANG_S)
def test_a_pair_is_run_and_its_report_is_fetched(
    play: Callable[..., Played], system: Path, archive: Path, tmp_path: Path
) -> None:
    given = {
        "vscaf_host_source": str(archive),
        "vscaf_bench_shipped": ["cg.S", "ep.S"],
        "vscaf_bench_pairs": ["cg.S+ep.S"],
        "vscaf_bench_quick": True,
        "vscaf_bench_fetch_to": str(tmp_path / "fetched"),
    }
    inventory = {"vscaf_test_hosts": {"hosts": {"there": by_chroot(system)}}}
    checked = play("test_host.yml", "--check", variables=given, inventory=inventory, hang_s=HANG_S)
    assert checked.status == 0, checked.output
    done = play("test_host.yml", variables=given, inventory=inventory, hang_s=HANG_S)
    assert done.status == 0 and "Run pairs of programs" in done.changed, done.output
    results = json.loads((tmp_path / "fetched/there/results.json").read_text(encoding="utf-8"))
    assert "--pairs cg.S+ep.S" in results["context"]["command"]
    for options in ((), ("--check",)):
        again = play("test_host.yml", *options, variables=given, inventory=inventory, hang_s=HANG_S)
        assert again.status == 0 and again.changed == (), again.output


def made_up(directory: Path, name: str) -> str:
    """An archive of a source with this name."""
    files = {"Makefile": MAKEFILE, "vscaf": VSCAF.replace("NAME", name), "host-daemon/pace.c": "int main(void) {}\n"}
    archive = directory / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path, text in files.items():
            file = directory / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755)
            tar.add(file, path)
    return str(archive)


@pytest.mark.skipif(os.geteuid() != 0, reason="the playbook gives the source to root")
def test_another_source_is_built_and_measured(play: Callable[..., Played], tmp_path: Path) -> None:
    """Also if the play of a source has ended before all of it was unpacked."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    given = {
        "vscaf_packages_manage": False,
        "vscaf_test_host_directory": str(tmp_path / "there"),
        "vscaf_bench_fetch_to": str(tmp_path / "fetched"),
    }

    def run(name: str, *options: str) -> Played:
        done = play(
            "test_host.yml",
            "--start-at-task=Look at the archive",  # after that which installs packages
            *options,
            variables={**given, "vscaf_host_source": sources[name]},
            inventory={"vscaf_test_hosts": {"hosts": {"here": here}}},
        )
        assert done.status == 0, done.output
        return done

    sources = {name: made_up(tmp_path, name) for name in ("older", "newer")}
    for name in sources:
        assert "Build vscaf and the guests' image" in run(name).changed
        assert (tmp_path / "fetched/here/results.json").read_text(encoding="utf-8") == f"{name}\n"
        assert run(name).changed == () == run(name, "--check").changed
    (tree,) = (tmp_path / "there").iterdir()
    for path in ("vscaf", "build/image/current"):
        (tree / path).unlink()
    assert "Unpack the source" in run("newer").changed and (tree / "vscaf").exists()
