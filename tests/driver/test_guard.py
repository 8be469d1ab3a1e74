"""Suspended domains run again when the process that suspended them has ended, however it ended.

The domains of the test driver live in one process. The guard's own connection finds a paused domain there, and the
tests read from the journal what the guard did.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from vscaf.journal import FoundSettings, Journal, JournalEntry, host_boot_id, read_journal

UUID = "3f10dbe8-4cbd-5e31-9b1f-af0cb9dda9cf"
NODE = """<node>
  <cpu><mhz>2000</mhz><model>vscaf</model><active>4</active><nodes>1</nodes><sockets>1</sockets><cores>4</cores>
  <threads>1</threads></cpu><memory>8000000</memory>
  <domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
    <name>a</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><vcpu>2</vcpu><os><type>hvm</type></os>
    <test:runstate>{state}</test:runstate>
  </domain>
</node>
"""
RUNNING, PAUSED = 1, 3
# It has the journal and a guard, prints the guard's pid, and obeys the words on its standard input.
STAND_IN = """
import asyncio, os, sys
from pathlib import Path
from vscaf.recovery.guard_keeper import GuardKeeper
from vscaf.journal import Journal, host_boot_id, lock_hypervisor

config, directory, uri = sys.argv[1:]

async def main():
    lock, journal = lock_hypervisor(uri), Journal(Path(directory), host_boot_id())
    guard = GuardKeeper(config)
    guard.start()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while True:
        print(guard.pid, flush=True)
        word = (await reader.readline()).decode().strip()
        if word == "raise":
            raise RuntimeError("nobody has thought of this")
        if word == "abort":
            os.abort()
        if word == "end":
            return

asyncio.run(main())
"""


def until(condition: Callable[[], bool], deadline_s: float = 120.0) -> None:
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, "not true in time"
        time.sleep(0.02)


def suspended(directory: Path) -> bool:
    """Whether the domain is suspended by the journal. Its entry must still be there."""
    content = read_journal(directory / "journal.json")
    assert content is not None
    (entry,) = content.domains
    assert entry.reach == [2] and entry.partition in ([], [2])
    return entry.suspended


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ignored(pid: int) -> set[int]:
    (mask,) = [
        line for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines() if line.startswith("SigIgn")
    ]
    return {number for number in range(1, 32) if int(mask.split()[1], 16) >> (number - 1) & 1}


class StandIn:
    """A process that takes the daemon's place."""

    def __init__(self, process: "subprocess.Popen[str]", state: Path, uri: str) -> None:
        self.process = process
        self.state = state
        self.uri = uri
        self.guard = self.read_guard_pid()

    def read_guard_pid(self) -> int | None:
        """The guard's present pid, which the process prints. None: it has no guard."""
        assert self.process.stdout is not None
        word = self.process.stdout.readline().strip()
        return None if word == "None" else int(word)

    def send(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()


@contextmanager
def a_stand_in(tmp_path: Path, state: int = PAUSED, run_id: int = 1) -> Iterator[StandIn]:
    (tmp_path / "node.xml").write_text(NODE.format(uuid=UUID, state=state), encoding="utf-8")
    uri, directory = f"test://{tmp_path}/node.xml", tmp_path / "state"
    found = FoundSettings(vcpus=2, vcpu_pins={0: [0], 1: [0]}, emulator_pin=[0], cpu_shares=None)
    entry = JournalEntry(name="a", uuid=UUID, run_id=run_id, found=found, partition=[], reach=[2], suspended=True)
    journal = Journal(directory, host_boot_id())
    journal.write({entry.key: entry})
    journal.close()
    config = json.dumps({"pool": "0,2", "uri": uri, "state_directory": str(directory)})
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", STAND_IN, config, str(directory), uri],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        yield StandIn(process, directory, uri)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("way", ["kill", "raise", "abort", "end"])
def test_what_is_suspended_is_resumed_however_the_daemon_ends(tmp_path: Path, way: str) -> None:
    with a_stand_in(tmp_path) as one:
        assert one.guard is not None and alive(one.guard) and suspended(one.state)
        if way == "kill":
            one.process.kill()
        else:
            one.send(way)
        assert one.process.wait(60) == {"kill": -signal.SIGKILL, "raise": 1, "abort": -signal.SIGABRT, "end": 0}[way]
        until(lambda: not alive(one.guard or 0))
        assert not suspended(one.state), "its entry still says suspended"
        assert "resumed the domains that it had suspended: a" in (tmp_path / "log").read_text(encoding="utf-8")
    Journal(one.state, host_boot_id()).close()  # no process holds its lock any more


def test_who_runs_again_is_said_to_compute_where_it_is_pinned(tmp_path: Path) -> None:
    """The next daemon may not be able to read the domain at once, and takes a domain without partition as resting."""
    with a_stand_in(tmp_path) as one:
        one.process.kill()
        until(lambda: not alive(one.guard or 0))
        content = read_journal(one.state / "journal.json")
    assert content is not None and [(entry.partition, entry.suspended) for entry in content.domains] == [([2], False)]


@pytest.mark.parametrize(("state", "run_id"), [(RUNNING, 1), (PAUSED, 7)])
def test_who_runs_or_has_ended_is_not_touched(tmp_path: Path, state: int, run_id: int) -> None:
    with a_stand_in(tmp_path, state, run_id) as one:
        one.process.kill()
        until(lambda: not alive(one.guard or 0))
        assert not suspended(one.state)
        assert "resumed" not in (tmp_path / "log").read_text(encoding="utf-8")


def test_a_guard_that_ends_is_followed_by_another_and_signals_for_the_daemon_do_not_end_it(tmp_path: Path) -> None:
    with a_stand_in(tmp_path) as one:
        assert one.guard is not None
        first = one.guard
        # It ignores these signals once it has begun. An earlier signal ends it like kill -9, and another guard follows.
        until(lambda: ignored(first) >= {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(first, number)
        os.kill(first, signal.SIGKILL)
        until(lambda: not alive(first))

        def another() -> bool:
            one.send("who")
            one.guard = one.read_guard_pid()
            return one.guard not in {None, first}

        until(another)
        assert suspended(one.state), "resumed although the daemon lives"
        one.process.kill()
        until(lambda: not suspended(one.state))


def test_the_signal_of_a_watchdog_ends_the_daemon_alone(tmp_path: Path) -> None:
    """systemd sends it to all processes of the service."""
    with a_stand_in(tmp_path) as one:
        guard = one.guard
        assert guard is not None
        until(lambda: ignored(guard) >= {signal.SIGTERM, signal.SIGABRT})
        os.kill(guard, signal.SIGABRT)
        os.kill(one.process.pid, signal.SIGABRT)
        until(lambda: not suspended(one.state))


def test_a_daemon_that_cannot_begin_leaves_nobody_suspended(tmp_path: Path) -> None:
    """The earlier daemon and its guard are killed. The new daemon cannot take over, and its own guard resumes."""
    with a_stand_in(tmp_path) as one, socket.socket(socket.AF_UNIX) as taken:
        assert one.guard is not None
        os.kill(one.guard, signal.SIGKILL)
        one.process.kill()
        taken.bind(str(tmp_path / "control.sock"))
        taken.listen()
        config = tmp_path / "vscaf.toml"
        config.write_text(
            f'pool = "0,2"\nuri = "{one.uri}"\nstate_directory = "{one.state}"\n'
            f'control_socket = "{tmp_path}/control.sock"\n[domains.a]\n',
            encoding="utf-8",
        )
        done = subprocess.run(
            [sys.executable, "-m", "vscaf", "daemon", "--config", str(config)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 2 and "control.sock" in done.stderr
        until(lambda: not suspended(one.state))


def test_a_daemon_that_has_taken_over_is_left_to_it(tmp_path: Path) -> None:
    """The next daemon has both locks before the guard of the last one looks."""
    with a_stand_in(tmp_path) as one:
        assert one.guard is not None
        os.kill(one.guard, signal.SIGSTOP)
        one.process.kill()
        one.process.wait()
        journal = Journal(one.state, host_boot_id())
        os.kill(one.guard, signal.SIGCONT)
        until(lambda: not alive(one.guard or 0))
        assert suspended(one.state)
        journal.close()
