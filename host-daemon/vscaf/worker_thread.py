"""A thread whose errors are not lost."""

import threading
from collections.abc import Callable


class WorkerThread:
    """Runs *work* in a thread from start() to end(). *work* must return soon after `stop` is set."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self.stop = threading.Event()
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._error: Exception | None = None

    def start(self) -> None:
        """Begins the work."""
        self._thread.start()

    def end(self, *, raises: bool) -> None:
        """Ends the work and waits for it. raises: raises what *work* has raised; not if another error comes first."""
        self.stop.set()
        self._thread.join()
        if raises and self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  a thread cannot raise: end() does
            self._error = error
