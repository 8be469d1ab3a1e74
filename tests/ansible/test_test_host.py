"""The playbook test_host: a minimal Debian becomes a test host, whose lab guests run a pair of NPB programs.

For `make check-ansible-site`. Needs root, debootstrap, Debian's mirror and PyPI. It builds all of vscaf there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Played
from roots import by_chroot, debian, overlay

HANG_S = 7200.0
pytestmark = [
    pytest.mark.skipif("VSCAF_ANSIBLE_SITE" not in os.environ, reason="only make check-ansible-site sets it"),
    pytest.mark.timeout(3 * HANG_S),
]


@pytest.fixture
def system() -> Iterator[Path]:
    """Debian 12 in a directory on a disk, because it gets a few GB."""
    lower = debian(ROOT / "build" / "ansible-roots", "bookworm")
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch, overlay(lower, Path(scratch)) as root:
        yield root


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
