"""PAPI's library on this host, for guests: the shim looks for it at run time (docs/learning.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# Lines of `ldconfig -p` and of `ldd`.
_CACHED = re.compile(r"^\s*(libpapi\.so\.\d\S*) \(libc6,x86-64.*\) => (/\S+)$", re.MULTILINE)
_NEEDED = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)
IN_EVERY_GUEST = re.compile(r"(libc|libm|ld-linux-x86-64)\.so")


def papi_libraries() -> dict[str, Path]:
    """PAPI's library and those that it needs beyond the C library, by the name under which they are looked for.

    Empty if this host has none.
    """
    cached = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return with_needed(found_papi(cached))


def found_papi(cached: str) -> dict[str, Path]:
    """PAPI's libraries in the output of `ldconfig -p`."""
    return {name: Path(path) for name, path in _CACHED.findall(cached)}


def with_needed(libraries: dict[str, Path]) -> dict[str, Path]:
    """The libraries, and those that they need."""
    found = dict(libraries)
    for path in libraries.values():
        needed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
        found |= {name: Path(file) for name, file in _NEEDED.findall(needed) if not IN_EVERY_GUEST.match(name)}
    return found
