"""`vscaf prepare` on a real libvirtd: what QEMU's driver makes of the definitions, and a guest that goes on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import libvirt
import pytest
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import HANG_S
from vscaf.prepare.apply import prepare as prepare_domain
from vscaf.prepare.apply import undo as undo_domain
from vscaf_lab.chaos_run import retry_until

from .conftest import IMAGE, POOL_LIST, needs_plugged_vcpus
from .test_channel import ports
from .test_topology import cooperates_with_two

pytestmark = pytest.mark.guest

PORT = "org.vscaf.agent.0"
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


def definition(lab: PrivateLibvirt, xml: str) -> str:
    """Defines a domain. Returns the definition as libvirt shows it.

    It is defined twice: when libvirt reads its own text it sorts the controllers anew, which is no change of prepare's.
    """
    first = lab.connection.defineXML(xml).XMLDesc(INACTIVE)
    return str(lab.connection.defineXML(first).XMLDesc(INACTIVE))


PLAIN = """
<domain type='qemu'><name>plain</name><memory unit='MiB'>64</memory><vcpu>2</vcpu>
  <os><type arch='x86_64' machine='{}'>hvm</type></os><features><acpi/></features>{}
  <devices>{}</devices>
</domain>"""
TOPOLOGY = "<cpu><topology sockets='2' dies='1' cores='1' threads='1'/></cpu>"
GUEST_AGENT = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
ONE_PORT = "<controller type='usb' model='none'/><controller type='pci' index='1' model='pcie-root-port'/>"


@pytest.mark.parametrize(
    ("machine", "cpu", "devices", "controllers"),
    [
        ("pc", "", "", ["virtio-serial 0"]),
        ("pc", TOPOLOGY, GUEST_AGENT, []),
        ("q35", TOPOLOGY, GUEST_AGENT, []),
        ("q35", "", "", ["virtio-serial 0"]),
        # Its only port is taken, so libvirt adds one for the new controller, and changes that port for it.
        ("q35", TOPOLOGY, ONE_PORT + "<memballoon model='virtio'/>", ["pci 1", "pci 2", "virtio-serial 0"]),
    ],
)
def test_definitions_are_put_back_with_all_that_libvirt_added(
    shared_lab: PrivateLibvirt, machine: str, cpu: str, devices: str, controllers: list[str]
) -> None:
    found = definition(shared_lab, PLAIN.format(machine, cpu, devices))
    try:
        for maximum in (None, 4, 6):
            prepare_domain(shared_lab.uri, "plain", maximum)
            assert prepare_domain(shared_lab.uri, "plain", maximum).done == ()
        prepared = parse_description(shared_lab.connection.lookupByName("plain").XMLDesc(INACTIVE))
        assert prepared.rules is not None and prepared.enabled == frozenset({0, 1})
        back = undo_domain(shared_lab.uri, "plain")
        assert back.kept == ()
        assert [one.removeprefix("<controller> ") for one in back.done if one.startswith("<controller>")] == controllers
        assert shared_lab.connection.lookupByName("plain").XMLDesc(INACTIVE) == found
    finally:
        shared_lab.connection.lookupByName("plain").undefine()


def run_daemon_beside(lab: PrivateLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets daemons see libvirtd's mounts. Only there is the directory in which libvirt puts the channel's socket."""
    python = tmp_path / "python"
    libvirtd = f"/proc/{lab.libvirtd_pid}"  # its root directory is another one in a chroot
    inside = f"nsenter --mount={libvirtd}/ns/mnt --root={libvirtd}/root"
    python.write_text(f'#!/bin/sh\nexec {inside} env -C "$PWD" {PYTHON} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def test_prepared_started_managed_and_put_back(
    shared_lab: PrivateLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = PlainGuest(shared_lab, "prepared", IMAGE, vcpus=1, memory_mib=256, persistent=True)
    try:
        guest.launch()
        guest.wait_ready()
        assert PORT not in ports(guest)
        found, pid = definition(shared_lab, guest.domain.XMLDesc(INACTIVE)), guest.qemu_pid

        output = prepare(shared_lab, guest, "--maximum", "2")
        assert "needs a shutdown and a start" in output
        assert guest.run("echo on").text == "on\n" and guest.qemu_pid == pid
        # Its virtio-serial controller was there, so it has the channel at once.
        retry_until("the guest has the channel", lambda: PORT in ports(guest))
        assert guest.domain.maxVcpus() == 1

        guest.domain.destroy()
        guest.domain.create()
        guest.reconnect()
        guest.wait_ready()
        assert (guest.domain.maxVcpus(), guest.domain.vcpusFlags(libvirt.VIR_DOMAIN_AFFECT_LIVE)) == (2, 1)
        assert prepare(shared_lab, guest) == f"{guest.name}: nothing to change\n"

        needs_plugged_vcpus(guest)
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
