"""The real agent between a host that may misbehave and programs that may die."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from rig import AGENT, Message, Rig, wait_until
from vscaf.agentlink.messages import decode_from_guest

WIRE = Path(__file__).parent.parent / "wire"


def team_of(report: Message, pid: int) -> int:
    return next((p["team"] for p in report["processes"] if p["pid"] == pid), 0)


def test_says_hello_and_reports(rig: Rig) -> None:
    rig.start()
    hello = json.loads(rig.line())
    assert hello["type"] == "hello" and hello["agent"].startswith("vscaf-agent ")
    assert hello["cpus"] == {"possible": 4, "present": 4, "online": [0, 1, 2, 3]} and hello["capabilities"] == [
        "offline"
    ]
    report = rig.message("report")
    assert (report["sequence"], report["online"], report["demand"], report["processes"]) == (0, [0, 1, 2, 3], 0, [])


def test_one_hello_for_each_hello(rig: Rig) -> None:
    rig.start()
    rig.message("report")
    rig.send(type="hello", daemon="vscaf 0.1.0")
    kinds = [json.loads(rig.line())["type"] for _ in range(6)]
    assert kinds.count("hello") == 1 and "report" in kinds[kinds.index("hello") :]


def test_shrinks_and_grows(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of all CPUs before any allocate")
    ack = rig.ack(rig.allocate(2))
    assert ack["online"] == [0, 1] == rig.online() and ack["sections_ended"]
    assert program.team() == 2
    ack = rig.ack(rig.allocate(9))
    assert ack["online"] == [0, 1, 2, 3] == rig.online()
    assert program.team() == 4
    program.say("busy 1")
    assert team_of(rig.message("report", lambda r: r["sequence"] == rig.sequence), program.pid) == 4


def test_rest_takes_no_cpu(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    ack = rig.ack(rig.allocate(0))
    assert ack["online"] == [0, 1, 2, 3] == rig.online() and program.team() == 1
    rig.ack(rig.allocate(4))
    program.say("busy 1")
    wait_until(lambda: program.team() == 4, "its team back after the rest")


def test_shrink_waits_for_the_section_in_flight(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of 4")
    assert program.say("begin") == "4"
    sequence = rig.allocate(1, deadline_ms=15000)
    wait_until(lambda: program.team() == 1, "the smaller team before anything else")
    for _ in range(4):
        assert rig.message("report")["online"] == [0, 1, 2, 3], "a CPU left under a section in flight"
    program.say("end 1000")
    ack = rig.ack(sequence)
    assert ack["online"] == [0] == rig.online() and ack["sections_ended"]


def test_shrink_gives_up_at_the_deadline(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of 4")
    program.say("begin")
    program.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    ack = rig.ack(rig.allocate(1, deadline_ms=300))
    assert 0.3 <= time.monotonic() - began < 5
    assert ack["online"] == [0] == rig.online() and not ack["sections_ended"]


def test_newest_allocate_wins(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of 4")
    program.say("begin")
    first = rig.allocate(1, deadline_ms=15000)
    wait_until(lambda: program.team() == 1, "the first to be under way")
    second = rig.allocate(3, deadline_ms=200)
    acks = [rig.message("ack")]
    assert acks[0]["sequence"] == second and acks[0]["online"] == [0, 1, 2]
    program.say("end 1")
    rig.send(type="allocate", sequence=second, cpus=3, limit=4, competition=False, deadline_ms=200)
    again = rig.message("ack")
    assert again["sequence"] == second and first != second


def test_refused_and_absent_cpus_are_reported_as_they_are(rig: Rig) -> None:
    (rig.cpus / "cpu3" / "online").unlink()
    rig.start()
    assert rig.ack(rig.allocate(2))["online"] == [0, 1, 3]
    assert rig.ack(rig.allocate(1))["online"] == [0, 3]


def test_cpu_plugged_later_is_onlined_when_needed(rig: Rig) -> None:
    rig.start()
    assert rig.ack(rig.allocate(5))["online"] == [0, 1, 2, 3]
    rig.plug(4)
    rig.message("report", lambda r: r["online"] == [0, 1, 2, 3, 4])
    rig.ack(rig.allocate(2))
    rig.plug(5)
    rig.message("report")
    rig.message("report")
    assert rig.online() == [0, 1]


def test_garbage_and_oversize_lines_are_ignored(rig: Rig) -> None:
    rig.start()
    bad = [line for _, line in map(json.loads, (WIRE / "golden" / "bad.jsonl").read_text().splitlines())]
    for line in bad:
        rig.raw(line.encode() + b"\n")
    rig.raw(b"x" * 200_000 + b"\n" + bytes(range(256)) + b"\n")
    # The end of a line that is too long is not a line of its own.
    order = b'{"v":1,"type":"allocate","sequence":3,"cpus":1,"limit":4,"competition":false,"deadline_ms":9}\n'
    rig.raw(b"x" * 65_536 + order)
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
    rig.start("--period-ms", "20")
    program = rig.join()
    beat = program.beat()
    assert rig.process is not None
    wait_until(lambda: program.beat() > beat + 20, "periods to go on")

    def resident_kib() -> int:
        assert rig.process is not None
        status = Path(f"/proc/{rig.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def queued_bytes() -> int:
        assert rig.host is not None
        return int.from_bytes(fcntl.ioctl(rig.host, termios.FIONREAD, b"\0" * 4), sys.byteorder)

    def flood(periods: int) -> None:
        beat = program.beat()
        while program.beat() < beat + periods:
            rig.send(type="hello", daemon="vscaf 0.1.0")

    # Until the agent's way out is full: nothing more arrives, however much is asked.
    before = -1
    while queued_bytes() > before:
        before = queued_bytes()
        flood(10)
    middle_kib = resident_kib()
    flood(50)
    assert queued_bytes() == before > 10_000
    assert resident_kib() < middle_kib + 2048
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


def test_crash_frees_the_share_at_once(rig: Rig) -> None:
    rig.start("--period-ms", "5000")
    first, second = rig.join(), rig.join()
    wait_until(lambda: (first.team(), second.team()) == (2, 2), "equal shares")
    second.kill()
    wait_until(lambda: first.team() == 4, "the share of the dead one", deadline_s=2)
    rig.message("report", lambda r: [p["pid"] for p in r["processes"]] == [first.pid])


def test_idle_processes_lend_their_share(rig: Rig) -> None:
    rig.start()
    first, second = rig.join(), rig.join()
    first.say("busy 1")
    # The page of the idle one has what it would get.
    wait_until(lambda: (first.team(), second.team()) == (4, 2), "the idle one to give up its share")
    report = rig.message("report", lambda r: team_of(r, second.pid) == 1)
    assert {p["pid"]: p["running"] for p in report["processes"]} == {first.pid: True, second.pid: False}
    assert report["demand"] == 4


def test_told_and_rigid(rig: Rig) -> None:
    rig.start()
    shrink, rigid = rig.join(), rig.join()
    shrink.say("told 1")
    shrink.say("program 1")
    shrink.say("malleable 1")
    rigid.say("program 3")
    rigid.say("malleable 2")
    shrink.say("busy 1")
    rigid.say("busy 1")
    wait_until(lambda: (shrink.team(), rigid.team()) == (1, 0), "what was told, and hands off the rigid one")
    report = rig.message("report", lambda r: team_of(r, rigid.pid) == 3)
    assert {p["pid"]: p["malleable"] for p in report["processes"]} == {shrink.pid: "shrink", rigid.pid: "rigid"}
    assert not any("override" in p for p in report["processes"])


def test_never_counted_for_more_than_its_rules_allow(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("malleable 1")
    program.say("told 4")
    program.say("most 2")
    program.say("busy 1")
    rig.message("report", lambda r: team_of(r, program.pid) == 2 == r["demand"])
    assert program.team() == 2
    program.say("most 0")  # no bound but what it was told
    program.say("told 3")
    rig.message("report", lambda r: team_of(r, program.pid) == 3 == r["demand"])
    program.say("most 4000000000")
    program.say("told 4294967295")
    rig.message("report", lambda r: team_of(r, program.pid) == 4 == r["demand"])


def test_the_shims_word_on_malleability_counts(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    rig.message("report", lambda r: team_of(r, program.pid) == 4)
    program.say(f"program {2 | 32}")  # it set its number, but its environment says that it is malleable
    program.say("malleable 0")
    program.say("busy 1")
    report = rig.message("report", lambda r: team_of(r, program.pid) == 4)
    assert report["processes"][0]["malleable"] == "full" and report["processes"][0]["override"] is True
    program.say("malleable 77")
    program.say("last 2")
    report = rig.message("report", lambda r: r["processes"][0]["malleable"] == "rigid" and r["demand"] == 2)
    wait_until(lambda: program.team() == 0, "hands off")


LEARN, EXCLUSIVE = 1, 2


def test_learning_is_permitted_under_competition(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.control() == (0, 10_000), "the budget, and no leave to learn")
    rig.ack(rig.allocate(2, competition=True))
    assert program.control()[0] & LEARN
    rig.ack(rig.allocate(2, competition=False))
    assert not program.control()[0] & LEARN


def test_learning_is_permitted_to_processes_that_compete(rig: Rig) -> None:
    rig.start("--standalone", "--learn-budget", "0.25")
    first, second = rig.join(), rig.join()
    first.say("busy 1")
    wait_until(lambda: first.control() == (0, 2500), "the idle one is no competition")
    second.say("busy 1")
    wait_until(lambda: first.control()[0] == second.control()[0] == LEARN, "competition")
    second.kill()
    wait_until(lambda: first.control()[0] == 0, "the competition's end")


def test_nothing_is_learned_without_a_budget(rig: Rig) -> None:
    rig.start("--learn-budget", "0")
    program = rig.join()
    rig.ack(rig.allocate(2, competition=True))
    assert program.control() == (EXCLUSIVE, 0)


def test_exclusive_while_the_cpus_are_what_was_given(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of 4")
    assert not program.control()[0] & EXCLUSIVE, "nobody has given anything yet"
    rig.ack(rig.allocate(4))
    assert program.control()[0] & EXCLUSIVE
    program.say("busy 1")
    wait_until(lambda: program.team() == 4, "its team")
    program.say("begin")
    sequence = rig.allocate(2, competition=True, deadline_ms=15000)
    wait_until(lambda: program.team() == 2, "the smaller team")
    assert program.control()[0] == 0, "CPUs are about to leave"
    program.say("end 1")
    rig.ack(sequence)
    assert program.control()[0] == EXCLUSIVE | LEARN
    rig.ack(rig.allocate(0))
    assert not program.control()[0] & EXCLUSIVE, "a guest that rests shares"


def test_not_exclusive_where_a_cpu_cannot_leave(rig: Rig) -> None:
    (rig.cpus / "cpu3" / "online").unlink()
    rig.start()
    program = rig.join()
    assert rig.ack(rig.allocate(2))["online"] == [0, 1, 3]
    assert not program.control()[0] & EXCLUSIVE
    rig.ack(rig.allocate(9))  # all that is present
    assert program.control()[0] & EXCLUSIVE


def test_reports_what_the_shim_learned(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("busy 1")
    report = rig.message("report", lambda r: team_of(r, program.pid) == 4)
    assert not {"learning", "decomposition", "override", "long_section"} & set(report["processes"][0])
    program.say("estimate 0 4 3100000 50000 12")
    program.say("estimate 1 2 1840000 20000 30")
    program.say("learning 40000000 8000000000 1")
    program.say("begin")
    program.say("spent 800000 30000 10000 20000 100000 40000")
    program.say("end 250000")
    process = rig.message("report", lambda r: "decomposition" in r["processes"][0])["processes"][0]
    assert process["points"] == [
        {"p": 1, "speedup": 1.0, "standard_error": 0.0, "samples": 30},
        {"p": 2, "speedup": 1.84, "standard_error": 0.02, "samples": 30},
        {"p": 4, "speedup": 3.1, "standard_error": 0.05, "samples": 12},
    ]
    assert process["learning"] == {"cost": 0.04, "budget": 0.01, "used": 0.005, "metric": "ipc", "counters": True}
    assert process["decomposition"] == {
        "useful": 0.8,
        "inflation": 0.03,
        "fork": 0.01,
        "dispatch": 0.02,
        "barrier": 0.1,
        "steal": 0.04,
        "idle_rate": 0.13,
        "section_ms": 0.25,
    }
    program.say("program 64")
    process = rig.message("report", lambda r: not r["processes"][0]["learning"]["counters"])["processes"][0]


def test_estimates_left_half_written_are_unknown(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("busy 1")
    rig.message("report", lambda r: team_of(r, program.pid) == 4)
    program.say("estimate 0 2 1840000 20000 30")
    rig.message("report", lambda r: len(r["processes"][0]["points"]) == 2)
    program.say("writing")
    rig.message("report", lambda r: r["processes"][0]["points"] == [])
    program.say("writing")
    rig.message("report", lambda r: len(r["processes"][0]["points"]) == 2)


def test_shares_follow_the_estimates(rig: Rig) -> None:
    rig.start()
    good, poor = rig.join(), rig.join()
    for program in (good, poor):
        program.say("busy 1")
    wait_until(lambda: (good.team(), poor.team()) == (2, 2), "equal shares while nothing is known")
    good.say("estimate 0 2 1950000 20000 30")
    poor.say("estimate 0 2 1100000 20000 30")
    wait_until(lambda: (good.team(), poor.team()) == (3, 1), "shares by speedup")


def test_long_section_counts_for_the_threads_that_run_in_it(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    rig.show_threads(program)
    program.say("busy 3")
    rig.message("report", lambda r: r["demand"] == 4)
    program.say("begin")
    report = rig.message("report", lambda r: "long_section" in r["processes"][0])
    for _ in range(6):
        assert report["demand"] == 4, "nobody wants its CPUs: its next section may have them all"
        report = rig.message("report")
    rig.ack(rig.allocate(4, competition=True))
    report = rig.message("report", lambda r: r["demand"] == 3)
    assert report["processes"][0]["long_section"] is True and team_of(report, program.pid) == 3
    assert program.team() == 4, "the next section is not made small by this one"
    program.say("end 1000000")
    report = rig.message("report", lambda r: r["demand"] == 4)
    assert "long_section" not in report["processes"][0] and program.team() == 4


def test_what_a_long_section_leaves_over_goes_to_others(rig: Rig) -> None:
    rig.start()
    long, short = rig.join(), rig.join()
    rig.show_threads(long)
    for program in (long, short):
        program.say("busy 1")
    wait_until(lambda: (long.team(), short.team()) == (2, 2), "equal shares")
    long.say("begin")
    wait_until(lambda: (long.team(), short.team()) == (2, 3), "what one thread leaves over")
    report = rig.message("report", lambda r: team_of(r, short.pid) == 3)
    assert team_of(report, long.pid) == 1
    long.say("end 1")
    wait_until(lambda: (long.team(), short.team()) == (2, 2), "equal shares again")


def test_long_section_without_a_view_of_its_threads(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("busy 1")
    program.say("begin")
    rig.ack(rig.allocate(4, competition=True))
    rig.message("report", lambda r: r["demand"] == 1 and r["processes"][0]["long_section"])


def test_shrink_waits_for_sections_of_other_threads(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of 4")
    program.say("others 1 0")
    sequence = rig.allocate(1, deadline_ms=15000)
    wait_until(lambda: program.team() == 1, "the smaller team before anything else")
    program.say("others 3 2")  # two short ones came and went: the first may still be there
    for _ in range(4):
        assert rig.message("report")["online"] == [0, 1, 2, 3], "a CPU left under a section in flight"
    program.say("others 3 3")
    ack = rig.ack(sequence)
    assert ack["online"] == [0] == rig.online() and ack["sections_ended"]


def test_limit(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    assert program.team_limit() == 4
    rig.ack(rig.allocate(4, limit=2))
    assert program.team_limit() == 2
    program.say("busy 1")
    rig.message("report", lambda r: team_of(r, program.pid) == 2 and r["demand"] == 2)


def test_demand_falls_to_zero_and_rises(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("busy 1")
    rig.message("report", lambda r: r["demand"] == 4)
    program.say("calm")
    rig.message("report", lambda r: r["demand"] == 0)
    program.say("busy 1")
    rig.message("report", lambda r: r["demand"] == 4 and r["busy"] > 0)


def test_processes_that_never_joined_count(rig: Rig) -> None:
    rig.start()
    rig.message("report", lambda r: r["demand"] == 0)
    began = time.monotonic()

    def others(rate_cpus: float) -> None:
        rig.idle_stat(1000 + int((time.monotonic() - began) * 100 * rate_cpus))

    for _ in range(400):
        others(1.6)
        report = rig.message("report")
        if report["demand"] == 2:
            break
    else:
        raise AssertionError(report)


def test_hostile_page(rig: Rig) -> None:
    rig.start()
    hostile, honest = rig.join(), rig.join()
    hostile.say("most 4294967295")
    hostile.say("told 4294967295")
    hostile.say("counts 18446744073709551615 5")
    for program in (hostile, honest):
        program.say("busy 1")
    wait_until(lambda: (hostile.team(), honest.team()) == (2, 2), "equal shares")
    ack = rig.ack(rig.allocate(1, deadline_ms=200))
    assert ack["online"] == [0] and not ack["sections_ended"]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_bytes_on_pages(rig: Rig, seed: int) -> None:
    """Whatever a page says, the agent goes on, and what it reports is a report to both sides (rig.line: the schema)."""
    rig.start("--period-ms", "20")
    hostile, honest = rig.join(), rig.join()
    rig.show_threads(hostile)
    for program in (hostile, honest):
        program.say("busy 1")
    honest.say("estimate 0 2 1840000 20000 30")
    seen: set[str] = set()

    def check(report: Message) -> None:
        decode_from_guest(json.dumps(report).encode())
        assert 0 <= report["demand"] <= 4
        for process in report["processes"]:
            assert 1 <= process["team"] <= 4
            if process["pid"] == hostile.pid:
                seen.update(process, [process["malleable"]], ["points"] if process["points"] else [])
            else:
                assert process["malleable"] == "full" and len(process["points"]) in {0, 2}

    for turn in range(25):
        hostile.say(f"garbage {1000 * seed + turn}")
        for _ in range(3):  # what stays for a period shows a section in flight
            check(rig.message("report"))
    hostile.say(f"storm {seed}")
    for _ in range(40):
        check(rig.message("report"))
    for cpus in (1, 4, 2):
        ack = rig.ack(rig.allocate(cpus, competition=True, deadline_ms=50))
        assert len(ack["online"]) == cpus
        check(rig.message("report"))
    hostile.say("rest")
    assert honest.team() >= 1
    assert {"learning", "rigid", "long_section", "override"} <= seen, "else nothing was tried"


def test_page_of_another_version(rig: Rig) -> None:
    rig.start()
    assert rig.join(version=1).greeting == "status 1 version 2"
    assert rig.join(version=3).greeting == "status 1 version 2"
    assert rig.join().greeting == "joined"


def test_silent_connection_is_dropped(rig: Rig) -> None:
    rig.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.settimeout(10)
        silent.connect(str(rig.socket_path))
        began = time.monotonic()
        assert silent.recv(100) == b""
        assert 0.9 < time.monotonic() - began < 5


def test_kill_and_restart(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    rig.ack(rig.allocate(2))
    assert rig.process is not None
    rig.process.kill()
    rig.process.wait()
    assert program.team() == 2, "the page outlives the agent"
    rig.start()
    assert rig.message("report")["sequence"] == 0
    assert rig.join().greeting == "joined"
    assert rig.ack(rig.allocate(4))["online"] == [0, 1, 2, 3]


def test_without_a_host(rig: Rig) -> None:
    rig.start("--standalone", "--period-ms", "5000")  # newcomers stay newcomers
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--period-ms", "0"], ["--period-ms 0", "20 to 60000"]),
        (["--learn-budget", "all"], ["--learn-budget all", "0 to 100"]),
        (["--learn-budget", "100.1"], ["--learn-budget 100.1", "0 to 100"]),
        (["--learn-budget", "nan"], ["--learn-budget nan"]),
        (["--per-user", "0"], ["--per-user 0", "1 to 256"]),
        (["--per-user", "257"], ["--per-user 257"]),
        (["--bogus"], ["--bogus", "--help"]),
        (["--port"], ["--port", "needs a value"]),
        (["stray"], ["stray"]),
        (["--standalone", "--port", "x"], ["--standalone"]),
    ],
)
def test_usage_errors(arguments: list[str], words: list[str]) -> None:
    result = subprocess.run([AGENT, *arguments], check=False, capture_output=True, text=True, timeout=20)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words)


def test_second_agent_is_refused(rig: Rig) -> None:
    rig.start()
    command = [str(AGENT), "--socket", str(rig.socket_path), "--sysfs", str(rig.sysfs), "--standalone"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert result.returncode == 1 and "another agent" in result.stderr
    assert rig.join().greeting == "joined"


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
    assert used_ticks() - before < 30, "it spins"
