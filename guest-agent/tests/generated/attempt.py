"""Builds one program, runs it plain and under the shim while its team changes, and compares."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from options import Build, choose_build, choose_environment, line_tables
from program import Program, generate

HANG_S = 60.0  # an idle machine needs a hundredth of it
VERDICTS = {1: "FREE", 2: "UP_TO", 3: "OWN"}


@dataclass(frozen=True)
class Tools:
    """What runs the programs: the driver and the shim that were built."""

    driver: Path
    shim: Path

    @staticmethod
    def of(build: Path) -> Tools:
        tools = Tools(build / "guest-agent/tests/generated/generated-driver", build / "guest-libgomp/libvscaf-gomp.so")
        assert tools.driver.exists() and tools.shim.exists(), f"{build} is not built"
        return tools


@dataclass(frozen=True)
class Manner:
    """How the team changes."""

    all_free: bool = False
    growth: bool = True  # free sections may have more threads than the program's own number
    always_set: bool = False  # the user always sets OMP_NUM_THREADS
    plain: bool = False  # without the shim: only shows that the programs are right
    inspect: bool = False  # run nothing, only inspect what was built
    hang_s: float = HANG_S
    language: str | None = None  # of all programs
    times: int = 1  # how often each is run under the shim


@dataclass
class Outcome:
    seed: int
    result: str  # right, wrong, hung, unfit (a bug of the generator), unbuilt
    told: list[str] = field(default_factory=list)  # for people
    report: dict[str, Any] = field(default_factory=dict)
    # kind -> verdict -> number of sections
    verdicts: dict[str, dict[str, int]] = field(default_factory=dict)


def clean_environment() -> dict[str, str]:
    names = ("OMP_", "GOMP_", "KMP_", "VSCAF_", "LD_PRELOAD", "LANG", "LC_")
    return {name: value for name, value in os.environ.items() if not name.startswith(names)}


def compile_object(build: Build, sources: list[Path], output: Path, extra: list[str]) -> str:
    """Empty, or what the compiler says."""
    flags = list(build.flags)
    if "-shared" in extra:
        flags = [flag for flag in flags if flag not in ("-fno-pie", "-fPIE")]
        link = [flag for flag in build.link if flag != "-no-pie"]
    else:
        link = list(build.link)
    libraries = ["-lm", "-ldl", "-lpthread"]
    command = [build.compiler, *flags, line_tables(build.compiler), "-w", "-fopenmp", *map(str, sources)]
    command += ["-o", str(output), "-rdynamic", *link, *extra, *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=output.parent)
    if done.returncode:
        return f"{' '.join(command)}\n{done.stderr}"
    shutil.copy(output, output.with_name(output.name + ".full"))
    if build.stripped:
        subprocess.run(["strip", str(output)], check=True)
    return ""


def build_program(program: Program, build: Build, place: Path) -> str:
    """Empty, or what the compiler says. Writes `program` and, for some layouts, `libsecond.so`."""
    paths = {}
    for source in program.sources:
        paths[source.name] = place / source.name
        paths[source.name].write_text(source.text)
    inside, extra = [paths[program.main.name]], []
    if program.third:
        inside.append(paths[program.third.name])
    if program.second and program.layout == "one":
        inside.append(paths[program.second.name])
    elif program.second:
        shared = ["-shared", "-fPIC"]
        said = compile_object(build, [paths[program.second.name]], place / "libsecond.so", shared)
        if said:
            return said
        if program.layout == "library":
            extra = [str(place / "libsecond.so"), f"-Wl,-rpath,{place}"]
    return compile_object(build, inside, place / "program", extra)


def lines_of(objects: dict[str, list[int]]) -> dict[tuple[str, int], tuple[str, int]]:
    """Source file and line of each address of each object."""
    found = {}
    for path, addresses in objects.items():
        full = path + ".full"
        if not Path(full).exists():
            continue
        command = ["addr2line", "-e", full, *[hex(address) for address in addresses]]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for address, line in zip(addresses, said, strict=True):
            name, _, number = line.split(" ")[0].rpartition(":")
            found[path, address] = (Path(name).name, int(number) if number.isdigit() else 0)
    return found


def count_verdicts(sections: list[dict[str, Any]], kind_of: Callable[[str, int], str]) -> dict[str, dict[str, int]]:
    objects = defaultdict(list)
    for section in sections:
        objects[section["object"]].append(section["address"])
    lines = lines_of(objects)
    counts: dict[str, dict[str, int]] = {}
    for section in sections:
        name, line = lines.get((section["object"], section["address"]), ("", 0))
        kind = kind_of(name, line)
        verdict = VERDICTS.get(section["verdict"], "OWN")
        counts.setdefault(kind, {}).setdefault(verdict, 0)
        counts[kind][verdict] += 1
    return counts


def run_plain(command: list[str], environment: dict[str, str], hang_s: float) -> tuple[str, int]:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False, timeout=hang_s
        )
    except subprocess.TimeoutExpired:
        return "", 124
    return done.stdout, done.returncode


def run_resized(
    tools: Tools, command: list[str], environment: dict[str, str], options: list[str], report: Path
) -> tuple[str, int, dict[str, Any]]:
    """Output, status and report of a run under the shim."""
    driver = [str(tools.driver), "--shim", str(tools.shim), "--report", str(report), *options, "--"]
    done = subprocess.run(
        driver + command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    assert report.exists(), (driver, done.returncode, done.stderr)
    return done.stdout, done.returncode, json.loads(report.read_text())


def driver_options(random: Random, threads: int, manner: Manner, driver_seed: int) -> list[str]:
    limit = threads + (2 if manner.growth and random.random() < 0.6 else 0)
    options = ["--told", str(threads), "--limit", str(limit), "--seed", str(driver_seed)]
    options += ["--hang", str(manner.hang_s)]
    options += ["--every", str(random.choice([1, 2, 4, 8]))]
    options += ["--known"] if random.random() < 0.5 else []
    options += ["--learn"] if random.random() < 0.2 else []
    options += ["--all-free"] if manner.all_free else []
    return options


def differences(plain: str, resized: str) -> list[str]:
    there = resized.splitlines()
    told = []
    for at, line in enumerate(plain.splitlines()):
        other = there[at] if at < len(there) else "(missing)"
        if line != other:
            told.append(f"{line}  became  {other}")
    return told


@dataclass
class Plan:
    """All that follows from a seed."""

    program: Program
    build: Build
    environment: dict[str, str]  # of the plain run
    resized_environment: dict[str, str]
    options: list[str]  # of the driver
    times: int  # how often it runs under the shim
    told: list[str]  # all this, for people


def plan(seed: int, manner: Manner, dropped: frozenset[int]) -> Plan:
    program = generate(seed, dropped, manner.language)
    random = Random(f"options {seed}")
    build = choose_build(random, program.language, any("gcc" in block.tags for block in program.blocks))
    settings = choose_environment(random)
    number = {"OMP_NUM_THREADS": str(program.threads)}
    # Without it, the program's own number under vscaf is the one that the agent tells.
    resized = settings | (number if random.random() < 0.5 or manner.always_set else {})
    options = driver_options(random, program.threads, manner, seed)
    told = [
        f"seed {seed}: {program.language}, {program.threads} threads, {program.layout}, {program.rounds} rounds",
        f"{build.compiler} {' '.join(build.flags + build.link)}{', stripped' if build.stripped else ''}",
        " ".join(f"{name}={value}" for name, value in resized.items()) + " " + " ".join(options),
        "blocks: " + " ".join(b.kind for at, b in enumerate(program.blocks) if at not in dropped),
    ]
    clean, times = clean_environment(), 0 if manner.plain else manner.times
    return Plan(program, build, clean | settings | number, clean | resized, options, times, told)


def run_many_times(tools: Tools, chosen: Plan, command: list[str], plain: str, place: Path) -> Outcome:
    """Under the shim, until it fails."""
    outcome = Outcome(chosen.program.seed, "right", chosen.told)
    for _ in range(chosen.times):
        resized, status, report = run_resized(
            tools, command, chosen.resized_environment, chosen.options, place / "report.json"
        )
        (place / "resized.txt").write_text(resized)
        outcome.report = report
        if report["hung"]:
            outcome.result = "hung"
            break
        if (resized, status) != (plain, 0):
            outcome.result = "wrong"
            outcome.told = [*chosen.told, f"status {status}", *differences(plain, resized)]
            break
    outcome.verdicts = verdicts_by_kind(chosen.program, outcome.report.get("sections", []))
    return outcome


def verdicts_by_kind(program: Program, sections: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    sources = {source.name: source for source in program.sources}
    return count_verdicts(sections, lambda name, line: sources[name].kind_of(line) if name in sources else "?")


def inspect_program(tools: Tools, chosen: Plan, place: Path) -> Outcome:
    objects = [str(path) for path in (place / "program", place / "libsecond.so") if path.exists()]
    said = subprocess.run([str(tools.driver), "--inspect", *objects], capture_output=True, text=True, check=True).stdout
    return Outcome(chosen.program.seed, "right", chosen.told, {}, verdicts_by_kind(chosen.program, json.loads(said)))


def attempt(seed: int, tools: Tools, place: Path, manner: Manner, dropped: frozenset[int] = frozenset()) -> Outcome:
    """Leaves all that is needed to repeat it in `place`."""
    chosen = plan(seed, manner, dropped)
    (place / "told.txt").write_text("\n".join(chosen.told) + "\n")
    said = build_program(chosen.program, chosen.build, place)
    if said:
        return Outcome(seed, "unbuilt", [*chosen.told, said])
    if manner.inspect:
        return inspect_program(tools, chosen, place)
    command = [str(place / "program"), str(chosen.program.threads), str(place / "libsecond.so")]
    plain, status = run_plain(command, chosen.environment, manner.hang_s)
    (place / "plain.txt").write_text(plain)
    if status or run_plain(command, chosen.environment, manner.hang_s) != (plain, status):
        return Outcome(seed, "unfit", [*chosen.told, f"plain: status {status}, or it differs from run to run"])
    return run_many_times(tools, chosen, command, plain, place)
