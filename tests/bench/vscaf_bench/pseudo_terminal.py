"""Commands in a pseudo-terminal."""

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from vscaf.lab.polling import POLL_S, until

# Ctrl-C reaches only processes whose controlling terminal this is. In a shell's background jobs it is ignored at first.
IN_SESSION = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "vscaf", *sys.argv[1:]])
"""


@dataclass
class Terminal:
    """A terminal with a process in it. `output`: everything that the process has written."""

    process: subprocess.Popen[bytes]
    screen: int
    output: bytearray = field(default_factory=bytearray)

    def shows(self, text: str) -> bool:
        """Reads what is there, and whether *text* was written so far."""
        with suppress(OSError):  # nothing is there, or the process has ended
            self.output += os.read(self.screen, 1 << 16)
        return text.encode() in self.output

    def wait_for(self, text: str, poll_s: float = POLL_S) -> None:
        """Reads until *text* was written."""
        until(lambda: self.shows(text), lambda: f"{text!r} in {bytes(self.output)!r}", poll_s=poll_s)

    def type(self, keys: bytes) -> None:
        """Types these keys."""
        os.write(self.screen, keys)

    def ended(self) -> bool:
        """Whether the process has ended."""
        self.shows("")  # a process whose terminal is full would wait
        return self.process.poll() is not None


@contextmanager
def in_terminal(*arguments: str, columns: int = 160, rows: int = 30, **environment: str) -> Iterator[Terminal]:
    """Runs `vscaf` with these arguments in a terminal of its own. It is killed at the end, if it still runs."""
    screen, inside = pty.openpty()
    termios.tcsetwinsize(inside, (rows, columns))
    os.set_blocking(screen, False)
    process = subprocess.Popen(
        [sys.executable, "-c", IN_SESSION, *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=os.environ | {"TERM": "xterm-256color"} | environment,
    )
    os.close(inside)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)
