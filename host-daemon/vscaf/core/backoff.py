"""How long to wait before a failed action is tried again."""

from dataclasses import dataclass

RETRY_S = 0.25
RETRY_MOST_S = 8.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """`failures` in a row, and no try before `retry_at_s`. The wait doubles with each failure, up to RETRY_MOST_S."""

    failures: int = 0
    retry_at_s: float = float("-inf")

    def failed(self, now_s: float) -> "Backoff":
        """The backoff after one more failure."""
        return Backoff(self.failures + 1, now_s + wait_s(self.failures))

    def due(self, now_s: float) -> bool:
        """Whether the next try may be made."""
        return now_s >= self.retry_at_s


def wait_s(failures: int) -> float:
    """Seconds to wait after the next failure, if there were *failures* before."""
    return min(RETRY_MOST_S, RETRY_S * 2.0 ** min(failures, 16))
