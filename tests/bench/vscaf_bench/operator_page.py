"""The Cockpit page's part of `bench-operator`: a real cockpit-ws and a headless Chromium, without a login."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from browser import Page, chromium, page, until
from cockpit_host import cockpit
from vscaf.lab.processes import tree
from vscaf.values import HostCpus

from .agent import cpu_seconds
from .simulated_guests import VCPUS

WIDTH = 1280
SETTLING_S = 5.0
WINDOW_S = 8.0
NAME = "#domains tbody button.name"
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""True after what was changed before has been drawn."""


def host(domains: int) -> HostCpus:
    """A host with as many pCPUs as these domains need, two a core, 64 a NUMA node."""
    cpus = range(domains * VCPUS)
    return HostCpus(
        online=frozenset(cpus),
        cores=tuple(frozenset({first, first + 1}) for first in cpus[::2]),
        node_of={cpu: cpu // 64 for cpu in cpus},
    )


@asynccontextmanager
async def opened(control_socket: Path, domains: int) -> AsyncIterator[tuple[Page, float]]:
    """The page once the first domain was drawn, and the seconds that this took. The browser ran before."""
    program = chromium()
    assert program is not None, "the caller has asked missing()"
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        async with cockpit(Path(directory), control_socket, host(domains)) as address, page(program) as tab:
            await tab.look(WIDTH, dark=False)
            began_s = time.monotonic()
            await tab.open(address)

            async def shown() -> bool:
                return bool(await tab.value(f"document.querySelector({json.dumps(NAME)}) !== null"))

            await until(shown, "the first domain is on the page", poll_s=0.005)
            await tab.value(DRAWN)
            yield tab, time.monotonic() - began_s


def first_paint_s(control_socket: Path, domains: int) -> float:
    """Seconds until the first domain is on the page."""

    async def work() -> float:
        async with opened(control_socket, domains) as (_, paint_s):
            return paint_s

    return asyncio.run(work())


def cpu_shares(control_socket: Path, domains: int, seconds: int) -> list[float]:
    """The CPU time of the browser in each of some windows, in % of a core: half as many as *seconds*, 3 at least.

    A window is a multiple of the time between two answers, which is longer with many domains. Without a GPU the browser
    draws on the CPU.
    """

    async def work() -> list[float]:
        async with opened(control_socket, domains) as (tab, _):
            await asyncio.sleep(SETTLING_S)
            shares = []
            for _ in range(max(3, seconds // 2)):
                before, began_s = tree_seconds(tab.browser_pid), time.monotonic()
                await asyncio.sleep(WINDOW_S)
                shares.append(100.0 * (tree_seconds(tab.browser_pid) - before) / (time.monotonic() - began_s))
            return shares

    return asyncio.run(work())


def tree_seconds(pid: int) -> float:
    """The CPU time of a process and of those that it has started, and so on, while they run."""
    return sum(cpu_seconds(one) for one in tree(pid))
