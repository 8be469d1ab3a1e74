"""The real agent in a private directory, with a socket as its port, plain files as its sysfs, and real programs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from schema import accepts

BUILD = Path(os.environ.get("VSCAF_BUILD", "build")).absolute()
AGENT = BUILD / "guest-agent" / "vscaf-agent"
PROGRAM = BUILD / "guest-agent" / "joined-program"
DEADLINE_S = 300.0  # catches hangs: a wait takes a second or two, or some minutes on a busy machine
# A sanitizer keeps freed memory to find late uses of it. It keeps a little, or none if a test measures memory growth.
KEEPS_A_LITTLE = "quarantine_size_mb=1"
# The sanitizer of gcc 13 and later also keeps the stack frames of functions that have returned.
KEEPS_NOTHING = "quarantine_size_mb=0:thread_local_quarantine_size_kb=0:detect_stack_use_after_return=0"

LEARN, EXCLUSIVE = 1, 2
NEVER = ("--period-ms", "60000")  # things must happen without a period; without_a_period() checks that
HANGS_MS = 3600_000  # the deadline of an order whose sections in flight must end before it

Message = dict[str, Any]


def wait_until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Polls until the condition holds. Raises AssertionError with `what` at the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.005)


def replace(path: Path, text: str) -> None:
    """Writes a file that a running agent reads, as a new file that takes its place. So no half of it is ever read."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.rename(path)


def wait_for_log(rig: Rig, words: str) -> None:
    """Waits until the agent has logged *words*. The agent may act before it logs."""
    wait_until(lambda: words in rig.log.read_text(), f"{words!r} in the log")


def without_a_period(program: Program, condition: Callable[[], object], what: str, beats: int = 0) -> None:
    """Waits as wait_until() does, for things that must happen without a period. The agent's beat shows that no period
    (or at most `beats` since its start) came in between. The agent's period must be far longer than the wait."""
    wait_until(condition, what)
    assert program.beat() == beats, f"it took a period: {what}"


def team_of(report: Message, pid: int) -> int:
    return next((p["team"] for p in report["processes"] if p["pid"] == pid), 0)


def as_user(user: int | None) -> dict[str, Any]:
    """Arguments of Popen that run a command as that user. No account needs to have the number."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def go_first(pid: int) -> None:
    """Raises the priority of a test's process. In a period without any CPU time it would pass for idle, and the machine
    may be busy. The agent's service does the same for the agent (Nice=). Only root may do so; others go without."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, -10)


def listens(path: Path) -> bool:
    """Whether an agent can be joined there. Its socket's file exists a moment earlier."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0


class Program:
    """A process of joined_program.c, as another user if given, or any command that starts one."""

    def __init__(
        self,
        socket_path: Path,
        version: int | None = None,
        user: int | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        if command is None:
            command = [str(PROGRAM), str(socket_path)] + ([str(version)] if version is not None else [])
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", **as_user(user)
        )
        go_first(self.process.pid)
        self.greeting = self._read()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._read()

    def team(self) -> int:
        return int(self.say("page").split()[0])

    def team_limit(self) -> int:
        return int(self.say("page").split()[1])

    def beat(self) -> int:
        return int(self.say("page").split()[2])

    def control(self) -> tuple[int, int]:
        """The control bits except those of the call, and the learning budget in parts per million."""
        bits, budget_ppm = map(int, self.say("control").split())
        return bits & 3, budget_ppm

    def asked(self) -> int:
        """The number of the call that the agent asks for at the next section. 0: it asks for none."""
        bits = int(self.say("control").split()[0])
        return bits >> 8 if bits & 4 else 0

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # it ended before it read a command
                    stream.close()


class Rig:
    """One agent and the host's end of its port. The fake sysfs has `present` of `possible` CPUs, all online."""

    def __init__(self, directory: Path, possible: int = 4, present: int = 4) -> None:
        self.directory = directory
        self.sysfs = directory / "sys"
        self.proc = directory / "proc"
        self.socket_path = directory / "run" / "agent.sock"
        self.port_path = directory / "port"
        cpus = self.sysfs / "devices" / "system" / "cpu"
        cpus.mkdir(parents=True)
        self.cpus = cpus
        (cpus / "possible").write_text(f"0-{possible - 1}\n")
        for number in range(present):
            self.plug(number, online=True)
        self.proc.mkdir()
        self.idle_stat()
        self.programs: list[Program] = []
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(self.port_path))
        self.listener.listen(4)
        self.listener.settimeout(DEADLINE_S)
        self.host: socket.socket | None = None
        self.received = b""
        self.sequence = 100
        self.questions = 1000

    def idle_stat(self, busy_ticks: int = 1000, runnable: int = 1) -> None:
        """Writes the guest's CPU time, as the agent reads it."""
        text = f"cpu  {busy_ticks} 0 0 5000 0 0 0 900 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\nprocs_running {runnable}\n"
        replace(self.proc / "stat", text)

    def plug(self, number: int, online: bool = False) -> None:
        directory = self.cpus / f"cpu{number}"
        directory.mkdir()
        if number > 0:
            replace(directory / "online", "1\n" if online else "0\n")
        self.listed(f"0-{number}" if number > 0 else "0", *(["present", "online"] if online else ["present"]))

    def listed(self, cpus: str, *names: str) -> None:
        """Writes the lists of CPUs with these names, as the agent reads them."""
        for name in names:
            replace(self.cpus / name, f"{cpus}\n")

    def show_threads(self, program: Program) -> None:
        """Shows the agent the real threads of a program, under its --proc."""
        (self.proc / str(program.pid)).symlink_to(f"/proc/{program.pid}")

    def online(self) -> list[int]:
        numbers = sorted(int(path.name[3:]) for path in self.cpus.glob("cpu[0-9]*"))
        return [n for n in numbers if n == 0 or (self.cpus / f"cpu{n}" / "online").read_text().startswith("1")]

    def start(
        self,
        *options: str,
        accept: bool = True,
        prefix: Sequence[str] = (),
        sanitizer: str = KEEPS_A_LITTLE,
        **popen: Any,
    ) -> None:
        """Starts the agent, and the host's end unless `accept` is false. `sanitizer`: ASAN_OPTIONS for such a build."""
        alone = "--standalone" in options
        command = [
            *prefix,
            str(AGENT),
            "--socket",
            str(self.socket_path),
            "--sysfs",
            str(self.sysfs),
            "--proc",
            str(self.proc),
        ]
        command += ["--port", str(self.port_path)] if not alone else []
        environment = {**os.environ, "ASAN_OPTIONS": sanitizer, "CACHE_DIRECTORY": str(self.directory / "cache")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--period-ms", "50", *options], stderr=log, env=environment, **popen
            )
        go_first(self.process.pid)
        wait_until(self.reachable, "the agent's socket")
        if accept and not alone:
            self.accept()

    def reachable(self) -> bool:
        """Whether programs can join. The socket's file exists a moment before it listens. This does not connect, as
        that would take a client's place for a moment."""
        rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
        return any(row[-1] == str(self.socket_path) and int(row[3], 16) & 0x10000 for row in rows if len(row) == 8)

    def accept(self) -> None:
        if self.host is not None:
            self.host.close()
        self.host, _ = self.listener.accept()
        self.host.settimeout(DEADLINE_S)
        self.received = b""

    def accept_after_close(self) -> None:
        """The host's connection is lost, and comes back."""
        assert self.host is not None
        self.host.close()
        self.host = None
        self.accept()

    def raw(self, data: bytes) -> None:
        assert self.host is not None
        self.host.sendall(data)

    def send(self, **fields: Any) -> None:
        self.raw(json.dumps({"v": 1, **fields}, separators=(",", ":")).encode() + b"\n")

    def allocate(self, cpus: int, limit: int = 4, competition: bool = False, deadline_ms: int = 400) -> int:
        self.sequence += 1
        self.send(
            type="allocate",
            sequence=self.sequence,
            cpus=cpus,
            limit=limit,
            competition=competition,
            deadline_ms=deadline_ms,
        )
        return self.sequence

    def line(self) -> bytes:
        assert self.host is not None
        while b"\n" not in self.received:
            data = self.host.recv(65536)
            assert data, "the agent closed its port"
            self.received += data
        line, self.received = self.received.split(b"\n", 1)
        assert accepts(line, "from_guest"), f"does not fit wire/schema.json: {line!r}"
        return line

    def message(self, kind: str, where: Callable[[Message], object] = lambda _: True) -> Message:
        """The next message of that type for which `where` holds."""
        end = time.monotonic() + DEADLINE_S
        last: Message = {}
        while time.monotonic() < end:
            found: Message = json.loads(self.line())
            if found["type"] == kind:
                last = found
                if where(found):
                    return found
        raise AssertionError(f"no such {kind}; the last one was {last}")

    def fresh(self) -> list[Message]:
        """Reads what the agent has sent. What it sends later is newer than this call. Returns the reports that it read.
        It asks in a version that the agent does not speak: the answer says so, and the agent's state stays as it is."""
        self.questions += 1
        self.raw(json.dumps({"v": self.questions, "type": "hello"}).encode() + b"\n")
        reports: list[Message] = []
        while True:
            found: Message = json.loads(self.line())
            if found["type"] == "error" and f", not {self.questions}:" in found["message"]:
                return reports
            if found["type"] == "report":
                reports.append(found)

    def ack(self, sequence: int) -> Message:
        return self.message("ack", lambda message: message["sequence"] == sequence)

    def join(self, version: int | None = None) -> Program:
        program = Program(self.socket_path, version)
        self.programs.append(program)
        return program

    def stop(self) -> int:
        """Ends the agent by SIGTERM. Returns its exit status: not 0 if a sanitizer's build found leaks or errors."""
        assert self.process is not None
        self.process.terminate()
        status = self.process.wait(DEADLINE_S)
        self.process = None
        return status

    def close_programs(self) -> None:
        while self.programs:
            self.programs.pop().kill()

    def close(self) -> None:
        self.close_programs()
        status = self.stop() if self.process is not None else 0
        if self.host is not None:
            self.host.close()
        self.listener.close()
        text = self.log.read_text() if self.log.exists() else ""
        assert status == 0, f"the agent ended with {status}:\n{text}"
        assert "runtime error" not in text and "Sanitizer" not in text, text
