"""Real guests have the pool in turns. A guest that waits does not run at all. All run again, whatever ends vscaf."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import libvirt
import pytest
from vscaf.cpulist import parse_cpu_list
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import until
from vscaf.occupancy.sampler import Sampler
from vscaf_lab.separation import cpu_seconds, least_turns

from .conftest import POOL, POOL_LIST, Pair, enough, over_and_over, verified
from .test_crashes import agents_connected, pins
from .test_operator import vscaf

pytestmark = pytest.mark.guest

SLICE_S = 1.0
FOREVER_S = 1e9  # a slice whose end no test sees, whatever the clock says: slices are counted from the clock's zero
TURNS = 4
TRIES = 10  # a guest rests also between two of its programs, if that takes long


def runs(guest: Guest) -> bool:
    return bool(guest.domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING)


Events = list[dict[str, Any]]


def since(daemon: DaemonProcess, number: int) -> Events:
    """The events after the one of this number."""
    return [event for event in daemon.events() if event["number"] > number]


def resumed(events: Events) -> Counter[str]:
    """How often each guest was resumed for its turn."""
    return Counter(event["domain"] for event in events if event["kind"] == "resumed")


def given(events: Events, pcpu: int) -> int:
    """How often a guest without *pcpu* got it: by its turn, or because a demand changed."""

    def has(partition: str) -> bool:
        return partition != "rest" and pcpu in parse_cpu_list(partition)

    return sum(event["kind"] == "allocation" and has(event["to"]) and not has(event["from"]) for event in events)


def rested(events: Events) -> bool:
    """Whether a guest had no demand for a while or not yet. Then it rests, and may compute at the same time as
    others."""
    moved = [event for event in events if event["kind"] == "allocation" and "rest" in (event["from"], event["to"])]
    return any("slice" not in event["why"] for event in moved)  # "slice" in why: it was only a turn


def in_turns(domains: dict[str, Any]) -> bool:
    return all(one["demand"] == 2 and one["state"] != "resting" for one in domains.values())


def ganging(lab: PrivateLibvirt, pair: Pair, name: str, slice_s: float = SLICE_S) -> DaemonProcess:
    return DaemonProcess(
        lab, POOL_LIST, {guest.name: {} for guest in pair}, policy="gang", options={"slice_s": slice_s}, name=name
    )


def test_nobody_computes_where_another_has_its_turn(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    found = {guest.name: pins(guest.domain) for guest in pair}
    with ganging(shared_lab, pair, "turns") as daemon:
        daemon.wait(agents_connected)
        programs = [guest.start(over_and_over("vscaf-run cg.S")) for guest in pair]
        until(lambda: resumed(daemon.events()))  # before the first turn both compute
        for _ in range(TRIES):
            daemon.wait(in_turns)
            before = daemon.events()[-1]["number"]  # not their count: only the newest are kept
            with Sampler({guest.name: guest.qemu_pid for guest in pair}) as sampler:
                until(lambda at=before: all(resumed(since(daemon, at))[guest.name] >= TURNS for guest in pair))
            events = since(daemon, before)
            if not rested(events):
                break
        else:
            raise AssertionError(f"in all {TRIES} tries a guest had no demand for a while: {events}")
        used = cpu_seconds(sampler.samples)
        assert all(used[guest.name, vcpu] > 0.0 for guest in pair for vcpu in range(2)), used
        for pcpu in POOL:  # one more is there when sampling begins, and one may have been decided before
            turns = least_turns(sampler.samples, pcpu)
            assert turns <= 2 + given(events, pcpu), f"both computed on pCPU {pcpu} in a turn: {events}"
        until(lambda: not all(runs(guest) for guest in pair))
    assert all(runs(guest) for guest in pair)
    for guest, program in zip(pair, programs, strict=True):
        enough(guest)
        assert verified(program)
    assert {guest.name: pins(guest.domain) for guest in pair} == found


def kill_guard(daemon: DaemonProcess) -> None:
    """Kills the guard with kill -9: the process that resumes what a dead daemon leaves suspended."""
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text(encoding="ascii").split()
    (guard,) = [pid for pid in children if b"vscaf.recovery.guard" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(guard), signal.SIGKILL)


@pytest.mark.parametrize(
    "mend", ["daemon", *(pytest.param(mend, marks=pytest.mark.long) for mend in ("guard", "release"))]
)
def test_who_is_left_suspended_by_a_kill_runs_again(shared_lab: PrivateLibvirt, pair: Pair, mend: str) -> None:
    """The daemon's guard resumes it. If that was killed too, the next daemon or the command does."""
    # In an endless slice no change of turns is under way as the daemon is killed: just one is suspended.
    daemon = ganging(shared_lab, pair, f"turns-{mend}", FOREVER_S)
    daemon.start()
    try:
        daemon.wait(agents_connected)
        programs = [guest.start(over_and_over("vscaf-run cg.W")) for guest in pair]
        until(lambda: not all(runs(guest) for guest in pair))
        if mend == "guard":
            daemon.kill()
            until(lambda: all(runs(guest) for guest in pair))
        else:
            kill_guard(daemon)
            daemon.kill()
            waiting = [guest for guest in pair if not runs(guest)]
            assert len(waiting) == 1
        if mend == "daemon":
            daemon = ganging(shared_lab, pair, f"turns-{mend}")  # it has the state of the first one
            daemon.start()
            until(lambda: runs(waiting[0]))
            assert daemon.stop() == 0
        else:
            done = vscaf(daemon, "release")
            assert done.returncode == 0, done.stderr
        assert all(runs(guest) for guest in pair)
        for guest, program in zip(pair, programs, strict=True):
            enough(guest)
            assert verified(program)
    finally:
        with contextlib.suppress(AssertionError):  # raised if it was stopped already
            daemon.kill()
        for guest in pair:
            if not runs(guest):
                guest.domain.resume()
