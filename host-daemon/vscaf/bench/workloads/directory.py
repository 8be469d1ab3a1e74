"""NPB programs that the user has built, in a directory: `--workloads DIR`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from vscaf.bench.workloads.programs import is_elf, npb_program
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

_NAME = re.compile(r"([A-Za-z][\w-]*\.[SWABCDEF])(\.x)?")


def directory(path: Path, print_line: Callable[[str], None]) -> list[Workload]:
    """A workload for each program NAME.CLASS.x or NAME.CLASS, such as cg.A.x; print_line gets what is ignored, and why.

    Raises UsageError if there are none, or if one cannot run on this machine.
    """
    if not path.is_dir():
        raise UsageError(f"--workloads {path}: there is no such directory")
    found = []
    for file in sorted(path.iterdir()):
        named = _NAME.fullmatch(file.name)
        if named is None:
            print_line(f"{file} is ignored: its name is not like cg.A.x or cg.A")
        elif not file.is_file() or not os.access(file, os.X_OK):
            print_line(f"{file} is ignored: it is not executable")
        elif not is_elf(file):
            print_line(f"{file} is ignored: it is not a compiled program (ELF)")
        else:
            found.append(npb_program(named[1], file, print_line))
    if not found:
        raise UsageError(f"--workloads {path}: there is no program with a name like cg.A.x or cg.A")
    return found
