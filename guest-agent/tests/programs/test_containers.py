"""Programs with their own PID, mount and user namespaces join over a bind-mounted socket directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig import DEADLINE_S, NEVER, PROGRAM, Program, Rig, as_user, wait_for_log, wait_until, without_a_period

USER, OTHER = 61236, 61237  # no account has these numbers
NAMESPACES = ["unshare", "--user", "--map-root-user", "--pid", "--mount", "--fork", "--kill-child"]
INSIDE = 'mount --bind "$1" /mnt && exec "$2" /mnt/agent.sock'


def possible(user: int | None = None) -> bool:
    command = [*NAMESPACES, "mount", "--bind", "/tmp", "/mnt"]
    return (
        subprocess.run(command, check=False, capture_output=True, timeout=DEADLINE_S, **as_user(user)).returncode == 0
    )


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Place(Rig):
    def __init__(self, directory: Path) -> None:
        directory.chmod(0o755)
        super().__init__(directory)
        self.program = directory / "program"
        shutil.copy(PROGRAM, self.program)

    def contain(self, user: int | None = None) -> Program:
        """A program in a container. Its `pid` is that of unshare, which runs outside."""
        command = [*NAMESPACES, "sh", "-c", INSIDE, "sh", str(self.socket_path.parent), str(self.program)]
        program = Program(self.socket_path, user=user, command=command)
        self.programs.append(program)
        return program

    def join_as(self, user: int) -> Program:
        program = Program(self.socket_path, user=user, command=[str(self.program), str(self.socket_path)])
        self.programs.append(program)
        return program


@pytest.fixture
def place() -> Iterator[Place]:
    if not possible():
        pytest.skip("namespaces cannot be made here (unshare --user --pid --mount)")
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        place = Place(Path(directory))
        try:
            yield place
        finally:
            place.close()


def process(report: dict[str, Any], pid: int) -> dict[str, Any]:
    return next((one for one in report["processes"] if one["pid"] == pid), {})


def test_joins_by_its_number_outside_and_is_measured(place: Place) -> None:
    place.start()
    contained, outside = place.contain(), place.join()
    assert contained.greeting == "joined"
    [pid] = children(contained.pid)
    for program in (contained, outside):
        program.say("busy 1")
    wait_until(lambda: (contained.team(), outside.team()) == (2, 2), "equal shares")
    outside.say("calm")
    wait_until(lambda: contained.team() == 4, "the share of the idle program")
    report = place.message(
        "report", lambda r: process(r, pid).get("running") and process(r, outside.pid).get("running") is False
    )
    assert process(report, pid)["team"] == 4
    assert report["demand"] == 4
    contained.say("calm")
    place.message("report", lambda r: process(r, pid).get("running") is False)


def test_crash_of_a_container_frees_its_share(place: Place) -> None:
    place.start(*NEVER)
    contained, outside = place.contain(), place.join()
    wait_until(lambda: (contained.team(), outside.team()) == (2, 2), "equal shares")
    os.kill(children(contained.pid)[0], signal.SIGKILL)
    without_a_period(outside, lambda: outside.team() == 4, "the share of the dead program")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run programs as several users")
def test_containers_count_for_the_user_who_made_them(place: Place) -> None:
    if not possible(USER):
        pytest.skip("users cannot make namespaces here")
    place.start("--per-user", "2", "--proc", "/proc")
    first, second, third = place.contain(USER), place.join_as(USER), place.contain(USER)
    assert [first.greeting, second.greeting, third.greeting] == ["joined", "joined", "status 2 version 3"]
    wait_for_log(place, f"2 of them of user {USER} ")
    assert place.contain(OTHER).greeting == "joined", "another user's container"
    second.kill()
    place.fresh()
    place.message("report", lambda r: len(r["processes"]) == 2)
    assert place.contain(USER).greeting == "joined"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run programs as several users")
def test_containers_of_root_count_for_themselves(place: Place) -> None:
    """Root makes containers for others. So each container has the limit, and is not trusted like root."""
    place.start("--per-user", "1", "--proc", "/proc")
    first, second = place.contain(), place.contain()
    assert first.greeting == second.greeting == "joined", "one program in each of two containers"
    inside = ["nsenter", f"--user=/proc/{children(first.pid)[0]}/ns/user", "--preserve-credentials"]
    again = Program(place.socket_path, command=[*inside, str(place.program), str(place.socket_path)])
    place.programs.append(again)
    assert again.greeting == "status 2 version 3", "the second program of the first container"
    wait_for_log(place, "of user namespace 40")
    assert place.join().greeting == place.join().greeting == "joined", "root itself"


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace for the agent alone needs root")
def test_agent_in_a_container_serves_those_outside(place: Place) -> None:
    """The agent has no PID for them (it reports 0), so only their sections show whether they run."""
    place.start(prefix=["unshare", "--pid", "--fork", "--kill-child"])
    assert place.process is not None
    try:
        program = place.join()
        assert program.greeting == "joined"
        program.say("busy 1")
        report = place.message("report", lambda r: r["processes"] and not r["processes"][0]["running"])
        assert report["processes"][0]["pid"] == 0
        program.say("begin")
        place.message("report", lambda r: r["processes"][0]["running"] and r["demand"] > 0)
        program.say("end 1000")
        place.message("report", lambda r: not r["processes"][0]["running"])
        assert place.join().greeting == place.join().greeting == "joined", "several programs without a PID can join"
        place.message("report", lambda r: len(r["processes"]) == 3)
    finally:
        os.kill(children(place.process.pid)[0], signal.SIGTERM)
        status = place.process.wait(DEADLINE_S)
        place.process = None
    assert status == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run programs as several users")
def test_users_without_an_entry_share(place: Place) -> None:
    place.start()
    programs = [place.join_as(user) for user in (USER, OTHER, 0)]
    assert [program.greeting for program in programs] == ["joined"] * 3
    for program in programs:
        program.say("busy 1")
    wait_until(lambda: sorted(program.team() for program in programs) == [1, 1, 2], "4 CPUs for three users")
    for program in programs[1:]:
        program.say("calm")
    wait_until(lambda: programs[0].team() == 4, "all CPUs for the program that runs")
    pids = {program.pid for program in programs}
    place.message("report", lambda r: {one["pid"] for one in r["processes"]} == pids)
