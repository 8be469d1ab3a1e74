"""An agent with nothing to do sleeps until something changes. A host that does not know of this gets every report."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
from rig import DEADLINE_S, Rig, wait_until
from schema import RELEASES, accepts

PERIODS_S = 0.5  # ten periods of the rig's agent: long enough for an agent that is awake to show it


def hello(rig: Rig, *capabilities: str) -> None:
    rig.send(type="hello", daemon="vscaf 0.1.0", capabilities=list(capabilities))


def wait_for_silence(rig: Rig) -> None:
    """Waits until no byte comes for some periods. An event of the machine's CPUs, like that of another test, may wake
    the agent: then it looks again, and sends one report more."""
    assert rig.host is not None
    rig.host.settimeout(PERIODS_S)

    def nothing_comes() -> bool:
        assert rig.host is not None
        try:
            rig.received += rig.host.recv(65536)
        except TimeoutError:
            return True
        return False

    wait_until(nothing_comes, "silence")
    rig.host.settimeout(DEADLINE_S)
    while rig.received:
        assert json.loads(rig.line()).get("quiet")


def wakeups(rig: Rig) -> int:
    """How often the agent has waited so far."""
    assert rig.process is not None
    status = Path(f"/proc/{rig.process.pid}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def sleeps(rig: Rig) -> bool:
    before = wakeups(rig)
    time.sleep(PERIODS_S)
    return wakeups(rig) == before


def test_says_so_and_sends_nothing_until_a_program_joins(rig: Rig) -> None:
    rig.start()
    hello(rig, "quiet", "a-word-of-tomorrow")
    assert "quiet" in rig.message("hello")["capabilities"]
    rig.message("report", lambda report: report.get("quiet"))
    wait_for_silence(rig)
    program = rig.join()
    report = rig.message("report", lambda report: report["processes"])
    assert "quiet" not in report and [one["pid"] for one in report["processes"]] == [program.pid]
    for _ in range(4):
        assert "quiet" not in rig.message("report"), "it reports while a program is joined"
    program.kill()
    assert rig.message("report", lambda report: report.get("quiet"))["processes"] == []
    wait_for_silence(rig)


def test_an_order_is_answered_and_applied(rig: Rig) -> None:
    rig.start()
    hello(rig, "quiet")
    rig.message("report", lambda report: report.get("quiet"))
    for cpus in (2, 4, 0):
        sequence = rig.allocate(cpus)
        rig.ack(sequence)
        assert rig.message("report", lambda report: report.get("quiet"))["sequence"] == sequence
        wait_for_silence(rig)


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_host_of_an_earlier_release_gets_every_report(rig: Rig, release: Path) -> None:
    rig.start()
    hello(rig, "quiet")
    rig.message("report", lambda report: report.get("quiet"))
    rig.accept_after_close()  # another daemon, which is older
    for line in (release / "host.jsonl").read_bytes().splitlines():
        rig.raw(line + b"\n")
    reports = 0
    while reports < 10:
        line = rig.line()
        assert accepts(line, "from_guest", release), line
        message = json.loads(line)
        reports += message["type"] == "report"
        assert "quiet" not in message


def test_the_host_comes_back(rig: Rig) -> None:
    rig.start()
    hello(rig, "quiet")
    rig.message("report", lambda report: report.get("quiet"))
    rig.accept_after_close()
    assert json.loads(rig.line())["type"] == "hello"
    assert "quiet" not in rig.message("report"), "this host has not said that it understands"
    hello(rig, "quiet")
    rig.message("report", lambda report: report.get("quiet"))


def test_sleeps_without_a_host(rig: Rig) -> None:
    rig.start("--standalone")
    wait_until(lambda: sleeps(rig), "the agent to sleep")
    program = rig.join()
    assert program.greeting == "joined"
    beat = program.beat()
    wait_until(lambda: program.beat() > beat + 4, "some periods")
    program.kill()
    wait_until(lambda: sleeps(rig), "the agent to sleep again")


def test_a_connection_that_says_nothing_does_not_keep_it_awake_for_ever(rig: Rig) -> None:
    rig.start("--standalone")
    wait_until(lambda: sleeps(rig), "the agent to sleep")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(str(rig.socket_path))
        assert silent.recv(1) == b"", "it is dropped after its time"
        wait_until(lambda: sleeps(rig), "the agent to sleep again")


def test_signals_and_the_watchdog_are_served_while_it_sleeps(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(rig.directory / "notify"))
        manager.settimeout(DEADLINE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(rig.directory / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        rig.start("--standalone")
        for _ in range(5):
            while manager.recv(4096) != b"WATCHDOG=1":
                pass
    assert rig.stop() == 0
