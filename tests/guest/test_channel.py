"""The agent's channel in real guests: it is unplugged and plugged in again, and the guest is stopped, saved or
moved."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import libvirt
import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.guest import AGENT_CHANNEL
from vscaf.lab.polling import HANG_S, until

from .conftest import CACHE, IMAGE, POOL_LIST, Pair, move, unique

pytestmark = pytest.mark.guest

Message = dict[str, Any]


class Host:
    """The host's end of one guest's channel, instead of the daemon."""

    def __init__(self, guest: Guest) -> None:
        self.path = guest.agent_socket
        self._console = guest.console_log
        self.sequence = 0
        self._socket: socket.socket | None = None
        self._rest = b""

    def connect(self) -> None:
        """Opens the channel again, as a daemon does that has just started."""
        self.close()
        end_s = time.monotonic() + HANG_S
        while self._socket is None:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                one.connect(str(self.path))
                self._socket = one
            except OSError:
                one.close()
                assert time.monotonic() < end_s, f"{self.path} does not come back"
                time.sleep(0.02)
        self._rest = b""
        self._socket.settimeout(1.0)
        self._socket.sendall(b"\n")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def send(self, **fields: Any) -> None:
        assert self._socket is not None
        self._socket.sendall(json.dumps({"v": 1, **fields}).encode() + b"\n")

    def _line(self) -> bytes:
        assert self._socket is not None
        while b"\n" not in self._rest:
            piece = self._socket.recv(65536)
            assert piece, "the channel was closed"
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def message(self, kind: str, where: Callable[[Message], object] = lambda _: True) -> Message:
        """The next message of this type for which `where` holds."""
        end_s = time.monotonic() + HANG_S
        last: Message = {}
        while time.monotonic() < end_s:
            with contextlib.suppress(TimeoutError, ValueError):  # the first line may be the rest of an earlier one
                found: Message = json.loads(self._line())
                if found["type"] == kind:
                    last = found
                    if where(found):
                        return found
        raise AssertionError(f"no such {kind}; the last one was {last}")

    def hello(self) -> Message:
        """Sends hello every second until the guest answers: messages are lost while the guest's end is closed."""
        end_s = time.monotonic() + HANG_S
        last: Message = {}
        while time.monotonic() < end_s:
            self.send(type="hello", daemon="test")
            again_s = time.monotonic() + 1.0
            with contextlib.suppress(TimeoutError, ValueError):
                while time.monotonic() < again_s:
                    last = json.loads(self._line())
                    if last["type"] == "hello":
                        return last
        console = self._console.read_text(errors="replace")[-2000:] if self._console.exists() else "none"
        raise AssertionError(f"the guest sends no hello; its last message was {last}; its console: {console}")

    def allocate(self, cpus: int) -> Message:
        """Announces *cpus*. Returns the acknowledgement."""
        self.sequence += 1
        sequence = self.sequence
        self.send(type="allocate", sequence=sequence, cpus=cpus, limit=2, competition=False, deadline_ms=2000)
        return self.message("ack", lambda message: message["sequence"] == sequence)


@pytest.fixture
def one(pair: Pair) -> Iterator[tuple[Guest, Host]]:
    """A guest with both CPUs, and its channel."""
    guest = pair[0]
    host = Host(guest)
    host.connect()
    try:
        host.hello()
        assert host.allocate(2)["online"] == [0, 1]
        yield guest, host
    finally:
        host.close()


def names(report: Message) -> list[str]:
    return [process["name"] for process in report["processes"]]


def agent_pid(guest: Guest) -> str:
    return guest.run("pidof vscaf-agent").text.strip()


def channel_xml(guest: Guest) -> str:
    """The XML of the agent's channel in the running domain, to unplug it and plug it in again."""
    channels = re.findall(r"<channel .*?</channel>", guest.domain.XMLDesc(), re.DOTALL)
    return next(one for one in channels if AGENT_CHANNEL in one)


def ports(guest: Guest) -> list[str]:
    return guest.run("cat /sys/class/virtio-ports/*/name").text.split()


@pytest.fixture(scope="module")
def lone_guest(shared_lab: PrivateLibvirt) -> Iterator[Guest]:
    """A guest only for these tests, because they stop it and start it again as another QEMU."""
    with Guest(shared_lab, unique("saved"), IMAGE, vcpus=2, memory_mib=256, cpuset=POOL_LIST) as guest:
        yield guest


PROGRAM = "cg.W"
RUNS = "/tmp/runs"
HELD = "ls -l /proc/$(pidof vscaf-agent)/fd | grep -c vport"  # ports that the agent holds


def start_programs(guest: Guest) -> None:
    """Runs the program again and again until finish_programs, also while there is no connection to the guest."""
    loop = f"while [ ! -e {RUNS}/enough ]; do vscaf-run {PROGRAM} || break; done > {RUNS}/output 2>&1"
    done = guest.run(f"rm -rf {RUNS}; mkdir {RUNS}; setsid sh -c '{loop}; touch {RUNS}/over' > /dev/null 2>&1 &")
    assert done.status == 0, done.text


def finish_programs(guest: Guest) -> None:
    """Every run must have been right, also those during which the guest was away."""
    done = guest.run(f"[ ! -e {RUNS}/over ] && touch {RUNS}/enough")
    assert done.status == 0, "the runs ended before: one failed"

    def where() -> str:
        """What each thread of the program does, a second apart."""
        look = f"for task in /proc/$(pidof {PROGRAM})/task/*; do cat $task/stat $task/wchan $task/syscall; echo; done"
        return f"the end of the last run: {guest.run(f'{look}; sleep 1; {look}; cat {RUNS}/output').text}"

    # Two threads on two vCPUs that are not pinned may wait for each other at each barrier.
    until(lambda: guest.run(f"ls {RUNS}/over").status == 0, where, 5 * HANG_S)
    text = guest.run(f"cat {RUNS}/output").text
    assert text.count("Verification") == text.count(" SUCCESSFUL") > 0 and "UNSUCCESSFUL" not in text, text


def assert_figures_sane(host: Host, count: int = 8) -> None:
    """No figure of the next reports is more than two CPUs can do. A clock that jumped would show there."""
    for _ in range(count):
        report = host.message("report")
        assert report["busy"] <= 2.5 and report["demand"] <= 2 and report["online"] == [0, 1], report
        assert all(1 <= process["team"] <= 2 for process in report["processes"]), report


def test_stopped_and_resumed(lone_guest: Guest) -> None:
    """The host stops the guest for some seconds. It goes on as before, and does what it was told meanwhile."""
    guest, host = lone_guest, Host(lone_guest)
    host.connect()
    try:
        host.hello()
        assert host.allocate(2)["online"] == [0, 1]
        start_programs(guest)
        host.message("report", lambda report: names(report) == [PROGRAM] and report["demand"] == 2)
        guest.domain.suspend()
        time.sleep(3.0)  # what the test is about
        host.sequence += 1
        host.send(type="allocate", sequence=host.sequence, cpus=1, limit=2, competition=False, deadline_ms=2000)
        guest.domain.resume()
        ack = host.message("ack", lambda message: message["sequence"] == host.sequence)
        assert ack["online"] == [0]
        assert host.allocate(2)["online"] == [0, 1]
        assert_figures_sane(host)
        finish_programs(guest)
    finally:
        host.close()


@pytest.mark.long
def test_saved_and_restored(shared_lab: PrivateLibvirt, lone_guest: Guest) -> None:
    """The guest goes on in another QEMU with a new host's end of the channel, seconds later by wall-clock time."""
    guest, host = lone_guest, Host(lone_guest)
    host.connect()
    try:
        hello = host.hello()
        assert host.allocate(2)["online"] == [0, 1]
        pid = agent_pid(guest)
        start_programs(guest)
        host.message("report", lambda report: names(report) == [PROGRAM] and report["demand"] == 2)
        image = shared_lab.directory / "saved.image"
        guest.domain.save(str(image))
        time.sleep(3.0)
        shared_lab.connection.restore(str(image))
        image.unlink()
        guest.reconnect()
        host.connect()
        assert host.hello() == hello
        assert agent_pid(guest) == pid, "another agent runs"
        report = host.message("report", lambda report: names(report) == [PROGRAM])
        assert report["sequence"] == host.sequence, "the size applied before does not hold"
        assert_figures_sane(host)
        assert host.allocate(1)["online"] == [0]
        assert host.allocate(2)["online"] == [0, 1]
        finish_programs(guest)
    finally:
        host.close()


def test_saved_and_restored_under_a_daemon(shared_lab: PrivateLibvirt, lone_guest: Guest) -> None:
    guest = lone_guest
    with DaemonProcess(shared_lab, POOL_LIST, {guest.name: {}}, name="saved") as daemon:
        daemon.wait(lambda domains: domains[guest.name]["agent"] == "connected")
        start_programs(guest)
        daemon.wait(lambda domains: [one["name"] for one in domains[guest.name]["processes"]] == [PROGRAM])
        image = shared_lab.directory / "daemon.image"
        guest.domain.save(str(image))
        daemon.wait(lambda domains: domains.get(guest.name, {}).get("agent") != "connected")
        shared_lab.connection.restore(str(image))
        image.unlink()
        guest.reconnect()
        daemon.wait(
            lambda domains: (
                domains.get(guest.name, {}).get("agent") == "connected"
                and domains[guest.name]["state"] == "cooperating"
                and domains[guest.name]["allocation"] == 2
            ),
        )
        finish_programs(guest)


def test_channel_unplugged_and_plugged_in_again(one: tuple[Guest, Host]) -> None:
    """The agent notices it, serves its programs meanwhile, and connects by itself when the channel is back."""
    guest, host = one
    pid = agent_pid(guest)
    program = guest.start("NPB_REPEAT=1000 vscaf-run ep.S")
    host.message("report", lambda report: names(report) == ["ep.S"])
    for turn in range(2):
        xml = channel_xml(guest)
        if turn == 1:  # while the host's end is closed
            host.close()
        guest.domain.detachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        until(lambda: AGENT_CHANNEL not in ports(guest), "the guest to have lost the port")
        until(lambda: guest.run(HELD).text.strip() == "0", "the agent to let go of it")
        assert not program.done()
        guest.domain.attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        host.connect()
        assert host.hello()["cpus"]["online"] == [0, 1]
        host.message("report", lambda report: names(report) == ["ep.S"] and report["demand"] == 2)
        assert host.allocate(1)["online"] == [0]
        assert host.allocate(2)["online"] == [0, 1]
    assert agent_pid(guest) == pid, "another agent runs"
    program.kill()


@pytest.mark.long
def test_moved_while_it_runs(tmp_path: Path, shared_lab: PrivateLibvirt, lone_guest: Guest) -> None:
    """Migration to another host and back: the program computes on, and the agent serves the present host."""
    with PrivateLibvirt(logs=tmp_path / "logs", cache=CACHE, hostname="elsewhere") as elsewhere:
        host = Host(lone_guest)
        host.connect()
        try:
            hello = host.hello()
            assert host.allocate(2)["online"] == [0, 1]
            pid, sequence = agent_pid(lone_guest), host.sequence
            start_programs(lone_guest)
            host.message("report", lambda report: names(report) == [PROGRAM] and report["demand"] == 2)
            guest = lone_guest
            for target in (elsewhere, shared_lab):
                guest = move(guest, target)
                host.close()
                host = Host(guest)
                host.sequence = sequence
                host.connect()
                assert host.hello() == hello
                assert agent_pid(guest) == pid, "another agent runs"
                report = host.message("report", lambda report: names(report) == [PROGRAM])
                assert report["sequence"] == sequence, "the size applied before does not hold"
                assert_figures_sane(host)
                assert host.allocate(1)["online"] == [0]
                assert host.allocate(2)["online"] == [0, 1]
                sequence = host.sequence
            guest.runner.close()
            lone_guest.reconnect()
            finish_programs(lone_guest)
        finally:
            host.close()
