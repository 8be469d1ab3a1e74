"""Unequal splits by what the agent measures itself: two scripted programs of known scaling on six CPUs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import ask
from rig import AGENT, PROGRAM, Program, Rig, wait_until

SCALES, STAYS = "scaled 0 30000", "scaled 24000 6000"  # S(6) = 6 and 1.2


@pytest.fixture
def six() -> Iterator[Rig]:
    """An agent's environment with six CPUs."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Rig(Path(directory), possible=6, present=6)
        try:
            yield rig
        finally:
            rig.close()


def knows(rig: Rig, program: Program) -> bool:
    """Whether the agent knows how the program scales."""
    found = ask(rig.socket_path, agent=AGENT)["processes"]
    return any("speedup" in process for process in found if process["pid"] == program.pid)


def wait_for_teams(larger: Program, smaller: Program, what: str) -> None:
    wait_until(lambda: larger.team() >= 4 and smaller.team() <= 2, what)


def wait_for_periods(program: Program, count: int) -> None:
    beats = program.beat()
    wait_until(lambda: program.beat() > beats + count, f"{count} periods")


def join_shown(rig: Rig, name: str) -> Program:
    """A program whose file and arguments the agent can see. It still knows no CPUs of it, so all six may be used."""
    path = rig.directory / name
    if not path.exists():
        shutil.copy(PROGRAM, path)
    show = f"mkdir {rig.proc}/$$; for name in maps map_files cmdline; do ln -s /proc/$$/$name {rig.proc}/$$; done"
    command = ["sh", "-c", f'{show}; exec "$0" "$1"', str(path), str(rig.socket_path)]
    program = Program(rig.socket_path, command=command)
    rig.programs.append(program)
    assert program.greeting == "joined"
    return program


def test_the_split_follows_the_program_that_scales(six: Rig) -> None:
    """The split leaves 3 + 3 for the better program. It turns round after the programs swapped their scaling."""
    six.start("--standalone", "--policy", "max-speedup")
    first, second = join_shown(six, "first"), join_shown(six, "second")
    first.say(SCALES)
    second.say(STAYS)
    wait_until(lambda: first.team() == second.team() == 3, "equal shares while nothing is known")
    wait_for_teams(first, second, "more CPUs for the program that scales")
    first.say(STAYS)
    second.say(SCALES)
    wait_for_teams(second, first, "more CPUs for the one that scales now")


def test_equal_shares_under_equipartition(six: Rig) -> None:
    """The same programs: only the policy makes the split unequal."""
    six.start("--standalone", "--policy", "equipartition")
    first, second = join_shown(six, "first"), join_shown(six, "second")
    first.say(SCALES)
    second.say(STAYS)
    for _ in range(5):
        wait_for_periods(first, 20)
        wait_until(lambda: first.team() == second.team() == 3, "equal shares")


def test_nothing_is_learned_while_a_larger_team_of_before_has_the_cpus(six: Rig) -> None:
    six.start("--standalone", "--policy", "max-speedup")
    first = six.join()
    first.say("busy 1")
    wait_until(lambda: first.team() == 6, "all CPUs")
    assert first.say("begin") == "6"
    second = join_shown(six, "second")
    second.say(SCALES)
    wait_for_periods(second, 60)
    assert not knows(six, second), "it has had no CPUs of its own yet"
    first.say("end 1000000")
    wait_until(lambda: knows(six, second), "its speedup, as soon as it has its CPUs for itself")


def test_a_known_program_has_its_share_from_its_start(six: Rig) -> None:
    """It needs no time with an equal share, and takes no CPUs from the other one in it."""
    six.start("--standalone", "--policy", "max-speedup")
    first, second = join_shown(six, "first"), join_shown(six, "second")
    first.say(SCALES)
    second.say(STAYS)
    wait_until(lambda: first.team() == 5 and second.team() == 1, "all CPUs but one for the program that scales")
    second.kill()

    def starts_with_one() -> bool:
        """The agent may be too slow to see in time which program it is; then it is started again."""
        again = join_shown(six, "second")
        team = again.team()
        again.kill()
        return team == 1

    wait_until(starts_with_one, "one CPU at its start")
