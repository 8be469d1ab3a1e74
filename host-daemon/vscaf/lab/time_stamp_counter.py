"""How fast the host's time stamp counter counts. QEMU without KVM gives it to its guests as it is.

A guest that measures it itself waits for emulated timers. On a busy host its vCPU waits for a pCPU meanwhile, and the
guest's clock then runs at another pace than the host's for as long as the guest runs.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import time
from collections.abc import Callable
from functools import cache

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")
_READINGS = 20
_MEASURED_S = 0.1  # a clock is read within a microsecond of the counter, which is 1e-5 of this


@cache
def counts_per_ms() -> int | None:
    """The host's rate in kHz, measured once in a process. None if the counter cannot be read."""
    if platform.machine() != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:  # a host may forbid memory that is both written and executed
        return None
    code.write(_READ_COUNTER)
    read_counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return measured(read_counter, time.monotonic_ns, time.sleep)


def measured(read_counter: Callable[[], int], clock_ns: Callable[[], int], sleep: Callable[[float], None]) -> int:
    """The counter's rate (kHz) by the clock, from two readings."""
    count, at_ns = _reading(read_counter, clock_ns)
    sleep(_MEASURED_S)
    later_count, later_ns = _reading(read_counter, clock_ns)
    return round((later_count - count) * 1e6 / (later_ns - at_ns))


def _reading(read_counter: Callable[[], int], clock_ns: Callable[[], int]) -> tuple[int, float]:
    """The counter and the time of it: the pair that was read within the shortest time, so nothing came in between."""
    readings = []
    for _ in range(_READINGS):
        before_ns = clock_ns()
        count = read_counter()
        after_ns = clock_ns()
        readings.append((after_ns - before_ns, count, (before_ns + after_ns) / 2))
    _, count, at_ns = min(readings)
    return count, at_ns
