"""Joined programs leave other processes the CPUs that those use. test_shares.c checks the exact figures."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import Program, Rig, wait_until

TICKS = 100  # ticks per second in /proc/stat


class Guest:
    """Keeps the rig's /proc/stat up to date: the joined programs' real CPU time, plus `others` CPUs."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.others = 0.0
        self._ticks = 1000.0
        self._last = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _joined(self) -> int:
        ticks = 0
        for program in list(self.rig.programs):
            try:
                fields = Path(f"/proc/{program.pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks += int(fields[11]) + int(fields[12])
        return ticks

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            now = time.monotonic()
            self._ticks += (now - self._last) * TICKS * self.others
            self._last = now
            self.rig.idle_stat(int(self._ticks) + self._joined())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def guest(rig: Rig) -> Iterator[Guest]:
    guest = Guest(rig)
    yield guest
    guest.close()


def computing(rig: Rig) -> Program:
    program = rig.join()
    program.say("busy 1")
    wait_until(lambda: program.team() == 4, "all CPUs")
    return program


def test_their_cpus_are_left_to_them(rig: Rig, guest: Guest) -> None:
    rig.start()
    program = computing(rig)
    guest.others = 2.0
    wait_until(lambda: program.team() == 2, "two CPUs, because others use two")
    guest.others = 3.0
    wait_until(lambda: program.team() == 1, "one CPU")
    guest.others = 0.0
    wait_until(lambda: program.team() == 4, "all CPUs again")


def test_each_program_keeps_one(rig: Rig, guest: Guest) -> None:
    rig.start()
    first = computing(rig)
    guest.others = 3.0
    wait_until(lambda: first.team() == 1, "one CPU")
    second = rig.join()
    second.say("busy 1")
    wait_until(lambda: (first.team(), second.team()) == (1, 1), "one CPU for each")


def test_what_they_use_is_asked_for_and_adds_up(rig: Rig, guest: Guest) -> None:
    rig.start()
    program = computing(rig)
    program.say("told 2")
    guest.others = 2.0
    rig.message("report", lambda r: r["demand"] == 4 and r["processes"][0]["team"] == 2)
    rig.ack(rig.allocate(4))
    rig.message("report", lambda r: r["demand"] == 4 and r["processes"][0]["team"] == 2)
    # The host gives fewer CPUs. The others use the same CPUs as before, and the program gets the rest.
    rig.ack(rig.allocate(3))
    rig.message("report", lambda r: r["processes"][0]["team"] == 1)
    rig.ack(rig.allocate(0))
    assert program.team() == 1


def test_without_joined_programs_they_are_demand_and_then_none(rig: Rig, guest: Guest) -> None:
    rig.start()
    guest.others = 2.0
    rig.message("report", lambda r: r["demand"] == 2)
    guest.others = 0.0
    rig.message("report", lambda r: r["demand"] == 0)
