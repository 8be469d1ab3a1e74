"""The files of recordings: gzip, bounded, the oldest removed first. The daemon calls this on a thread: disks block."""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from vscaf.errors import UsageError
from vscaf.record.lines import BadLine, Decoder, Line

SUFFIX = ".jsonl.gz"
FILES = 8
"""A file ends when it has this part of the bound, so that removing the oldest one removes little."""


class RecordFiles:
    """Writes files into *directory*, with together at most *most_bytes* and what one write adds.

    Their names are the times at which they began, in UTC, so that they sort by time. Only root may read them. OSError
    if the disk refuses; the file that is open then ends.
    """

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self.directory = directory
        self.most_bytes = most_bytes
        self.full = False
        self._file: BinaryIO | None = None
        self._gzip: gzip.GzipFile | None = None
        self._path: Path | None = None

    def write(self, text: bytes, *, new: bool) -> None:
        """Writes whole lines. new: to a file of its own. A crash later on does not lose them."""
        try:
            if new or self._gzip is None:
                self.close()
                self._open()
            assert self._gzip is not None and self._file is not None  # opened above
            self._gzip.write(text)
            self._gzip.flush(zlib.Z_SYNC_FLUSH)
            self._file.flush()
            self.full = self._file.tell() >= self.most_bytes // FILES
            self._remove_oldest()
        except OSError:
            self._abandon()
            raise

    def close(self) -> None:
        """Ends the file that is open, if there is one."""
        compressed, file = self._gzip, self._file
        self._gzip = self._file = self._path = None  # also if the disk refuses the last bytes
        if compressed is not None and file is not None:
            with file:
                compressed.close()

    def _open(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = self.directory / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}{SUFFIX}"
        self._file = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
        self._gzip = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)
        self.full = False

    def _abandon(self) -> None:
        """Ends the open file without its last bytes: it is read up to there."""
        file, self._gzip, self._file, self._path = self._file, None, None, None
        if file is not None:
            with contextlib.suppress(OSError):  # it tries to write its last bytes once more
                file.close()

    def _remove_oldest(self) -> None:
        sizes = {}
        for path in recorded_files(self.directory):
            with contextlib.suppress(FileNotFoundError):  # somebody else has just removed it
                sizes[path] = path.stat().st_size
        total = sum(sizes.values())
        for path, size in sizes.items():
            if total <= self.most_bytes:
                return
            if path != self._path:
                path.unlink(missing_ok=True)
                total -= size


def recorded_files(directory: Path) -> list[Path]:
    """The files of *directory*, the oldest first."""
    return sorted(path for path in directory.glob(f"*{SUFFIX}") if path.is_file())


@dataclass(frozen=True, slots=True)
class Cut:
    """The file ends here in the middle of a line: its writer was killed, or writes it now."""

    message: str


def read_lines(path: Path) -> Iterator[Line | Cut]:
    """The lines of a file, then a Cut if it does not end as it should. UsageError if it is no recording."""
    decoder = Decoder()
    for number, text in enumerate(_texts(path), 1):
        if isinstance(text, Cut):
            yield text
            return
        try:
            value = decoder.value(text)
        except BadLine as error:
            raise UsageError(f"recording {path}: line {number}: {error}: give files of `vscaf record`") from error
        yield value


def _texts(path: Path) -> Iterator[bytes | Cut]:
    """Whole lines, decompressed."""
    lines = 0
    try:
        with gzip.open(path, "rb") as file:
            for text in file:
                if not text.endswith(b"\n"):
                    yield Cut(f"{path}: cut off after {lines} lines: read up to there")
                    return
                lines += 1
                yield text
    except (EOFError, zlib.error):
        yield Cut(f"{path}: cut off after {lines} lines: read up to there")
    except gzip.BadGzipFile as error:
        raise UsageError(f"recording {path}: {error}: give files of `vscaf record`") from error
    except OSError as error:
        raise UsageError(f"recording {path}: {error.strerror or error}: give files of `vscaf record`") from error
