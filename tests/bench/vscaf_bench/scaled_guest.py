"""The scaled machine: one guest with more vCPUs than this machine has CPUs, and each of them slow.

Each vCPU has a quota of CPU time, so it is a slow CPU for the guest's own kernel, which schedules on all of them. A part
of the host's CPU time is left for the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vscaf.bench.places.own_pool import own_pool
from vscaf.lab import Guest, PrivateLibvirt

NAME = "scaled"
VCPUS = 6
PCPUS = 2
PERIOD_US, QUOTA_US = 4000, 1000  # libvirt accepts no smaller quota
MEMORY_MIB = 768
CPUTUNE = f"<cputune><period>{PERIOD_US}</period><quota>{QUOTA_US}</quota></cputune>"


@contextmanager
def scaled_guest(image: Path, logs: Path, cache: Path) -> Iterator[tuple[Guest, list[int]]]:
    """The guest, which has no agent yet, and the pCPUs that it runs on. Raises PlaceError, LabError, TimeoutError."""
    pool = own_pool(PCPUS)
    with (
        PrivateLibvirt(logs=logs, cache=cache.resolve()) as lab,
        Guest(
            lab,
            NAME,
            image,
            vcpus=VCPUS,
            memory_mib=MEMORY_MIB,
            cpuset=",".join(map(str, pool)),
            kernel_arguments="vscaf.agent=off",
            elements=CPUTUNE,
        ) as guest,
    ):
        yield guest, pool
