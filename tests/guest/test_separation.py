"""Two real guests share two pCPUs while demand comes and goes: the programs are right, and no pCPU serves both guests.

The tests use /proc of the vCPU threads (affinity, CPU time) and the order of events, never durations. Two domains that
compute and are pinned never share a pCPU. A domain that rests floats over the pool. So a program that starts there
overlaps with the other domain until the daemon sees it, once for each start. `make bench-daemon` measures how long.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import until
from vscaf.lab.runner import Command
from vscaf.occupancy.sampler import Sampler
from vscaf_lab.separation import affinities, affinity_changes, overlaps, partition_changes, rounds

from .conftest import POOL, POOL_LIST, Pair, again, enough, over_and_over, verified

pytestmark = pytest.mark.guest

CHANGES_LEAST = 20  # of both partitions together, or of one under the scripted policy
BURSTS = 6


@dataclass
class Programs:
    """Programs in one guest, and the times by the host's clock at which they computed."""

    guest: Guest
    windows: list[tuple[float, float]] = field(default_factory=list)
    _open: list[tuple[float, Command]] = field(default_factory=list)

    def start(self, command: str) -> Command:
        started = self.guest.start(command)
        self._open.append((time.monotonic(), started))
        return started

    def finish(self) -> None:
        enough(self.guest)
        for start_s, command in self._open:
            assert verified(command)
            self.windows.append((start_s, time.monotonic()))
        self._open.clear()


def apart(sampler: Sampler) -> bool:
    """Whether no pCPU is in the affinity of both guests, in the last complete round of samples."""
    seen = rounds(sampler.samples[-100:])
    if len(seen) < 2:
        return False  # it has only just begun
    allowed = list(affinities(seen[-2]).values())
    return sum(map(len, allowed)) == len(frozenset().union(*allowed))


def everywhere(sampler: Sampler, guest: Guest) -> bool:
    """Whether the guest had the whole pool in the last complete round of samples."""
    seen = rounds(sampler.samples[-100:])
    return len(seen) > 1 and affinities(seen[-2]).get(guest.name) == frozenset(POOL)


def check_apart(sampler: Sampler, programs: list[Programs], events: list[dict[str, Any]]) -> None:
    """No guests were pinned to the same pCPU. Overlaps with a floating guest came only as a program started, or after a
    guest had rested."""
    found = overlaps(sampler.samples, {one.guest.name: one.windows for one in programs})
    assert [one for one in found if not one.floating] == [], (found, explained(sampler, events))
    starts = sum(len(one.windows) for one in programs)
    rests = sum(event["kind"] == "allocation" and event["to"] == "rest" for event in events)
    assert len(found) <= starts + rests, (found, starts, rests, explained(sampler, events))


def explained(sampler: Sampler, events: list[dict[str, Any]]) -> str:
    """The vCPUs' affinities and the daemon's events in order of time, a line each."""
    wall_s = time.time() - time.monotonic()
    lines = [
        (datetime.fromtimestamp(wall_s + at_s, UTC).isoformat(timespec="milliseconds"), str(affinities))
        for at_s, affinities in affinity_changes(sampler.samples)
    ]
    lines += [(event["time"], str(event)) for event in events]
    return "\n".join(" ".join(line) for line in sorted(lines))


def cpu_time_s(thread: int) -> float:
    """The thread's CPU time (s) by the kernel's accounting."""
    return int(Path(f"/proc/{thread}/schedstat").read_text().split()[0]) / 1e9


def test_demand_that_comes_and_goes(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """One guest computes all the time, the other in bursts. Each burst changes both allocations twice."""
    steady, bursty = pair
    with DaemonProcess(shared_lab, POOL_LIST, {steady.name: {}, bursty.name: {}}, name="come-and-go") as daemon:
        daemon.wait(lambda domains: all(one["agent"] == "connected" for one in domains.values()))
        long, bursts = Programs(steady), Programs(bursty)
        with Sampler({guest.name: guest.qemu_pid for guest in (steady, bursty)}) as sampler:
            long.start(over_and_over("vscaf-run cg.W"))
            for _ in range(BURSTS):
                daemon.wait(lambda domains: domains[steady.name]["allocation"] == 2)
                # The allocation counts when the call for it begins. Another burst would take it back unseen.
                until(lambda: everywhere(sampler, steady), daemon.status)
                again(bursty)
                bursts.start(over_and_over("vscaf-run cg.S"))
                # On a busy machine the two may be apart by chance, before the daemon knows of the burst.
                daemon.wait(lambda domains: {one["allocation"] for one in domains.values()} == {1})
                until(lambda: apart(sampler), daemon.status)
                bursts.finish()
            daemon.wait(lambda domains: domains[steady.name]["allocation"] == 2)
            long.finish()
        transitions, events = daemon.status()["transitions"], daemon.events()
        counted = {
            (guest.name, vcpu): fields[f"vcpu.{vcpu}.time"] / 1e9
            for guest in (steady, bursty)
            for [(_, fields)] in [shared_lab.connection.domainListGetStats([guest.domain], 0)]
            for vcpu in (0, 1)
        }
        after = {
            (guest.name, vcpu): cpu_time_s(thread)
            for guest in (steady, bursty)
            for vcpu, thread in guest.vcpu_threads.items()
        }
    assert transitions >= 2 * BURSTS
    changes = partition_changes(sampler.samples)
    assert min(changes[steady.name], changes[bursty.name]) >= 2 * BURSTS - 2, changes
    check_apart(sampler, [long, bursts], events)
    last = {(one.domain, one.vcpu): one.run_ns / 1e9 for one in sampler.samples}
    for key, seconds in counted.items():  # libvirt counts in ticks of 10 ms
        assert last[key] - 0.1 <= seconds <= after[key] + 0.1, (key, counted, last, after)


def test_scripted_allocations(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    """A policy changes the allocations twice a second. A program that stays and one that comes in between are right."""
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
            stays.start(over_and_over("vscaf-run cg.W"))
            visits.start(over_and_over("vscaf-run ep.S"))
            until(lambda: apart(sampler), daemon.status)
            visits.finish()

            def changes() -> int:
                return partition_changes(sampler.samples).get(scripted.name, 0)

            until(lambda: changes() >= CHANGES_LEAST, changes, poll_s=0.2)
            stays.finish()
        events = daemon.events()
    check_apart(sampler, [stays, visits], events)
