"""Programs that were built already: what they need in a guest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

LIBRARIES = "lib"  # the directory for libraries, beside the programs

# Every guest has the parts of its own C library, which fit each other and not those of another system.
_C_LIBRARY = (
    "ld-linux",
    "linux-vdso",
    "libc",
    "libm",
    "libmvec",
    "libpthread",
    "libdl",
    "librt",
    "libutil",
    "libresolv",
)
_OWN_LIBGOMP = b"\nlibgomp: "  # begins libgomp's own error messages


def npb_program(name: str, program: Path, print_line: Callable[[str], None]) -> Workload:
    """An NPB program, with the libraries that a guest may lack. Raises UsageError if it cannot run on this machine."""
    program = program.absolute()
    libraries = needed_libraries(program)
    if _OWN_LIBGOMP in program.read_bytes():
        print_line(f"{name}: {program} contains its own OpenMP runtime (static): vscaf cannot resize it")
    return Workload(
        name,
        f"./{program.name}",
        {program.name: program} | {f"{LIBRARIES}/{library}": path for library, path in libraries.items()},
        npb=True,
        environment={"LD_LIBRARY_PATH": LIBRARIES} if libraries else {},
    )


def is_elf(path: Path) -> bool:
    """Whether the file is an ELF object."""
    return _header(path).startswith(b"\x7fELF")


def needed_libraries(program: Path) -> dict[str, Path]:
    """The shared libraries that a program needs, without the C library: name -> file. Empty for a static program.

    Raises UsageError if the program is not for this machine, or if this host lacks a library.
    """
    if _machine(program) != _machine(Path("/proc/self/exe")):
        raise UsageError(f"{program} is not a program for this machine ({os.uname().machine}): build it again here")
    try:
        # ldd ends with 1 if the program is static.
        done = subprocess.run(
            ["ldd", str(program)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise UsageError("the command ldd is missing: install the package libc-bin") from None
    libraries = {}
    for line in done.stdout.splitlines():
        name, arrow, found = line.strip().partition(" => ")
        if not arrow or name.startswith(tuple(f"{part}{end}" for part in _C_LIBRARY for end in (".", "-"))):
            continue
        if found == "not found":
            raise UsageError(f"{program} needs {name}, which this host lacks: install its package")
        libraries[name] = Path(found.split(" (")[0]).resolve()
    return libraries


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(20)


def _machine(path: Path) -> bytes:
    """The fields of an ELF header that say for which machine it is: class, byte order and e_machine."""
    header = _header(path)
    return header[4:6] + header[18:20]
