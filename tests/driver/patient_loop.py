"""A loop whose clock waits for libvirt, so that no test depends on how busy the machine is.

Time-outs in tests should end calls that hang. But on a busy machine a call that does not hang may take as long, if its
thread gets no CPU. So a call takes at most WORKING_S of this clock's time: then the clock stops until the call returns.
The clock goes on while a call waits on purpose (by a fault it hangs, or is late by this clock). It never jumps, however
long this process did not run.
"""

import asyncio
import selectors
import threading
import time
from typing import Any

from .faults import waiting_threads

STEP_S = 0.02
WORKING_S = (
    0.1  # far less than any time-out, and more than a call takes on an idle machine, so that other things can happen
)


class _Selector:
    """A selector with a clock. Time passes only in select(), at most STEP_S each time."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()
        self._real = selectors.DefaultSelector()
        self._since_s: dict[int, float] = {}  # by thread: when its call began to work

    def select(self, timeout_s: float | None = None) -> list[Any]:
        passes, before_s = self._passes(), time.monotonic()
        found = self._real.select(STEP_S if timeout_s is None else min(timeout_s, STEP_S))
        if passes:
            self.now_s += min(time.monotonic() - before_s, STEP_S)
        return found

    def _passes(self) -> bool:
        waiting = waiting_threads()
        calls = [thread.ident for thread in threading.enumerate() if thread.name.startswith("libvirt ")]
        working = [call for call in calls if call is not None and call not in waiting]
        self._since_s = {call: self._since_s.get(call, self.now_s) for call in working}
        return all(self.now_s - since_s < WORKING_S for since_s in self._since_s.values())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop with this clock."""

    def __init__(self) -> None:
        self._patient = _Selector()
        super().__init__(self._patient)  # type: ignore[arg-type]  # all of a selector's methods

    def time(self) -> float:
        return self._patient.now_s
