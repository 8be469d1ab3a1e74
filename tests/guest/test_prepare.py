"""`vscaf prepare` on a real domain: its guest goes on, and after a shutdown and a start the daemon manages it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import libvirt
import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import HANG_S
from vscaf_lab.chaos_run import retry_until

from .conftest import IMAGE, POOL_LIST
from .test_topology import cooperates_with_two

pytestmark = pytest.mark.guest

PORT = "/dev/virtio-ports/org.vscaf.agent.0"
INACTIVE = libvirt.VIR_DOMAIN_XML_INACTIVE
PYTHON = sys.executable


class PlainGuest(Guest):
    """A guest without the agent's channel."""

    @property
    def xml(self) -> str:
        whole = super().xml
        agent = r"<channel type='unix'><source [^>]*><target [^>]*'org\.vscaf\.agent\.0'/></channel>"
        without = re.sub(agent, "", whole)
        assert without != whole
        return without


def prepare(lab: PrivateLibvirt, guest: Guest, *arguments: str) -> str:
    """The output of `vscaf prepare`."""
    done = subprocess.run(
        [PYTHON, "-m", "vscaf", "prepare", guest.name, "--uri", lab.uri, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_daemon_beside(lab: PrivateLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets daemons see libvirtd's mounts. Only there is the directory in which libvirt puts the channel's socket."""
    python = tmp_path / "python"
    mounts = f"/proc/{lab.libvirtd_pid}/ns/mnt"
    python.write_text(f'#!/bin/sh\nexec nsenter --mount={mounts} --wd="$PWD" -- {PYTHON} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def test_prepared_started_managed_and_put_back(
    shared_lab: PrivateLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = PlainGuest(shared_lab, "prepared", IMAGE, vcpus=1, memory_mib=256, persistent=True)
    try:
        guest.launch()
        guest.wait_ready()
        assert guest.run(f"test -e {PORT}").status != 0
        found, pid = guest.domain.XMLDesc(INACTIVE), guest.qemu_pid

        output = prepare(shared_lab, guest, "--maximum", "2")
        assert "needs a shutdown and a start" in output
        assert guest.run("echo on").text == "on\n" and guest.qemu_pid == pid
        # Its virtio-serial controller was there, so it has the channel at once.
        retry_until("the guest has the channel", lambda: guest.run(f"test -e {PORT}").status == 0)
        assert guest.domain.maxVcpus() == 1

        guest.domain.destroy()
        guest.domain.create()
        guest.reconnect()
        guest.wait_ready()
        assert (guest.domain.maxVcpus(), guest.domain.vcpusFlags(libvirt.VIR_DOMAIN_AFFECT_LIVE)) == (2, 1)
        assert prepare(shared_lab, guest) == f"{guest.name}: nothing to change\n"

        run_daemon_beside(shared_lab, tmp_path, monkeypatch)
        rules = {"minimum": 2, "maximum": 2, "rest": "keep"}
        policy = "equipartition"
        with DaemonProcess(shared_lab, POOL_LIST, {guest.name: rules}, name="prepared", policy=policy) as daemon:
            daemon.wait(lambda domains: cooperates_with_two(domains[guest.name]))

        prepare(shared_lab, guest, "--undo")
        assert guest.domain.XMLDesc(INACTIVE) == found
        assert guest.run("echo on").text == "on\n"
    finally:
        guest.stop()
