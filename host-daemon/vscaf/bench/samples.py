"""The raw samples of a bench: every run with each execution of its programs, one JSON line each.

The file is written line by line, so an interrupted bench keeps what it has measured, and goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from vscaf.errors import UsageError

ALONE = "alone"
REFERENCE_PACE_NS = 3e4  # of the pace meter's work; ratios of steady seconds do not depend on it


class RunKey(msgspec.Struct, frozen=True, order=True):
    """Names a run: its round, its workloads (one for each member that computes), how the members are arranged, and the
    threads of each program (0: as many as the member has CPUs). `allocations`: CPUs of each member under `static`."""

    round: int
    workloads: tuple[str, ...]
    arrangement: str
    threads: int = 0
    allocations: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """A short name: "cg.W+lu.W static"."""
        threads = f" on {self.threads} thread" + ("s" if self.threads > 1 else "") if self.threads else ""
        split = f" {'+'.join(map(str, self.allocations))}" if self.allocations else ""
        return f"{'+'.join(self.workloads)} {self.arrangement}{split}{threads}"


class Execution(msgspec.Struct, frozen=True):
    """One execution of a program. Times are CLOCK_MONOTONIC of the host, in seconds.

    marks: of a program that prints its progress, when it had done how much work: (time, amount), both growing, from
    (start_s, 0). The amount is in the program's own unit. Empty for other programs: one execution is one unit of work.
    """

    start_s: float
    end_s: float
    verified: bool
    status: int = 0
    marks: tuple[tuple[float, float], ...] = ()


class ProgramSample(msgspec.Struct, frozen=True):
    """One program in a run. steady_s: the seconds of the window, each weighted by the pace of the CPUs that the program
    used, relative to REFERENCE_PACE_NS. None where the pace was not measured."""

    workload: str
    member: str
    executions: tuple[Execution, ...]
    steady_s: float | None = None


class Sample(msgspec.Struct, frozen=True):
    """A run. window: start and end of the time in which all programs computed. lost: how much of the CPU time that the
    programs wanted went to processes outside the bench, 0 to 1. disturbed: whether that is too much for the figures to
    count."""

    key: RunKey
    attempt: int
    at: str
    window: tuple[float, float]
    programs: tuple[ProgramSample, ...]
    transitions: int = 0
    lost: float = 0.0
    disturbed: bool = False
    once: bool = False
    """Each program was executed once. Then the window is from the first start to the last end."""


class SampleFile:
    """The file of samples of one bench. It belongs to one set of settings: with others, it is not continued."""

    def __init__(self, path: Path, settings: object) -> None:
        """Opens the file, or begins it. Raises UsageError if it is from other settings or cannot be read."""
        self.path = path
        self.samples: list[Sample] = []
        header = msgspec.json.encode({"vscaf_bench": 1, "settings": settings})
        if path.exists():
            first, complete = _parts(path)
            if first != header:
                raise UsageError(
                    f"{path} is from a bench with other settings: choose another --output, or add --restart"
                )
            self.samples = _decoded(path, complete)
            os.truncate(path, len(header) + 1 + len(complete))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(header + b"\n")

    def add(self, sample: Sample) -> None:
        """Adds a sample and writes it."""
        self.samples.append(sample)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(sample) + b"\n")

    def of(self, key: RunKey) -> list[Sample]:
        """The samples of a run, one for each attempt."""
        return [sample for sample in self.samples if sample.key == key]


def read_samples(path: Path) -> list[Sample]:
    """The samples of a file, which a bench may still write. UsageError if it cannot be read."""
    if not path.exists():
        raise UsageError(f"there is no {path}: name the --output directory of a vscaf bench")
    return _decoded(path, _parts(path)[1])


def _parts(path: Path) -> tuple[bytes, bytes]:
    """The header of a file and its complete lines: the last line may have been cut off."""
    first, _, rest = path.read_bytes().partition(b"\n")
    return first, rest[: rest.rfind(b"\n") + 1]


def _decoded(path: Path, lines: bytes) -> list[Sample]:
    try:
        return [msgspec.json.decode(line, type=Sample) for line in lines.splitlines()]
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}: add --restart to begin again") from None


def counted(samples: Sequence[Sample]) -> Iterator[Sample]:
    """The sample that counts of each run: the first that was not disturbed, else the one that lost least."""
    by_key: dict[RunKey, list[Sample]] = {}
    for sample in samples:
        by_key.setdefault(sample.key, []).append(sample)
    for attempts in by_key.values():
        yield min(attempts, key=lambda one: (one.disturbed, one.attempt if not one.disturbed else one.lost))
