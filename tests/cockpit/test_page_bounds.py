"""Bounds that are set in the page reach the daemon through virsh and libvirt: a real libvirtd with its test driver."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import libvirt
import pytest
from browser import chromium, page
from cockpit_host import cockpit, missing
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import soon
from vscaf.lab.private_libvirt import SYSTEM_PATH, accepts
from vscaf.values import HostCpus

LIBVIRTD = shutil.which("libvirtd", path=SYSTEM_PATH)
ABSENT = missing() + [one for one in ("libvirtd", "virsh") if not shutil.which(one, path=SYSTEM_PATH)]
pytestmark = [
    pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root"),
]
ONE_CPU = HostCpus(online=frozenset({0}), cores=(frozenset({0}),), node_of={0: 0})
MARK = "https://vscaf.org/xmlns/partition/1"
PARTITION = '<partition min="1" max="2" weight="1.5"/>'


@dataclass(frozen=True)
class TestDriver:
    """A vscaf.lab.daemon.Site."""

    __test__ = False
    directory: Path

    @property
    def logs(self) -> Path:
        return self.directory

    @property
    def uri(self) -> str:
        return f"test+unix:///default?socket={self.directory}/libvirt-sock"


@asynccontextmanager
async def libvirtd(directory: Path) -> AsyncIterator[TestDriver]:
    """A libvirtd without any driver but the test driver, which is always there. It leaves nothing in /run/libvirt."""
    (directory / "drivers").mkdir()
    config = directory / "libvirtd.conf"
    config.write_text(f'unix_sock_dir = "{directory}"\nauth_unix_ro = "none"\nauth_unix_rw = "none"\n')
    run = 'mkdir -p /run/libvirt && mount -t tmpfs none /run/libvirt && exec "$@"'
    assert LIBVIRTD is not None
    with (directory / "libvirtd.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "unshare", "--mount", "sh", "-c", run, "sh",
            LIBVIRTD, f"--config={config}", f"--pid-file={directory / 'libvirtd.pid'}",
            env=os.environ | {"LIBVIRT_DRIVER_DIR": str(directory / "drivers")}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        await soon(lambda: accepts(directory / "libvirt-sock"), (directory / "libvirtd.log").read_text)
        yield TestDriver(directory)
    finally:
        process.terminate()
        await process.wait()


async def set_bounds(directory: Path) -> None:
    program = chromium()
    assert program is not None
    async with libvirtd(directory) as site:
        connection = libvirt.open(site.uri)  # the driver's state lasts as long as somebody is connected
        domain = connection.lookupByName("test")
        domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, PARTITION, "vscaf", MARK)
        later = PARTITION.replace("1.5", "2.5")
        domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, later, "vscaf", MARK, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
        daemon = DaemonProcess(site, "0", {})
        daemon.start()
        try:
            async with (
                cockpit(directory / "cockpit", daemon.control_socket, ONE_CPU, libvirt_uri=site.uri) as address,
                page(program) as tab,
            ):
                await tab.open(address)
                await tab.click("#domains button.name", "test")
                await tab.until_text("bounds 1 to 2 pCPUs, weight 1.5", "#detail")
                await tab.click("#detail button", "Set bounds")
                await tab.until_text("written into its libvirt metadata", "#dialog-text")
                await tab.value("document.querySelectorAll('#dialog-fields input')[1].value = 1")
                await tab.click("#dialog-do")
                await tab.until("!document.querySelector('dialog').open")
                await tab.until_text("bounds 1 to 1 pCPUs, weight 1.5", "#detail")
                await tab.until_text("rules", "#events")
                await tab.click("#detail button", "Set bounds")
                assert await tab.value("document.querySelectorAll('#dialog-fields input')[1].value") == "1"
            rules = daemon.domain("test")["rules"]
            assert (rules["minimum"], rules["maximum"], rules["weight"]) == (1, 1, 1.5)
            for which, weight in ((libvirt.VIR_DOMAIN_AFFECT_LIVE, 1.5), (libvirt.VIR_DOMAIN_AFFECT_CONFIG, 2.5)):
                text = domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, MARK, which)
                assert 'max="1"' in text and f'weight="{weight}"' in text
        finally:
            assert daemon.stop() == 0, daemon.log.read_text()
            connection.close()


def test_bounds_reach_the_daemon_and_leave_the_other_rules() -> None:
    with tempfile.TemporaryDirectory() as directory:  # a short path, for sockets
        asyncio.run(set_bounds(Path(directory)))
