"""What an operator does to real running guests: metadata by virsh, release, and `vscaf off` after a kill -9."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import HANG_S, until

from .conftest import POOL_LIST, Pair
from .test_crashes import agents_connected, all_cpus_usable, pins

pytestmark = pytest.mark.guest

NAMESPACE = "https://vscaf.org/xmlns/partition/1"


def virsh(lab: PrivateLibvirt, *arguments: str) -> None:
    done = subprocess.run(
        ["virsh", "-c", lab.uri, *arguments], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr


def tag(lab: PrivateLibvirt, guest: Guest, attributes: str) -> None:
    """Sets the metadata as host-daemon/README.md describes it."""
    element = f"<partition {attributes}/>"
    virsh(lab, "metadata", guest.name, NAMESPACE, "--key", "vscaf", "--set", element, "--live")


def vscaf(daemon: DaemonProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vscaf", *arguments, "--config", str(daemon.directory / "vscaf.toml")]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def test_tagged_live_released_and_off_after_a_kill(shared_lab: PrivateLibvirt, pair: Pair) -> None:
    a, b = pair
    found = {guest.name: pins(guest.domain) for guest in pair}
    daemon = DaemonProcess(shared_lab, POOL_LIST, {}, name="operator", policy="equipartition")
    try:
        daemon.start()
        assert daemon.status()["domains"] == [], "no domain is tagged yet"
        tag(shared_lab, a, 'min="1" rest="keep"')
        tag(shared_lab, b, 'min="1" rest="keep"')
        daemon.wait(lambda domains: len(domains) == 2 and agents_connected(domains))
        daemon.wait(lambda domains: {one["allocation"] for one in domains.values()} == {1})
        tag(shared_lab, a, 'min="1" rest="keep" weight="2.5"')
        daemon.wait(lambda domains: domains[a.name]["rules"]["weight"] == 2.5)

        released = vscaf(daemon, "release", b.name)
        assert released.returncode == 0, released.stderr
        assert released.stdout == f"{b.name}: as it was found; left alone until `vscaf manage {b.name}`\n"
        assert pins(b.domain) == found[b.name]
        assert vscaf(daemon, "manage").stdout == f"{b.name}: managed again\n"
        daemon.wait(lambda domains: {one["allocation"] for one in domains.values()} == {1})
        until(lambda: all(pins(guest.domain) != found[guest.name] for guest in pair))
        events = [json.loads(line) for line in vscaf(daemon, "events", "--json").stdout.splitlines()]
        kinds = [event["kind"] for event in events if event["domain"] == b.name]
        for kind in ("appeared", "allocation", "released", "managed"):
            assert kind in kinds
        assert [event["domain"] for event in events if event["kind"] == "rules"] == [a.name]

        daemon.kill()
        off = vscaf(daemon, "off")
        assert off.returncode == 0, off.stderr
        names = sorted(guest.name for guest in pair)
        assert off.stdout.splitlines()[:2] == [f"{name}: as it was found" for name in names]
        assert "no daemon answers" in off.stdout
        assert {guest.name: pins(guest.domain) for guest in pair} == found
        for guest in pair:
            until(lambda guest=guest: all_cpus_usable(guest))  # the command waits for it only until its deadline
        again = vscaf(daemon, "off")
        assert (again.returncode, again.stdout[:21]) == (0, "nothing was put back:")
    finally:
        for guest in pair:
            virsh(shared_lab, "metadata", guest.name, NAMESPACE, "--remove", "--live")
        if daemon._process is not None:
            daemon.stop()
