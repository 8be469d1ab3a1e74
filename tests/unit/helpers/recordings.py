"""Recordings of the real daemon over simulated guests, in virtual time."""

from vscaf.core.decide.decision import DecideMemory
from vscaf.daemon.loop import Daemon
from vscaf.record.lines import Decoder, Line
from vscaf.record.recorder import Recorder


class MemoryRecorder(Recorder):
    """Keeps the lines instead of writing them. After each *file_lines* lines, a new file would begin."""

    def __init__(self, recorder: Recorder, file_lines: int = 10**9) -> None:
        super().__init__(recorder.files.directory, recorder.files.most_bytes, recorder._events)
        self.texts: list[bytes] = []
        self._file_lines = file_lines

    def needs_state(self, memory: DecideMemory) -> bool:
        self._new_file = self._new_file or len(self.texts) % self._file_lines == 0
        return super().needs_state(memory)

    def _put(self, line: bytes, new: bool) -> None:
        self.texts.append(line)

    def _write_soon(self) -> None:
        self._waiting = []


def recorded(daemon: Daemon, file_lines: int = 10**9) -> MemoryRecorder:
    """Records the decisions of *daemon* from now on."""
    recorder = MemoryRecorder(daemon.decisions.recorder, file_lines)
    daemon.decisions.recorder = recorder
    recorder.start()
    return recorder


def lines_of(texts: list[bytes]) -> list[Line]:
    """The lines, as they are read from one file."""
    decoder = Decoder()
    return [decoder.value(text) for text in texts]
