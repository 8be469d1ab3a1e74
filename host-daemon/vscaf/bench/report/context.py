"""What a report says beside the figures: how, where and with what they were measured. It is kept in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from vscaf.bench.machine import machine, versions
from vscaf.bench.places.place import BASELINES, Place
from vscaf.errors import UsageError

FILE = "context.json"


@dataclass(frozen=True)
class ReportContext:
    """How figures were measured.

    command: the command line. place: its description. cpus: of the pool. settings: name -> value. baselines: baseline
    -> the commands with which an operator makes it, one a line. quick: whether it is a preview.
    """

    command: str
    place: str
    cpus: int
    settings: Mapping[str, object]
    baselines: Mapping[str, Sequence[str]]
    quick: bool = False
    machine: Mapping[str, object] = field(default_factory=machine)
    versions: Mapping[str, str] = field(default_factory=versions)


def baseline_commands(place: Place, arrangements: Sequence[str], allocations: Sequence[int]) -> dict[str, list[str]]:
    """The commands for each of these arrangements that is a baseline; policies of vscaf are left out.

    allocations: CPUs of each member under `static`.
    """
    return {name: place.commands(name, allocations) for name in arrangements if name in BASELINES}


def save_context(context: ReportContext, output: Path) -> None:
    """Writes the context into a bench's directory."""
    output.mkdir(parents=True, exist_ok=True)
    (output / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(context)) + b"\n")


def load_context(output: Path) -> ReportContext:
    """The context of a bench. UsageError if it is missing or cannot be read."""
    path = output / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ReportContext)
    except FileNotFoundError:
        raise UsageError(f"there is no {path}: name the --output directory of a vscaf bench") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}: run the bench again") from None
