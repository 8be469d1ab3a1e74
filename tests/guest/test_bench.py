"""`vscaf bench` with real guests: each of its commands in guests of its own, programs from an NPB archive, and guests
that run already."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import npb_tree
import pytest
from npb_tree import FORTRAN_PROGRAM
from vscaf.bench.places.lab import WORKLOADS, image_with
from vscaf.bench.workloads.programs import needed_libraries
from vscaf.bench.workloads.workload import Workload
from vscaf.cpulist import format_cpu_list
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.polling import until

from .conftest import HANGS_S, IMAGE, POOL, POOL_LIST, REPOSITORY, Pair, unique
from .test_channel import ports

# Beside a busy program each run counts as disturbed, and is made three times.
PATIENCE_S = 3 * HANGS_S
pytestmark = [pytest.mark.guest, pytest.mark.long, pytest.mark.timeout(PATIENCE_S)]

QEMU_GUEST_AGENT = "org.qemu.guest_agent.0"
# The guest agent needs the directory for its state, and its port by the number that the kernel gave it.
START_GUEST_AGENT = f"""
mkdir -p /var/tmp /var/run
for name in /sys/class/virtio-ports/*/name; do
    [ "$(cat $name)" = {QEMU_GUEST_AGENT} ] && port=/dev/$(basename $(dirname $name))
done
[ -n "$port" ] || exit 1
cd {WORKLOADS} && exec setsid env LD_LIBRARY_PATH=lib ./qemu-ga -m virtio-serial -p $port -t /var/run -d
"""


def bench(output: Path, *options: str, command: str = "pairs") -> subprocess.CompletedProcess[str]:
    """Runs a command of `vscaf bench` with --quick."""
    quick = [sys.executable, "-m", "vscaf", "bench", command, "--quick", "--image", str(IMAGE)]
    return subprocess.run(
        [*quick, "--output", str(output), *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def arrangements(output: Path, pair: list[str]) -> dict[str, Any]:
    """The figures of a pair, by arrangement."""
    figures = json.loads((output / "results.json").read_text())["figures"]
    (group,) = [one for one in figures["groups"] if one["workloads"] == pair]
    return {one["arrangement"]: one for one in group["arrangements"]}


def test_programs_from_an_npb_archive_run_in_guests(tmp_path: Path) -> None:
    npb_tree.npb_tree(tmp_path / "NPB3.4.2", "3.4", {"CG": FORTRAN_PROGRAM})
    archive = npb_tree.pack(tmp_path / "NPB3.4.2", tmp_path / "NPB3.4.2.tar.gz")
    kinds = ["unmanaged", "static", "max-speedup-fitted"]
    done = bench(tmp_path / "out", "--npb-source", str(archive), "--class", "S", "--arrangements", ",".join(kinds))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = arrangements(tmp_path / "out", ["cg.S", "cg.S"])
    assert set(found) == set(kinds) and all(one["verified"] for one in found.values())
    assert all(speedup["value"] > 0 for one in found.values() for speedup in one["speedups"])


TREE = "uts-geometric.S"


@pytest.mark.parametrize(
    ("command", "options", "group"),
    [
        ("triple", ["--shipped", "ep.S"], ["ep.S"] * 3),
        ("oracle", ["--shipped", "ep.S"], ["ep.S"] * 2),
        ("overhead", ["--shipped", "ep.S"], ["ep.S"]),
        ("barrier", [], ["barrier.S"] * 2),
        ("coming-going", ["--large", TREE, "--medium", TREE, "--small", TREE, "--scale", "0.1"], [TREE] * 4),
    ],
)
def test_each_further_command_measures_in_guests(
    tmp_path: Path, command: str, options: list[str], group: list[str]
) -> None:
    kinds = ["passive", "unmanaged", "max-speedup-fitted"] + (["static"] if command in {"oracle", "barrier"} else [])
    done = bench(tmp_path / "out", *options, command=command)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = arrangements(tmp_path / "out", group)
    assert set(found) == set(kinds) and all(one["verified"] for one in found.values())


@pytest.fixture
def reachable(shared_lab: PrivateLibvirt) -> Iterator[Pair]:
    """Two guests with a QEMU guest agent."""
    program = Path(shutil.which("qemu-ga", path="/usr/sbin:/usr/bin") or pytest.fail("qemu-guest-agent is missing"))
    libraries = {f"lib/{name}": path for name, path in needed_libraries(program).items()}
    agent = Workload("qemu-ga", "", {"qemu-ga": program, **libraries})
    with ExitStack() as stack:
        image = image_with(IMAGE, [agent], shared_lab.directory / "image-with-guest-agent")
        guests = [
            stack.enter_context(Guest(shared_lab, unique(name), image, vcpus=2, cpuset=POOL_LIST))
            for name in ("one", "other")
        ]
        for guest in guests:
            source = shared_lab.socket_path(f"{guest.name}.qga")
            guest.domain.attachDevice(
                f"<channel type='unix'><source mode='bind' path='{source}'/>"
                f"<target type='virtio' name='{QEMU_GUEST_AGENT}'/></channel>"
            )
            until(lambda guest=guest: QEMU_GUEST_AGENT in ports(guest), "the guest has the port")
            started = guest.run(START_GUEST_AGENT)
            assert started.status == 0, started.text
            connected = f"name='{QEMU_GUEST_AGENT}' state='connected'"
            until(lambda guest=guest, text=connected: text in guest.domain.XMLDesc(), "libvirt hears the guest agent")
        yield guests[0], guests[1]


def test_guests_that_run_already_are_measured_and_left_as_they_were(
    shared_lab: PrivateLibvirt, reachable: Pair, tmp_path: Path
) -> None:
    names = ",".join(guest.name for guest in reachable)
    existing = ["--existing", names, "--uri", shared_lab.uri, "--shipped", "ep.S", "--pairs", "ep.S+ep.S"]
    kinds = ["passive", "unmanaged", "pinned", "max-speedup-fitted"]
    before = [guest.domain.vcpuPinInfo() for guest in reachable]
    done = bench(tmp_path / "out", *existing, "--arrangements", ",".join(kinds))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = arrangements(tmp_path / "out", ["ep.S", "ep.S"])
    assert set(found) == set(kinds) and all(one["verified"] for one in found.values())
    assert f"on 2 pCPUs ({format_cpu_list(POOL)})" in done.stdout

    refused = bench(tmp_path / "static", *existing, "--arrangements", "unmanaged,static")
    assert refused.returncode == 1 and "leave static out" in refused.stderr, refused.stdout + refused.stderr

    assert [guest.domain.vcpuPinInfo() for guest in reachable] == before
    for guest in reachable:
        assert guest.run("cat /sys/devices/system/cpu/online; ls /var/tmp").text.split() == ["0-1"]
