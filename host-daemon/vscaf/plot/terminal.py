"""The recording as text: a line of block characters for each domain, and a line of letters for each pCPU."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from vscaf.occupancy.timeline import Track
from vscaf.plot.allocations import Change, allocated
from vscaf.terminal import printable
from vscaf.top.columns import BLOCKS
from vscaf.top.cpu_map import FREE, MARKS, NO_MARK, colour

USED = 0.05
"""A pCPU with less use in a bin counts as free in it."""


@dataclass(frozen=True, slots=True)
class Row:
    """*marks*: a character for each bin. *letter*: the domain's, if all marks are of one."""

    head: str
    marks: str
    letter: str | None = None


def timeline(
    track: Track, changes: Sequence[Change], domains: Sequence[str], pcpus: Sequence[int], width: int
) -> list[Row]:
    """The newest bins that fit into *width* characters. The last bin is left out: it is not over.

    For each domain: its letter, its allocation, the CPUs that it used in the newest bin, and a block for each bin; the
    highest block is its allocation or the most that it used, whichever was larger. For each pCPU: which domain has it,
    and for each bin the letter of the domain that used it most.
    """
    letters = {name: MARKS[index] if index < len(MARKS) else NO_MARK for index, name in enumerate(domains)}
    bins = max(0, max((len(values) for shares in track.shares.values() for values in shares.values()), default=0) - 1)
    end_s = track.start_s + bins * track.bin_s
    held = {name: allocated(changes, name, end_s) for name in domains}
    values = {name: used(track, name, bins) for name in domains}
    heads = {name: _head(letters[name], name, held[name], values[name]) for name in domains}
    owners = {pcpu: "".join(letters[name] for name in domains if pcpu in (held[name] or ())) or FREE for pcpu in pcpus}
    rows = {pcpu: f"pCPU {pcpu}, of {owners[pcpu]}" for pcpu in pcpus}
    margin = max((len(text) for text in [*heads.values(), *rows.values()]), default=0) + 2
    first = max(0, bins - max(1, width - margin))
    return [
        *(
            Row(heads[name].ljust(margin), _blocks(values[name], first, len(held[name] or ())), letters[name])
            for name in domains
        ),
        *(
            Row(rows[pcpu].ljust(margin), "".join(_letter(track, pcpu, index, letters) for index in range(first, bins)))
            for pcpu in pcpus
        ),
    ]


def text(rows: Iterable[Row]) -> Text:
    """The rows as lines, in the colours of the letters."""
    lines = []
    for row in rows:
        line = Text(row.head)
        for mark, run in itertools.groupby(row.marks):
            letter = row.letter or mark
            line.append("".join(run), style="dim" if letter == FREE else colour(letter))
        lines.append(line)
    return Text("\n").join(lines)


def used(track: Track, domain: str, bins: int) -> list[float]:
    """How many CPUs the domain used in each of the first *bins* bins."""
    all_values = [shares[domain] for shares in track.shares.values() if domain in shares]
    return [sum(values[index] for values in all_values) for index in range(bins)]


def _head(letter: str, name: str, held: frozenset[int] | None, values: Sequence[float]) -> str:
    has = "?" if held is None else str(len(held))
    return f"{letter} {printable(name)}: has {has}, uses {values[-1] if values else 0:.1f}"


def _blocks(values: Sequence[float], first: int, held: int) -> str:
    top = max([1.0, float(held), *values[first:]])
    return "".join(
        " " if value < USED else BLOCKS[max(0, min(7, round(8 * value / top) - 1))] for value in values[first:]
    )


def _letter(track: Track, pcpu: int, index: int, letters: dict[str, str]) -> str:
    shares = {name: values[index] for name, values in track.shares.get(pcpu, {}).items() if name in letters}
    most = max(shares, key=lambda name: shares[name], default=None)
    return letters[most] if most is not None and shares[most] >= USED else FREE
