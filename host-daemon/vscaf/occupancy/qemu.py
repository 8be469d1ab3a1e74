"""QEMU processes and their vCPU threads, from /proc."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


def thread_ids(pid: int) -> list[int]:
    """The process's thread ids; none if it is gone."""
    try:
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def vcpu_threads(qemu_pid: int) -> dict[int, int]:
    """QEMU's vCPU threads: vCPU number -> thread id."""
    found = {}
    for thread in thread_ids(qemu_pid):
        try:
            name = Path(f"/proc/{qemu_pid}/task/{thread}/comm").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended meanwhile
        match = re.match(r"CPU (\d+)/(?:KVM|TCG)$", name)
        if match:
            found[int(match.group(1))] = thread
    return dict(sorted(found.items()))


def qemu_pid_of(uuid: str) -> int | None:
    """The pid of the QEMU that runs the domain of this UUID, by its command line. None: no process does."""
    for pid, words in _command_lines():
        if b"-uuid" in words[:-1] and words[words.index(b"-uuid") + 1] == uuid.encode():
            return pid
    return None


def qemu_pids() -> dict[str, list[int]]:
    """The pids of the QEMUs that run a domain of libvirt, by its name. Domains of two libvirts may have one name."""
    found: dict[str, list[int]] = {}
    for pid, words in _command_lines():
        if (name := domain_of(words)) is not None:
            found.setdefault(name, []).append(pid)
    return found


def domain_of(words: list[bytes]) -> str | None:
    """The domain's name in the command line that libvirt gives to QEMU. None: there is no name."""
    if b"-name" not in words[:-1]:
        return None
    # To QEMU two commas are one comma of the name.
    options = words[words.index(b"-name") + 1].decode("utf-8", "replace").replace(",,", "\0").split(",")
    names = [option.removeprefix("guest=") for option in options if option.startswith("guest=")]
    return names[0].replace("\0", ",") if names else None


def _command_lines() -> Iterator[tuple[int, list[bytes]]]:
    """The pid and the words of each process that this user may see."""
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended meanwhile, or /proc hides it from this user (hidepid)
        yield int(directory.name), words
