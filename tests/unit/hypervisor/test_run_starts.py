"""When a run began. The time comes from the file that libvirt's QEMU driver keeps during the run."""

import os
from pathlib import Path

import pytest
from vscaf.hypervisor.libvirt.run_starts import RunStarts


def test_each_run_has_a_start_of_its_own(tmp_path: Path) -> None:
    starts = RunStarts(f"qemu+unix:///system?socket={tmp_path}/libvirt-sock")
    assert starts.started_ns("a") == 0, "it does not run"
    (tmp_path / "qemu").mkdir()
    file = tmp_path / "qemu" / "a.pid"
    seen = set()
    for second in range(3):
        file.write_text("1", encoding="utf-8")
        os.utime(file, ns=(second, 10**18 + second))
        seen.add(starts.started_ns("a"))
        assert starts.started_ns("a") in seen
        file.unlink()
    assert len(seen) == 3 and 0 not in seen
    assert starts.started_ns("b") == starts.started_ns("a\0") == 0


@pytest.mark.parametrize(
    "uri", ["test:///default", "qemu:///session", "qemu+ssh://host/system", "qemu://host/system", "xen:///system"]
)
def test_of_other_hosts_and_drivers_none_is_known(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vscaf.hypervisor.libvirt.run_starts.SYSTEM", tmp_path)
    (tmp_path / "qemu").mkdir()
    (tmp_path / "qemu" / "a.pid").write_text("1", encoding="utf-8")
    assert RunStarts(uri).started_ns("a") == 0
    assert RunStarts("qemu:///system").started_ns("a") > 0
