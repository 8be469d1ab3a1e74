"""The daemon's side of a recording: which lines, and when they are written. A slow disk delays no decision."""

import asyncio
import logging
from pathlib import Path

from vscaf.core.decide.decision import DecideMemory
from vscaf.core.decide.explore import ExploreMemory
from vscaf.events import EventLog, Kind
from vscaf.record.files import RecordFiles
from vscaf.record.lines import Decided, Encoder, State

log = logging.getLogger(__name__)

MOST_WAITING_BYTES = 16 << 20
"""The most that may wait for a slow disk. Beyond this, lines are left out until it has caught up."""


END = b""
"""Stands in the queue for the end of a recording."""


class Recorder:
    """Records decisions while `since` is set: the time at which the recording began. Only for tasks of one loop.

    Before each decision, `needs_state` tells whether begin() has to be called first. A disk that refuses ends the
    recording, with an event.
    """

    def __init__(self, directory: Path, most_bytes: int, events: EventLog) -> None:
        self.files = RecordFiles(directory, most_bytes)
        self.since: str | None = None
        self.failed = ""
        self._events = events
        self._encoder = Encoder()
        self._begun = self._new_file = False
        self._memory: DecideMemory | None = None
        self._waiting: list[tuple[bytes, bool]] = []
        self._waiting_bytes = 0
        self._writing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Records from the next decision on, in a file of its own. Nothing happens if it records already."""
        if self.since is not None:
            return
        self.since, self.failed = self._events.time(), ""
        self._begun, self._new_file = False, True
        self._events.record(Kind.RECORDING, None, after="on", why=f"in {self.files.directory}")

    def stop(self, why: str = "") -> None:
        """Records no more."""
        if self.since is None:
            return
        self.since = None
        self._events.record(Kind.RECORDING, None, after="off", why=why)
        self._waiting.append((END, True))
        self._write_soon()

    async def close(self) -> None:
        """Ends the recording, and waits until its lines are in the file."""
        self.stop()
        if self._writing is not None:
            await asyncio.shield(self._writing)  # whoever waits may give up, but the lines are written

    def needs_state(self, memory: DecideMemory) -> bool:
        """Whether a state line comes before the next decision, which is made with *memory*."""
        if self.since is None:
            return False
        self._new_file = self._new_file or self.files.full
        return not self._begun or self._new_file or memory is not self._memory

    def begin(self, memory: DecideMemory, explore: ExploreMemory) -> None:
        """Writes what the decider remembers. The decision must be made with exactly these memories."""
        assert self.since is not None
        self._begun, self._memory = True, memory
        new, self._new_file, self.files.full = self._new_file, False, False
        self._put(self._encoder.line(State(self.since, memory, explore)), new)

    def decided(self, decided: Decided, memory: DecideMemory) -> None:
        """Writes a decision. memory: the one for the next."""
        if self.since is None or not self._begun:
            return
        self._memory = memory
        self._put(self._encoder.line(decided), False)

    def _put(self, line: bytes, new: bool) -> None:
        if self._waiting_bytes > MOST_WAITING_BYTES:
            log.warning("recording: the disk is too slow: decisions are left out")
            self._begun = False  # it goes on with a state line
            return
        self._waiting.append((line, new))
        self._waiting_bytes += len(line)
        self._write_soon()

    def _write_soon(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Writes what waits, on a thread, because a disk may be slow."""
        try:
            while self._waiting:
                parts, self._waiting, self._waiting_bytes = _joined(self._waiting), [], 0
                await asyncio.to_thread(_carried_out, self.files, parts)
        except OSError as error:
            self._waiting, self._waiting_bytes = [], 0
            self.failed = f"{self.files.directory}: {error.strerror or error}"
            self.stop(f"{self.failed}: nothing is recorded: `vscaf record start` tries again")
            self._waiting = []  # no file is open
        finally:
            self._writing = None


def _joined(lines: list[tuple[bytes, bool]]) -> list[tuple[bytes, bool]]:
    """The same lines in as few writes as possible. Whatever follows END begins a file."""
    joined: list[tuple[bytes, bool]] = []
    for line, new in lines:
        if new or not joined:
            joined.append((line, new))
        else:
            joined[-1] = (joined[-1][0] + line, joined[-1][1])
    return joined


def _carried_out(files: RecordFiles, parts: list[tuple[bytes, bool]]) -> None:
    for text, new in parts:
        if text == END:
            files.close()
        else:
            files.write(text, new=new)
