"""A FUSE file system with one file, whose server can stop to answer. It needs root and /dev/fuse.

It speaks to the kernel itself: Python's libraries for this need libfuse, for one file that is only read.
The kernel's interface: linux/fuse.h, version 7.23. Numbers of requests are those of `enum fuse_opcode` there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, BATCH_FORGET = (
    1, 2, 3, 14, 15, 18, 25, 26, 27, 29, 42)  # fmt: skip
ROOT, FILE = 1, 2
NAME = "program"
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


def usable() -> bool:
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)


def attributes(node: int, size: int) -> bytes:
    """struct fuse_attr. The file is root's, and anybody may run it."""
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o755
    return struct.pack("<6Q10I", node, size, (size + 511) // 512, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class FileSystem:
    """Serves `contents` as the file `program` in `directory`, until `hang` is set: then it answers nothing more."""

    def __init__(self, directory: Path, contents: bytes) -> None:
        self.directory = directory
        self.contents = contents
        self.hang = threading.Event()
        self.unanswered = threading.Event()
        self.stopped = threading.Event()
        directory.mkdir()
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"vscaf-test", os.fsencode(directory), b"fuse", 0, options) != 0:
            number = ctypes.get_errno()
            os.close(self.device)
            raise OSError(number, os.strerror(number), str(directory))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def program(self) -> Path:
        return self.directory / NAME

    def close(self) -> None:
        """Takes it away. Whoever waits for an answer gets an error when the device is closed."""
        libc.umount2(os.fsencode(self.directory), MNT_DETACH)
        self.stopped.set()
        self.thread.join()
        os.close(self.device)

    def _serve(self) -> None:
        os.set_blocking(self.device, False)
        while not self.stopped.is_set():
            try:
                request = os.read(self.device, 1 << 17)
            except BlockingIOError:
                self.stopped.wait(0.002)
                continue
            except OSError as error:
                if error.errno == errno.ENOENT:  # the one who asked was interrupted
                    continue
                return  # not mounted any more
            opcode, unique, node = struct.unpack_from("<IQQ", request, 4)
            if self.hang.is_set() and opcode not in (FORGET, BATCH_FORGET):
                self.unanswered.set()
                continue
            answer = self._answer(opcode, node, request[40:])
            if answer is None:
                continue
            number, data = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self.device, struct.pack("<IiQ", 16 + len(data), number, unique) + data)

    def _answer(self, opcode: int, node: int, body: bytes) -> bytes | int | None:
        """What to answer: data, or the number of an error; None: nothing."""
        size = len(self.contents)
        if opcode in (FORGET, BATCH_FORGET):
            return None
        if opcode == INIT:
            return struct.pack("<4I2H2I9I", 7, 23, 1 << 16, 0, 8, 6, 1 << 16, 1, *[0] * 9)
        if opcode == GETATTR:
            return struct.pack("<Q2I", 0, 0, 0) + attributes(node, size)
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != NAME.encode():
                return errno.ENOENT
            return struct.pack("<4Q2I", FILE, 1, 0, 0, 0, 0) + attributes(FILE, size)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<Q2I", 0, 0, 0)
        if opcode == READ:
            _, at, count = struct.unpack_from("<2QI", body)
            return self.contents[at : at + count]
        return b"" if opcode in (RELEASE, RELEASEDIR, FLUSH) else errno.ENOSYS
