"""A cockpit-ws of its own with the page, beside a daemon on a simulated host."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from browser import chromium, until
from vscaf.values import HostCpus

PAGE = Path(__file__).parents[2] / "host-daemon" / "cockpit"
COCKPIT_WS = Path("/usr/lib/cockpit/cockpit-ws")
BRIDGE = Path("/usr/bin/cockpit-bridge")


def missing() -> list[str]:
    """What these tests need and is not installed."""
    return [str(one) for one in (COCKPIT_WS, BRIDGE) if not one.exists()] + ([] if chromium() else ["chromium"])


def lscpu(host: HostCpus) -> dict[str, list[dict[str, object]]]:
    """What lscpu would say of a simulated host."""
    core_of = {cpu: number for number, core in enumerate(host.cores) for cpu in core}
    return {
        "cpus": [
            {"cpu": cpu, "core": core_of[cpu], "socket": 0, "node": host.node_of[cpu], "online": True}
            for cpu in sorted(host.online)
        ]
    }


@asynccontextmanager
async def cockpit(
    directory: Path,
    control_socket: Path,
    host: HostCpus,
    user: str | None = None,
    libvirt_uri: str = "test:///default",
) -> AsyncIterator[str]:
    """The address of the page, as *user* sees it (None: as this user). The session needs no login."""
    package = directory / "data" / "cockpit" / "vscaf"
    shutil.copytree(PAGE, package)
    override = directory / "config" / "cockpit" / "vscaf.override.json"
    override.parent.mkdir(parents=True)
    override.write_text(json.dumps({"config": {"control_socket": str(control_socket), "libvirt_uri": libvirt_uri}}))
    told = directory / "bin" / "lscpu"
    told.parent.mkdir()
    told.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(lscpu(host))}\nEND\n")
    told.chmod(0o755)
    command = told.with_name("vscaf")
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m vscaf "$@"\n')
    command.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "XDG_DATA_DIRS": f"{directory / 'data'}:/usr/share",
        "XDG_CONFIG_DIRS": f"{directory / 'config'}:/etc/xdg",
        "XDG_RUNTIME_DIR": str(directory),
        "HOME": str(directory),
        "PATH": f"{told.parent}:{os.environ['PATH']}",
        # Without these the bridge starts a bus and an SSH agent, which outlive it. The page uses neither.
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={directory / 'no-bus'}",
        "SSH_AUTH_SOCK": str(directory / "no-agent"),
    }
    as_user = pwd.getpwnam(user) if user else None
    with (directory / "cockpit.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            COCKPIT_WS, "--no-tls", "--address=127.0.0.1", f"--port={port}", f"--local-session={BRIDGE}",
            env=environment, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL,
            user=as_user.pw_uid if as_user else None, group=as_user.pw_gid if as_user else None,
            extra_groups=[] if as_user else None,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}/cockpit/@localhost/vscaf/index.html"
    try:
        async with aiohttp.ClientSession() as session:

            async def answers() -> bool:
                try:
                    async with session.get(address) as response:
                        return response.status == 200
                except aiohttp.ClientConnectionError:
                    return False

            await until(answers, lambda: f"cockpit-ws answers:\n{(directory / 'cockpit.log').read_text()}")
        yield address
    finally:
        process.terminate()
        await process.wait()
