"""Commands as workloads: `--command NAME='...'`, and progress that a workload prints: `--progress NAME=REGEX`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def commands(definitions: Sequence[str]) -> list[Workload]:
    """A workload for each NAME=COMMAND. It is right if its exit status is 0. Raises UsageError."""
    found = []
    for definition in definitions:
        name, command = _split("--command", definition, "sort='sort --parallel=2 numbers >/dev/null'")
        if not _NAME.fullmatch(name):
            raise UsageError(f"--command {definition}: the name may have letters, digits, and . - _ after the first")
        # A shell of its own, so that what starts programs (vscaf-run) covers all parts of the command.
        found.append(Workload(name, f"sh -c {shlex.quote(command)}"))
    return found


def progress_patterns(definitions: Sequence[str]) -> dict[str, re.Pattern[str]]:
    """The patterns NAME=REGEX, by the workload's name. Raises UsageError."""
    found: dict[str, re.Pattern[str]] = {}
    for definition in definitions:
        name, expression = _split("--progress", definition, r"sort='^done: (\d+)'")
        try:
            pattern = re.compile(expression)
        except re.error as error:
            raise UsageError(f"--progress {definition}: not a regular expression: {error}") from None
        if pattern.groups < 1:
            raise UsageError(f"--progress {definition}: put the amount of work in parentheses, as in 'done: (\\d+)'")
        if name in found:
            raise UsageError(f"--progress {name}: given twice: give one regular expression")
        found[name] = pattern
    return found


def _split(option: str, definition: str, example: str) -> tuple[str, str]:
    name, separator, value = definition.partition("=")
    if not separator or not name or not value:
        raise UsageError(f"{option} {definition}: give it as in {option} {example}")
    return name, value
