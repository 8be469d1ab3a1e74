"""The original NAS Parallel Benchmarks, built from the user's archive: `--npb-source FILE.tar.gz`."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from vscaf.bench.workloads.programs import npb_program
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

BUILD_DEADLINE_S = 900.0  # for one program
LAST_LINES = 12  # of what a failed build printed
TOOLS = ("gfortran", "gcc", "make")  # commands, and the packages that have them
LARGE_CLASSES = "CDEF"
LARGE_STACK = "64M"

# What a build leaves in the tree: a user's own build may have been for another class or by another compiler. And the
# directory of all results of vscaf, in case that the bench is run in the tree.
_BUILT = shutil.ignore_patterns("*.o", "*.mod", "*.x", "npbparams.h", "blk_par.h", "setparams", "make.def", "build")

# NPB 3.4 calls the Fortran compiler FC, and older versions call it F77. NPB's setparams reads this file too: each
# variable must be on one line. Some programs pass complex arrays where their procedures declare real ones, or arrays in
# one call and single numbers in another. Without -fallow-argument-mismatch that is an error since gfortran 10.
_MAKE_DEF = """\
FC = gfortran
F77 = gfortran
FLINK = gfortran
F_LIB =
F_INC =
FFLAGS = {flags} -fallow-argument-mismatch
FLINKFLAGS = {flags}
CC = gcc
CLINK = gcc
C_LIB = -lm
C_INC =
CFLAGS = {flags}
CLINKFLAGS = {flags}
UCC = gcc
BINDIR = ../bin
RAND = randi8
WTIME = wtime.c
"""


def npb_source(source: Path, npb_class: str, cache: Path, print_line: Callable[[str], None]) -> list[Workload]:
    """Builds the OpenMP programs of an NPB 3.x archive or directory; a workload for each that could be built.

    print_line gets a line for each program: built, or the last lines of the compiler's errors. Results are kept in
    *cache*, by the sources, the class and the compilers, so that the next call builds nothing. Raises UsageError if
    there is no OpenMP tree, if a compiler is missing, or if no program could be built.
    """
    versions = _compilers()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as temporary:
        tree = Path(temporary) / "tree"
        unpacked = source
        if not source.is_dir():
            unpacked = Path(temporary) / "archive"
            _unpack(source, unpacked)
        shutil.copytree(openmp_tree(unpacked, source), tree, ignore=_BUILT, ignore_dangling_symlinks=True)
        make_def = _make_def(npb_class, print_line)
        results = cache / _fingerprint(tree, make_def, npb_class, versions)
        results.mkdir(exist_ok=True)
        (tree / "config" / "make.def").write_text(make_def)
        (tree / "bin").mkdir(exist_ok=True)
        programs = sorted(path.parent.name for path in tree.glob("*/Makefile") if path.parent.name.isupper())
        built = {name: _build(tree, name, npb_class, results, print_line) for name in programs}
    found = [
        npb_program(f"{name.lower()}.{npb_class}", program, print_line)
        for name, program in built.items()
        if program is not None
    ]
    if not found:
        raise UsageError(f"none of the programs of {source} could be built for class {npb_class}")
    if npb_class in LARGE_CLASSES:
        found = [replace(one, environment={"OMP_STACKSIZE": LARGE_STACK} | dict(one.environment)) for one in found]
    return found


def openmp_tree(root: Path, source: Path) -> Path:
    """The OpenMP tree (NPB3.x-OMP) in an unpacked archive, or that directory itself. source: for the error's text.

    Raises UsageError if there is none, or more than one.
    """

    def is_tree(path: Path) -> bool:
        return (path / "sys" / "make.common").is_file() and (path / "config").is_dir()

    if root.name.endswith(("-MPI", "-SER")):
        raise UsageError(f"{source} is not the OpenMP version of NPB: give its archive, or the directory NPB3.x-OMP")
    trees = [root] if is_tree(root) else sorted(filter(is_tree, [*root.glob("*-OMP"), *root.glob("*/*-OMP")]))
    if not trees:
        raise UsageError(
            f"{source} has no OpenMP version of NPB 3.x: give an official archive, or a directory that has "
            "NPB3.x-OMP with sys/make.common and config/"
        )
    if len(trees) > 1:
        names = " and ".join(str(tree.relative_to(root)) for tree in trees)
        raise UsageError(f"{source} has several OpenMP versions of NPB: give the directory of one of them: {names}")
    return trees[0]


def _compilers() -> dict[str, str]:
    """The versions of what builds NPB. Raises UsageError if one is missing."""
    versions = {}
    for command in TOOLS:
        if shutil.which(command) is None:
            raise UsageError(f"the command {command} is missing, which builds NPB: install the package {command}")
        told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        versions[command] = told.partition("\n")[0]
    return versions


def _unpack(archive: Path, directory: Path) -> None:
    """Unpacks the OpenMP trees of an archive: only files and directories, and only inside *directory*.

    (tarfile's own filter "data" is missing in Python 3.11.2, which Debian 12 has.)
    """
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                if not any(part.endswith("-OMP") for part in path.parts) or member.isdir():
                    continue
                if path.is_absolute() or ".." in path.parts or not member.isfile():
                    raise UsageError(
                        f"{archive} is not unpacked: {member.name} is a link, a device, or outside of the archive's "
                        "directory: if you trust it, unpack it yourself, and give the directory"
                    )
                content = tar.extractfile(member)
                assert content is not None  # it is a file
                target = directory / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UsageError(f"{archive} cannot be unpacked: {error}: give an official NPB archive (.tar.gz)") from None
    directory.mkdir(exist_ok=True)


def _make_def(npb_class: str, print_line: Callable[[str], None]) -> str:
    """The text of config/make.def for gfortran and gcc."""
    flags = "-O3 -fopenmp"
    if npb_class in LARGE_CLASSES and platform.machine() == "x86_64":
        flags += " -mcmodel=medium"
        print_line(f"class {npb_class} is built with -mcmodel=medium, because its arrays may be larger than 2 GiB")
    return _MAKE_DEF.format(flags=flags)


def _fingerprint(tree: Path, make_def: str, npb_class: str, versions: dict[str, str]) -> str:
    digest = hashlib.sha256(repr((make_def, npb_class, sorted(versions.items()))).encode())
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        digest.update(f"\0{path.relative_to(tree)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _build(tree: Path, name: str, npb_class: str, results: Path, print_line: Callable[[str], None]) -> Path | None:
    """The program in *results*, after it was built there if it was not yet. None if it does not build."""
    program = results / f"{name.lower()}.{npb_class}.x"
    log = program.with_suffix(".log")  # of a build that failed; it would fail again
    if program.exists():
        print_line(f"{name}, class {npb_class}: was built before: {program}")
        return program
    if not log.exists():
        status, output = _make(tree, name, npb_class)
        made = tree / "bin" / program.name
        if status == 0 and made.exists():
            made.rename(program)  # in one step, so that an interrupted build leaves no half of a program there
            print_line(f"{name}, class {npb_class}: built: {program}")
            return program
        if status is None:
            print_line(f"{name}, class {npb_class}: DOES NOT BUILD: not done after {BUILD_DEADLINE_S:.0f} s")
            return None
        failed = tree / "failed.log"
        failed.write_text(output or f"make printed nothing, and there is no bin/{program.name}\n")
        failed.rename(log)
    last = "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-LAST_LINES:])
    print_line(f"{name}, class {npb_class}: DOES NOT BUILD. The end of {log}:\n{last}")
    return None


def _make(tree: Path, name: str, npb_class: str) -> tuple[int | None, str]:
    """Runs make for one program. Returns its exit status, None at the deadline, and its output with the errors."""
    # This command may itself be run by a make, whose flags must not come in.
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    process = subprocess.Popen(
        ["make", "--no-print-directory", name, f"CLASS={npb_class}"],
        cwd=tree,
        env=environment | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=BUILD_DEADLINE_S)
    except BaseException as error:  # whatever happens, no compiler is left running
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return None, output
    return process.returncode, output
