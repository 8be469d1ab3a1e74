"""The daemon's side of its guard, which acts when the daemon fails."""

import asyncio
import logging
import os
import subprocess
import sys

log = logging.getLogger(__name__)

AGAIN_S = 1.0


class GuardKeeper:
    """Keeps a guard (see recovery/guard.py) running while this process lives. The guard ends by itself after it."""

    def __init__(self, config_json: str) -> None:
        self._command = [sys.executable, "-P", "-m", "vscaf.recovery.guard", str(os.getpid()), config_json]
        self._process: subprocess.Popen[bytes] | None = None
        self._descriptor = -1
        self._again: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The guard's process. None: it is about to be started again."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Starts the guard. If that fails, it is logged and tried again."""
        self._again = None
        loop = asyncio.get_running_loop()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment
            )
            self._descriptor = os.pidfd_open(self._process.pid)
        except OSError as error:
            log.error("no guard can be started (%s): if the daemon ended now, suspended domains would stay so", error)
            self._again = loop.call_later(AGAIN_S, self.start)
            return
        loop.add_reader(self._descriptor, self._ended)

    def close(self) -> None:
        """Stops keeping the guard: it is not started again."""
        if self._again is not None:
            self._again.cancel()
        self._forget()

    def _ended(self) -> None:
        assert self._process is not None  # its descriptor became readable
        log.warning("the guard has ended with status %s: starting another", self._process.wait())
        self._forget()
        self._again = asyncio.get_running_loop().call_later(AGAIN_S, self.start)

    def _forget(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
        self._descriptor, self._process = -1, None
