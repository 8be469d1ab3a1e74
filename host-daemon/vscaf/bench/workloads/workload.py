"""A workload: a command whose speed is measured."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vscaf.errors import UsageError

MARKS_MAX = 64  # of one execution

# The line of the output block at the end of every NPB program; also printed by the shipped workloads.
_VERIFICATION = re.compile(r"^\s*Verification\s*=\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Workload:
    """A command that is run again and again.

    name: as tables show it ("cg.W"). command: a shell command; it is run in the directory that holds `files`.
    files: name in that directory -> file on this host. They are brought in before the first run.
    npb: whether the command prints NPB's output block. If so, its verification must be successful.
    environment: variables that the command needs, wherever it runs. marks_environment: more of them, with which it
    prints its progress; they are set where the clock of its times is known.
    progress: finds in a line of output how much work is done so far: group 1, a number. None: it prints no progress,
    and one execution is one unit of work. timed: group 2 is the time of that, in seconds of CLOCK_MONOTONIC where the
    command runs; else it is the time at which the line came.
    """

    name: str
    command: str
    files: Mapping[str, Path] = field(default_factory=dict)
    npb: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    marks_environment: Mapping[str, str] = field(default_factory=dict)
    progress: re.Pattern[str] | None = None
    timed: bool = False

    def copy_files(self, directory: Path) -> None:
        """Copies its files into a directory, except those that are there already."""
        for name, file in self.files.items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.write_bytes(file.read_bytes())
                target.chmod(file.stat().st_mode & 0o777)

    def verified(self, status: int, output: str) -> bool:
        """Whether one execution was right: exit status 0 and, for NPB, "Verification = SUCCESSFUL" and no other."""
        if status != 0:
            return False
        return not self.npb or set(_VERIFICATION.findall(output)) == {"SUCCESSFUL"}

    def marks(
        self, start_s: float, pieces: Iterable[tuple[float, str]], clock_ahead_s: float | None = None
    ) -> tuple[tuple[float, float], ...]:
        """When an execution, begun at start_s, had done how much work: (time, amount), both growing, from (start_s, 0).

        pieces: its output, each piece with the time at which it came. clock_ahead_s: how far the clock where it ran is
        ahead of this host's; None: that is not known. Lines that show no growth add nothing. Empty if the workload
        prints no progress, or none whose time is known. Raises UsageError if group 1 is not a number.
        """
        if self.progress is None or (self.timed and clock_ahead_s is None):
            return ()
        marks = [(start_s, 0.0)]
        for came_s, line in _lines(pieces):
            match = self.progress.search(line)
            if match is None:
                continue
            try:
                amount = float(match[1])
            except (TypeError, ValueError):  # group 1 took no part in the match, or is no number
                raise UsageError(
                    f"progress of {self.name}: {match[1]!r} in {line!r} is not a number: change group 1 of --progress"
                ) from None
            at_s = float(match[2]) - (clock_ahead_s or 0.0) if self.timed else came_s
            if amount > marks[-1][1]:
                if at_s == marks[-1][0] and len(marks) > 1:
                    marks.pop()  # several lines came together: the last counts
                marks.append((at_s, amount))
        return _thinned(marks)

    def fingerprint(self) -> str:
        """A hash of all that decides what one execution does. Samples with other fingerprints must not be mixed."""
        digest = hashlib.sha256()
        pattern = self.progress.pattern if self.progress is not None else ""
        digest.update(repr((self.command, sorted(self.environment.items()), self.npb, pattern)).encode())
        for name, path in sorted(self.files.items()):
            digest.update(f"\0{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:16]


def _thinned(marks: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """At most about MARKS_MAX of the marks, the first and the last among them: samples are kept."""
    step = -(-len(marks) // MARKS_MAX)
    return tuple(marks[:-1:step]) + tuple(marks[-1:])


def _lines(pieces: Iterable[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """The lines, each with the time at which its end came. A carriage return ends a line too: progress bars use it."""
    rest = ""
    at_s = 0.0
    for at_s, text in pieces:
        *lines, rest = re.split(r"[\r\n]", rest + text)
        for line in lines:
            yield at_s, line
    if rest:
        yield at_s, rest
