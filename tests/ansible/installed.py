"""What an uninstall must leave as it was: packages and their marks, /etc, /usr/local, /opt, and names in /var/lib."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

# Caches that dpkg's triggers write, in another order each time.
CACHES = ("ld.so.cache", "*.pyc", "mailcap")
# What users and groups were before their last change: packages add some, and remove them.
COPIES = ("passwd-", "shadow-", "group-", "gshadow-")
NO_CACHES = " ".join(f"! -name '{name}'" for name in CACHES + COPIES)
# Each thing is a line: packages, those that were asked for, files with their kinds and the ends of
# links, and contents as checksums. Deeper in /var/lib, dpkg and apt write what they want.
SCRIPT = f"""
dpkg-query --show --showformat='${{db:Status-Abbrev}} ${{Package}} ${{Version}}\\n'
apt-mark showmanual | sed 's/^/manual /'
find /etc /usr/local /opt {NO_CACHES} -printf '%y %p -> %l\\n' | sort
find /etc -type f {NO_CACHES} -exec sha256sum {{}} + | sort -k 2
find /var/lib -maxdepth 1 | sort
"""


def state(system: Path) -> Mapping[str, bytes]:
    """Of the system with this root directory: the lines of SCRIPT."""
    done = subprocess.run(["chroot", system, "sh", "-c", SCRIPT], capture_output=True, text=True, check=True)
    return dict.fromkeys(done.stdout.splitlines(), b"")


def different(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, tuple[object, object]]:
    """Only what differs, and the ends of it. None: it is not there."""
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return {
        key: tuple(None if text is None else text[-2000:] for text in (before.get(key), after.get(key))) for key in keys
    }
