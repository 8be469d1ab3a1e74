"""The page beside the real daemon and two guests that compute: it shows what libvirt has, and releases a domain."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from browser import Page, chromium, page, until
from cockpit_host import cockpit, missing
from vscaf.hypervisor.libvirt.masks import mask_cpus
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.values import HostCpus

BUILD = Path(__file__).parents[2] / "build"
IMAGE = Path(os.environ.get("VSCAF_IMAGE", BUILD / "image" / "current"))
POOL = sorted(os.sched_getaffinity(0))[:2]
HOST = HostCpus(online=frozenset(POOL), cores=tuple(frozenset({cpu}) for cpu in POOL), node_of=dict.fromkeys(POOL, 0))
PROGRAM = "NPB_REPEAT=10000 vscaf-run cg.S"  # one process, so that a guest computes without a pause
ROW = "[...document.querySelectorAll('#domains tbody tr')].find(one => one.cells[0].innerText.includes('{}'))"
pytestmark = [
    pytest.mark.timeout(1800),  # emulated guests boot and compute
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="guests need root"),
    pytest.mark.skipif(len(POOL) < 2, reason="needs two CPUs"),
    pytest.mark.skipif(not IMAGE.exists(), reason=f"there is no {IMAGE}: make image"),
]


def pins(guest: Guest) -> set[frozenset[int]]:
    """Where libvirt keeps the guest's vCPUs."""
    return {frozenset(mask_cpus(mask)) for mask in guest.domain.vcpuPinInfo()}


async def agrees(tab: Page, guest: Guest) -> bool:
    """Whether the page shows the one pCPU on which libvirt keeps the guest. Exploration may exchange it meanwhile."""
    shown = await tab.value(f"{ROW.format(guest.name)}.cells[3].innerText")
    return pins(guest) in ({frozenset({cpu})} for cpu in POOL if shown == f"0:{cpu}")


async def look(tab: Page, daemon: DaemonProcess, guests: list[Guest]) -> None:
    one, other = guests
    await asyncio.to_thread(
        daemon.wait, lambda domains: all((this["allocation"], this["demand"]) == (1, 2) for this in domains.values())
    )
    for guest in guests:
        await tab.until(f"{ROW.format(guest.name)}?.cells[1].innerText === 'cooperating'")
        await until(lambda guest=guest: agrees(tab, guest), lambda guest=guest: f"{guest.name}: {pins(guest)}")
    assert await tab.value("document.querySelectorAll('#map .cell.domain').length") == 2
    assert await tab.value("document.querySelectorAll('#timeline .lane').length") == 2
    await tab.click("#domains button.name", one.name)
    await tab.until_text("cg.S: team 1", "#detail")
    await tab.click("#detail button", "Explain")
    await tab.until_text(f"It competes with {other.name}", "#explanation")
    await tab.click("#detail button", "Release")
    await tab.until_text("Release", "#dialog-do")
    await tab.click("#dialog-do")
    await tab.until("!document.querySelector('dialog').open")
    await tab.until(f"{ROW.format(one.name)}?.cells[1].innerText === 'released'")
    assert pins(one) == {frozenset(POOL)}, "libvirt has the pins from before"
    await tab.click("#detail button", "Manage")
    await tab.until_text("Manage", "#dialog-do")
    await tab.click("#dialog-do")
    await tab.until(f"{ROW.format(one.name)}?.cells[2].innerText === '1'")
    assert len(pins(one)) == 1


def test_the_page_agrees_with_libvirt_and_releases_a_domain(tmp_path: Path) -> None:
    program = chromium()
    assert program is not None

    async def main(daemon: DaemonProcess, guests: list[Guest], uri: str) -> None:
        async with (
            cockpit(tmp_path, daemon.control_socket, HOST, libvirt_uri=uri) as address,
            page(program) as tab,
        ):
            await tab.open(address)
            await look(tab, daemon, guests)

    pool = ",".join(map(str, POOL))
    (tmp_path / "logs").mkdir()
    with ExitStack() as stack:
        lab = stack.enter_context(PrivateLibvirt(logs=tmp_path / "logs", cache=BUILD / "lab" / "cache"))
        guests = [
            stack.enter_context(Guest(lab, name, IMAGE, vcpus=2, cpuset=pool))
            for name in (f"cfd{os.getpid()}", f"chemistry{os.getpid()}")
        ]
        tables = {guest.name: {} for guest in guests}
        daemon = stack.enter_context(DaemonProcess(lab, pool, tables, policy="max-speedup-fitted"))
        for guest in guests:
            stack.callback(guest.start(PROGRAM).kill, 15)
        asyncio.run(main(daemon, guests, lab.uri))
