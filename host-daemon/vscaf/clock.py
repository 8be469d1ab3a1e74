"""The time that the daemon goes by: its event loop's, so that a simulation's clock is everybody's."""

import asyncio
import time


def now_s() -> float:
    """Seconds that never go back: the running loop's clock, which is time.monotonic() but in a simulation."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # no loop runs
        return time.monotonic()
