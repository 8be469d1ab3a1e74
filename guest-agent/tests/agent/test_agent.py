"""The real agent and the programs that join it. Programs may die or lie."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from rig import AGENT, DEADLINE_S, NEVER, Message, Rig, replace, team_of, wait_until, without_a_period
from vscaf.agentlink.messages import decode_from_guest


def test_says_hello_and_reports(rig: Rig) -> None:
    rig.start()
    hello = json.loads(rig.line())
    assert hello["type"] == "hello" and hello["agent"].startswith("vscaf-agent ")
    assert hello["cpus"] == {"possible": 4, "present": 4, "online": [0, 1, 2, 3]}
    assert hello["capabilities"] == ["offline", "quiet", "sparse"]
    report = rig.message("report")
    assert (report["sequence"], report["online"], report["demand"], report["processes"]) == (0, [0, 1, 2, 3], 0, [])


def test_reports_whether_the_steal_governor_is_on(rig: Rig) -> None:
    """The kernel's driver may come and go at any time, and so may its directory."""
    rig.start()
    rig.message("report", lambda report: report["steal_governor"] is False)
    replace(rig.cpus / "preferred", "0-3\n")
    rig.message("report", lambda report: report["steal_governor"] is False)
    module = rig.sysfs / "module" / "steal_governor"
    module.mkdir(parents=True)
    rig.message("report", lambda report: report["steal_governor"] is True)
    module.rmdir()
    rig.message("report", lambda report: report["steal_governor"] is False)


def test_crash_frees_the_share_at_once(rig: Rig) -> None:
    rig.start(*NEVER)
    first, second = rig.join(), rig.join()
    wait_until(lambda: (first.team(), second.team()) == (2, 2), "equal shares")
    second.kill()
    without_a_period(first, lambda: first.team() == 4, "the share of the dead program")
    rig.message("report", lambda r: [p["pid"] for p in r["processes"]] == [first.pid])


def test_idle_processes_lend_their_share(rig: Rig) -> None:
    rig.start()
    first, second = rig.join(), rig.join()
    first.say("busy 1")
    # The idle program's page has the team size that it would get.
    wait_until(lambda: (first.team(), second.team()) == (4, 2), "the idle program to give up its share")
    expected = {first.pid: True, second.pid: False}
    report = rig.message("report", lambda r: {p["pid"]: p["running"] for p in r["processes"]} == expected)
    assert team_of(report, second.pid) == 1 and report["demand"] == 4


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
    wait_until(lambda: (shrink.team(), rigid.team()) == (1, 0), "its told number, and 0 for the rigid program")
    expected = {shrink.pid: "shrink", rigid.pid: "rigid"}
    report = rig.message(
        "report",
        lambda r: {p["pid"]: p["malleable"] for p in r["processes"]} == expected and team_of(r, rigid.pid) == 3,
    )
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
    program.say("most 0")  # the only bound is the number that it was told
    program.say("told 3")
    rig.message("report", lambda r: team_of(r, program.pid) == 3 == r["demand"])
    program.say("most 4000000000")
    program.say("told 4294967295")
    rig.message("report", lambda r: team_of(r, program.pid) == 4 == r["demand"])


def test_the_shims_word_on_malleability_counts(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    rig.message("report", lambda r: team_of(r, program.pid) == 4)
    program.say(f"program {2 | 32}")  # the program set its number, but its environment says that it is malleable
    program.say("malleable 0")
    program.say("busy 1")
    # Older reports come first. A program that was idle for long is asked to call, and has one CPU until it computes.
    rig.message(
        "report",
        lambda r: (
            r["processes"][0].get("override") is True
            and r["processes"][0]["malleable"] == "full"
            and team_of(r, program.pid) == 4
        ),
    )
    program.say("malleable 77")
    program.say("last 2")
    rig.message("report", lambda r: r["processes"][0]["malleable"] == "rigid" and r["demand"] == 2)
    wait_until(lambda: program.team() == 0, "hands off")


def test_long_section_counts_for_the_threads_that_run_in_it() -> None:
    """The program's threads are shown to the agent, so it has the CPUs of the tests: with two of them."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Rig(Path(directory), possible=2, present=2)
        try:
            count_long_section(rig)
        finally:
            rig.close()


def count_long_section(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    rig.show_threads(program)
    program.say("busy 1")
    rig.message("report", lambda r: r["demand"] == 2)
    program.say("begin")
    report = rig.message("report", lambda r: "long_section" in r["processes"][0] and r["processes"][0]["running"])
    for _ in range(6):
        assert report["demand"] == 2, "no other program wants its CPUs, so its next section may have all"
        report = rig.message("report", lambda r: r["processes"][0]["running"])
    rig.ack(rig.allocate(2, competition=True))
    report = rig.message("report", lambda r: r["demand"] == 1)
    assert report["processes"][0]["long_section"] is True and team_of(report, program.pid) == 1
    assert program.team() == 2, "this section does not make the next one smaller"
    program.say("end 1000000")
    rig.message("report", lambda r: r["demand"] == 2 and "long_section" not in r["processes"][0])
    assert program.team() == 2


def test_what_a_long_section_leaves_over_goes_to_others(rig: Rig) -> None:
    rig.start()
    long, short = rig.join(), rig.join()
    rig.show_threads(long)
    for program in (long, short):
        program.say("busy 1")
    wait_until(lambda: (long.team(), short.team()) == (2, 2), "equal shares")
    long.say("begin")
    wait_until(lambda: (long.team(), short.team()) == (2, 3), "the CPUs that one thread leaves")
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


def test_demand_falls_to_zero_and_rises(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("busy 1")
    rig.message("report", lambda r: r["demand"] == 4)
    program.say("calm")
    rig.message("report", lambda r: r["demand"] == 0)
    program.say("busy 1")
    rig.message("report", lambda r: r["demand"] == 4 and r["busy"] > 0)


def test_hostile_page(rig: Rig) -> None:
    rig.start()
    hostile, honest = rig.join(), rig.join()
    hostile.say("most 4294967295")
    hostile.say("told 4294967295")
    hostile.say("counts 18446744073709551615 5")
    for program in (hostile, honest):
        program.say("busy 1")
    # The counts never change, so they claim a long section. The honest program gets the CPUs that it does not use.
    wait_until(lambda: (hostile.team(), honest.team()) == (2, 3), "equal shares and the CPUs of the long section")
    ack = rig.ack(rig.allocate(1, deadline_ms=200))
    assert ack["online"] == [0] and not ack["sections_ended"]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_bytes_on_pages(rig: Rig, seed: int) -> None:
    """The agent survives any content of a page, and each report fits the schema, which rig.line checks."""
    rig.start("--period-ms", "20")
    hostile, honest = rig.join(), rig.join()
    rig.show_threads(hostile)
    for program in (hostile, honest):
        program.say("busy 1")
    honest.say("estimate 0 2 1840000 20000 30")
    seen: set[str] = set()
    tried = {"learning", "rigid", "long_section", "override"}

    def check(report: Message) -> None:
        decode_from_guest(json.dumps(report).encode())
        assert 0 <= report["demand"] <= 4
        for process in report["processes"]:
            assert 1 <= process["team"] <= 4
            if process["pid"] == hostile.pid:
                seen.update(process, [process["malleable"]], ["points"] if process["points"] else [])
            else:
                assert process["malleable"] == "full" and len(process["points"]) in {0, 2}

    # A program that gets no CPU for a period counts as idle, whatever its page says. On a busy host that happens often.
    turn, end = 0, time.monotonic() + DEADLINE_S
    while turn < 25 or not tried <= seen:
        assert time.monotonic() < end, f"these were never reported: {sorted(tried - seen)}"
        hostile.say(f"garbage {1000 * seed + turn}")
        turn += 1
        for _ in range(3 if "long_section" in seen else 60):  # 60 take more than the second that makes a section long
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


def test_page_of_another_version(rig: Rig) -> None:
    rig.start()
    assert rig.join(version=1).greeting == "status 1 version 3"
    assert rig.join(version=4).greeting == "status 1 version 3"
    assert rig.join().greeting == "joined"


def test_silent_connection_is_dropped(rig: Rig) -> None:
    rig.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.settimeout(DEADLINE_S)
        silent.connect(str(rig.socket_path))
        assert silent.recv(100) == b""  # test_connections.c checks when


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
    result = subprocess.run([AGENT, *arguments], check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words)


def test_second_agent_is_refused(rig: Rig) -> None:
    rig.start()
    command = [str(AGENT), "--socket", str(rig.socket_path), "--sysfs", str(rig.sysfs), "--standalone"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 1 and "another agent" in result.stderr
    assert rig.join().greeting == "joined"
