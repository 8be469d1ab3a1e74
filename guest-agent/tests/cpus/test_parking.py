"""Surplus CPUs are parked by cpuset or offlined, on trees of plain files. tests/guest shows what real kernels do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from rig import AGENT, DEADLINE_S, HANGS_MS, NEVER, Rig, replace, wait_for_log, wait_until

GROUP = "vscaf.parked"


class Tree:
    """A cgroup tree of plain files. A write to a plain file replaces its first bytes and keeps the rest."""

    def __init__(self, rig: Rig, version: int = 2, release: str = "6.8.0-31-generic") -> None:
        self.rig = rig
        self.root = rig.directory / "cgroup"
        self.group = self.root / GROUP
        self.group.mkdir(parents=True)
        (rig.proc / "self").mkdir()
        kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,cpuset"
        (rig.proc / "self" / "mountinfo").write_text(f"30 1 0:26 / {self.root} rw - {kind}\n")
        (rig.proc / "sys" / "kernel").mkdir(parents=True)
        (rig.proc / "sys" / "kernel" / "osrelease").write_text(release + "\n")
        (self.root / "cgroup.controllers").write_text("cpuset cpu\n")
        (self.root / "cgroup.subtree_control").write_text("")
        (self.root / "cpuset.cpus.effective").write_text("0\n")  # other groups have lost all CPUs that can be parked
        for name in ("cgroup.subtree_control", "cpuset.cpus", "cpuset.cpus.partition"):
            (self.group / name).write_text("")

    def state(self) -> str:
        """ "isolated", or "member" and the rest of a longer old content."""
        return (self.group / "cpuset.cpus.partition").read_text()

    def parked(self) -> str:
        return (self.group / "cpuset.cpus").read_text()


def offlined(rig: Rig) -> bool:
    return rig.online() != [0, 1, 2, 3]


def test_parks_by_cpuset_and_brings_back(rig: Rig) -> None:
    tree = Tree(rig)
    rig.start("--park", "cpuset")
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of all CPUs")
    assert rig.ack(rig.allocate(2))["online"] == [0, 1]
    assert (tree.parked(), tree.state()) == ("2-3", "isolated") and not offlined(rig)
    assert (tree.root / "cgroup.subtree_control").read_text() == "+cpuset"
    assert (tree.group / "cgroup.subtree_control").read_text() == "+cpuset", "else systemd may disable it above"
    assert program.team() == 2 and rig.message("report")["online"] == [0, 1]
    assert rig.ack(rig.allocate(3))["online"] == [0, 1, 2]
    assert tree.parked().startswith("3")
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2, 3]
    assert tree.state().startswith("member") and program.team() == 4


def test_order_is_team_then_sections_then_cpus(rig: Rig) -> None:
    tree = Tree(rig)
    rig.start("--park", "cpuset")
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of 4")
    program.say("begin")
    sequence = rig.allocate(1, deadline_ms=HANGS_MS)
    wait_until(lambda: program.team() == 1, "the smaller team before anything else")
    rig.fresh()
    for _ in range(4):
        assert rig.message("report")["online"] == [0, 1, 2, 3]
    assert tree.state() == "member", "parked under a section in flight"
    program.say("end 1000")
    ack = rig.ack(sequence)
    assert ack["online"] == [0] and ack["sections_ended"] and tree.parked() == "1-3"


def test_parked_for_long_is_offlined_and_comes_back(rig: Rig) -> None:
    tree = Tree(rig)
    rig.start()  # --park auto
    assert rig.ack(rig.allocate(2))["online"] == [0, 1] and not offlined(rig)
    wait_until(lambda: rig.online() == [0, 1], "offline after it was parked for long")  # test_orders.c checks when
    assert tree.state() == "isolated" and tree.parked() == "2-3", "without it they would come back online unparked"
    assert rig.message("report", lambda r: r["online"] == [0, 1])
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2, 3] == rig.online()
    assert tree.state().startswith("member")


def test_auto_where_the_kernel_forgets_affinity(rig: Rig) -> None:
    tree = Tree(rig, release="6.1.0-56-cloud-amd64")
    rig.start()
    assert rig.ack(rig.allocate(2))["online"] == [0, 1] == rig.online()
    assert tree.state() == "member", "the old partition is given up, and nothing is parked"


@pytest.mark.parametrize("way", ["auto", "cpuset"])
def test_version_1_offlines(rig: Rig, way: str) -> None:
    tree = Tree(rig, version=1)
    rig.start("--park", way)
    assert rig.ack(rig.allocate(2))["online"] == [0, 1] == rig.online()
    assert tree.state() == ""
    assert ("there is no cgroup version 2" in rig.log.read_text()) == (way == "cpuset")


def test_park_offline_parks_nothing(rig: Rig) -> None:
    tree = Tree(rig)
    (tree.group / "cpuset.cpus.partition").write_text("isolated")
    rig.start("--park", "offline")
    assert rig.ack(rig.allocate(2))["online"] == [0, 1] == rig.online()
    assert tree.state().startswith("member"), "another agent's partition is given up"


def break_invalid(tree: Tree) -> str:
    # Longer than the word that the agent writes over its beginning.
    (tree.group / "cpuset.cpus.partition").write_text("isolated invalid (Cpu list in cpuset.cpus not exclusive)")
    return "invalid (Cpu list"


def break_effective(tree: Tree) -> str:
    (tree.root / "cpuset.cpus.effective").write_text("0-3\n")
    return "left to others: 0-3"


def break_no_effective(tree: Tree) -> str:
    (tree.root / "cpuset.cpus.effective").unlink()
    return "cpuset.cpus.effective of the root"


def break_cpus(tree: Tree) -> str:
    (tree.group / "cpuset.cpus").unlink()
    (tree.group / "cpuset.cpus").symlink_to("/dev/full")
    return "vscaf.parked/cpuset.cpus: No space left"


def break_partition(tree: Tree) -> str:
    (tree.group / "cpuset.cpus.partition").unlink()
    return "cpuset.cpus.partition: No such file"


def break_enable(tree: Tree) -> str:
    (tree.root / "cgroup.subtree_control").unlink()
    return "+cpuset to cgroup.subtree_control"


def break_group(tree: Tree) -> str:
    tree.group.rename(tree.root / "away")
    tree.group.write_text("a file where the group should be")
    return "Not a directory"


@pytest.mark.parametrize(
    "damage",
    [break_invalid, break_effective, break_no_effective, break_cpus, break_partition, break_enable, break_group],
)
def test_falls_back_to_offline_with_words(rig: Rig, damage: object) -> None:
    tree = Tree(rig)
    assert callable(damage)
    words = damage(tree)
    rig.start("--park", "cpuset")
    for cpus, online in ((2, [0, 1]), (4, [0, 1, 2, 3]), (1, [0])):
        assert rig.ack(rig.allocate(cpus))["online"] == online == rig.online()
    text = rig.log.read_text()
    assert text.count("cannot be parked by cpuset") == 1 and words in text, text


def test_partition_that_is_lost_later(rig: Rig) -> None:
    tree = Tree(rig)
    rig.start("--park", "cpuset")
    assert rig.ack(rig.allocate(2))["online"] == [0, 1] and not offlined(rig)
    replace(tree.group / "cpuset.cpus.partition", "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n")
    wait_until(lambda: rig.online() == [0, 1], "the CPUs that are no longer parked to be offlined")
    assert rig.message("report", lambda r: r["online"] == [0, 1])
    wait_for_log(rig, "says isolated invalid (Cpu list")
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2, 3]


def test_next_agent_takes_over_what_is_parked(rig: Rig) -> None:
    tree = Tree(rig)
    rig.start("--park", "cpuset")
    rig.ack(rig.allocate(2))
    assert rig.process is not None
    rig.process.kill()
    rig.process.wait()
    rig.start("--park", "cpuset")
    assert rig.message("report")["online"] == [0, 1], "a CPU that an earlier agent parked is not online"
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2, 3]
    assert tree.state().startswith("member")


def test_without_a_host_nothing_stays_parked(rig: Rig) -> None:
    tree = Tree(rig)
    (tree.group / "cpuset.cpus.partition").write_text("isolated")
    (tree.group / "cpuset.cpus").write_text("2-3")
    rig.start("--standalone")
    program = rig.join()
    wait_until(lambda: program.team() == 4, "all CPUs")
    assert tree.state() == "membered", "member written over isolated"


def test_sigterm_gives_parked_cpus_back(rig: Rig) -> None:
    tree = Tree(rig)
    rig.start("--park", "cpuset")
    rig.ack(rig.allocate(2))
    assert rig.stop() == 0
    assert tree.state().startswith("member") and not offlined(rig)


def test_whole_cores_leave(rig: Rig) -> None:
    for number in range(4):
        (rig.cpus / f"cpu{number}" / "topology").mkdir()
        (rig.cpus / f"cpu{number}" / "topology" / "core_cpus_list").write_text(f"{number % 2},{number % 2 + 2}\n")
    rig.start()
    assert rig.ack(rig.allocate(2))["online"] == [0, 2] == rig.online()
    assert rig.ack(rig.allocate(3))["online"] == [0, 1, 2] == rig.online()


def test_slow_switch_holds_up_nothing(rig: Rig) -> None:
    """A CPU's file is a full pipe, so a write to it waits forever. Joins and reports go on."""
    slow = rig.cpus / "cpu3" / "online"
    rig.start()
    rig.message("report")
    slow.unlink()
    os.mkfifo(slow)
    # The agent also reads this pipe, and a reader needs a process that could write. When it is full, a write waits.
    keep = os.open(slow, os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(keep, b"1" * 4096)
    except BlockingIOError:
        pass
    sequence = rig.allocate(3)
    program = rig.join()
    assert program.greeting == "joined"
    wait_until(lambda: program.team() == 3, "its team while the write waits")
    beat = program.beat()
    wait_until(lambda: program.beat() > beat + 5, "periods while the write waits")
    for _ in range(5):
        assert rig.message("report")["sequence"] != sequence
    replace(slow, "0\n")
    os.close(keep)  # no reader is left: the write fails, and the agent reads the CPU's state again
    assert rig.ack(sequence)["online"] == [0, 1, 2]


def test_terminates_while_a_switch_is_stuck(rig: Rig) -> None:
    rig.start()
    rig.message("report")
    slow = rig.cpus / "cpu3" / "online"
    slow.unlink()
    os.mkfifo(slow)
    keep = os.open(slow, os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(keep, b"1" * 4096)
    except BlockingIOError:
        pass
    program = rig.join()
    rig.allocate(3)
    wait_until(lambda: program.team() == 3, "the order under way")
    assert rig.stop() == 0
    os.close(keep)


def test_switch_that_succeeds_but_does_not(rig: Rig) -> None:
    (rig.cpus / "cpu3" / "online").unlink()
    (rig.cpus / "cpu3" / "online").symlink_to("/dev/null")
    with (rig.cpus / "online").open("w") as file:
        file.write("0-2\n")  # an empty file is not "1": the CPU is offline
    rig.start()
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2]
    assert rig.ack(rig.allocate(2))["online"] == [0, 1]


def test_unplugged_cpu_is_gone_from_everything(rig: Rig) -> None:
    tree = Tree(rig)
    rig.start("--park", "cpuset")
    assert rig.ack(rig.allocate(2))["online"] == [0, 1]
    (rig.cpus / "cpu3").rename(rig.directory / "cpu3")
    rig.listed("0-2", "present", "online")
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2] == rig.online()
    assert tree.state().startswith("member")


def test_parked_cpu_that_is_unplugged_comes_back_parked(rig: Rig) -> None:
    """The kernel's partition still names it. Here a udev rule has put it online before the agent looks."""
    tree = Tree(rig)
    rig.start("--park", "cpuset")
    assert rig.ack(rig.allocate(3))["online"] == [0, 1, 2] and tree.parked() == "3"
    (rig.cpus / "cpu3").rename(rig.directory / "cpu3")
    rig.listed("0-2", "present", "online")
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2]
    (rig.directory / "cpu3").rename(rig.cpus / "cpu3")
    rig.listed("0-3", "present", "online")
    rig.message("report", lambda r: r["online"] == [0, 1, 2, 3])
    assert tree.state().startswith("member"), "the kernel lets nothing run there"


def test_unknown_way_is_refused() -> None:
    result = subprocess.run(
        [AGENT, "--park", "sometimes"], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert result.returncode == 2 and "--park sometimes" in result.stderr and "auto, offline, cpuset" in result.stderr


def trigger_uevent() -> bool:
    """Makes the kernel send a uevent of this machine's CPU 0. False if that is not allowed."""
    try:
        Path("/sys/devices/system/cpu/cpu0/uevent").write_text("change")
    except OSError:
        return False
    return True


def test_plug_is_seen_at_once(rig: Rig) -> None:
    rig.start(*NEVER)
    program = rig.join()
    assert rig.ack(rig.allocate(5))["online"] == [0, 1, 2, 3]
    rig.plug(4)
    if not trigger_uevent():
        pytest.skip("/sys cannot be written here: tests/guest shows the same with a real plug")
    rig.message("report", lambda r: r["online"] == [0, 1, 2, 3, 4])
    assert program.beat() == 0, "it was only seen at a period's end"
