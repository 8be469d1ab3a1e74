"""What a program is told, and how large its team may be: its own affinity and limits count, as without the agent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import SOMEBODY, Machine
from rig import PROGRAM, Program, Rig, wait_until

ALL = os.sched_getaffinity(0)
PIDS = Path("/sys/fs/cgroup/pids")

pytestmark = pytest.mark.skipif(not {0, 1} <= ALL, reason="needs CPUs 0 and 1")


@pytest.fixture
def guest() -> Iterator[Rig]:
    """An agent in a guest of 16 possible CPUs, of which the two real ones are present, without a host."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Rig(Path(directory), possible=16, present=2)
        rig.proc = Path("/proc")
        try:
            yield rig
        finally:
            rig.close()


def start(rig: Rig, *prefix: str) -> Program:
    program = Program(rig.socket_path, command=[*prefix, str(PROGRAM), str(rig.socket_path)])
    rig.programs.append(program)
    return program


@pytest.mark.parametrize("options", [(), ("--standalone",)], ids=["guest", "stand-alone"])
def test_affinity(guest: Rig, options: tuple[str, ...]) -> None:
    guest.start(*options)
    free, bound = start(guest), start(guest, "taskset", "-c", "1")
    assert int(free.say("there")) == 2, "the CPUs that are present, not those that are possible"
    assert int(bound.say("there")) == 1
    bound.say("busy 2")
    wait_until(lambda: bound.beat() > 20, "20 periods")
    assert bound.team() == 1


def test_an_affinity_that_changes(guest: Rig) -> None:
    guest.start("--no-background")
    program = start(guest)
    program.say("busy 1")
    wait_until(lambda: program.team() == 2, "both CPUs")
    threads = [int(task.name) for task in Path(f"/proc/{program.pid}/task").iterdir()]
    for thread in threads:
        os.sched_setaffinity(thread, {1})
    wait_until(lambda: program.team() == 1, "one CPU")
    for thread in threads:
        os.sched_setaffinity(thread, ALL)
    wait_until(lambda: program.team() == 2, "both again")


def test_a_limit_of_threads(guest: Rig) -> None:
    """A team grows only as far as its control group lets threads start."""
    group = PIDS / f"vscaf-test-{os.getpid()}"
    if not os.access(PIDS / "cgroup.procs", os.W_OK):
        pytest.skip("no hierarchy for numbers of processes that may be written to")
    group.mkdir()
    try:
        guest.start("--no-background")
        program = start(guest)
        (group / "cgroup.procs").write_text(str(program.pid))
        program.say("busy 1")
        (group / "pids.max").write_text("2")
        limited = start(guest, "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$1"')
        assert limited.greeting == "joined"
        assert int(limited.say("there")) == 1
        program.say("last 1")
        wait_until(lambda: program.team() == 1, "no thread may start")
        (group / "pids.max").write_text("max")
        wait_until(lambda: program.team() == 2, "no limit")
    finally:
        for program in guest.programs:
            program.kill()
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
        group.rmdir()


def test_a_limit_of_a_user(guest: Rig) -> None:
    """RLIMIT_NPROC counts the threads of the user, whoever started them."""
    if os.geteuid() != 0:
        pytest.skip("needs other users")
    machine = Machine(guest.directory)  # only for its copy of the program, which another user can reach
    guest.directory.chmod(0o755)
    guest.start()
    program = Program(
        guest.socket_path,
        user=SOMEBODY,
        command=["prlimit", "--nproc=1", str(machine.bin / "joined-program"), str(guest.socket_path)],
    )
    guest.programs.append(program)
    assert program.greeting == "joined"
    assert int(program.say("there")) == 1


def test_after_the_agent_the_program_decides(guest: Rig) -> None:
    guest.start("--no-background")
    program = start(guest)
    other = start(guest)
    for one in (program, other):
        one.say("busy 1")
    wait_until(lambda: program.team() == 1, "a share of one")
    assert guest.stop() == 0
    assert program.team() == 0
    assert other.control() == (0, other.control()[1])
