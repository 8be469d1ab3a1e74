"""The cgroup directories that libvirt makes for a domain if there is no systemd.

libvirtd removes them itself when it ends a domain. These functions are for the cases in which it could not."""

from __future__ import annotations

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PARTITION = "machine"  # libvirt's parent of the cgroups of all domains


def hierarchies() -> list[Path]:
    """Mount points of all cgroup hierarchies, v1 and v2."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [Path(line.split()[1]) for line in lines if line.split()[2] in ("cgroup", "cgroup2")]


def domain_directories(qemu_pid: int) -> list[Path]:
    """The directories of the domain that this process runs, in every hierarchy."""
    try:
        lines = Path(f"/proc/{qemu_pid}/cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
    names = {
        line.split(":", 2)[2].split("/")[2] for line in lines if line.split(":", 2)[2].startswith(f"/{PARTITION}/")
    }
    paths = [root / PARTITION / name for root in hierarchies() for name in names]
    return [path for path in paths if path.is_dir()]


def remove(directories: list[Path], patience_s: float = 5.0) -> None:
    """Removes what is left of these cgroups, and the partition above them if it is empty then.

    The kernel refuses for a moment after the last process has ended, so this is tried again for `patience_s`.
    """
    end_s = time.monotonic() + patience_s
    left = directories
    while left and time.monotonic() < end_s:
        for directory in left:
            for parent, _, _ in os.walk(directory, topdown=False):
                _remove_if_empty(Path(parent))
        left = [directory for directory in left if directory.exists()]
        if left:
            time.sleep(0.02)
    for root in hierarchies():
        _remove_if_empty(root / PARTITION)


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        # It is gone, or another domain uses it: the kernel refuses to remove a cgroup in use.
        return
