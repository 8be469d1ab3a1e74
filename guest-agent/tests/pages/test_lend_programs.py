"""Real programs under vscaf-run lend their CPUs while they are idle, and get them back as soon as they compute."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import BUILD, Rig, wait_until

RUN = BUILD / "guest-libgomp" / "vscaf-run"
PROGRAM = BUILD / "guest-agent" / "sections-program"


def sanitized() -> bool:
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    return next(option["value"] for option in options if option["name"] == "b_sanitize") not in ("none", [])


# A sanitizer's library would have to be preloaded into vscaf-run as well, before the shim.
pytestmark = pytest.mark.skipif(sanitized(), reason="the shim is preloaded into programs of a plain build only")


class Sections:
    """A process of sections_program.c."""

    def __init__(self, socket_path: Path) -> None:
        # Its section tells the size of its team.
        environment = {**os.environ, "VSCAF_SOCKET": str(socket_path), "VSCAF_MALLEABLE": "full"}
        self.process = subprocess.Popen(
            [RUN, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def say(self, line: str) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    """With two CPUs, which the programs may really use."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Rig(Path(directory), possible=2, present=2)
        yield rig
        rig.close()


@pytest.fixture
def programs(rig: Rig) -> Iterator[tuple[Sections, Sections]]:
    """vscaf-run looks for an agent, so that comes first."""
    rig.start("--period-ms", "1500", "--standalone")
    started = (Sections(rig.socket_path), Sections(rig.socket_path))
    yield started
    for program in started:
        program.end()


def test_an_idle_program_has_its_share_with_its_first_section(rig: Rig, programs: tuple[Sections, Sections]) -> None:
    busy, idle = programs
    observer = rig.join()  # idle, too: shows the agent's periods
    wait_until(lambda: idle.say("section") >= 1 and observer.team() == 1, "both idle programs to join")
    busy.say("compute")
    for _ in range(30):  # a period may come in between, on a busy machine many times in a row, but not each time
        wait_until(lambda: busy.say("team") == 2 and observer.asked() > 0, "the busy program to have all CPUs")
        beat = observer.beat()
        had_all = busy.say("section") == 2  # "team" may be of a section that began before the end of a period
        # At first it is not asked to call yet, because the sections that it ran to join were no computing.
        if idle.say("section") == 1 and had_all:
            # At the end of the second period the idle program has computed nothing, and lends its CPUs again.
            given_back = False
            while not given_back and observer.beat() < beat + 2:
                given_back = busy.say("team") == 1
            if given_back and observer.beat() == beat:
                break
        # It computes enough that the agent asks for the next call at once.
        idle.say("compute")
        wait_until(lambda before=beat: observer.beat() >= before + 3, "periods in which it computes")
        idle.say("calm")
    else:
        raise AssertionError("its share only came at a period's end")
