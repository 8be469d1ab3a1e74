"""Bounded lines out of a stream of bytes, and how many of them a guest may send."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class LineSplitter:
    """Cuts a stream into lines of fewer than `limit` bytes, holding never more than `limit` bytes itself.

    A longer line is thrown away up to its end and counted in `oversize`.
    """

    limit: int
    oversize: int = 0
    _held: bytearray = field(default_factory=bytearray)
    _skipping: bool = False

    def feed(self, data: bytes) -> list[bytes]:
        """Complete lines (without their ends) that *data* finishes."""
        lines: list[bytes] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._hold(data[start:end])
            if self._skipping:
                self._skipping = False
            else:
                lines.append(bytes(self._held))
            self._held.clear()
            start = end + 1
        self._hold(data[start:])
        return lines

    def _hold(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._held) + len(piece) >= self.limit:
            self._skipping = True
            self.oversize += 1
            self._held.clear()
        else:
            self._held += piece


@dataclass(slots=True)
class TokenBucket:
    """Lets `per_second` things pass on average and `burst` at once. Time is given by the caller, in seconds."""

    per_second: float
    burst: float
    _tokens: float = -1.0
    _last_s: float = 0.0

    def wait_s(self, now_s: float) -> float:
        """Takes a token; returns how long the caller has to wait before it goes on (0: not at all)."""
        if self._tokens < 0 and self._last_s == 0.0:
            self._tokens = self.burst
        else:
            self._tokens = min(self.burst, self._tokens + (now_s - self._last_s) * self.per_second)
        self._last_s = now_s
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.per_second)
