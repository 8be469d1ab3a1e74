"""Reads the output of a process while it runs, and notes when each piece came."""

from __future__ import annotations

import os
import threading
import time
from typing import IO

END_S = 5.0  # for output that is still to be read when the process has ended


class Output:
    """The output that comes through a pipe. A thread reads it."""

    def __init__(self, pipe: IO[bytes], name: str) -> None:
        self._pipe = pipe
        self._pieces: list[tuple[float, bytes]] = []
        self._thread = threading.Thread(target=self._read, name=f"output of {name}", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while piece := os.read(self._pipe.fileno(), 65536):
            self._pieces.append((time.monotonic(), piece))

    def text(self) -> str:
        """All output so far."""
        return b"".join(piece for _, piece in list(self._pieces)).decode(errors="replace")

    def pieces(self) -> list[tuple[float, str]]:
        """The output as it came, each piece with its time (CLOCK_MONOTONIC in seconds)."""
        return [(at_s, piece.decode(errors="replace")) for at_s, piece in list(self._pieces)]

    def finish(self) -> None:
        """Reads to the end. What a process in another session writes later is left."""
        self._thread.join(END_S)
        if not self._thread.is_alive():
            self._pipe.close()
