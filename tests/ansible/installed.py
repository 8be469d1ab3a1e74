"""What an uninstall must leave as it was: the packages, all of /etc, and the files in /usr/local and /opt."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package} ${Version}\\n"]
# Caches that dpkg's triggers write, in another order each time.
CACHES = ("ld.so.cache", ".pyc", "mailcap")
# The same of the machine that runs it, as one text, with checksums instead of contents.
SCRIPT = f"""
{shlex.join(PACKAGES)}
find /etc -type f {" ".join(f"! -name '*{name}'" for name in CACHES)} -exec sha256sum {{}} + | sort -k 2
find /usr/local /opt ! -type d | sort
"""


def state(system: Path) -> Mapping[str, bytes]:
    """Of the system with this root directory."""
    packages = subprocess.run(["chroot", system, *PACKAGES], capture_output=True, check=True).stdout
    etc = {str(path): path.read_bytes() for path in (system / "etc").rglob("*") if path.is_file()}
    etc = {path: text for path, text in etc.items() if not path.endswith(CACHES)}
    others = [path for top in ("usr/local", "opt") for path in (system / top).rglob("*") if not path.is_dir()]
    return {"packages": packages, **etc, "others": "\n".join(sorted(map(str, others))).encode()}


def different(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, tuple[object, object]]:
    """Only what differs, and the ends of it."""
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return {key: (before.get(key, b"")[-2000:], after.get(key, b"")[-2000:]) for key in keys}
