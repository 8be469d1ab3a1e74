"""What a bench on the scaled machine keeps on disk: its samples and, beside them, what was watched in each run."""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from vscaf.bench.observe.watch import Watched
from vscaf.bench.samples import REFERENCE_PACE_NS, RunKey, Sample, SampleFile

from .scaled_figures import Cell, Cells, Status
from .scaled_guest import NAME

TICK_S = 0.5  # of the steady clock


class State:
    """DIRECTORY/DIGEST: `samples.jsonl` and `cells.jsonl`. DIGEST is that of the settings: other settings, and another
    build of vscaf among them, have a state of their own."""

    def __init__(self, directory: Path, settings: Mapping[str, object], *, restart: bool) -> None:
        """restart: without what was kept before. Raises UsageError if that cannot be read."""
        digest = hashlib.sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()[:12]
        self.directory = directory / digest
        if restart and self.directory.exists():
            shutil.rmtree(self.directory)
        self.samples = SampleFile(self.directory / "samples.jsonl", settings)
        self._cells = self.directory / "cells.jsonl"

    def keep(self, sample: Sample, watched: Watched, status: Sequence[Status]) -> None:
        """Writes what was watched in a run. status: what the agent said."""
        cell = Cell(sample.key, sample.attempt, steady_clock(sample, watched), tuple(status))
        with self._cells.open("ab") as file:
            file.write(msgspec.json.encode(cell) + b"\n")

    def samples_of(self, keys: Sequence[RunKey]) -> list[Sample]:
        """The samples of these runs."""
        return [sample for key in keys for sample in self.samples.of(key)]

    def cells(self) -> Cells:
        """All that was watched. The last line may have been cut off."""
        text = self._cells.read_bytes() if self._cells.exists() else b""
        found = [msgspec.json.decode(line, type=Cell) for line in text[: text.rfind(b"\n") + 1].splitlines()]
        return {(cell.key, cell.attempt): cell for cell in found}


def steady_clock(sample: Sample, watched: Watched) -> tuple[tuple[float, float], ...]:
    """(CLOCK_MONOTONIC, steady seconds of the guest so far), from the first execution's start to the last one's end."""
    executions = [one for program in sample.programs for one in program.executions]
    start_s, end_s = min(one.start_s for one in executions), max(one.end_s for one in executions)
    times = [*np.arange(start_s, end_s, TICK_S), end_s]
    passed_s = [watched.steady(NAME, one, other, REFERENCE_PACE_NS) for one, other in itertools.pairwise(times)]
    return tuple((float(at_s), float(s)) for at_s, s in zip(times, np.cumsum([0.0, *passed_s]), strict=True))
