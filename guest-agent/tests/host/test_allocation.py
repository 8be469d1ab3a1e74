"""The host's orders: teams change first, then CPUs, then the agent acknowledges."""

from __future__ import annotations

import signal

from rig import EXCLUSIVE, HANGS_MS, LEARN, Program, Rig, team_of, wait_until


def on_all(rig: Rig) -> Program:
    """A program of a new agent, with a team of all four CPUs."""
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "a team of 4")
    return program


def order_that_waits(rig: Rig, program: Program) -> int:
    """Orders one CPU while a section in flight holds the order up. Returns its sequence."""
    sequence = rig.allocate(1, deadline_ms=HANGS_MS)
    wait_until(lambda: program.team() == 1, "the smaller team before anything else")
    return sequence


def no_cpu_leaves(rig: Rig) -> None:
    rig.fresh()
    for _ in range(4):
        assert rig.message("report")["online"] == [0, 1, 2, 3], "a CPU was taken from a section in flight"


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
    rig.message("report", lambda r: r["sequence"] == rig.sequence and team_of(r, program.pid) == 4)


def test_rest_takes_no_cpu(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    ack = rig.ack(rig.allocate(0))
    assert ack["online"] == [0, 1, 2, 3] == rig.online() and program.team() == 1
    rig.ack(rig.allocate(4))
    program.say("busy 1")
    wait_until(lambda: program.team() == 4, "its team back after the guest rested")


def test_shrink_waits_for_the_section_in_flight(rig: Rig) -> None:
    program = on_all(rig)
    assert program.say("begin") == "4"
    sequence = order_that_waits(rig, program)
    no_cpu_leaves(rig)
    program.say("end 1000")
    ack = rig.ack(sequence)
    assert ack["online"] == [0] == rig.online() and ack["sections_ended"]


def test_shrink_waits_for_sections_of_other_threads(rig: Rig) -> None:
    program = on_all(rig)
    program.say("others 1 0")
    sequence = order_that_waits(rig, program)
    program.say("others 3 2")  # two ended, but the first of the three may still run
    no_cpu_leaves(rig)
    program.say("others 3 3")
    ack = rig.ack(sequence)
    assert ack["online"] == [0] == rig.online() and ack["sections_ended"]


def test_shrink_gives_up_at_the_deadline(rig: Rig) -> None:
    program = on_all(rig)
    program.say("begin")
    program.process.send_signal(signal.SIGSTOP)
    ack = rig.ack(rig.allocate(1, deadline_ms=300))  # test_orders.c checks that it is exactly then
    assert ack["online"] == [0] == rig.online() and not ack["sections_ended"]


def test_newest_allocate_wins(rig: Rig) -> None:
    program = on_all(rig)
    program.say("begin")
    first = rig.allocate(1, deadline_ms=HANGS_MS)
    wait_until(lambda: program.team() == 1, "the first order under way")
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

    def present() -> int:
        rig.send(type="hello", daemon="vscaf 0.1.0")
        return int(rig.message("hello")["cpus"]["present"])

    wait_until(lambda: present() == 6, "the agent to see the CPU")
    rig.fresh()
    rig.message("report")
    rig.message("report")
    assert rig.online() == [0, 1]


def test_limit(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    assert program.team_limit() == 4
    rig.ack(rig.allocate(4, limit=2))
    assert program.team_limit() == 2
    program.say("busy 1")
    rig.message("report", lambda r: team_of(r, program.pid) == 2 and r["demand"] == 2)


def test_exclusive_while_the_cpus_are_what_was_given(rig: Rig) -> None:
    program = on_all(rig)
    assert not program.control()[0] & EXCLUSIVE, "the host has given no CPUs yet"
    rig.ack(rig.allocate(4))
    assert program.control()[0] & EXCLUSIVE
    program.say("busy 1")
    wait_until(lambda: program.team() == 4, "its team")
    program.say("begin")
    sequence = rig.allocate(2, competition=True, deadline_ms=HANGS_MS)
    wait_until(lambda: program.team() == 2, "the smaller team")
    assert program.control()[0] == 0, "CPUs are about to be taken"
    program.say("end 1")
    rig.ack(sequence)
    assert program.control()[0] == EXCLUSIVE | LEARN
    rig.ack(rig.allocate(0))
    assert not program.control()[0] & EXCLUSIVE, "a guest that rests has no CPUs of its own"


def test_not_exclusive_where_a_cpu_cannot_leave(rig: Rig) -> None:
    (rig.cpus / "cpu3" / "online").unlink()
    rig.start()
    program = rig.join()
    assert rig.ack(rig.allocate(2))["online"] == [0, 1, 3]
    assert not program.control()[0] & EXCLUSIVE
    rig.ack(rig.allocate(9))  # more than are present
    assert program.control()[0] & EXCLUSIVE
