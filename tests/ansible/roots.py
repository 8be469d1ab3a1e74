"""Root directories of other systems, in which Ansible works by chroot. Needs root, and a mount namespace of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

MIRROR = os.environ.get("VSCAF_MIRROR", "http://deb.debian.org/debian")
PACKAGES = "python3,python3-apt,ca-certificates"  # what Ansible needs


def debian(directory: Path, suite: str) -> Path:
    """A minimal Debian in this directory, which is kept for the next run. Needs debootstrap and Debian's mirror."""
    path = directory / suite
    if not (path / "usr/bin/python3").exists():
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, path, MIRROR],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    for source in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
        (path / source[1:]).write_bytes(Path(source).read_bytes())
    return path


@contextmanager
def overlay(lower: Path, directory: Path, shared: Mapping[str, Path] | None = None) -> Iterator[Path]:
    """A system with the files of *lower*, which it does not change, and an empty /run. What is installed there is gone
    at the end. *shared*: where it has directories of this machine.
    """
    root, changes = directory / "root", directory / "changes"
    for path in (root, changes):
        path.mkdir(parents=True)
    with ExitStack() as mounted:

        def mount(*arguments: str | Path, at: Path) -> None:
            subprocess.run(["mount", *arguments, at], check=True)
            mounted.callback(subprocess.run, ["umount", "--recursive", "--lazy", at], check=True)

        if directory.is_relative_to(lower):  # the changes may not be in the files below them
            mount("-t", "tmpfs", "changes", at=changes)
        for name in ("upper", "work"):
            (changes / name).mkdir(mode=0o755)
        layers = f"lowerdir={lower},upperdir={changes}/upper,workdir={changes}/work"
        mount("-t", "overlay", "overlay", "-o", layers, at=root)
        for name in ("proc", "sys", "dev"):
            mount("--rbind", f"/{name}", at=root / name)
        mount("-t", "tmpfs", "run", at=root / "run")
        for where, path in (shared or {}).items():
            inside = root / where.lstrip("/")
            inside.mkdir(parents=True, exist_ok=True)
            mount("--bind", path, at=inside)
        yield root


def by_chroot(root: Path) -> dict[str, Any]:
    """The variables by which Ansible reaches it, with the connection in connection_plugins."""
    return {
        "ansible_connection": "root",
        "ansible_host": str(root),
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_remote_tmp": "/tmp/ansible",
    }
