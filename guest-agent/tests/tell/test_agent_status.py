"""`vscaf-agent --status`, and what the agent shows to which user."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest
from machine import SOMEBODY, SOMEBODY_ELSE, Status, ask, user_of
from rig import AGENT, DEADLINE_S, PROGRAM, Rig, wait_until

ROOT = os.geteuid() == 0
MAGIC, VERSION = 0x53435356, 1
needs_root = pytest.mark.skipif(not ROOT, reason="needs root, to run as other users")


def connect(rig: Rig) -> socket.socket:
    asker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asker.settimeout(DEADLINE_S)
    asker.connect(str(rig.socket_path))
    return asker


def packets(rig: Rig, request: bytes) -> list[bytes]:
    """All answers that the agent sends before it closes. It drops who connects and gets no CPU for 5 s. Then it tries
    again."""
    while True:
        with connect(rig) as asker, contextlib.suppress(BrokenPipeError):
            asker.send(request)
            found = []
            while packet := asker.recv(1 << 20):
                found.append(packet)
            return found


REQUEST = struct.pack("=II", MAGIC, VERSION)


def row_of(rig: Rig, pid: int) -> Status:
    return next(row for row in ask(rig.socket_path)["processes"] if row["pid"] == pid)


def open_to_all(rig: Rig) -> Path:
    """Lets other users reach the rig's directory, and copies the programs into it. Returns the agent's copy."""
    rig.directory.chmod(0o755)
    shutil.copy(PROGRAM, rig.directory)
    return Path(shutil.copy(AGENT, rig.directory))


def test_says_what_it_hands_out_and_knows(rig: Rig) -> None:
    rig.start("--standalone", "--no-background")
    first, second = rig.join(), rig.join()
    for program in (first, second):
        program.say("busy 1")
        program.say("last 3")
    first.say("estimate 0 4 3200000 64000 30")
    second.say("malleable 2")
    wait_until(lambda: "speedup" in row_of(rig, first.pid), "the estimate")
    wait_until(lambda: row_of(rig, second.pid)["malleable"] == "rigid", "the second program as rigid")
    status = ask(rig.socket_path)
    assert (status["v"], status["type"], status["mode"], status["policy"]) == (1, "status", "standalone", "max-speedup")
    assert status["agent"].startswith("vscaf-agent ") and status["host"] is None and "more" not in status
    assert (status["joined"], status["chunk"], status["period_ms"]) == (2, 1, 50)
    assert (status["cpus"]["online"], status["cpus"]["handed_out"], status["cpus"]["quota"]) == (4, 4, None)
    rows = {row["pid"]: row for row in status["processes"]}
    assert rows.keys() == {first.pid, second.pid}
    one = rows[first.pid]
    assert (one["name"], one["user"], one["malleable"], one["team"]) == ("joined-program", os.geteuid(), "full", 3)
    speedup = {"p": 4, "value": 3.2, "standard_error": 0.064, "efficiency": 0.8, "measured": True}
    assert one["speedup"] == speedup
    assert one["weight"] == pytest.approx(2.2 / 1.3863, abs=0.01)
    assert rows[second.pid]["malleable"] == "rigid" and "speedup" not in rows[second.pid]


def test_states(rig: Rig) -> None:
    rig.start("--standalone", "--no-background")
    program = rig.join()

    def state() -> str:
        return str(row_of(rig, program.pid)["state"])

    wait_until(lambda: state() == "idle", "idle")
    program.say("busy 1")
    wait_until(lambda: state() == "running", "running")
    program.say("begin")
    wait_until(lambda: state() == "long section", "a long section")
    program.say("end 1000")
    other = rig.join()
    other.say("busy 1")
    wait_until(lambda: state() == "learning", "learning, now that there is competition")


def test_table(rig: Rig) -> None:
    rig.start("--standalone", "--policy", "equipartition")
    program = rig.join()
    program.say("busy 1")
    program.say("estimate 0 4 3200000 64000 30")
    command = [AGENT, "--socket", rig.socket_path, "--status"]

    def table() -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout

    wait_until(lambda: "3.20@4" in table(), "the estimate in the table")
    lines = table().splitlines()
    assert "standalone, equipartition: 4 CPUs online" in lines[0] and "in chunks of 1" in lines[0]
    assert lines[1].split() == ["PID", "NAME", "THREADS", "TEAM", "CPUS", "MALLEABLE", "SPEEDUP", "EFF", "C", "STATE"]
    assert lines[2].startswith("all ") and len(lines) == 4
    assert re.match(rf"{program.pid} +joined-program +\d+ +\d+ +[\d.]+ full +3\.20@4 +0\.80 +1\.59 ", lines[3])


def test_again_and_again_until_interrupted(rig: Rig) -> None:
    rig.start("--standalone")
    # A shell starts background jobs with the signal ignored, and their children inherit that.
    command = ["env", "--default-signal=INT", AGENT, "--socket", rig.socket_path, "--status", "0.5", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        assert all(json.loads(watcher.stdout.readline())["type"] == "status" for _ in range(3))
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(DEADLINE_S) == -signal.SIGINT


def test_in_a_guest(rig: Rig) -> None:
    rig.start()
    assert ask(rig.socket_path)["host"]["ordered"] is False
    rig.ack(rig.allocate(2, limit=3, competition=True))
    status = ask(rig.socket_path)
    assert status["mode"] == "guest" and status["cpus"]["online"] == 2
    assert status["host"] == {"connected": True, "ordered": True, "cpus": 2, "limit": 3, "competition": True}


def test_many_processes_come_in_several_packets(rig: Rig) -> None:
    rig.start("--standalone")
    programs = [rig.join() for _ in range(45)]
    found = packets(rig, REQUEST)
    assert len(found) == 2 and all(len(packet) <= 65536 for packet in found)
    assert [json.loads(packet)["more"] for packet in found] == [True, False]
    rows = ask(rig.socket_path)["processes"]
    assert {row["pid"] for row in rows} == {program.pid for program in programs}


@pytest.mark.parametrize(
    "request_",
    [
        b"x",
        struct.pack("=I", MAGIC),
        struct.pack("=III", MAGIC, VERSION, 0),
        struct.pack("=II", MAGIC ^ 1, VERSION),
        bytes(65536),
    ],
)
def test_other_requests_are_not_answered(rig: Rig, request_: bytes) -> None:
    rig.start("--standalone")
    assert packets(rig, request_) == []
    assert ask(rig.socket_path)["joined"] == 0


def test_another_version_is_refused_with_words(rig: Rig) -> None:
    rig.start("--standalone")
    (answer,) = packets(rig, struct.pack("=II", MAGIC, VERSION + 1))
    assert json.loads(answer)["type"] == "error" and "version 1, not 2" in json.loads(answer)["message"]


def test_a_joined_process_cannot_ask(rig: Rig) -> None:
    """A joined process has a page. Such a packet ends its connection."""
    rig.start("--standalone")
    with connect(rig) as joined:
        joined.send(struct.pack("=II32s", 0x46435356, 3, b"joined"))
        _, descriptors, _, _ = socket.recv_fds(joined, 4096, 1)
        for descriptor in descriptors:
            os.close(descriptor)
        assert descriptors
        joined.send(REQUEST)
        assert joined.recv(1 << 16) == b""


def test_whoever_asks_and_does_not_read_holds_nobody_up(rig: Rig) -> None:
    rig.start("--standalone")
    program = rig.join()
    askers = [connect(rig) for _ in range(10)]  # up to 32 silent connections may wait (CLIENTS_JOINING_MAX)
    for asker in askers:
        asker.send(REQUEST)
    beat = program.beat()
    wait_until(lambda: program.beat() > beat + 5, "periods to go on")
    assert rig.join().greeting == "joined"
    for asker in askers:
        asker.close()


def test_no_agent(rig: Rig) -> None:
    command = [AGENT, "--socket", rig.socket_path, "--status"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 1 and result.stdout == ""
    assert str(rig.socket_path) in result.stderr and "--socket" in result.stderr


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (b"", "older"),
        (b"{}", "no vscaf-agent"),
        (b"\xff\xfe", "no vscaf-agent"),
        (b'{"v":1,"type":"status","processes":7,"more":false}', "no vscaf-agent"),
        (b'{"v":1,"type":"status","processes":[],"more":true}', "not complete"),
        (struct.pack("=IIII", 0x46435356, 2, 2, 65536), "too often"),
        (b'{"v":1,"type":"error","message":"\\u001b[2Jno"}', "says: ?[2Jno"),
    ],
)
def test_something_else_that_answers(rig: Rig, answer: bytes, word: str) -> None:
    path = rig.directory / "fake.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        with subprocess.Popen([AGENT, "--socket", path, "--status"], stderr=subprocess.PIPE, text=True) as asker:
            connection, _ = listener.accept()
            connection.recv(64)
            if answer:
                connection.send(answer)
            connection.close()
            _, errors = asker.communicate(timeout=DEADLINE_S)
    assert asker.returncode == 1 and errors.count("\n") == 1 and word in errors


def test_who_is_turned_away_hears_why(rig: Rig) -> None:
    """The agent does not wait for the question, which may arrive before the agent closes, after it, or in between."""
    path = rig.directory / "fake.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        for turn in range(20):
            with subprocess.Popen([AGENT, "--socket", path, "--status"], stderr=subprocess.PIPE, text=True) as asker:
                connection, _ = listener.accept()
                if turn % 2:
                    connection.recv(64, socket.MSG_PEEK)
                connection.send(struct.pack("=IIII", 0x46435356, 2, 2, 65536))
                connection.close()
                _, errors = asker.communicate(timeout=DEADLINE_S)
            assert asker.returncode == 1 and errors.count("\n") == 1 and "too often" in errors, (turn, errors)


def test_names_cannot_write_to_the_terminal(rig: Rig) -> None:
    path = rig.directory / "fake.sock"
    row = {"pid": 1, "name": "\x1b[2Jcg.A", "threads": 1, "malleable": "\x07", "state": "\x9bx"}
    whole = {"v": 1, "type": "status", "policy": "\x1b]", "cpus": {}, "processes": [row], "more": False}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        with subprocess.Popen([AGENT, "--socket", path, "--status"], stdout=subprocess.PIPE) as asker:
            connection, _ = listener.accept()
            connection.send(json.dumps(whole, ensure_ascii=False).encode())
            text, _ = asker.communicate(timeout=DEADLINE_S)
            connection.close()
    assert asker.returncode == 0 and b"cg.A" in text
    assert all(character in "\n" or character.isprintable() for character in text.decode())


class Stranger:
    """An idle joined program of another user, in a rig that every user can reach."""

    def __init__(self, rig: Rig, user: int) -> None:
        self.process = subprocess.Popen(
            [rig.directory / PROGRAM.name, str(rig.socket_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **user_of(user),
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == "joined\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@needs_root
def test_users_see_their_own(rig: Rig) -> None:
    agent = open_to_all(rig)
    rig.start("--standalone")
    ours = rig.join()
    strangers = {user: Stranger(rig, user) for user in (SOMEBODY, SOMEBODY_ELSE)}
    pids = {ours.pid, *(stranger.process.pid for stranger in strangers.values())}
    assert {row["pid"] for row in ask(rig.socket_path)["processes"]} == pids, "root sees all"
    for user, stranger in strangers.items():
        status = ask(rig.socket_path, user=user, agent=agent)
        assert [row["pid"] for row in status["processes"]] == [stranger.process.pid]
        assert status["joined"] == 3
        text = json.dumps(status)
        assert str(ours.pid) not in re.findall(r"\d+", text)
    command = [agent, "--socket", rig.socket_path, "--status"]
    table = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=DEADLINE_S, **user_of(SOMEBODY)
    ).stdout
    assert "(2 of other users are not shown)" in table
    for stranger in strangers.values():
        stranger.end()


FALSE_AGENT = f"""
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("listens", flush=True)
    asker, _ = listener.accept()
    if asker.recv(100):
        print("was asked", flush=True)
        asker.send({json.dumps({"v": 1, "type": "status", "processes": [], "more": False}).encode()!r})
    asker.close()
"""


@needs_root
@pytest.mark.parametrize("option", ["--status", "--check"])
def test_another_users_process_is_not_believed_at_the_own_place(rig: Rig, option: str) -> None:
    """Without $XDG_RUNTIME_DIR the place is in /tmp, where every user can put a socket."""
    agent = open_to_all(rig)
    own = rig.directory / "vscaf"
    own.mkdir()
    os.chown(own, SOMEBODY_ELSE, SOMEBODY_ELSE)
    command = ["/usr/bin/env", "python3", "-c", FALSE_AGENT, own / "agent.sock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **user_of(SOMEBODY_ELSE)) as false:
        try:
            assert false.stdout is not None and false.stdout.readline() == "listens\n"
            (own / "agent.sock").chmod(0o666)
            result = subprocess.run(
                [agent, option],
                check=False,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                env={**os.environ, "XDG_RUNTIME_DIR": str(rig.directory)},
                **user_of(SOMEBODY),
            )
            assert false.stdout.read() == "", "it was asked"
        finally:
            false.kill()
    said = f"process {false.pid} of user {SOMEBODY_ELSE} serves {own}/agent.sock, which programs do not believe: "
    assert result.returncode == 1 and said in result.stdout + result.stderr


@needs_root
def test_who_asks_too_often_is_told_so_and_others_are_not(rig: Rig) -> None:
    agent = open_to_all(rig)
    rig.start("--standalone")
    script = f"""
import socket
answers = []
for _ in range(60):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
        asker.connect({str(rig.socket_path)!r})
        asker.send({REQUEST!r})
        answers.append(b"too often" in asker.recv(1 << 16))
print(sum(answers))
"""
    began = time.monotonic()
    result = subprocess.run(
        ["/usr/bin/env", "python3", "-c", script],
        check=True,
        capture_output=True,
        timeout=DEADLINE_S,
        **user_of(SOMEBODY),
    )
    answered = 60 - int(result.stdout)
    # 8 at once, then 4 a second. The time is measured from before the first question to after the last.
    assert 8 <= answered <= 8 + 4 * (time.monotonic() - began) + 1
    command = [agent, "--socket", rig.socket_path, "--status"]
    for user in (SOMEBODY_ELSE, None):
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S, **user_of(user))
