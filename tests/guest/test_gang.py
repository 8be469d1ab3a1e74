"""The pool in turns, with real guests: who waits does not run at all, and all run again whatever becomes of vscaf."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import libvirt
import pytest
from vscaf_lab import Guest, PrivateLibvirt, Sampler
from vscaf_lab.daemon import DaemonProcess
from vscaf_lab.sampler import INTERVAL_S, Sample
from vscaf_lab.separation import ran_on, rounds

from .conftest import POOL_LIST, Pair, enough, over_and_over
from .test_crashes import agents_connected, pins, until, verified
from .test_operator import vscaf

pytestmark = pytest.mark.guest

SLICE_S = 1.0
TURNS = 4


def runs(guest: Guest) -> bool:
    return bool(guest.domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING)


def resumed(daemon: DaemonProcess, guest: Guest) -> int:
    """How often the guest has had its turn."""
    return sum(event["kind"] == "resumed" and event["domain"] == guest.name for event in daemon.events())


def spaced(taken: list[list[Sample]]) -> list[list[Sample]]:
    """Without rounds that come soon after another: a sampler that was late makes some at once."""
    kept: list[list[Sample]] = []
    for one in taken:
        if not kept or one[0].monotonic_s - kept[-1][0].monotonic_s >= INTERVAL_S / 2:
            kept.append(one)
    return kept


def ganging(lab: PrivateLibvirt, pair: Pair, name: str) -> DaemonProcess:
    return DaemonProcess(
        lab, POOL_LIST, {guest.name: {} for guest in pair}, policy="gang", options={"slice_s": SLICE_S}, name=name
    )


def test_nobody_computes_where_another_has_its_turn(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    found = {guest.name: pins(guest.domain) for guest in pair}
    with ganging(shared_lab, pair, "turns") as daemon:
        daemon.wait(agents_connected)
        programs = [guest.start(over_and_over("vscaf-run cg.S")) for guest in pair]
        until(lambda: not all(runs(guest) for guest in pair))
        with Sampler({guest.name: guest.qemu_pid for guest in pair}) as sampler:
            before = [resumed(daemon, guest) for guest in pair]
            until(
                lambda: all(resumed(daemon, guest) >= n + TURNS for guest, n in zip(pair, before, strict=True)),
                60.0,
            )
        ran = [ran_on(*two) for two in pairwise(spaced(rounds(sampler.samples)))]
        assert frozenset().union(*ran) == {guest.name for guest in pair}
        # A turn may end and the next begin between two samples; a pCPU that both had would last.
        both = [frozenset.intersection(*one.values()) if len(one) > 1 else frozenset() for one in ran]
        shared = [now & after for now, after in pairwise(both)]
        assert not any(shared), "both computed on a pCPU for longer than a sample"
        until(lambda: not all(runs(guest) for guest in pair))
    assert all(runs(guest) for guest in pair)
    for guest, program in zip(pair, programs, strict=True):
        enough(guest)
        assert verified(program)
    assert {guest.name: pins(guest.domain) for guest in pair} == found


@pytest.mark.parametrize("mend", ["daemon", "release"])
def test_who_is_left_suspended_by_a_kill_runs_again(shared_lab: PrivateLibvirt, pair: Pair, mend: str) -> None:
    daemon = ganging(shared_lab, pair, f"turns-{mend}")
    daemon.start()
    try:
        daemon.wait(agents_connected)
        programs = [guest.start(over_and_over("vscaf-run cg.S")) for guest in pair]
        until(lambda: not all(runs(guest) for guest in pair))
        daemon.kill()
        waiting = [guest for guest in pair if not runs(guest)]
        assert len(waiting) == 1
        if mend == "daemon":
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
        with contextlib.suppress(AssertionError):  # not running: it was stopped already
            daemon.kill()
        for guest in pair:
            if not runs(guest):
                guest.domain.resume()
