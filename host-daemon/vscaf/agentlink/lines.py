"""Splits a stream of bytes into bounded lines, and limits how often something may happen."""

from dataclasses import dataclass


@dataclass(slots=True)
class LineSplitter:
    """Cuts a stream into lines of fewer than `limit` bytes: push() received bytes, then pop() until it returns None.

    Between the last pop() and the next push() it holds fewer than `limit` bytes. A longer line is dropped up to its
    end and counted in `oversize`.
    """

    limit: int
    oversize: int = 0
    _data: bytes = b""
    _start: int = 0
    _skipping: bool = False

    def push(self, data: bytes) -> None:
        """Appends *data* to the stream."""
        self._data = self._data[self._start :] + data if self._start < len(self._data) else data
        self._start = 0

    def pop(self) -> bytes | None:
        """The next complete line without its line end. None: there is none yet."""
        while (end := self._data.find(b"\n", self._start)) >= 0:
            start, self._start = self._start, end + 1
            if self._skipping:
                self._skipping = False
            elif end - start >= self.limit:
                self.oversize += 1
            else:
                return self._data[start:end]
        if self._skipping or len(self._data) - self._start >= self.limit:
            self.oversize += not self._skipping
            self._skipping = True
            self._data, self._start = b"", 0
        return None

    @property
    def amid_line(self) -> bool:
        """Whether the next byte is in the middle of a line."""
        return self._skipping or self._start < len(self._data)

    @property
    def held_bytes(self) -> int:
        """How many bytes of the stream it holds."""
        return len(self._data) - self._start


@dataclass(slots=True)
class TokenBucket:
    """Allows `per_second` actions on average and `burst` at once. The caller gives the time, in seconds."""

    per_second: float
    burst: float
    _tokens: float = 0.0
    _last_s: float | None = None

    def allows(self, now_s: float) -> bool:
        """Takes a token if there is one. Returns whether there was one."""
        self._fill(now_s)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self, now_s: float) -> None:
        if self._last_s is None:
            self._tokens = self.burst
        else:
            self._tokens = min(self.burst, self._tokens + (now_s - self._last_s) * self.per_second)
        self._last_s = now_s
