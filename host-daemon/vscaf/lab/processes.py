"""Processes by pid: whether one exists, which lab it belongs to, and ending it reliably."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from vscaf.occupancy.qemu import thread_ids

POLL_S = 0.02
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal was closed


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot. It distinguishes the process from a later one with the same
    pid. None: the process is gone, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def read_pid(pid_file: Path) -> int | None:
    """The pid in a pid file; None if there is no file, or if it is still empty."""
    try:
        text = pid_file.read_text().strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def sees_mounts_of(pid: int, directory: Path) -> bool:
    """Whether the process has a part of `directory` bind-mounted and so belongs to the lab of that directory."""
    try:
        mounts = Path(f"/proc/{pid}/mountinfo").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError, OSError):
        # A process that ends at this moment may give any of these.
        return False
    return re.search(rf"/{re.escape(directory.name)}/", mounts) is not None


def end(pid: int, patience_s: float) -> None:
    """SIGTERM, then SIGKILL after `patience_s`; returns when the process is gone (or five seconds after SIGKILL)."""
    started = start_time(pid)
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        if started is None or start_time(pid) != started:
            return
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        end_s = time.monotonic() + wait_s
        while start_time(pid) == started and time.monotonic() < end_s:
            time.sleep(POLL_S)


def end_child(child: subprocess.Popen[bytes], patience_s: float) -> None:
    """Like `end`, for a child of this process, which is also reaped."""
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        child.send_signal(number)
        try:
            child.wait(wait_s)
            return
        except subprocess.TimeoutExpired:
            continue


def tree(pid: int) -> list[int]:
    """The process and its descendants, except those whose parent has ended."""
    found = [pid]
    for one in found:  # it grows meanwhile
        for thread in thread_ids(one):
            try:
                found += map(int, Path(f"/proc/{one}/task/{thread}/children").read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has ended since it was listed
    return found


def tree_threads(pid: int) -> dict[int, int]:
    """Every thread id of a process and its descendants, as its own number."""
    return {thread: thread for one in tree(pid) for thread in thread_ids(one)}


@contextmanager
def no_child_left() -> Iterator[None]:
    """Kills the children of this process that began in the block and still run at its end, and their descendants.

    A signal can end the start of a process with an exception. Nothing knows then that the process has to be ended.
    Returns when all of them are gone.
    """
    before = set(tree(os.getpid()))
    try:
        yield
    finally:
        # Stopped first: a process that is killed leaves its children to another parent, where `tree` cannot find them,
        # and one that still runs may start another child. A process with a pending signal starts none.
        started: dict[int, int | None] = {}
        while new := [pid for pid in tree(os.getpid()) if pid not in before and pid not in started]:
            for pid in new:
                started[pid] = start_time(pid)
                _send(pid, signal.SIGSTOP)
        for pid in started:
            _send(pid, signal.SIGKILL)
        while any(start is not None and start_time(pid) == start for pid, start in started.items()):
            time.sleep(POLL_S)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.kill(pid, number)


@contextmanager
def signals_exit() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP that would end the program at once into SystemExit, so that everything is cleaned up."""
    here = threading.current_thread() is threading.main_thread()
    taken = [number for number in ENDING_SIGNALS if here and signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _exit_on_signal)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
