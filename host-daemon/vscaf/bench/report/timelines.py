"""Timelines: where the members of a place computed during a run. The last run of each kind is kept in a file."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from vscaf.bench.observe.watch import Watched
from vscaf.bench.samples import ALONE, Sample
from vscaf.occupancy.timeline import Track

TIMELINES = "timelines"  # the directory in that of a bench


class Timeline(msgspec.Struct, frozen=True):
    """A run. computed: by member, when its first execution began and its last ended (CLOCK_MONOTONIC, seconds)."""

    workloads: tuple[str, ...]
    arrangement: str
    allocations: tuple[int, ...]
    round: int
    computed: Mapping[str, tuple[float, float]]
    track: Track


class Timelines:
    """The timelines of a bench, in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, sample: Sample, watched: Watched) -> None:
        """Keeps the timeline of a run, instead of an earlier run of its kind. Runs alone have none."""
        key = sample.key
        if key.arrangement == ALONE:
            return
        timeline = Timeline(
            key.workloads,
            key.arrangement,
            key.allocations,
            key.round,
            {one.member: (one.executions[0].start_s, one.executions[-1].end_s) for one in sample.programs},
            watched.track,
        )
        self._directory.mkdir(parents=True, exist_ok=True)
        unfinished = self._directory / "unfinished"
        unfinished.write_bytes(msgspec.json.encode(timeline))
        unfinished.rename(self._directory / f"{key.name}.json")  # in one step: a report may be made meanwhile

    def read(self) -> list[Timeline]:
        """All that are kept. A file that was damaged, for example by a power failure, only costs its picture."""
        found = []
        for path in sorted(self._directory.glob("*.json")):
            with suppress(FileNotFoundError, msgspec.DecodeError):  # another bench may remove it meanwhile
                found.append(msgspec.json.decode(path.read_bytes(), type=Timeline))
        return found

    def remove(self) -> None:
        """Removes all."""
        shutil.rmtree(self._directory, ignore_errors=True)
