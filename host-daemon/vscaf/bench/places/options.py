"""The options that choose a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEMORY_MIB = 512


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """existing: names of domains. ssh: domain -> USER@HOST. pool: pCPUs of the existing domains, a CPU list.
    memory_mib: of each guest of a lab."""

    no_vm: bool = False
    existing: tuple[str, ...] = ()
    uri: str = "qemu:///system"
    ssh: Mapping[str, str] | None = None
    pool: str | None = None
    memory_mib: int = MEMORY_MIB
