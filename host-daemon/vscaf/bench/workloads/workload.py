"""A workload: a command whose speed is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The line of the output block at the end of every NPB program; also printed by the shipped workloads.
_VERIFICATION = re.compile(r"^\s*Verification\s*=\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Workload:
    """A command that is run again and again.

    name: as tables show it ("cg.W"). command: a shell command; it is run in the directory that holds `files`.
    files: name in that directory -> file on this host. They are brought in before the first run.
    npb: whether the command prints NPB's output block. If so, its verification must be successful.
    """

    name: str
    command: str
    files: Mapping[str, Path] = field(default_factory=dict)
    npb: bool = False

    def verified(self, status: int, output: str) -> bool:
        """Whether one execution was right: exit status 0 and, for NPB, "Verification = SUCCESSFUL" and no other."""
        if status != 0:
            return False
        return not self.npb or set(_VERIFICATION.findall(output)) == {"SUCCESSFUL"}
