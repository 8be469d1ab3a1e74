"""The programs that are written by hand: cases/ (each must stay right) and free/ (each section must be found free)."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attempt import Tools, clean_environment, lines_of
from options import has_avx2, line_tables

HERE = Path(__file__).parent
THREADS = 4
COMPILERS = {".c": ["gcc", "clang"], ".cc": ["g++", "clang++"], ".f90": ["gfortran"]}
MARK = re.compile(r"omp parallel.*(?:/\*|!) (own|free)\b")


@dataclass(frozen=True)
class Built:
    """A program, how it was compiled, and its objects."""

    source: Path
    compiler: str
    flags: tuple[str, ...]
    program: Path
    objects: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"{self.source.name} {self.compiler} {' '.join(self.flags)}"


def levels() -> list[tuple[str, ...]]:
    return [("-O0",), ("-O1",), ("-O2",), ("-O3",), *([("-O3", "-march=x86-64-v3")] if has_avx2() else [])]


def programs(folder: str) -> list[Path]:
    return sorted(
        path for path in (HERE / folder).iterdir() if path.suffix in COMPILERS and not path.stem.endswith("_library")
    )


def case_names(source: Path, only_wrong_if_free: bool = False) -> list[str]:
    word = "WRONG_IF_FREE" if only_wrong_if_free else "(?:WRONG_IF_FREE|CASE)"
    return re.findall(rf"(?m)^ *(?:! )?{word}\((\w+)\)", source.read_text())


def build(source: Path, compiler: str, flags: tuple[str, ...], place: Path) -> Built:
    """With a library, if there is one of the same name."""
    program, library = place / source.stem, place / f"lib{source.stem}.so"
    beside = source.with_name(f"{source.stem}_library{source.suffix}")
    common = [compiler, *flags, line_tables(compiler), "-w", "-fopenmp", "-D_GNU_SOURCE"]
    if source.suffix == ".f90":
        common = [word for word in common if word != "-D_GNU_SOURCE"] + ["-J", str(place)]
    linked = []
    if beside.exists():
        subprocess.run([*common, "-shared", "-fPIC", str(beside), "-o", str(library)], check=True)
        linked = [str(library), f"-Wl,-rpath,{place}"]
    subprocess.run([*common, str(source), "-o", str(program), *linked, "-lm", "-ldl", "-lpthread"], check=True)
    return Built(source, compiler, flags, program, (program, library) if linked else (program,))


def environment(number_set: bool = True) -> dict[str, str]:
    number = {"OMP_NUM_THREADS": str(THREADS)} if number_set else {}
    return clean_environment() | {
        **number,
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "100",
        "KMP_BLOCKTIME": "0",
        "KMP_AFFINITY": "disabled",
    }


def run_plain(built: Built, case: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(built.program), str(THREADS), *([case] if case else [])],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def run_resized(
    tools: Tools, built: Built, case: str, options: list[str], number_set: bool = True
) -> subprocess.CompletedProcess[str]:
    """Under the shim. The status is 124 if it hangs. If not `number_set`, the agent alone tells the number."""
    driver = [str(tools.driver), "--shim", str(tools.shim), "--told", str(THREADS), *options]
    driver += ["--report", str(built.program.with_name(f"report-{case or 'all'}.json")), "--"]
    command = [*driver, str(built.program), str(THREADS), *([case] if case else [])]
    return subprocess.run(command, env=environment(number_set), capture_output=True, text=True, check=False)


@cache
def marks_of(path: Path) -> list[tuple[int, str]]:
    """Line and mark of each `omp parallel`."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if "omp parallel" in line:
            mark = MARK.search(line)
            found.append((number, mark[1] if mark else ""))
    return found


@dataclass(frozen=True)
class Marked:
    """A section of an object: where it stands, what mark it has there, and the verdict on it."""

    where: str
    mark: str
    verdict: int
    reason: str


def verdicts(tools: Tools, built: Built) -> list[Marked]:
    """What the inspector says of each section, and what the source says."""
    for path in built.objects:
        # The objects are not stripped: their lines are in themselves.
        full = Path(f"{path}.full")
        if not full.exists():
            full.symlink_to(path)
    command = [str(tools.driver), "--inspect", *map(str, built.objects)]
    sections = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    addresses: dict[str, list[int]] = {}
    for section in sections:
        addresses.setdefault(section["object"], []).append(section["address"])
    lines = lines_of(addresses)
    found = []
    for section in sections:
        name, line = lines.get((section["object"], section["address"]), ("", 0))
        path = built.source.with_name(name)
        before = [mark for number, mark in marks_of(path) if number <= line] if name and path.exists() else []
        reason = f"{section['reason']} {section['detail']}".strip()
        found.append(Marked(f"{name}:{line}", before[-1] if before else "", section["verdict"], reason))
    return found
