"""The scaled machine: one guest with more vCPUs than this machine has CPUs, and each of them slow.

Each vCPU has a quota of CPU time, so it is a slow CPU for the guest's own kernel, which schedules on all of them. A
part of the host's CPU time is left for the host. Its other processes get little more, because the guest's control
group has a large weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from vscaf.bench.places.own_pool import own_pool
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.cgroups import domain_directories

NAME = "scaled"
VCPUS = 6
PCPUS = 2
# A vCPU whose quota begins anew waits for the host's next tick if another process runs there. Kernels tick every 4 ms
# or more often. In a period of 4 ms such a wait is lost; in this one the vCPU makes up for it.
PERIOD_US, QUOTA_US = 8000, 2000
WEIGHTS = {"cpu.shares": "262144", "cpu.weight": "10000"}  # the largest, of cgroup v1 and v2
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
        _favoured(guest.qemu_pid),
    ):
        yield guest, pool


@contextmanager
def _favoured(qemu_pid: int) -> Iterator[None]:
    """Gives the control group of the domain, and the one around all domains, the largest weight."""
    with ExitStack() as stack:
        for domain in domain_directories(qemu_pid):
            for group in (domain.parent, domain):
                for name, largest in WEIGHTS.items():
                    if (file := group / name).exists():
                        stack.callback(_write, file, file.read_text())
                        _write(file, largest)
        yield


def _write(file: Path, text: str) -> None:
    with suppress(FileNotFoundError):  # the group is gone, with its guest
        file.write_text(text)
