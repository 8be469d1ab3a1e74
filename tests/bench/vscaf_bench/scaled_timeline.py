"""The split over time under a policy, from what the agent said: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vscaf.bench.samples import Sample

from .scaled_figures import Cell

NONE = "-"


def timeline(sample: Sample, cell: Cell) -> list[str]:
    """A line for each change of the split or of a program's state, with the seconds since both computed.

    Between two of its runs a program has no row in the agent's status. That alone is no change.
    """
    lines: list[str] = []
    last: dict[str, tuple[str, str]] = {}
    for at_s, status in cell.status:
        now = {name: row for name in sample.key.workloads if (row := _row(name, status["processes"])) is not None}
        if {**last, **now} == last:
            continue
        last.update(now)
        lines.append(f"{at_s - sample.window[0]:7.1f} s  {_line(sample.key.workloads, now)}")
    return lines


def _row(name: str, processes: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    """CPUs and state of the program; None if it has no row."""
    for process in processes:
        if process["name"] == name:
            speedup = process.get("speedup")
            known = f" {speedup['value']:.1f}@{speedup['p']}" if speedup else ""
            return str(process["threads"]), process["state"] + known
    return None


def _line(names: Sequence[str], rows: dict[str, tuple[str, str]]) -> str:
    absent = (NONE, NONE)
    split = "+".join(rows.get(name, absent)[0] for name in names)
    return f"{split}  {', '.join(f'{name}: {rows.get(name, absent)[1]}' for name in names)}"
