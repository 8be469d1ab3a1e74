"""An agent that runs as root, one user's programs, and another user who attacks them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rig import (
    AGENT,
    DEADLINE_S,
    KEEPS_NOTHING,
    NEVER,
    PROGRAM,
    Program,
    Rig,
    as_user,
    wait_for_log,
    wait_until,
    without_a_period,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run programs as several users")

filters = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is for x86-64's system calls")

CLONE3 = 435
ATTACKER, VICTIM = 61234, 61235  # no account has these numbers
SCRIPT = (Path(__file__).parent / "attacker.py").read_text()
PYTHON = os.path.realpath(sys.executable)
JOINING_PLACES = 32  # CLIENTS_JOINING_MAX
EACH = 2  # descriptors for each connection: its socket and a pidfd of its process


class Place(Rig):
    """A rig that other users can reach, with their programs."""

    def __init__(self, directory: Path, cpus: int = 4) -> None:
        directory.chmod(0o755)
        super().__init__(directory, cpus, cpus)
        self.program = directory / "program"
        shutil.copy(PROGRAM, self.program)
        self.attackers: list[subprocess.Popen[str]] = []

    def join_as(self, user: int) -> Program:
        program = Program(self.socket_path, user=user, command=[str(self.program), str(self.socket_path)])
        self.programs.append(program)
        return program

    def attack(
        self, name: str, *arguments: object, user: int | None = ATTACKER, prefix: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*prefix, PYTHON, "-I", "-c", SCRIPT, name, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            **as_user(user),
        )
        self.attackers.append(process)
        return process

    def result(self, process: subprocess.Popen[str]) -> Any:
        """The next line that the attack prints, decoded."""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the attacker itself failed"
        return json.loads(line)

    def attacked(self, name: str, *arguments: object, user: int | None = ATTACKER, prefix: Sequence[str] = ()) -> Any:
        """Runs an attack to its end and returns its result."""
        process = self.attack(name, *arguments, user=user, prefix=prefix)
        result = self.result(process)
        assert process.wait(DEADLINE_S) == 0
        return result

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def descriptors(self) -> int:
        """The number of open descriptors. The agent opens one or two for a moment in each period: they do not count."""
        counts = []
        for _ in range(8):
            counts.append(len(list(Path(f"/proc/{self.pid}/fd").iterdir())))
            time.sleep(0.003)
        return min(counts)

    def pages(self) -> int:
        return Path(f"/proc/{self.pid}/maps").read_text().count("memfd:vscaf-page")

    def anonymous_kib(self) -> int:
        return int(Path(f"/proc/{self.pid}/status").read_text().split("RssAnon:")[1].split()[0])

    def used_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def goes_on(self, program: Program) -> None:
        beat = program.beat()
        wait_until(lambda: program.beat() >= beat + 3, "periods to go on")

    def close(self) -> None:
        for process in self.attackers:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        super().close()


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        yield Path(directory)


@pytest.fixture
def place(directory: Path) -> Iterator[Place]:
    place = Place(directory)
    try:
        yield place
    finally:
        place.close()


@pytest.fixture
def wide(directory: Path) -> Iterator[Place]:
    """A place with 16 CPUs."""
    place = Place(directory, cpus=16)
    try:
        yield place
    finally:
        place.close()


# Pages


def test_agent_and_others_programs_are_out_of_reach(place: Place) -> None:
    place.start()
    victim = place.join_as(VICTIM)
    victim.say("told 3")
    results = place.attacked("look", place.pid, victim.pid)
    assert len(results) > 80 and set(results.values()) <= {"EACCES", "EPERM"}, results
    assert place.process is not None and place.process.poll() is None and victim.process.poll() is None
    place.goes_on(victim)


def test_same_user_reaches_its_own_as_a_check_of_the_attack(place: Place) -> None:
    place.start()
    own = place.join_as(ATTACKER)
    own.say("told 3")
    results = place.attacked("look", own.pid)
    assert "done" in results.values(), "the attack itself does not work"


def test_own_page_cannot_be_turned_against_the_agent(place: Place) -> None:
    """The page is sealed, so it cannot shrink and cause SIGBUS. A hole in it only loses what was written there."""
    place.start("--period-ms", "20")
    victim = place.join_as(VICTIM)
    attack = place.attack("own_page", place.socket_path)
    results = place.result(attack)
    assert results["shrink"] == results["grow"] == results["seal"] == "EPERM"
    assert results["file of its own"] in {"done", "EPERM"}
    place.goes_on(victim)
    for _ in range(20):
        place.message("report")
    place.goes_on(victim)


def test_memory_of_pages_comes_back(place: Place) -> None:
    """A process that joins and leaves may keep its page's file. The memory that the agent paid for is still freed."""
    place.start()
    assert place.attacked("pin_pages", place.socket_path, 60) == {"pages": 60, "blocks": 0}
    wait_until(lambda: place.pages() == 0, "the pages to be unmapped")


# Minimum and shares


def test_lies_gain_what_perfect_scaling_would(wide: Place) -> None:
    wide.start()
    honest, liar = wide.join_as(VICTIM), wide.join_as(ATTACKER)
    for program in (honest, liar):
        program.say("busy 1")
    honest.say("estimate 0 16 16000000 10000 30")
    for claim in ("2 4000000", "3 6000000", "16 32000000", "4096 8192000000"):
        liar.say(f"estimate 0 {claim} 1 4294967295")
        liar.say("most 4294967295")
        p = int(claim.split()[0])
        wide.message("report", lambda r, p=p: any(one["p"] == p for q in r["processes"] for one in q["points"]))
        for _ in range(3):
            report = wide.message("report", lambda r: all(process["running"] for process in r["processes"]))
            assert next(q["team"] for q in report["processes"] if q["pid"] == honest.pid) >= 8, claim
    wait_until(lambda: (honest.team(), liar.team()) == (8, 8), "half of the CPUs for each while both run")
    honest.say("estimate 0 2 1010000 10000 30")
    wait_until(lambda: (honest.team(), liar.team()) == (1, 15), "the minimum for the program that scales badly")


def test_many_processes_leave_others_their_minimum(place: Place) -> None:
    place.start()
    victim = place.join_as(VICTIM)
    many = [place.join_as(ATTACKER) for _ in range(9)]
    for program in many:
        program.say("counts 18446744073709551615 5")
        program.say("estimate 0 4 8000000 1 4294967295")
    victim.say("busy 1")
    for _ in range(10):
        report = place.message("report")
        assert all(process["team"] >= 1 for process in report["processes"])
    assert victim.team() >= 1
    for program in many:
        program.kill()
    wait_until(lambda: victim.team() == 4, "all CPUs again")


def test_one_process_counts_once(place: Place) -> None:
    place.start()
    victim = place.join_as(VICTIM)
    attack = place.result(place.attack("join_often", place.socket_path, 20))
    assert attack["joined"] == 20
    report = place.message("report", lambda r: any(p["pid"] == attack["pid"] for p in r["processes"]))
    assert sorted(p["pid"] for p in report["processes"]) == sorted([victim.pid, attack["pid"]])
    wait_until(lambda: place.pages() == 2, "one page each")


def make_with_number(pid: int) -> int:
    """Starts a process of the victim with that PID, by clone3(), which lets the caller choose the PID."""
    numbers = (ctypes.c_int * 1)(pid)
    arguments = struct.pack("11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(numbers), 1, 0)
    made = int(ctypes.PyDLL(None, use_errno=True).syscall(CLONE3, arguments, len(arguments)))  # keeps Python's lock
    if made == 0:
        try:
            os.setgroups([])
            os.setgid(VICTIM)
            os.setuid(VICTIM)
            os.execv("/bin/sleep", ["sleep", "1000"])
        finally:
            os._exit(99)
    assert made == pid, os.strerror(ctypes.get_errno())
    return made


@contextlib.contextmanager
def another_with_number(pid: int) -> Iterator[None]:
    """A process of the victim with the PID of a process that is gone."""
    made = make_with_number(pid)
    try:
        yield
    finally:
        os.kill(made, signal.SIGKILL)
        os.waitpid(made, 0)


@contextlib.contextmanager
def held_up(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("old_kernel", [False, pytest.param(True, marks=filters)])
def test_number_of_another_process_does_not_join(place: Place, old_kernel: bool) -> None:
    """The process that connected is gone before the agent looks, and another user's process has its PID."""
    place.start(preexec_fn=without_peer_process if old_kernel else None)
    with held_up(place.pid):
        attack = place.attack("join_for_the_dead", place.socket_path, "waits")
        pid = place.result(attack)["pid"]
        (place.proc / str(pid)).symlink_to(f"/proc/{pid}")
        with another_with_number(pid):
            os.kill(place.pid, signal.SIGCONT)
            attack.communicate("go\n", timeout=DEADLINE_S)
            place.fresh()
            report = place.message("report")
            assert attack.returncode == 3, "it has joined"
            assert report["processes"] == []


@pytest.mark.parametrize("old_kernel", [False, pytest.param(True, marks=filters)])
def test_number_of_another_process_does_not_stay(place: Place, old_kernel: bool) -> None:
    """The process that joined is gone, its connection is held open, and another process has its PID."""
    place.start(preexec_fn=without_peer_process if old_kernel else None)
    attack = place.attack("die_after_join", place.socket_path)
    pid = place.result(attack)["joined"]
    (place.proc / str(pid)).symlink_to(f"/proc/{pid}")
    place.message("report", lambda r: [p["pid"] for p in r["processes"]] == [pid])
    with held_up(place.pid):
        assert attack.stdin is not None
        attack.stdin.write("go\n")
        attack.stdin.flush()
        assert place.result(attack)["gone"] == pid
        with another_with_number(pid):
            os.kill(place.pid, signal.SIGCONT)
            place.message("report", lambda r: r["processes"] == [])


def test_end_of_a_process_is_seen_at_once(place: Place) -> None:
    """It joined and is gone, and its connection is held open. That is an event, so no period is needed."""
    place.start(*NEVER)
    witness = place.join_as(VICTIM)
    attack = place.attack("die_after_join", place.socket_path)
    place.result(attack)
    assert place.pages() == 2 and attack.stdin is not None
    attack.stdin.write("go\n")
    attack.stdin.flush()
    place.result(attack)
    without_a_period(witness, lambda: place.pages() == 1, "its page to be unmapped")


def test_nobody_joins_for_the_dead(place: Place) -> None:
    place.start()
    result = place.attacked("join_for_the_dead", place.socket_path)
    assert result["closed"]
    place.message("report", lambda r: r["processes"] == [])


# Descriptors and memory


def test_limit_of_one_user(place: Place) -> None:
    place.start("--per-user", "5")
    many = [place.join_as(ATTACKER) for _ in range(8)]
    assert [one.greeting for one in many] == ["joined"] * 5 + ["status 2 version 3"] * 3
    assert place.join_as(VICTIM).greeting == "joined" == place.join_as(0).greeting
    many[0].kill()
    wait_until(lambda: place.pages() == 6, "the killed program's page to be unmapped")
    assert place.join_as(ATTACKER).greeting == "joined"
    wait_for_log(place, f"5 of them of user {ATTACKER}")
    assert place.log.read_text().count(f"5 of them of user {ATTACKER}") == 1, place.log.read_text()


def test_silent_connections_keep_nobody_out(place: Place) -> None:
    place.start()
    first = place.join_as(VICTIM)
    before = place.descriptors()
    attack = place.attack("hold_silent", place.socket_path, 200)
    place.result(attack)
    wait_until(lambda: place.descriptors() >= before + JOINING_PLACES // 2, "the attack to be under way")
    most = 0
    for _ in range(15):
        assert place.join_as(VICTIM).greeting == "joined"
        most = max(most, place.descriptors())
    assert most <= before + EACH * (15 + JOINING_PLACES) + 16, "16 are accepted and refused in one turn"
    place.goes_on(first)
    attack.kill()
    wait_until(lambda: place.descriptors() <= before + EACH * 15, "the silent connections to be closed")


@pytest.mark.parametrize("joins", ["no", "yes"])
def test_floods_keep_nobody_out(place: Place, joins: str) -> None:
    place.start()
    place.join_as(VICTIM)
    before, used_s, began = place.descriptors(), place.used_s(), time.monotonic()
    attacks = [place.attack("flood", place.socket_path, 4, joins) for _ in range(2)]
    while any(attack.poll() is None for attack in attacks):
        program = place.join_as(VICTIM)
        assert program.greeting == "joined"
        program.kill()
        place.message("report")
        assert place.descriptors() <= before + EACH * (1 + JOINING_PLACES) + 16
    results = [place.result(attack) for attack in attacks]
    share = (place.used_s() - used_s) / (time.monotonic() - began)
    print(f"{joins=}: {share:.1%} of a CPU; {results}")
    # test_connections.c checks how much CPU time serving takes at most.
    # 100 joins at once, then 20 a second. The time is measured from before the first join to after the last.
    managed = sum(result.get("status 0", 0) for result in results)
    assert managed <= 100 + 20 * (time.monotonic() - began) + 1, results
    wait_for_log(place, "logged once")
    assert place.log.read_text().count("logged once") == 1
    wait_until(lambda: place.descriptors() <= before, "all connections to be closed")


LIST = "system.posix_acl_access"


@pytest.fixture
def with_lists(place: Place) -> Place:
    """A place whose file system has access control lists."""
    probe = place.directory / "probe"
    probe.touch()
    entries = b"".join(struct.pack("<HHI", *one) for one in [(1, 6, 2**32 - 1), (4, 6, 2**32 - 1), (32, 6, 2**32 - 1)])
    try:
        os.setxattr(probe, LIST, struct.pack("<I", 2) + entries)
    except OSError:
        pytest.skip(f"no access control lists on the file system of {place.directory}")
    return place


def test_flooding_user_is_shut_out_and_let_in_again(with_lists: Place) -> None:
    place = with_lists
    place.start()
    assert place.attacked("flood_until_barred", place.socket_path)["barred"]
    assert place.join_as(VICTIM).greeting == "joined"
    wait_until(lambda: place.join_as(ATTACKER).greeting == "joined", "the user to be able to join again")
    assert LIST not in os.listxattr(place.socket_path)
    assert place.socket_path.stat().st_mode & 0o777 == 0o666


@contextlib.contextmanager
def container(outside: int) -> Iterator[list[str]]:
    """A user namespace that root makes, with the ids of one user outside. Yields what runs a command in it."""
    keeper = subprocess.Popen(["unshare", "--user", "sleep", "infinity"])
    own, inside = Path("/proc/self/ns/user").readlink(), Path(f"/proc/{keeper.pid}/ns/user")
    try:
        wait_until(lambda: inside.readlink() != own or keeper.poll() is not None, "a user namespace")
        if keeper.poll() is not None:
            pytest.skip("user namespaces cannot be made here")
        for kind in ("uid", "gid"):
            Path(f"/proc/{keeper.pid}/{kind}_map").write_text(f"0 {outside} 1\n")
        yield ["nsenter", f"--user={inside}"]
    finally:
        keeper.kill()
        keeper.wait()


def test_flood_of_a_container_keeps_out_no_other(with_lists: Place) -> None:
    """With userns-remap all containers have the same user ids outside, which the list of the socket names."""
    place = with_lists
    place.start("--proc", "/proc")
    with container(ATTACKER) as first, container(ATTACKER) as second:
        flood = place.attacked("flood_until_barred", place.socket_path, 1000, user=None, prefix=first)
        assert flood == {"barred": False}
        command = [*second, str(place.program), str(place.socket_path)]
        place.programs.append(program := Program(place.socket_path, command=command))
        assert program.greeting == "joined"
    assert "user namespace" in place.log.read_text(), "the flood was refused"


def test_flood_of_processes_that_have_ended_shuts_nobody_out(with_lists: Place) -> None:
    """It is not known whether they were in a container, and so not whose flood it is."""
    place = with_lists
    place.start("--proc", "/proc")
    with held_up(place.pid):
        place.attacked("flood_of_the_dead", place.socket_path, 300)
    assert place.join_as(VICTIM).greeting == "joined", "after all of them were accepted"
    assert LIST not in os.listxattr(place.socket_path)
    assert f"user {ATTACKER} connects more" in place.log.read_text(), "they were refused"


def test_lack_of_descriptors_is_no_busy_loop(place: Place) -> None:
    """The agent of an ordinary user cannot raise its descriptor limit. More programs connect than it can take."""
    run = place.directory / "run"
    run.mkdir()
    os.chown(run, VICTIM, VICTIM)
    agent = place.directory / "agent"
    shutil.copy(AGENT, agent)
    limited = ["prlimit", "--nofile=20:20", str(agent), "--standalone"]
    with place.log.open("ab") as log:
        place.process = subprocess.Popen(
            [*limited, "--socket", place.socket_path, "--sysfs", place.sysfs, "--proc", place.proc],
            stderr=log,
            env={**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=1"},
            **as_user(VICTIM),
        )
    wait_until(place.reachable, "the agent's socket")
    first = place.join_as(VICTIM)
    attack = place.attack("hold_silent", place.socket_path, 60)
    place.result(attack)
    wait_until(lambda: "a program cannot join" in place.log.read_text(), "the lack of descriptors in the log")
    used_s, beat = place.used_s(), first.beat()
    wait_until(lambda: first.beat() >= beat + 12, "twelve periods with the lack")
    assert place.used_s() - used_s < 0.3, "the agent spins"
    attack.kill()
    wait_until(lambda: place.join_as(VICTIM).greeting == "joined", "free descriptors again")
    wait_for_log(place, "20 descriptors")


# Crashes


@pytest.mark.parametrize("seed", [1, 2])
def test_garbage_packets(place: Place, seed: int) -> None:
    place.start("--period-ms", "20", sanitizer=KEEPS_NOTHING)
    victim = place.join_as(VICTIM)
    before, memory = place.descriptors(), place.anonymous_kib()
    attacks = [place.attack("garbage", place.socket_path, 10 * seed + i, 150, user=ATTACKER + 10 + i) for i in range(3)]
    for attack in attacks:
        assert place.result(attack)["sent"] > 30  # of all packets of 150 connections
    place.goes_on(victim)
    wait_until(lambda: place.descriptors() <= before and place.pages() == 1, "descriptors and pages to be freed")
    assert place.anonymous_kib() < memory + 4096
    assert place.join_as(VICTIM).greeting == "joined"


def without_passrights() -> None:
    """Called in a child. From then on setsockopt(SO_PASSRIGHTS) fails, as it does before Linux 6.16."""
    without_option(54, 83)


def without_peer_process() -> None:
    """The same for getsockopt(SO_PEERPIDFD), which exists since Linux 6.5."""
    without_option(55, 77)


def without_option(system_call: int, option: int) -> None:
    instructions = [
        (0x20, 0, 0, 0),  # load the system call's number
        (0x15, 0, 3, system_call),
        (0x20, 0, 0, 16 + 2 * 8),  # load its third argument
        (0x15, 0, 1, option),
        (0x06, 0, 0, 0x00050000 | 92),  # ENOPROTOOPT
        (0x06, 0, 0, 0x7FFF0000),  # allow
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        os._exit(99)


@pytest.mark.parametrize("old_kernel", [False, pytest.param(True, marks=filters)])
def test_attached_descriptors(place: Place, old_kernel: bool) -> None:
    """They are not kept. Descriptors whose last close takes hours do not hold the agent up."""
    place.start(preexec_fn=without_passrights if old_kernel else None)
    victim = place.join_as(VICTIM)
    before = place.descriptors()
    # The agent is stopped, so that the senders exit before it reads the packets. Then it has the last reference.
    os.kill(place.pid, signal.SIGSTOP)
    try:
        attack = place.attack("attach", place.socket_path, 6)
        results = place.result(attack)
    finally:
        os.kill(place.pid, signal.SIGCONT)
    if old_kernel:
        assert results.get("done", 0) >= 6, results
    place.goes_on(victim)
    attack.kill()
    wait_until(lambda: place.descriptors() <= before and place.pages() == 1, "descriptors and pages to be freed")
    place.goes_on(victim)
    children = Path(f"/proc/{place.pid}/task/{place.pid}/children")
    wait_until(lambda: children.read_text() == "", "the child processes that close them to end")


# The socket, the log


def test_socket_cannot_be_replaced(place: Place) -> None:
    place.start()
    results = place.attacked("replace", place.socket_path)
    assert set(results.values()) <= {"EACCES", "EPERM", "EADDRINUSE", "ENODATA"}, results
    assert place.join_as(VICTIM).greeting == "joined"


@pytest.mark.parametrize(
    ("mode", "owner", "accepted"),
    [(0o755, 0, True), (0o1777, 0, True), (0o777, 0, False), (0o775, 0, False), (0o755, ATTACKER, False)],
)
def test_socket_directory_that_others_can_write_is_refused(place: Place, mode: int, owner: int, accepted: bool) -> None:
    run = place.socket_path.parent
    run.mkdir()
    os.chown(run, owner, owner)
    run.chmod(mode)
    if accepted:
        place.start("--standalone")
        assert place.join_as(VICTIM).greeting == "joined"
        return
    command = [str(AGENT), "--socket", str(place.socket_path), "--sysfs", str(place.sysfs), "--standalone"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 1 and f"directory {run}: " in result.stderr and "755" in result.stderr
    assert not place.socket_path.exists()


def test_symbolic_link_in_place_of_the_socket(place: Place) -> None:
    """A symbolic link that another user left in a directory with a sticky bit is neither followed nor removed."""
    run = place.socket_path.parent
    run.mkdir()
    run.chmod(0o1777)
    target = place.directory / "target"
    target.write_text("precious")
    place.socket_path.symlink_to(target)
    os.chown(place.socket_path, ATTACKER, ATTACKER, follow_symlinks=False)
    command = [str(AGENT), "--socket", str(place.socket_path), "--sysfs", str(place.sysfs), "--standalone"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 1 and "something else is there" in result.stderr
    assert target.read_text() == "precious" and target.stat().st_mode & 0o777 == 0o644


def test_names_cannot_forge_the_log(place: Place) -> None:
    place.start("--per-user", "1")
    forged = b"x\nvscaf-agent: \x1b[31mall is w"
    attack = place.attack("named", place.socket_path, forged.hex())
    assert place.result(attack)["joined"]
    printable = "x?vscaf-agent: ?[31mall is w"
    report = place.message("report", lambda r: r["processes"])
    assert [p["name"] for p in report["processes"]] == [printable]
    assert not place.result(place.attack("named", place.socket_path, forged.hex()))["joined"]
    text = place.log.read_text()
    assert printable in text and "\x1b" not in text
    assert all(re.match(r"\d{4}-[-\dT:]+Z vscaf-agent: [a-z]+: ", line) for line in text.splitlines()), text


def test_attackers_do_not_outlive_the_tests(place: Place) -> None:
    place.start()
    attack = place.attack("join_often", place.socket_path, 3)
    assert place.result(attack)["joined"] == 3
    attack.send_signal(signal.SIGKILL)
    wait_until(lambda: place.pages() == 0, "its pages to be unmapped")
