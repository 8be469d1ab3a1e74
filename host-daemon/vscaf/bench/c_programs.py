"""Where the C programs are that a bench needs: in a build directory, or where the packages install them."""

import os
from pathlib import Path

INSTALLED = Path("/usr/libexec/vscaf")


def c_program_directory(built: str, installed: str) -> Path:
    """The directory of the programs that a build has in *built*, and an installation in *installed*.

    The build directory is VSCAF_BUILD, else build/meson. Programs of an installation are used if VSCAF_BUILD is not set
    and build/meson does not have these.
    """
    there = Path(os.environ.get("VSCAF_BUILD", "build/meson")) / built
    if "VSCAF_BUILD" not in os.environ and not there.is_dir() and (INSTALLED / installed).is_dir():
        return INSTALLED / installed
    return there


def workload_directory() -> Path:
    """The directory of the shipped workloads (images/npb)."""
    return c_program_directory("images/npb", "npb")
