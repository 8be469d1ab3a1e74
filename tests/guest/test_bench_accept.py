"""`vscaf bench accept` from its command line to the file to send back, on this machine."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from vscaf.lab.private_libvirt import RUN_PREFIX
from vscaf.lab.processes import sees_mounts_of

from .conftest import HANGS_S, IMAGE, REPOSITORY

pytestmark = pytest.mark.guest

PARTS = ("unplug", "counters", "siblings", "splits")
LOGS = ("libvirtd.log", "vscaf-daemon.log")


def labs(report: dict[str, Any]) -> set[Path]:
    """The directories of the labs that the parts used."""
    commands = "\n".join(command for one in report["results"] for command in one["commands"])
    return {Path(path) for path in re.findall(rf"(/\S*/{RUN_PREFIX}\w+)/", commands)}


def processes_of(lab: Path) -> list[str]:
    """Processes in the lab's mount namespace: its libvirtd, virtlogd and QEMUs."""
    return [path.name for path in Path("/proc").glob("[0-9]*") if sees_mounts_of(int(path.name), lab)]


@pytest.mark.long
def test_every_part_passes_or_says_why_it_is_not_possible(tmp_path: Path) -> None:
    output = tmp_path / "accept"
    done = subprocess.run(
        [sys.executable, "-m", "vscaf", "bench", "accept", "--image", str(IMAGE), "--output", str(output)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"Send back {output}/vscaf-accept.tar.gz" in done.stdout

    with tarfile.open(output / "vscaf-accept.tar.gz") as tar:
        files = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    report = json.loads(files["accept.json"])
    assert [one["part"] for one in report["results"]] == list(PARTS)
    assert report["command"].startswith("vscaf bench accept --parts all")
    assert {"cpu", "cpus", "cores", "kernel", "system", "guests"} <= report["machine"].keys()
    assert {"vscaf", "QEMU", "libvirt", "python", "guest kernel"} <= report["versions"].keys()
    for one in report["results"]:
        assert one["outcome"] in ("passed", "not possible here"), one
        assert len(one["reason"]) > 10, one
        if one["took_s"] > 0:  # it ran
            assert one["figures"] and one["commands"], one
            assert "appeared" in [event["kind"] for event in one["events"]], one
    for part in ("unplug", "counters"):
        assert {f"logs/{part}/{log}" for log in LOGS} <= files.keys()
    assert {f"logs/unplug/{guest}.console.log" for guest in ("grows", "other")} <= files.keys()

    results = {one["part"]: one for one in report["results"]}
    assert results["unplug"]["figures"]["phases"][0]["look"]["vcpus"] > 1, "a vCPU was plugged"
    if report["machine"]["guests"] == "TCG":
        assert "without KVM" in results["unplug"]["reason"]
        assert '"counters": false' in results["counters"]["reason"]

    name = re.compile(rf"(?<![A-Za-z0-9]){re.escape(socket.gethostname())}(?![A-Za-z0-9])".encode(), re.IGNORECASE)
    assert [file for file, content in files.items() if name.search(content)] == []

    used = labs(report)
    assert len(used) >= 2, "one for each part that ran"
    assert [(lab, processes_of(lab)) for lab in used if lab.exists() or processes_of(lab)] == [], "nothing is left"


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vscaf", "bench", "accept", "--parts", "pmu", "--output", str(tmp_path / "accept")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == 2 and "there is no part pmu" in done.stderr
    assert not (tmp_path / "accept").exists()
