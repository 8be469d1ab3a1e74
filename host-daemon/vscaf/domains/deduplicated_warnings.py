"""Records a warning once, not again each time that the same thing goes wrong."""

import re

from vscaf.events import EventLog, Kind

FIGURES = re.compile(r"[0-9.]+")


class DeduplicatedWarnings:
    """Records warnings in *events*, without repetitions."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._last_warnings: dict[str, str] = {}

    def warn_once(self, subject: str, why: str, domain: str | None = None, kind: Kind = Kind.REFUSED) -> bool:
        """Records a warning, unless the last one about the same subject was the same. Returns whether it was recorded.

        Warnings that differ only in numbers count as the same.
        """
        normalized = FIGURES.sub("#", why)
        if self._last_warnings.get(subject) == normalized:
            return False
        self._last_warnings[subject] = normalized
        self._events.record(kind, domain, why=why)
        return True

    def clear(self, subject: str) -> None:
        """Forgets the last warning about this subject, so that the same one is recorded again."""
        self._last_warnings.pop(subject, None)
