"""Records where the vCPU threads of domains run, and what the daemon allots to them."""

import asyncio
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue

from vscaf.cpulist import parse_cpu_list
from vscaf.errors import VscafError
from vscaf.occupancy.qemu import qemu_pids
from vscaf.occupancy.sampler import Sample, Sampler
from vscaf.occupancy.timeline import Bins
from vscaf.plot.allocations import Change, from_event, from_state, last_change
from vscaf.terminal import one_line
from vscaf.top import feed

SAMPLE_S = 0.05
LOOK_S = 1.0
"""How often domains that came or went are looked for, and a daemon that is away is asked again."""


class Recording:
    """What was recorded. *names*: only these domains; none: all."""

    def __init__(self, bin_s: float, names: Collection[str] = ()) -> None:
        self.bins = Bins(bin_s, time.monotonic())
        self.names = frozenset(names)
        self.changes: list[Change] = []
        self.pool: frozenset[int] = frozenset()
        self.problems: dict[str, str] = {}
        """What is not known and why, by what it is about."""

    def wants(self, name: str) -> bool:
        """Whether the domain is to be shown."""
        return not self.names or name in self.names

    @property
    def domains(self) -> list[str]:
        """The domains that ran, or that have pCPUs."""
        shown = {change.domain for change in self.changes if change.cpus}
        return sorted(filter(self.wants, shown | self.bins.domains))

    @property
    def pcpus(self) -> list[int]:
        """The pCPUs of the pool, and those on which a domain ran."""
        return sorted(self.pool | self.bins.pcpus)

    def change(self, change: Change | None) -> None:
        """Takes in a change. What was known already is left out."""
        if change is not None and self.wants(change.domain):
            before = last_change(self.changes, change.domain, change.at_s)
            if before is None or before.cpus != change.cpus:
                self.changes.append(change)
                self.changes.sort(key=lambda one: one.at_s)

    def forget(self, before_s: float) -> None:
        """Drops what is older."""
        self.bins.forget(before_s)
        last = {change.domain: change for change in self.changes if change.at_s < before_s}
        self.changes = [
            one for one in self.changes if one.at_s >= before_s or (last[one.domain] is one and one.cpus is not None)
        ]


async def record(path: Path, recording: Recording) -> None:
    """Records until it is cancelled. path: the daemon's control socket; without a daemon only what runs is recorded."""
    taken: SimpleQueue[list[Sample]] = SimpleQueue()
    with Sampler({}, SAMPLE_S, on_round=taken.put, keep=False) as sampler:
        listening = asyncio.create_task(_listen(path, recording))
        asking = asyncio.create_task(_ask(path, recording))
        sampled: dict[int, str] = {}
        next_look_s = time.monotonic()
        try:
            while True:
                if time.monotonic() >= next_look_s:
                    next_look_s = time.monotonic() + LOOK_S
                    sampled = _follow(sampler, sampled, _to_sample(recording, await asyncio.to_thread(qemu_pids)))
                await asyncio.sleep(SAMPLE_S)
                _drain(taken, recording)
        finally:
            listening.cancel()
            asking.cancel()


def _drain(taken: SimpleQueue[list[Sample]], recording: Recording) -> None:
    while True:
        try:
            recording.bins.add(taken.get_nowait())
        except Empty:
            return


def _to_sample(recording: Recording, found: Mapping[str, list[int]]) -> dict[int, str]:
    twice = sorted(name for name, pids in found.items() if len(pids) > 1 and recording.wants(name))
    if twice:
        recording.problems["names"] = f"several QEMUs run a domain {', '.join(twice)}: their time is not shown"
    else:
        recording.problems.pop("names", None)
    return {pids[0]: name for name, pids in found.items() if len(pids) == 1 and recording.wants(name)}


def _follow(sampler: Sampler, before: Mapping[int, str], now: dict[int, str]) -> dict[int, str]:
    for pid in before.keys() - now.keys():
        sampler.remove(pid)
    for pid in now.keys() - before.keys():
        sampler.add(now[pid], pid)
    return now


async def _ask(path: Path, recording: Recording) -> None:
    """Learns the pool, and the allocations from before the first event, also when a daemon has come back."""
    known = False
    while True:
        asked_s = time.monotonic()
        try:
            state = await feed.state(path)
        except VscafError as error:
            recording.problems["daemon"] = f"allocations are not known: {one_line(error)}"
            known = False
        else:
            recording.problems.pop("daemon", None)
            recording.pool = parse_cpu_list(state.pool)
            # Later on the events tell more: when each change was decided. The state has a goal only once it is reached.
            for change in () if known else from_state(state, asked_s):
                recording.change(change)
            known = True
        await asyncio.sleep(LOOK_S)


async def _listen(path: Path, recording: Recording) -> None:
    offset_s, began_s = time.monotonic() - time.time(), time.monotonic()
    async for event in feed.events(path):
        change = from_event(event, offset_s)
        if change is not None and change.at_s >= began_s:  # the state tells what was before
            recording.change(change)
