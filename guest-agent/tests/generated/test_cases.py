"""The cases by hand: each stays right while its team changes, and fails if its sections count as free."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from attempt import Tools
from cases import (
    COMPILERS,
    HERE,
    THREADS,
    Built,
    build,
    case_names,
    environment,
    levels,
    programs,
    run_plain,
    run_resized,
    verdicts,
)

FREE, UP_TO = 1, 2
HUNG = 124
TRIES = 40  # a team that changes at a bad time does not break every run: some break 1 run in 10
# The least number of sections in free/ that must be found free, by compiler and option of optimization: what was found
# with GCC 12 and Clang 14, of 31 (gcc), 29 (clang), 13 (gfortran) and 8 (C++). A divided loop that is peeled, unrolled
# or vectorized is not proven, so it is few where compilers do that.
FREE_AT_LEAST = {
    "gcc": {"-O0": 22, "-O1": 21, "-O2": 21, "-O3": 10, "-O3 -march=x86-64-v3": 9},
    "clang": {"-O0": 8, "-O1": 19, "-O2": 4, "-O3": 4, "-O3 -march=x86-64-v3": 2},
    "gfortran": {"-O0": 8, "-O1": 8, "-O2": 8, "-O3": 1, "-O3 -march=x86-64-v3": 1},
    "g++": {"-O0": 6, "-O1": 6, "-O2": 7, "-O3": 1, "-O3 -march=x86-64-v3": 1},
    "clang++": {"-O0": 4, "-O1": 6, "-O2": 1, "-O3": 1, "-O3 -march=x86-64-v3": 0},
}

CASES = programs("cases")
Builder = Callable[[Path, str, tuple[str, ...]], Built]


def builds(folder: str, every: bool) -> list[object]:
    """Parameters: a program, a compiler and its options. Most are left to `make soak`."""
    chosen = []
    for path in programs(folder):
        for compiler in COMPILERS[path.suffix]:
            for flags in levels():
                usual = (every or compiler == COMPILERS[path.suffix][0]) and flags == ("-O2",)
                marks = [] if usual else [pytest.mark.long]
                chosen.append(
                    pytest.param(path, compiler, flags, marks=marks, id=f"{path.name}-{compiler}{''.join(flags)}")
                )
    return chosen


def wrong_if_free() -> list[object]:
    """Of each program two in `make check`, because those that hang take as long as the limit."""
    chosen = []
    for path in CASES:
        for number, case in enumerate(case_names(path, only_wrong_if_free=True)):
            chosen.append(
                pytest.param(path, case, marks=[pytest.mark.long] if number > 1 else [], id=f"{path.name}-{case}")
            )
    return chosen


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools.of(Path(os.environ["VSCAF_BUILD"]))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Builds each program once."""
    made: dict[tuple[Path, str, tuple[str, ...]], Built] = {}

    def builder(source: Path, compiler: str, flags: tuple[str, ...]) -> Built:
        key = (source, compiler, flags)
        if key not in made:
            made[key] = build(source, compiler, flags, tmp_path_factory.mktemp("case"))
        return made[key]

    return builder


@pytest.mark.parametrize(("source", "compiler", "flags"), builds("cases", every=True))
def test_a_case_stays_right(built: Builder, tools: Tools, source: Path, compiler: str, flags: tuple[str, ...]) -> None:
    """All cases of a program in one process, and alone; in `make check` alone with one compiler only."""
    program = built(source, compiler, flags)
    plain = run_plain(program)
    assert plain.returncode == 0, plain.stdout
    assert plain.stdout.count(": 0 wrong rounds") > 0
    wrong = []
    alone = case_names(source) if compiler == COMPILERS[source.suffix][0] or flags != ("-O2",) else []
    for number, case in enumerate(["", *alone]):
        options = ["--limit", str(THREADS + 2 * (number % 2)), "--seed", str(number), "--every", str(1 << number % 3)]
        options += ["--known"] if number % 2 else []
        done = run_resized(tools, program, case, options, number_set=number % 3 != 2)
        if done.returncode:
            wrong.append(f"{case or 'all'}: status {done.returncode} {done.stdout} {done.stderr}")
        if done.returncode == HUNG:  # the others may hang too
            break
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("source", "case"), wrong_if_free())
def test_a_case_fails_if_its_sections_count_as_free(built: Builder, tools: Tools, source: Path, case: str) -> None:
    program = built(source, COMPILERS[source.suffix][0], ("-O2",))
    statuses = []
    for seed in range(TRIES):
        options = ["--limit", str(THREADS), "--seed", str(seed), "--every", "1", "--all-free", "--hang", "2"]
        statuses.append(run_resized(tools, program, case, options).returncode)
        if statuses[-1]:
            break
    assert statuses[-1] != 0, "the case is right with teams of any size"


@pytest.mark.parametrize(("source", "compiler", "flags"), builds("cases", every=True))
def test_marked_sections_are_not_resized(
    built: Builder, tools: Tools, source: Path, compiler: str, flags: tuple[str, ...]
) -> None:
    resized = [
        section
        for section in verdicts(tools, built(source, compiler, flags))
        if section.mark == "own" and section.verdict in (FREE, UP_TO)
    ]
    assert not resized


@pytest.mark.parametrize("compiler", COMPILERS[".c"])
def test_libraries_may_take_turns_at_an_address(tools: Tools, tmp_path: Path, compiler: str) -> None:
    source = HERE / "turns" / "turns.c"
    common = [compiler, "-O2", "-fopenmp", str(source)]
    libraries = [str(tmp_path / f"lib{number}.so") for number in (1, 2)]
    for number, library in enumerate(libraries, 1):
        # Each function has a page of its own, so that the sections are at the same address too.
        shared = ["-shared", "-fPIC", "-falign-functions=4096", f"-DLIBRARY={number}", "-o", library]
        subprocess.run([*common, *shared], check=True)
    subprocess.run([*common, "-o", str(tmp_path / "turns"), "-ldl"], check=True)
    command = [str(tmp_path / "turns"), str(THREADS), *libraries]
    plain = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stdout
    assert int(plain.stderr.split()[0]) > 10
    for seed in range(6):
        driver = [str(tools.driver), "--shim", str(tools.shim), "--told", str(THREADS), "--limit", str(THREADS)]
        driver += ["--seed", str(seed), "--every", "2", "--report", str(tmp_path / "report.json")]
        driver += ["--known"] if seed % 2 else []
        done = subprocess.run([*driver, "--", *command], env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (seed, done.stdout, done.stderr)


@pytest.mark.parametrize(("source", "compiler", "flags"), builds("free", every=True))
def test_free_sections_are_found(
    built: Builder, tools: Tools, source: Path, compiler: str, flags: tuple[str, ...]
) -> None:
    program = built(source, compiler, flags)
    assert run_plain(program).returncode == 0
    sections = [section for section in verdicts(tools, program) if section.mark == "free"]
    if not sections:
        pytest.skip("the reader is not linked in")
    others = [section for section in sections if section.verdict != FREE]
    print(f"{program.name}: {len(sections) - len(others)} of {len(sections)} free", *others, sep="\n")
    assert len(sections) - len(others) >= FREE_AT_LEAST[compiler][" ".join(flags)], others
    done = run_resized(tools, program, "", ["--limit", str(THREADS + 2), "--seed", "1", "--every", "1", "--known"])
    assert done.returncode == 0, (done.stdout, done.stderr)
