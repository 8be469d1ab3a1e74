"""Two real guests share two pCPUs while demand comes and goes: the programs are right, and no pCPU serves two of them.

Everything is judged by what /proc says of the vCPU threads (affinity, where each last ran, CPU time), never by what the
daemon says.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from vscaf_lab import Guest, PrivateLibvirt, Sampler
from vscaf_lab.daemon import DaemonProcess
from vscaf_lab.runner import Command
from vscaf_lab.separation import Overlap, cpu_seconds, overlaps, partition_changes, pcpu_shares

from .conftest import DEADLINE_S, PERIOD_S, POOL_LIST, Pair, enough, over_and_over

pytestmark = pytest.mark.guest

# Demand is reported within a period and noticed within another; by the deadline the loser has left.
EXCUSED_S = 2 * PERIOD_S + DEADLINE_S
CHANGES_LEAST = 20  # of the two partitions together, or of one whose policy changes its mind
PATIENCE_S = 150.0  # to see so many
BURST_S = EXCUSED_S + 1.0  # so that there is something of it past its transition


@dataclass
class Programs:
    """Programs in one guest, and when they computed by the host's clock."""

    guest: Guest
    windows: list[tuple[float, float]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    _open: list[tuple[float, Command]] = field(default_factory=list)

    def start(self, command: str) -> Command:
        started = self.guest.start(command)
        self._open.append((time.monotonic(), started))
        return started

    def finish(self, timeout_s: float = 120.0) -> None:
        for start_s, command in self._open:
            status, output = command.wait(timeout_s)
            self.windows.append((start_s, time.monotonic()))
            self.outputs.append(output.decode(errors="replace"))
            assert status == 0, self.outputs[-1]
            assert "SUCCESSFUL" in self.outputs[-1] and "UNSUCCESSFUL" not in self.outputs[-1]
        self._open.clear()

    def run(self, command: str) -> float:
        """Runs it to its end; how long it took, in seconds."""
        self.start(command)
        self.finish()
        start_s, end_s = self.windows[-1]
        return end_s - start_s


def too_long(found: Sequence[Overlap]) -> list[Overlap]:
    """Overlaps that a transition does not excuse."""
    return [one for one in found if one.seconds > EXCUSED_S]


def test_demand_that_comes_and_goes(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """One guest computes throughout, the other in bursts: each burst changes both allocations twice."""
    steady, bursty = pair
    with DaemonProcess(shared_lab, POOL_LIST, {steady.name: {}, bursty.name: {}}, name="come-and-go") as daemon:
        daemon.wait(lambda domains: all(one["agent"] == "connected" for one in domains.values()))
        long, bursts = Programs(steady), Programs(bursty)
        with Sampler({guest.name: guest.qemu_pid for guest in (steady, bursty)}) as sampler:
            long.start(over_and_over("NPB_REPEAT=2 vscaf-run cg.W"))
            repeat, give_up_s = 1, time.monotonic() + PATIENCE_S
            while len(bursts.windows) < 6 or sum(partition_changes(sampler.samples).values()) < CHANGES_LEAST:
                assert time.monotonic() < give_up_s, partition_changes(sampler.samples)
                took_s = bursts.run(f"NPB_REPEAT={repeat} vscaf-run cg.S")
                if took_s < BURST_S:
                    repeat = math.ceil(repeat * min(4.0, 1.2 * BURST_S / took_s))
                daemon.wait(lambda domains: domains[steady.name]["allocation"] == 2)
            enough(steady)
            long.finish()
        transitions = daemon.status()["transitions"]
        counted = {
            (guest.name, vcpu): fields[f"vcpu.{vcpu}.time"] / 1e9
            for guest in (steady, bursty)
            for [(_, fields)] in [shared_lab.connection.domainListGetStats([guest.domain], 0)]
            for vcpu in (0, 1)
        }
    samples = sampler.samples
    changes = partition_changes(samples)
    assert transitions >= 10
    assert changes[steady.name] >= 2 and changes[bursty.name] >= 2, changes
    computing = {steady.name: long.windows, bursty.name: bursts.windows}
    found = overlaps(samples, computing)
    assert too_long(found) == [], found
    assert statistics.median(one.seconds for one in found) < PERIOD_S + DEADLINE_S, found
    last = {(one.domain, one.vcpu): one.run_ns / 1e9 for one in samples}
    for key, seconds in counted.items():
        assert seconds == pytest.approx(last[key], rel=0.05, abs=0.5), (key, counted, last)
    # Within a burst, past its transition, each pCPU's time went to one domain.
    settled = [
        (start_s + EXCUSED_S, end_s - 0.1) for start_s, end_s in bursts.windows if end_s - start_s > EXCUSED_S + 0.2
    ]
    assert settled, bursts.windows
    for start_s, end_s in settled:
        for pcpu, used in pcpu_shares(samples, start_s, end_s).items():
            assert len([name for name, seconds in used.items() if seconds > 0.05 * (end_s - start_s)]) <= 1, (
                pcpu,
                used,
            )


def test_scripted_allocations(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """A policy changes its mind twice a second; a program that stays, and one that comes in between, stay right."""
    scripted, visitor = pair
    steps = [{"for_s": 0.4, "cpus": {scripted.name: cpus, visitor.name: 3 - cpus}} for cpus in (2, 1)]
    with DaemonProcess(
        shared_lab,
        POOL_LIST,
        {scripted.name: {}, visitor.name: {}},
        policy="lab-scripted",
        options={"steps": steps},
        name="scripted",
    ) as daemon:
        daemon.wait(lambda domains: all(one["agent"] == "connected" for one in domains.values()))
        stays, visits = Programs(scripted), Programs(visitor)
        with Sampler({guest.name: guest.qemu_pid for guest in (scripted, visitor)}) as sampler:
            stays.start(over_and_over("NPB_REPEAT=2 vscaf-run cg.W"))
            visits.run("vscaf-run ep.S")
            give_up_s = time.monotonic() + PATIENCE_S
            while partition_changes(sampler.samples).get(scripted.name, 0) < CHANGES_LEAST:
                assert time.monotonic() < give_up_s, partition_changes(sampler.samples)
                time.sleep(0.2)
            enough(scripted)
            stays.finish()
    assert too_long(overlaps(sampler.samples, {scripted.name: stays.windows, visitor.name: visits.windows})) == []
    # It never used more CPU time than it was given: of the time alone, half with one pCPU and half with two.
    used = sum(seconds for (name, _), seconds in cpu_seconds(sampler.samples).items() if name == scripted.name)
    (window,) = stays.windows
    assert used < 2.0 * (window[1] - window[0])
