"""A LibvirtHost without a daemon, on the test driver with faults."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.values import DomainKey
from vscaf_lab.host_rig import HostRig

from .faults import Faults
from .node import write_node

TIMEOUT_S = 2.0
ONLINE = frozenset({0, 2, 4})  # of the test driver's host, whatever its XML contains


@dataclass
class Rig(HostRig):
    """The host, the faults below it, and the changes that the host has reported."""

    host: LibvirtHost
    faults: Faults
    changes: int = 0
    tuned: list[DomainKey] = field(default_factory=list)


def with_host(
    directory: Path,
    runner: asyncio.Runner,
    domains: dict[str, tuple[int, int]],
    work: Callable[[Rig], Awaitable[Any]],
    *,
    cpus: int = 8,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Runs *work* on a host of *cpus* CPUs with these running domains (name -> vCPUs, maximum)."""
    faults = Faults()
    tuned: list[DomainKey] = []

    def changed() -> None:
        rig.changes += 1

    uri = write_node(directory, cpus, domains)
    host = LibvirtHost(uri, timeout_s, changed, tuned.append, opener=faults.open)
    rig = Rig(host, faults, tuned=tuned)

    async def run() -> None:
        await host.open()
        try:
            await work(rig)
        finally:
            faults.clear()
            await host.close()

    runner.run(run())
