"""Warnings that are recorded once, not each time that the same thing goes wrong again."""

import re

from vscaf.events import EventLog, Kind

FIGURES = re.compile(r"[0-9.]+")


class DeduplicatedWarnings:
    """Records warnings in *events*."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._said: dict[str, str] = {}

    def warn_once(self, about: str, words: str, domain: str | None = None, kind: Kind = Kind.REFUSED) -> bool:
        """Warns, unless the last warning about this said the same. Whether it did."""
        said = FIGURES.sub("#", words)  # what differs in a figure only says the same again
        if self._said.get(about) == said:
            return False
        self._said[about] = said
        self._events.record(kind, domain, why=words)
        return True

    def clear(self, about: str) -> None:
        """What was said about this is over."""
        self._said.pop(about, None)
