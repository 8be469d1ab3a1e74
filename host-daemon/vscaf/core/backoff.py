"""How long to wait before something that failed is tried again."""

from dataclasses import dataclass

RETRY_S = 0.25
RETRY_MOST_S = 8.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """`failures` in a row; no try before `retry_at_s`: twice as long after each failure, up to RETRY_MOST_S."""

    failures: int = 0
    retry_at_s: float = float("-inf")

    def failed(self, now_s: float) -> "Backoff":
        """After one more failure."""
        return Backoff(self.failures + 1, now_s + wait_s(self.failures))

    def due(self, now_s: float) -> bool:
        """Whether it may be tried."""
        return now_s >= self.retry_at_s


def wait_s(failures: int) -> float:
    """Seconds to wait after one more failure than *failures*."""
    return min(RETRY_MOST_S, RETRY_S * 2.0 ** min(failures, 16))
