"""The agent as a service: messages to its manager, its log, --check, and the script for systems without a manager."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import AGENT, BUILD, DEADLINE_S, Program, Rig, wait_until

SERVICE = BUILD / "guest-agent" / "service"
LIBRARY = BUILD / "guest-libgomp" / "libvscaf-gomp.so"


def joined(rig: Rig) -> Program:
    """A program that has joined. The agent drops one that gets no CPU after it connects. Then this tries another."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        program = rig.join()
        if program.greeting == "joined":
            return program
        program.kill()
        rig.programs.remove(program)
    raise AssertionError(f"no program could join within {DEADLINE_S} s")


class Manager:
    """A service manager's notify socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(DEADLINE_S)

    def told(self) -> str:
        """The next message."""
        return self.socket.recv(4096).decode()

    def told_until(self, state: str) -> list[str]:
        """All messages until this one, included."""
        messages = [self.told()]
        while messages[-1] != state:
            messages.append(self.told())
        return messages

    def drain(self) -> None:
        """Discards all waiting messages."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(4096):
                pass
        except BlockingIOError:
            self.socket.settimeout(DEADLINE_S)


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    name = str(rig.directory / "notify")
    manager = Manager("\0" + name if request.param == "abstract" else name)
    monkeypatch.setenv("NOTIFY_SOCKET", "@" + name if request.param == "abstract" else name)
    yield manager
    manager.socket.close()


def test_tells_when_programs_can_join_and_when_it_ends(rig: Rig, manager: Manager) -> None:
    rig.start("--standalone")
    assert manager.told() == "READY=1"
    assert rig.socket_path.exists()
    assert manager.told() == "STATUS=no host; 4 of 4 CPUs for 0 programs"
    joined(rig)
    assert manager.told() == "STATUS=no host; 4 of 4 CPUs for 1 program"
    assert rig.stop() == 0
    assert manager.told_until("STOPPING=1") == ["STOPPING=1"]


def test_is_not_ready_where_it_cannot_start(rig: Rig, manager: Manager) -> None:
    done = subprocess.run([AGENT, "--sysfs", rig.directory / "nowhere"], capture_output=True, check=False)
    assert done.returncode == 1
    manager.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.told()


def test_gives_signs_of_life_whatever_the_period_and_after_it_hung(
    rig: Rig, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    rig.start("--standalone", "--period-ms", "60000")
    for _ in range(5):
        manager.told_until("WATCHDOG=1")
    assert rig.process is not None
    rig.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: stopped(rig.process.pid), "the agent to stop")  # type: ignore[union-attr]
    manager.drain()
    rig.process.send_signal(signal.SIGCONT)
    manager.told_until("WATCHDOG=1")


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def test_a_watchdog_for_another_process_is_not_served(
    rig: Rig, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    rig.start()
    beat = joined(rig)
    before = beat.beat()
    wait_until(lambda: beat.beat() > before + 5, "some periods")
    rig.stop()
    assert "WATCHDOG=1" not in manager.told_until("STOPPING=1")


def test_a_manager_that_does_not_listen_holds_up_nothing(
    rig: Rig, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")  # the manager's queue is soon full
    rig.start("--standalone")
    program = joined(rig)
    before = program.beat()
    wait_until(lambda: program.beat() > before + 20, "periods to go on")
    assert rig.stop() == 0


@pytest.mark.parametrize("address", ["/nowhere/at/all", "not an address", "@", "@" + "x" * 200])
def test_a_manager_that_is_not_there_is_no_reason_to_fail(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", "1")
    rig.start("--standalone")
    program = joined(rig)
    wait_until(lambda: program.beat() > 2, "some periods")


def test_logs_allocations_from_what_to_what(rig: Rig) -> None:
    rig.start("--log-level", "info")
    for cpus in (2, 2, 4, 0):
        rig.ack(rig.allocate(cpus))
    lines = ["allocation 101: 4 -> 2 CPUs, online 0-3 -> 0-1", "allocation 103: 2 -> 4 CPUs, online 0-1 -> 0-3"]
    lines.append("allocation 104: 4 -> 0 CPUs (the guest rests), online 0-3 -> 0-3")
    wait_until(lambda: "allocation 104" in rig.log.read_text(), "the last allocation in the log")
    log = rig.log.read_text().splitlines()
    assert [line.split("info: ")[1] for line in log if "allocation" in line] == lines
    assert re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ vscaf-agent: notice: vscaf-agent \S+ serves programs at /", log[0]
    )
    rig.accept_after_close()
    wait_until(lambda: rig.log.read_text().count("the host is connected") == 2, "the host again in the log")
    assert rig.log.read_text().count("the host is gone") == 1


def test_logs_programs_only_if_asked(rig: Rig) -> None:
    rig.start("--standalone", "--log-level", "debug")
    program = joined(rig)
    wait_until(lambda: f"process {program.pid} (joined-program)" in rig.log.read_text(), "the join in the log")
    wait_until(lambda: f"{program.pid} (joined-program): team 0 -> 4" in rig.log.read_text(), "its team in the log")
    program.kill()
    rig.programs.remove(program)
    wait_until(lambda: f"process {program.pid} (joined-program) has left" in rig.log.read_text(), "the end in the log")


def test_logs_nothing_below_its_level(rig: Rig) -> None:
    rig.start("--log-level", "error")
    rig.ack(rig.allocate(2))
    rig.raw(b"garbage\n")
    rig.ack(rig.allocate(4))
    assert rig.log.read_text() == ""


def test_programs_cannot_flood_the_log(rig: Rig) -> None:
    rig.start("--standalone", "--log-level", "debug")
    for _ in range(60):
        program = joined(rig)
        program.kill()
        rig.programs.remove(program)
    last = joined(rig)
    wait_until(lambda: last.team() == 4, "the last program to be served")
    # On a slow machine this may take longer than a minute. Then another minute of the log has begun.
    windows = 1 + rig.log.read_text().count("lines left out")
    assert len(rig.log.read_text().splitlines()) <= windows * 61


def test_a_log_that_nobody_reads_holds_up_nothing(rig: Rig) -> None:
    take, give = os.pipe()
    fcntl.fcntl(give, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(give, False)
    try:
        while os.write(give, b"x" * 64):
            pass
    except BlockingIOError:
        os.set_blocking(give, True)
    command = [AGENT, "--standalone", "--log-level", "debug", "--socket", rig.socket_path, "--sysfs", rig.sysfs]
    with subprocess.Popen([*command, "--proc", rig.proc, "--period-ms", "50"], stderr=give) as agent:
        try:
            wait_until(rig.socket_path.exists, "the agent's socket")
            for _ in range(3):
                program = joined(rig)
                wait_until(lambda program=program: program.team() > 0, "the program to be served")
        finally:
            agent.terminate()
        os.close(take)  # a sanitizer's output could block, too
        os.close(give)
        assert agent.wait(DEADLINE_S) == 0


def check(rig: Rig, *options: str, **environment: str) -> tuple[int, dict[str, str]]:
    """The exit status, and the text for each checked thing. It starts with "note:" or "missing:" if it is not ok."""
    command = [AGENT, "--check", "--sysfs", rig.sysfs, "--proc", "/proc", "--socket", rig.socket_path, *options]
    environment = {**os.environ, "VSCAF_GOMP_LIBRARY": str(LIBRARY.resolve()), **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    *lines, last = done.stdout.splitlines()
    found = {}
    for line in lines:
        match = re.fullmatch(r"(ok|missing|note) +([^:]+): (.*)", line)
        assert match, line
        found[match[2]] = match[3] if match[1] == "ok" else f"{match[1]}: {match[3]}"
    missing = sum(text.startswith("missing") for text in found.values())
    assert last == ("Everything that is needed is there." if missing == 0 else last)
    assert (done.returncode == 0) == (missing == 0), done.stdout
    return done.returncode, found


def test_check_finds_all_there(rig: Rig) -> None:
    rig.start("--standalone")
    assert rig.process is not None
    status, found = check(rig, "--standalone")
    while "does not answer" in found["agent"]:  # within 2 s, because it got no CPU
        status, found = check(rig, "--standalone")
    assert status == 0, found
    assert found["CPUs"] == "4 online of 4 present of 4 possible; 3 can be switched"
    assert found["agent"] == f"process {rig.process.pid} serves programs at {rig.socket_path}"
    assert found["shim"] == str(LIBRARY.resolve())
    assert found["port"] == "note: not used, by --standalone"
    assert found["memory files"] == "memfd_create works" and found["procfs"] == "/proc/stat"


def test_check_sees_a_port_that_is_not_there_and_one_that_is(rig: Rig) -> None:
    status, found = check(rig, "--port", str(rig.directory / "absent"))
    assert status == 1 and "absent: No such file or directory: give the domain a channel" in found["port"]
    assert found["agent"].startswith("note: no agent serves programs at")
    plain = rig.directory / "plain"
    plain.touch()
    assert check(rig, "--port", str(plain))[1]["port"].startswith("missing: ")
    assert check(rig, "--port", str(rig.port_path))[1]["port"] == f"{rig.port_path}, a socket"


def test_check_sees_cpus_that_cannot_be_switched(rig: Rig) -> None:
    for number in (1, 2, 3):
        (rig.cpus / f"cpu{number}" / "online").unlink()
    status, found = check(rig)
    assert status == 1 and found["CPUs"].startswith("missing: 3 of 3 cannot be switched: the kernel offers no")
    assert check(rig, "--standalone")[1]["CPUs"].startswith("note: 4 online of 4 present")
    assert "give its place with --sysfs" in check(rig, "--sysfs", "/nowhere")[1]["CPUs"]


def test_check_sees_an_agent_that_hangs(rig: Rig) -> None:
    rig.start("--standalone")
    assert rig.process is not None
    rig.process.send_signal(signal.SIGSTOP)
    try:
        status, found = check(rig, "--standalone")
    finally:
        rig.process.send_signal(signal.SIGCONT)
    assert status == 1 and "does not answer within 2 s: restart it" in found["agent"]


def test_check_sees_an_agent_of_another_version(rig: Rig) -> None:
    rig.socket_path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(str(rig.socket_path))
        other.listen(1)
        command = [AGENT, "--check", "--standalone", "--sysfs", rig.sysfs, "--socket", rig.socket_path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
            connection, _ = other.accept()
            with connection:
                magic = connection.recv(100)[:4]
                connection.send(magic + b"".join(number.to_bytes(4, sys.byteorder) for number in (77, 1, 0)))
                assert asking.stdout is not None
                said = asking.stdout.read()
    assert "has page version 77, this program has 3: restart it after an update" in said and asking.returncode == 1


def test_check_sees_a_socket_that_cannot_be(rig: Rig) -> None:
    rig.socket_path.parent.mkdir()
    rig.socket_path.touch()
    assert "something else is there" in check(rig, "--standalone")[1]["socket"]
    assert "give a shorter path" in check(rig, "--standalone", "--socket", "/" + "x" * 200)[1]["socket"]


def test_check_sees_a_shim_that_does_not_load(rig: Rig) -> None:
    broken = rig.directory / "broken.so"
    broken.write_text("this is no library")
    status, found = check(rig, "--standalone", VSCAF_GOMP_LIBRARY=str(broken))
    assert status == 1 and "cannot be loaded" in found["shim"] and "file too short" in found["shim"]
    status, found = check(rig, "--standalone", VSCAF_GOMP_LIBRARY="/nowhere.so", PATH="/nowhere")
    assert status == 1 and found["shim"].startswith("missing: /nowhere.so: No such file")
    assert found["vscaf-run"].startswith("note: not in PATH")


@pytest.fixture
def keeper(rig: Rig) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of vscaf-agent-run. They end with the test."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        process.terminate()
        process.wait(DEADLINE_S)


SHELLS = [["/bin/sh"], ["busybox", "sh"]]


def keep(rig: Rig, agent: Path, *options: str, shell: list[str] = SHELLS[0]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "VSCAF_AGENT": str(agent)}
    with rig.log.open("ab") as log:
        return subprocess.Popen([*shell, SERVICE / "vscaf-agent-run", *options], stderr=log, env=environment)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("shell", SHELLS, ids=["sh", "busybox"])
def test_the_script_starts_a_killed_agent_again_and_ends_with_it(
    rig: Rig, keeper: list[subprocess.Popen[bytes]], shell: list[str]
) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    options = ["--standalone", "--socket", str(rig.socket_path), "--sysfs", str(rig.sysfs), "--proc", str(rig.proc)]
    keeper.append(keep(rig, AGENT.resolve(), *options, shell=shell))
    wait_until(lambda: "serves programs" in rig.log.read_text(), "the agent's start in the log")
    (first,) = children(keeper[0].pid)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: "ended with status 137: starting it again in 1 s" in rig.log.read_text(), "the script's message")
    wait_until(lambda: rig.log.read_text().count("serves programs") == 2, "another agent")
    (second,) = children(keeper[0].pid)
    assert second != first
    joined(rig)
    keeper[0].terminate()
    assert keeper.pop().wait(DEADLINE_S) == 0
    assert not Path(f"/proc/{second}").exists() and not rig.socket_path.exists()


def test_the_script_waits_longer_after_each_failure(rig: Rig, keeper: list[subprocess.Popen[bytes]]) -> None:
    failing = rig.directory / "failing"
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o755)
    keeper.append(keep(rig, failing))
    wait_until(lambda: "again in 4 s" in rig.log.read_text(), "the third pause")
    assert re.findall(r"again in (\d+) s", rig.log.read_text())[:3] == ["1", "2", "4"]
    keeper[0].terminate()  # during a pause it must end at once
    assert keeper.pop().wait(DEADLINE_S) == 0


def test_the_script_does_not_repeat_wrong_options(rig: Rig) -> None:
    assert keep(rig, AGENT.resolve(), "--wrong").wait(DEADLINE_S) == 2
    assert "no such option" in rig.log.read_text() and "again" not in rig.log.read_text()
    assert keep(rig, rig.directory / "absent").wait(DEADLINE_S) == 127


def analyze(*words: str) -> str:
    """The errors that systemd-analyze prints about the unit."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit cannot be checked")
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False).stderr


def test_the_unit_is_sound(tmp_path: Path) -> None:
    unit = tmp_path / "vscaf-agent.service"
    text = (SERVICE / "vscaf-agent.service").read_text()
    assert "@" not in re.sub(r"#.*|=~@.*|=@system-service", "", text), "a placeholder was not replaced"
    unit.write_text(re.sub(r"ExecStart=\S+", f"ExecStart={AGENT.resolve()}", text))
    words = analyze("verify", "--man=no", str(unit))
    assert not [line for line in words.splitlines() if "vscaf" in line], words


def test_the_unit_is_confined(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit cannot be checked")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    done = subprocess.run([*command, SERVICE / "vscaf-agent.service"], capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr or "Failed to" in done.stderr:
        pytest.skip(f"systemd-analyze cannot check the unit on this system: {done.stderr.strip()}")
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found.group(1)) <= 3.0, done.stdout
