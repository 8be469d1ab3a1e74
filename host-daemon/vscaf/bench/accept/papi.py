"""PAPI's library on this host, for guests: the shim looks for it at run time (docs/learning.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from vscaf.bench.workloads.programs import needed_libraries

# Lines of `ldconfig -p`.
_CACHED = re.compile(r"^\s*(libpapi\.so\.\d\S*) \(libc6,x86-64.*\) => (/\S+)$", re.MULTILINE)


def papi_libraries() -> dict[str, Path]:
    """PAPI's library and those that it needs beyond the C library, by the name under which they are looked for.

    Empty if this host has none.
    """
    cached = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = found_papi(cached)
    for path in list(found.values()):
        found |= needed_libraries(path)
    return found


def found_papi(cached: str) -> dict[str, Path]:
    """PAPI's libraries in the output of `ldconfig -p`."""
    return {name: Path(path) for name, path in _CACHED.findall(cached)}
