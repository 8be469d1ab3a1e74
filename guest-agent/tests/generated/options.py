"""Compilers that are installed, and random options for them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from random import Random

GCC_NAMES = {"c": "gcc", "c++": "g++", "fortran": "gfortran"}
CLANG_NAMES = {"c": "clang", "c++": "clang++"}
LEVELS = ["-O0", "-O1", "-O2", "-O2", "-O3", "-Os"]


@dataclass(frozen=True)
class Build:
    compiler: str
    flags: tuple[str, ...]  # when compiling
    link: tuple[str, ...]
    stripped: bool

    @property
    def is_clang(self) -> bool:
        return "clang" in os.path.basename(self.compiler)  # noqa: PTH119


def compilers(language: str, clang: bool = True) -> list[str]:
    """The default one, and those of other versions."""
    name = GCC_NAMES[language]
    found = [name] + [f"{name}-{version}" for version in range(9, 20)]
    if clang and language in CLANG_NAMES:
        name = CLANG_NAMES[language]
        found += [name, name] + [f"{name}-{version}" for version in range(11, 25)]
    installed = [compiler for compiler in found if shutil.which(compiler)]
    assert installed, f"no compiler for {language}"
    # One compiler may have several names.
    paths = {os.path.realpath(shutil.which(compiler) or ""): compiler for compiler in reversed(installed)}
    return sorted(paths.values())


def line_tables(compiler: str) -> str:
    """Which line a section comes from. Neither changes the code."""
    return "-gline-tables-only" if "clang" in compiler else "-g1"


def has_avx2() -> bool:
    with open("/proc/cpuinfo") as info:  # noqa: PTH123
        return " avx2 " in info.read()


def choose_build(random: Random, language: str, gcc_only: bool = False) -> Build:
    compiler = random.choice(compilers(language, clang=not gcc_only))
    flags = [random.choice(LEVELS)]
    if has_avx2() and random.random() < 0.25:
        flags.append("-march=x86-64-v3")
    link = []
    position = random.choice(["", "", "-fPIC", "-no-pie", "-fPIE"])
    if position == "-no-pie":
        flags.append("-fno-pie")
        link.append("-no-pie")
    elif position:
        flags.append(position)
    if random.random() < 0.2 and "clang" not in compiler:
        link.append("-static-libgcc")
    for flag in (
        "-fno-inline",
        "-fomit-frame-pointer",
        "-fno-omit-frame-pointer",
        "-fstack-protector-all",
        "-ffast-math",
        "-fcf-protection=none",
        "-ftls-model=initial-exec",
    ):
        if random.random() < 0.08:
            flags.append(flag)
    return Build(compiler, tuple(flags), tuple(link), random.random() < 0.3)


def choose_environment(random: Random) -> dict[str, str]:
    """Settings of the runtimes, the same for the plain run and the other."""
    environment = {
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": random.choice(["0", "100", "2000"]),
        "KMP_BLOCKTIME": "0",
        "KMP_AFFINITY": "disabled",
    }
    if random.random() < 0.3:
        environment["OMP_CANCELLATION"] = "true"
    if random.random() < 0.5:
        environment["OMP_SCHEDULE"] = random.choice(["static", "static,3", "dynamic", "dynamic,4", "guided"])
    return environment
