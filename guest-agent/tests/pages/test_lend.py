"""Idle processes lend their CPUs and get them back at once. Newcomers get CPUs, and dead processes' CPUs are reused."""

from __future__ import annotations

from pathlib import Path

from rig import NEVER, Message, Program, Rig, team_of, wait_for_log, wait_until, without_a_period


def process_of(report: Message, program: Program) -> Message:
    nothing = {"team": 0, "running": False, "points": []}
    return next((p for p in report["processes"] if p["pid"] == program.pid), nothing)


def used_ticks(rig: Rig) -> int:
    """CPU time of the agent, in clock ticks."""
    assert rig.process is not None
    fields = Path(f"/proc/{rig.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_joins_and_deaths_are_served_without_a_period(rig: Rig) -> None:
    rig.start(*NEVER)
    programs: list[Program] = []
    for teams in ([4], [2, 2], [2, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1, 1]):
        programs.append(rig.join())
        without_a_period(
            programs[0],
            lambda wanted=teams: sorted((p.team() for p in programs), reverse=True) == wanted,
            f"teams of {teams}",
        )
    wait_for_log(rig, "5 programs compute on 4 CPUs")
    for teams in ([1, 1, 1, 1], [2, 1, 1], [2, 2], [4]):
        programs.pop().kill()
        without_a_period(
            programs[0],
            lambda wanted=teams: sorted((p.team() for p in programs), reverse=True) == wanted,
            f"teams of {teams}",
        )


def test_exit_gives_the_share_back_without_a_period(rig: Rig) -> None:
    rig.start(*NEVER)
    first, second = rig.join(), rig.join()
    wait_until(lambda: first.team() == 2, "equal shares")
    assert second.process.stdin is not None
    second.process.stdin.close()  # this ends it
    second.process.wait()
    without_a_period(first, lambda: first.team() == 4, "the share of the program that ended")


def test_newcomer_has_an_equal_share_whatever_is_known(rig: Rig) -> None:
    rig.start()
    good = rig.join()
    good.say("busy 1")
    good.say("estimate 0 4 3900000 20000 30")
    # The equal shares last for 2 s only, so the test reads every report. test_shares.c checks the exact time. A program
    # that gets no CPU for a period passes for idle, maybe for all of that time. Then the test tries another newcomer.
    for _ in range(30):
        poor = rig.join()
        poor.say("busy 1")
        poor.say("estimate 0 4 1100000 20000 30")

        def teams(report: Message, poor: Program = poor) -> tuple[int, int]:
            known = process_of(report, good)["points"] and process_of(report, poor)["points"]
            return (team_of(report, good.pid), team_of(report, poor.pid)) if known else (0, 0)

        first = rig.message("report", lambda r, teams=teams: teams(r) in {(2, 2), (3, 1)})
        if teams(first) == (2, 2):
            break
        poor.kill()
        rig.message("report", lambda r: team_of(r, good.pid) == 4)
    else:
        raise AssertionError("no newcomer had an equal share")
    rig.message("report", lambda r: teams(r) == (3, 1))


def lends(rig: Rig, busy: Program, idle: Program) -> None:
    """Waits until one program computes on all four CPUs, and the other is idle and is asked to call."""
    rig.fresh()
    rig.message("report", lambda r: process_of(r, busy)["running"] and not process_of(r, idle)["running"])
    wait_until(lambda: busy.team() == 4 and idle.asked() > 0, "the idle program to lend its share")


def idle_beside(rig: Rig) -> tuple[Program, Program]:
    """A program that computes on all four CPUs, and one that is idle and is asked to call."""
    busy, idle = rig.join(), rig.join()
    busy.say("busy 1")
    lends(rig, busy, idle)
    return busy, idle


def test_a_call_brings_the_share_back_without_a_period(rig: Rig) -> None:
    rig.start("--period-ms", "1500")
    busy, idle = idle_beside(rig)
    for _ in range(30):  # a period may come in between, on a busy machine many times in a row, but not each time
        beat, team = idle.beat(), idle.team()
        idle.say("calls 1")
        # At the end of the second period it has computed nothing, and lends its share again.
        wait_until(lambda beat=beat: busy.team() == 2 or idle.beat() >= beat + 2, "its share")
        teams, asked = (busy.team(), idle.team()), idle.asked()
        if idle.beat() == beat:
            break
        lends(rig, busy, idle)
    else:
        raise AssertionError("its share only came at a period's end")
    assert team == 2, "its next section starts with the CPUs that it will get back"
    assert teams == (2, 2) and asked == 0
    idle.say("busy 1")
    wait_until(lambda: idle.beat() > beat + 2, "periods")
    rig.fresh()
    report = rig.message("report", lambda r: process_of(r, busy)["running"] and process_of(r, idle)["running"])
    assert (process_of(report, busy)["team"], process_of(report, idle)["team"]) == (2, 2)


def test_who_calls_for_nothing_is_asked_again_later(rig: Rig) -> None:
    rig.start("--period-ms", "20")
    busy, idle = idle_beside(rig)
    teams: set[int] = set()
    for _ in range(3):  # test_lend.c checks that each wait is longer
        number = idle.asked()
        idle.say("calls 1")

        def asked_again(before: int = number) -> bool:
            teams.add(idle.team())
            return idle.asked() not in {0, before}

        wait_until(asked_again, "a new request to call")
    assert 1 in teams, "meanwhile its sections take no CPU from others"
    wait_until(lambda: busy.team() == 4, "all CPUs for the program that computes")


def test_a_call_wakes_a_guest_without_demand(rig: Rig) -> None:
    rig.start("--period-ms", "300")
    idle = rig.join()
    rig.fresh()
    rig.message("report", lambda r: r["demand"] == 0)
    wait_until(lambda: idle.asked() > 0, "a request to call")
    rig.ack(rig.allocate(0))
    assert idle.team() == 1 and idle.asked() > 0, "in a guest that rests each program has one CPU"
    idle.say("calls 1")
    rig.message("report", lambda r: r["demand"] == 4)
    rig.ack(rig.allocate(3))
    wait_until(lambda: idle.team() == 3, "the CPUs that the host gives")


def test_only_a_call_that_was_asked_for_counts(rig: Rig) -> None:
    rig.start("--period-ms", "500")
    busy, idle = idle_beside(rig)
    number = idle.asked()
    idle.say(f"call {number + 1}")
    busy.say("call 1")
    busy.say("calls 1")
    beat = idle.beat()
    wait_until(lambda: idle.beat() > beat + 1, "two periods")
    assert idle.asked() == number, "the call must not count as running"
    rig.ack(rig.allocate(4))
    assert {p["pid"] for p in rig.message("report")["processes"]} == {busy.pid, idle.pid}


def test_anything_but_a_call_ends_the_connection(rig: Rig) -> None:
    rig.start()
    for size in (1, 7, 8, 9, 40, 64):
        program = rig.join()
        rig.message("report", lambda r, pid=program.pid: pid in [p["pid"] for p in r["processes"]])
        program.say(f"speak {size}")
        rig.message("report", lambda r, pid=program.pid: pid not in [p["pid"] for p in r["processes"]])


def test_a_flood_of_calls_costs_little_and_stops_nobody(rig: Rig) -> None:
    rig.start("--period-ms", "250")
    busy, hostile = idle_beside(rig)
    hostile.say("calls 100")  # the first may count
    before, beat = used_ticks(rig), busy.beat()
    sent = attempts = 0
    while busy.beat() < beat + 8:
        attempts += 2000
        sent += int(hostile.say("calls 2000"))
    # The agent reads a few packets in each period. Unread packets fill the socket's buffer, and then sends fail.
    assert sent < attempts / 2, f"{sent} of {attempts}"
    assert used_ticks(rig) - before < 60, "more than a third of the time"
    other = rig.join()
    other.say("busy 1")  # without work it would soon lend its share back
    wait_until(lambda: other.team() >= 1 and busy.team() <= 3, "service to other programs")
    hostile.kill()
    rig.message("report", lambda r: {p["pid"] for p in r["processes"]} == {busy.pid, other.pid})


def test_what_the_idle_would_get_follows_the_others(rig: Rig) -> None:
    rig.start()
    busy, idle = idle_beside(rig)
    third = rig.join()
    third.say("busy 1")
    wait_until(lambda: (busy.team(), third.team()) == (2, 2) and idle.team() in {1, 2}, "a third of four: 2, 1, 1")
    third.kill()
    wait_until(lambda: (busy.team(), idle.team()) == (4, 2), "half of four")
    idle.say("told 1")
    wait_until(lambda: idle.team() == 1, "no more than it was told")
    idle.say("told 3")
    rig.ack(rig.allocate(1))
    assert (busy.team(), idle.team()) == (1, 1)
    rig.ack(rig.allocate(2))
    wait_until(lambda: (busy.team(), idle.team()) == (2, 1), "half of two")
    busy.say("calm")
    wait_until(lambda: (busy.team(), idle.team()) == (2, 2), "two CPUs each, because either would be alone")


def test_serial_work_without_sections_is_found_without_a_call(rig: Rig) -> None:
    rig.start()
    busy, idle = idle_beside(rig)
    idle.say("busy 1")
    wait_until(lambda: busy.team() == 2, "its share")
    rig.message("report", lambda r: process_of(r, idle)["running"])


def test_sections_of_a_shim_that_does_not_call(rig: Rig) -> None:
    rig.start()
    busy, idle = idle_beside(rig)
    idle.say("busy 1")
    idle.say("begin")
    # One of its two CPUs soon counts as unused, because the section is long and has one thread.
    wait_until(lambda: busy.team() in {2, 3}, "its share")
