"""The daemon's time: the clock of its event loop. In a simulation all parts then use the simulated time."""

import asyncio
import time


def now_s() -> float:
    """Seconds that never go back: the running loop's clock. Outside a simulation that is time.monotonic()."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # no loop runs
        return time.monotonic()
