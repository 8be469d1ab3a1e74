"""The agent's port: garbage, half lines, clocks that jump, and a host that does not read, leaves or comes late."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import termios
import time
from pathlib import Path

import pytest
from rig import KEEPS_NOTHING, NEVER, Message, Rig, wait_until

WIRE = Path(__file__).parents[2] / "wire"
GROWTH_KIB = 1024  # the most that an agent may grow while it queues nothing


def resident_kib(rig: Rig) -> int:
    assert rig.process is not None
    status = Path(f"/proc/{rig.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def queued_bytes(rig: Rig) -> int:
    assert rig.host is not None
    return int.from_bytes(fcntl.ioctl(rig.host, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_a_host_that_reads_again_gets_the_newest(rig: Rig) -> None:
    """The agent queues no answers for a host that does not read. Then it sends only its newest state."""
    rig.start("--period-ms", "20", sanitizer=KEEPS_NOTHING)
    program = rig.join()
    program.say("busy 1")
    rig.message("report", lambda r: r["demand"] == 4)
    hello = b'{"v":1,"type":"hello","daemon":"vscaf 0.1.0"}\n'
    order = '{{"v":1,"type":"allocate","sequence":{0},"cpus":{1},"limit":4,"competition":false,"deadline_ms":0}}\n'
    asked = 0

    def ask(times: int) -> None:
        nonlocal asked
        for _ in range(times):
            asked += 1
            rig.raw(hello + order.format(1000 + asked, 3 + asked % 2).encode())

    full = -1
    while queued_bytes(rig) > full:
        full = queued_bytes(rig)
        ask(300)
        beat = program.beat()
        wait_until(lambda beat=beat: program.beat() >= beat + 2, "a full period since, so that it has answered")
    before_kib = resident_kib(rig)
    while asked < 10_000:
        ask(100)
    rig.allocate(2)
    wait_until(lambda: rig.online() == [0, 1] and program.team() == 2, "the newest order, though nothing is read")
    beat = program.beat()
    wait_until(lambda: program.beat() >= beat + 2, "a full period since, so that the next report is newer")
    assert queued_bytes(rig) == full > 10_000
    assert resident_kib(rig) < before_kib + GROWTH_KIB

    # What was already sent is old, and so is the one line that was ready to be sent. Everything after that is new.
    on_its_way, read = full + len(rig.received), 0
    while read < on_its_way:
        read += len(rig.line()) + 1
    rig.line()
    message = json.loads(rig.line())
    for _ in range(6):
        assert message.get("sequence", rig.sequence) == rig.sequence, message
        assert message["type"] == "hello" or message["online"] == [0, 1], message
        message = json.loads(rig.line())
    assert rig.message("report")["sequence"] == rig.sequence


def test_agent_that_was_held_up(rig: Rig) -> None:
    """One period lasts seconds: every figure stays possible, and the agent goes on. test_shares.c checks more."""
    rig.start()
    program = rig.join()
    program.say("busy 1")
    rig.message("report", lambda r: r["demand"] == 4)
    assert rig.process is not None
    rig.process.send_signal(signal.SIGSTOP)
    time.sleep(2.0)  # the agent is held up for this long; no result is compared with real time
    rig.process.send_signal(signal.SIGCONT)
    sequence = rig.allocate(2)
    reports: list[Message] = []
    while not reports or reports[-1]["sequence"] != sequence:
        reports.append(rig.message("report"))
    for _ in range(10):
        reports.append(rig.message("report"))
    assert all(0 <= report["busy"] <= 4 for report in reports), [report["busy"] for report in reports]
    rig.message("report", lambda r: r["demand"] == 4 and r["busy"] > 0)


@pytest.mark.parametrize("ticks", [10, 10**12, 2**63])
def test_clock_of_the_cpus_that_jumps(rig: Rig, ticks: int) -> None:
    """The count of /proc/stat goes back (another kernel's count, a restored guest) or jumps ahead."""
    rig.start()
    rig.idle_stat(100_000)
    rig.message("report")
    program = rig.join()
    rig.message("report", lambda r: r["processes"])
    rig.idle_stat(ticks)
    rig.fresh()  # the reports before it may be older than the jump
    for _ in range(6):
        report = rig.message("report")
        assert 0 <= report["busy"] <= 4, report
    rig.message("report", lambda r: r["demand"] == 0 and r["busy"] < 1)
    assert program.team() >= 1


def test_host_that_leaves_in_every_place_of_a_line(rig: Rig) -> None:
    """The host may die at any place in its line. The next host is understood, and gets complete lines."""
    line = b'{"v":1,"type":"allocate","sequence":3,"cpus":1,"limit":4,"competition":false,"deadline_ms":9}\n'
    rig.start()
    # The agent takes a second to notice a lost socket, so three places stand for all. Without a loss, all are tried.
    for cut in (1, len(line) // 2, len(line) - 1):
        rig.raw(line[:cut])
        rig.accept_after_close()
        assert json.loads(rig.line())["type"] == "hello"
        rig.send(type="hello", daemon="vscaf 0.1.0")
        assert rig.message("report")["online"] == [0, 1, 2, 3]
    for cut in range(len(line) - 1):
        rig.raw(line[:cut])
        rig.send(type="hello", daemon="vscaf 0.1.0")
        rig.message("hello")
    assert rig.ack(rig.allocate(2))["online"] == [0, 1]


def test_hello_says_what_is_spoken(rig: Rig) -> None:
    rig.start()
    hello = rig.message("hello")
    assert hello["versions"] == [1] and hello["page"] == 3 and hello["capabilities"] == ["offline", "quiet", "sparse"]
    rig.send(type="hello", daemon="vscaf 9.0.0", versions=[1, 2, 3], a_field_of_tomorrow=[])
    assert rig.message("hello")["versions"] == [1]


def test_hello_where_no_cpu_can_be_switched(rig: Rig) -> None:
    for file in rig.cpus.glob("cpu[0-9]*/online"):
        file.unlink()
    rig.start()
    assert rig.message("hello")["capabilities"] == ["quiet", "sparse"]


def test_one_hello_for_each_hello(rig: Rig) -> None:
    rig.start()
    rig.message("report")
    rig.send(type="hello", daemon="vscaf 0.1.0")
    rig.message("hello")  # after the reports that were sent before the agent read the host's hello
    kinds = [json.loads(rig.line())["type"] for _ in range(5)]
    assert kinds.count("hello") == 0 and "report" in kinds


def test_garbage_and_oversize_lines_are_ignored(rig: Rig) -> None:
    rig.start()
    bad = [line for _, line in map(json.loads, (WIRE / "golden" / "bad.jsonl").read_text().splitlines())]
    for line in bad:
        rig.raw(line.encode() + b"\n")
    rig.raw(b"x" * 200_000 + b"\n" + bytes(range(256)) + b"\n")
    # The end of a line that is too long is not a line of its own.
    order = b'{"v":1,"type":"allocate","sequence":3,"cpus":1,"limit":4,"competition":false,"deadline_ms":9}\n'
    rig.raw(b"x" * 65_536 + order)
    rig.fresh()
    for _ in range(3):
        assert rig.message("report")["sequence"] == 0
    sequence = rig.allocate(2)
    ack = rig.message("ack")
    assert ack["sequence"] == sequence and ack["online"] == [0, 1]
    text = rig.log.read_text()
    assert text.count("is no message") == 1 and text.count("longer than") == 1


def test_other_version_is_answered_but_an_error_is_not(rig: Rig) -> None:
    rig.start()
    rig.send(type="error", message="this daemon speaks version 2")
    rig.raw(b'{"v":2,"type":"error","message":"no"}\n')
    rig.message("report")
    rig.message("report")
    rig.raw(b'{"v":2,"type":"hello","daemon":"vscaf 9"}\n')
    seen: list[Message] = []
    while not seen or seen[-1]["type"] != "error":
        seen.append(json.loads(rig.line()))
    assert "version 1, not 2" in seen[-1]["message"]


def test_host_that_never_reads_blocks_nothing(rig: Rig) -> None:
    rig.start("--period-ms", "20", sanitizer=KEEPS_NOTHING)
    program = rig.join()
    beat = program.beat()
    assert rig.process is not None
    wait_until(lambda: program.beat() > beat + 20, "periods to go on")

    def queued_bytes() -> int:
        assert rig.host is not None
        return int.from_bytes(fcntl.ioctl(rig.host, termios.FIONREAD, b"\0" * 4), sys.byteorder)

    def flood(periods: int) -> None:
        beat = program.beat()
        while program.beat() < beat + periods:
            rig.send(type="hello", daemon="vscaf 0.1.0")

    # Until the agent can send no more: then further questions bring no more bytes.
    before = -1
    while queued_bytes() > before:
        before = queued_bytes()
        flood(10)
    middle_kib = resident_kib(rig)
    flood(50)
    assert queued_bytes() == before > 10_000
    assert resident_kib(rig) < middle_kib + 2048
    assert rig.ack(rig.allocate(1))["online"] == [0]


def test_host_restart_in_the_middle_of_a_line(rig: Rig) -> None:
    rig.start()
    rig.message("report")
    rig.raw(b'{"v":1,"type":"allo')
    rig.accept_after_close()
    assert json.loads(rig.line())["type"] == "hello"
    rig.send(type="hello", daemon="vscaf 0.1.0")
    assert rig.ack(rig.allocate(3))["online"] == [0, 1, 2]


def test_hello_after_half_a_line(rig: Rig) -> None:
    rig.start()
    rig.message("report")
    rig.raw(b'{"v":1,"type":"allo')
    rig.send(type="hello", daemon="vscaf 0.1.0")
    assert rig.message("hello")["cpus"]["online"] == [0, 1, 2, 3]


def test_without_a_host(rig: Rig) -> None:
    rig.start("--standalone", *NEVER)  # newcomers stay newcomers
    first, second = rig.join(), rig.join()
    wait_until(lambda: (first.team(), second.team()) == (2, 2), "equal shares")
    assert rig.stop() == 0 and not rig.socket_path.exists()


def test_host_that_comes_late(rig: Rig) -> None:
    hidden = rig.port_path.with_name("hidden")
    rig.port_path.rename(hidden)
    rig.start(accept=False)
    program = rig.join()
    wait_until(lambda: program.team() == 4, "service without a port")
    hidden.rename(rig.port_path)
    rig.accept()
    assert json.loads(rig.line())["type"] == "hello"


def first_line(master: int) -> bytes:
    """The first line that comes out of a terminal's other end."""
    data = b""

    def read() -> bool:
        nonlocal data
        try:
            data += os.read(master, 65536)
        except BlockingIOError:
            return False
        return b"\n" in data

    wait_until(read, "a line at the terminal")
    return data.split(b"\n")[0]


def test_terminal_as_port_that_is_lost_and_found(rig: Rig) -> None:
    link = rig.directory / "terminal"
    for turn in range(2):
        master, slave = os.openpty()
        os.set_blocking(master, False)
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(slave))
        if turn == 0:
            rig.start("--port", str(link), accept=False)
        assert json.loads(first_line(master))["type"] == "hello"
        os.close(slave)
        os.close(master)
    program = rig.join()
    beat = program.beat()
    wait_until(lambda: program.beat() > beat, "service without the port")


def test_lost_port_costs_no_time(rig: Rig) -> None:
    rig.start("--period-ms", "250")
    rig.message("report")
    assert rig.host is not None and rig.process is not None
    rig.host.close()
    rig.listener.close()

    def used_ticks() -> int:
        assert rig.process is not None
        fields = Path(f"/proc/{rig.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    program = rig.join()
    beat, before = program.beat(), used_ticks()
    wait_until(lambda: program.beat() >= beat + 6, "periods to go on")
    assert used_ticks() - before < 30, "the agent spins"
