"""The options that choose a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEMORY_MIB = 512
MOST_CPUS = 64
"""Of a pool, by default. A guest with more vCPUs takes long to boot, and QEMU's machine `pc` ends at 255."""


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """existing: names of domains. ssh: domain -> USER@HOST. pool: pCPUs of the existing domains, a CPU list.
    memory_mib: of each guest of a lab. cpus: in the pool of a lab or without guests; None: `default_cpus`."""

    no_vm: bool = False
    existing: tuple[str, ...] = ()
    uri: str = "qemu:///system"
    ssh: Mapping[str, str] | None = None
    pool: str | None = None
    memory_mib: int = MEMORY_MIB
    cpus: int | None = None
