"""The real agent gives verdicts to real processes. The reader of code is a double: names say the verdicts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import rig as rigs
from fuse import FileSystem, usable
from machine import PLAIN
from rig import Program, Rig, wait_until

FREE, UP_TO, OWN = 1, 2, 3
NO_OBJECT, UNREADABLE, UNKNOWN_CALL, POINTER_CALL, REPLACED = 1, 3, 5, 6, 14
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files that root alone can write")


def own(reason: int) -> int:
    return OWN | reason << 8


class Place:
    """An agent with the double beside it, and a program to start."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig = rig
        self.directory = rig.directory / "bin"
        self.directory.mkdir()
        build = rigs.BUILD / "guest-agent"
        shutil.copy(build / "vscaf-agent", self.directory / "vscaf-agent")
        shutil.copy(build / "vscaf-inspect-double", self.directory / "vscaf-inspect")
        monkeypatch.setattr(rigs, "AGENT", self.directory / "vscaf-agent")
        self.program = self.directory / "program"
        # Of the plain build, because a sanitizer defines malloc.
        shutil.copy(PLAIN / "guest-agent" / "joined-program", self.program)

    def start(self) -> None:
        self.rig.start("--proc", "/proc", "--contain", "none")

    def join(self, *environment: str, user: int | None = None) -> Program:
        command = ["env", *environment, str(self.program), str(self.rig.socket_path)]
        program = Program(self.rig.socket_path, user=user, command=command)
        self.rig.programs.append(program)
        assert program.greeting == "joined"
        return program

    def library(self, name: str, text: str) -> Path:
        source = self.directory / f"{name}.c"
        source.write_text(text)
        library = self.directory / f"{name}.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        return library

    def helpers(self) -> list[int]:
        """The helpers that run."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == str(self.directory / "vscaf-inspect").encode():
                found.append(int(entry.parent.name))
        return found


@pytest.fixture
def place(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(rig, monkeypatch)
    yield place


def answer(program: Program, question: str) -> int:
    """The verdict that the agent gives to a question."""
    verdict = 0

    def given() -> bool:
        nonlocal verdict
        verdict = int(program.say(f"verdict {question}"))
        return verdict != 0

    wait_until(given, f"the answer to question {question}")
    return verdict


def asked(program: Program, name: str) -> int:
    return answer(program, program.say(f"sight {name}"))


def known(program: Program, name: str) -> int:
    return int(program.say(f"known {name}"))


def test_sections_that_are_asked_about_get_their_verdicts(place: Place) -> None:
    place.start()
    program = place.join()
    assert known(program, "free_one") == 0  # nothing was known when it joined
    assert asked(program, "free_one") == FREE
    assert asked(program, "up_to_one") == UP_TO
    assert asked(program, "own_one") == own(UNKNOWN_CALL)
    assert asked(program, "relies_one") == FREE
    assert asked(program, "unnamed") == own(POINTER_CALL)  # the reader did not find it by itself
    assert asked(program, "heap") == own(NO_OBJECT)


@root_only
def test_the_second_start_has_the_verdicts_when_it_joins(place: Place) -> None:
    place.start()
    first = place.join()
    assert asked(first, "relies_one") == FREE
    second = place.join()
    assert known(second, "free_one") == FREE
    assert known(second, "up_to_one") == UP_TO
    assert known(second, "own_one") == own(UNKNOWN_CALL)
    assert known(second, "relies_one") == FREE
    assert known(second, "unnamed") == 0


@root_only
def test_a_program_that_has_ended_is_read(place: Place) -> None:
    inspect, reader = place.directory / "vscaf-inspect", place.directory / "reader"
    started, go, ended = place.directory / "started", place.directory / "go", place.directory / "ended"
    inspect.rename(reader)
    inspect.write_text(
        f'#!/bin/sh\necho >>{started}\nwhile [ ! -e {go} ]; do /bin/sleep 0.01; done\n{reader} "$@"\n: >{ended}\n'
    )
    inspect.chmod(0o755)
    place.start()
    first = place.join()
    wait_until(started.exists, "the helper")
    first.kill()
    go.touch()
    wait_until(ended.exists, "its end")
    wait_until(lambda: known(place.join(), "free_one") == FREE, "the verdict on the program that has ended")
    assert started.read_text() == "\n", "it was read when it ran again"


@root_only
def test_a_changed_file_gets_no_old_verdict(place: Place) -> None:
    place.start()
    assert asked(place.join(), "free_one") == FREE
    # The same place, size and time: the reader finds another name there now, and the loader the old one.
    status = place.program.stat()
    before, _, after = place.program.read_bytes().rpartition(b"free_one")
    changed = before + b"own__one" + after
    place.program.unlink()  # processes still run the old one
    place.program.write_bytes(changed)
    place.program.chmod(0o755)
    os.utime(place.program, ns=(status.st_atime_ns, status.st_mtime_ns))
    program = place.join()
    assert known(program, "free_one") == 0
    assert asked(program, "free_one") == own(UNKNOWN_CALL)


@root_only
def test_a_file_that_others_can_write_is_read_again_at_each_start(place: Place) -> None:
    place.start()
    place.program.chmod(0o777)
    assert asked(place.join(), "free_one") == FREE
    second = place.join()
    assert known(second, "free_one") == 0
    assert asked(second, "free_one") == FREE


@root_only
def test_a_store_through_a_shared_mapping_is_seen(place: Place) -> None:
    """It leaves the file's times as they are, so only the bytes tell."""
    place.start()
    library = place.library("mine", "void free_mine(void) {} void other(void) {}")
    library.chmod(0o777)
    assert asked(place.join(), f"{library}:free_mine") == FREE
    script = f"""
import mmap
with open({str(library)!r}, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    at = bytes(memory).rfind(b"free_mine")
    memory[at:at + 9] = b"own__mine"
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert asked(place.join(), f"{library}:free_mine") == own(UNKNOWN_CALL)


def test_a_function_that_another_object_replaces(place: Place) -> None:
    place.start()
    library = place.library("replaces", "void *malloc(unsigned long n) { static char m[1 << 24], *a = m; "
                            "void *p = a; a += (n + 63) & ~63ul; return p; } void free(void *p) { (void)p; } "
                            "void *calloc(unsigned long n, unsigned long s) { return malloc(n * s); } "
                            "void *realloc(void *p, unsigned long n) { void *q = malloc(n); "
                            "if (p) __builtin_memcpy(q, p, n); return q; }")  # fmt: skip
    program = place.join(f"LD_PRELOAD={library}")
    assert asked(program, "relies_one") == own(REPLACED)
    assert asked(program, "free_one") == FREE
    assert asked(place.join(), "relies_one") == FREE


def test_verdicts_are_kept_on_disk_and_broken_ones_are_not_used(place: Place) -> None:
    place.start()
    assert asked(place.join(), "free_one") == FREE
    cache = place.rig.directory / "cache"
    files = sorted(cache.glob("*.[0-9]*"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert place.rig.stop() == 0
    place.start()
    assert asked(place.join(), "own_one") == own(UNKNOWN_CALL)
    assert all(file.read_bytes()[-1:] == b"\0" for file in cache.glob("*.[0-9]*"))


def test_why_a_program_keeps_its_number_is_told(place: Place) -> None:
    place.rig.start("--proc", "/proc", "--contain", "none")
    program = place.join()
    assert asked(program, "free_one") == FREE
    assert asked(program, "own_one") == own(UNKNOWN_CALL)
    why = {"section": "own_one", "reason": "unknown_call", "detail": "sin"}
    place.rig.message("report", lambda report: [one.get("own") for one in report["processes"]] == [why])
    command = [str(rigs.AGENT), "--status", "--socket", str(place.rig.socket_path)]
    status = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "own number, because own_one calls a function that is not known (sin)" in status
    described = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    assert json.loads(described)["processes"][0]["own"] == why


def stop_opening(place: Place, name: str) -> Path:
    """A vscaf-inspect whose opening of a file hangs, as that of a file system without a server would."""
    path = place.directory / "vscaf-inspect"
    real = place.directory / "vscaf-inspect-real"
    path.rename(real)
    fifo = place.directory / name
    os.mkfifo(fifo)
    path.write_text(f'#!/bin/sh\ncase $(tr "\\0" "\\n" <"/proc/$3/environ") in *HANGS=1*) read x <{fifo};; esac\n'
                    f'exec {real} "$@"\n')  # fmt: skip
    path.chmod(0o755)
    return fifo


@pytest.mark.long
def test_opening_a_file_that_hangs_ends_in_time(place: Place) -> None:
    stop_opening(place, "fifo")
    place.start()
    hanging = place.join("HANGS=1")
    question = hanging.say("sight free_one")
    other = place.join()
    assert other.team() >= 1  # the agent serves others meanwhile
    assert answer(hanging, question) == own(UNREADABLE)
    assert asked(other, "own_one") == own(UNKNOWN_CALL)


@pytest.fixture
def file_system(place: Place) -> Iterator[FileSystem]:
    """The program, on a file system whose server may stop."""
    if not usable():
        pytest.skip("needs root and FUSE")
    contents = place.program.read_bytes()
    system = FileSystem(place.directory / "mounted", contents)
    try:
        yield system
    finally:
        place.rig.close_programs()
        system.close()


def test_a_program_on_fuse_is_read_at_each_start(place: Place, file_system: FileSystem) -> None:
    """Its server says what it likes of size and times, so only the bytes tell."""
    place.program = file_system.program
    place.start()
    program = place.join()
    assert asked(program, "free_one") == FREE
    assert asked(program, "own_one") == own(UNKNOWN_CALL)
    program.kill()
    place.rig.programs.remove(program)
    before, _, after = file_system.contents.rpartition(b"free_one")
    file_system.contents = before + b"own__one" + after
    program = place.join()
    assert known(program, "free_one") == 0
    assert asked(program, "free_one") == own(UNKNOWN_CALL)


@pytest.mark.long
def test_a_file_system_that_stops_to_answer_holds_up_nobody_else(place: Place, file_system: FileSystem) -> None:
    """A program runs, then its file system hangs: reading its file ends in time, and so do starts of other programs."""
    usual, place.program = place.program, file_system.program
    place.start()
    hanging = place.join()
    assert asked(hanging, "free_one") == FREE  # now its pages are in memory: it does not hang itself
    file_system.hang.set()
    question = hanging.say("sight unnamed")
    wait_until(file_system.unanswered.is_set, "the reading of the file")
    place.program = usual
    other = place.join()
    assert other.team() >= 1
    assert answer(hanging, question) == own(UNREADABLE)
    assert asked(other, "own_one") == own(UNKNOWN_CALL)
    assert place.rig.stop() == 0  # the agent does not wait for its helper


@pytest.mark.parametrize("name", ["open_file", "socket_one"])
def test_the_reader_is_ended_when_it_opens_anything(place: Place, name: str) -> None:
    library = place.library("hostile", f"void {name}(void) {{}} void free_mine(void) {{}}")
    done = subprocess.run(
        [str(place.directory / "vscaf-inspect"), str(library)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1 and "free_mine" not in done.stdout


def test_an_agent_that_ends_leaves_no_helper(place: Place) -> None:
    place.start()
    library = place.library("hostile", "void hang_one(void) {}")
    program = place.join()
    assert asked(program, "relies_one") == FREE  # now the objects that it had at first have been read
    program.say(f"sight {library}:hang_one")
    wait_until(lambda: len(place.helpers()) == 2, "the helper and its child")
    helpers = place.helpers()
    assert all(os.getpriority(os.PRIO_PROCESS, pid) == 19 for pid in helpers)
    reader = Path(f"/proc/{max(helpers)}/status")
    wait_until(lambda: "Seccomp:\t2" in reader.read_text(), "the child has given up its rights")
    status = reader.read_text()
    assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
    if os.geteuid() == 0:
        assert "Uid:\t65534\t65534\t65534\t65534" in status
    assert asked(place.join(), "heap") == own(NO_OBJECT)  # the agent serves others meanwhile
    program.kill()
    place.rig.programs.remove(program)
    wait_until(lambda: not place.helpers() or os.geteuid() == 0, "the helper ends with the program")
    assert place.rig.stop() == 0
    wait_until(lambda: not place.helpers(), "the helper ends with the agent")
