"""Debian guests as operators have them: a disk with systemd, OpenSSH, Python, and a user who may use sudo.

They know nothing of vscaf, and neither do their domains. The host reaches them by SSH through QEMU's own network, so
it needs no bridge. Needs root, debootstrap and Debian's mirror.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import libvirt
from roots import MIRROR
from vscaf.lab import PrivateLibvirt, accelerator
from vscaf.lab.guest import emulated_arguments
from vscaf.lab.polling import until

PACKAGES = "systemd-sysv,udev,dbus,openssh-server,sudo,python3,python3-apt,ca-certificates,linux-image-cloud-amd64"
USER = "debian"  # as in Debian's cloud images
SSH = 22
DISK_BYTES = 3 << 30
BOOT_HANG_S = 1200.0  # an emulated guest on a busy machine
# systemd's own limits for a device to appear and a service to start are 90 s.
BOOT_LIMITS = "systemd.default_device_timeout_sec=1200 systemd.default_timeout_start_sec=1200"
FILES = {
    "etc/fstab": "/dev/vda / ext4 errors=remount-ro 0 1\n",
    "etc/hostname": "guest\n",
    # What QEMU's own network gives.
    "etc/systemd/network/user.network": "[Match]\nType=ether\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/sudoers.d/debian": f"{USER} ALL=(ALL) NOPASSWD: ALL\n",
    # These only save time. A disk of a test need not survive a crash.
    "etc/apt/apt.conf.d/languages": 'Acquire::Languages "none";\n',
    "etc/dpkg/dpkg.cfg.d/fast": "force-unsafe-io\n",
}
# They would change /etc or hold apt's lock meanwhile.
MASKED = ["apt-daily.timer", "apt-daily-upgrade.timer", "serial-getty@ttyS0.service", "getty@tty1.service"]


def _free_ports(*services: int) -> dict[int, int]:
    """A free TCP port of this machine for each port of the guest."""
    with ExitStack() as stack:
        sockets = {service: stack.enter_context(socket.socket()) for service in services}
        for free in sockets.values():
            free.bind(("127.0.0.1", 0))
        return {service: int(free.getsockname()[1]) for service, free in sockets.items()}


def key(directory: Path) -> Path:
    """The private key that the guests of this directory accept."""
    path = directory / "key"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "guests", "-f", path], check=True)
    return path


def image(directory: Path, suite: str, extend: Callable[[Path], None] = lambda _: None) -> Path:
    """A directory with vmlinuz, initrd.img and disk.img of this Debian, built once.

    extend: adds to the root directory before the user is made.
    """
    made = directory / suite
    if made.exists():
        return made
    public = Path(f"{key(directory)}.pub").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix=f".{suite}-", dir=directory) as scratch:
        root, new = Path(scratch) / "root", Path(scratch) / "image"
        new.mkdir()
        with (directory / f"{suite}.log").open("w", encoding="utf-8") as log:
            subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, root, MIRROR],
                stdout=log,
                stderr=log,
                check=True,
            )
        extend(root)
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).unlink(missing_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        for command in (
            ["useradd", "--create-home", "--shell", "/bin/bash", USER],
            ["install", "-d", "-o", USER, "-g", USER, "-m", "0700", f"/home/{USER}/.ssh"],
            ["systemctl", "enable", "systemd-networkd"],
            ["systemctl", "mask", *MASKED],
            ["apt-get", "clean"],
        ):
            subprocess.run(["chroot", root, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (root / f"home/{USER}/.ssh/authorized_keys").write_text(public, encoding="utf-8")
        shutil.copy(next(root.glob("boot/vmlinuz-*")), new / "vmlinuz")
        shutil.copy(next(root.glob("boot/initrd.img-*")), new / "initrd.img")
        disk = new / "disk.img"
        disk.touch()
        os.truncate(disk, DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-d", root, disk], check=True)
        new.rename(made)
    return made


class DebianGuest:
    """Context manager: a persistent domain with a disk of its own, reached by SSH at a port of this machine.

    `images`: the directory of `image` and `key`. `probe`: an image of `make image`, which is booted to see whether KVM
    works here. `extend`: as for `image`. `services`: further TCP ports of the guest that this machine reaches; `ports`
    has their numbers here.
    """

    def __init__(
        self,
        lab: PrivateLibvirt,
        name: str,
        images: Path,
        suite: str,
        probe: Path,
        *,
        extend: Callable[[Path], None] = lambda _: None,
        services: Sequence[int] = (),
    ) -> None:
        self.lab, self.name = lab, name
        self.image = image(images, suite, extend)
        self.key = key(images)
        self.kind = accelerator.domain_type(probe, lab.cache)
        self.disk = lab.directory / f"{name}.img"
        self.ports = _free_ports(SSH, *services)
        self.port = self.ports[SSH]

    @property
    def xml(self) -> str:
        """The domain's definition: two vCPUs and no channel."""
        kvm = self.kind == "kvm"
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{here}-:{there}" for there, here in self.ports.items())
        emulated = "" if kvm else emulated_arguments()
        return f"""
<domain type='{self.kind}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{self.name}</name>
  <memory unit='MiB'>1024</memory>
  <vcpu>2</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{self.image / "vmlinuz"}</kernel>
    <initrd>{self.image / "initrd.img"}</initrd>
    <cmdline>root=/dev/vda rw console=ttyS0 quiet {BOOT_LIMITS} {emulated}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='{"host-passthrough" if kvm else "maximum"}' check='none'/>
  <devices>
    <emulator>{accelerator.emulator()}</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='unsafe'/><source file='{self.disk}'/><target dev='vda' bus='virtio'/>
    </disk>
    <serial type='file'><source path='{self.lab.logs / self.name}.console.log' append='on'/></serial>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-netdev'/>
    <qemu:arg value='user,id=network{forwards}'/>
    <qemu:arg value='-device'/>
    <qemu:arg value='virtio-net-pci,netdev=network,addr=0x1e'/>
  </qemu:commandline>
</domain>
"""

    def __enter__(self) -> DebianGuest:
        subprocess.run(["cp", "--sparse=always", self.image / "disk.img", self.disk], check=True)
        domain = self.lab.connection.defineXML(self.xml)
        try:
            domain.create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self) -> None:
        """Returns when it answers by SSH."""
        console = self.lab.logs / f"{self.name}.console.log"

        def what() -> str:
            return f"{self.name} answers by SSH\n{console.read_text(encoding='utf-8', errors='replace')[-3000:]}"

        until(lambda: self.ssh("true").returncode == 0, what, BOOT_HANG_S, poll_s=2)

    def __exit__(self, *_: object) -> None:
        domain = self.lab.connection.lookupByName(self.name)
        if domain.isActive():
            domain.destroy()
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
        self.disk.unlink()

    @property
    def inactive_xml(self) -> str:
        """What `virsh dumpxml --inactive` prints."""
        return str(self.lab.connection.lookupByName(self.name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))

    @property
    def ssh_options(self) -> list[str]:
        """The guest's key is new each time that its image is built, so it is not remembered."""
        return ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]

    def ssh(self, command: str, stdin: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a shell command in the guest, as its user."""
        arguments = ["ssh", *self.ssh_options, "-o", "ConnectTimeout=60", "-i", self.key, "-p", str(self.port)]
        return subprocess.run(
            [*arguments, f"{USER}@127.0.0.1", command],
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=BOOT_HANG_S,
            check=False,
        )

    def output(self, command: str, stdin: IO[bytes] | None = None) -> str:
        """The command's output. AssertionError if it fails."""
        done = self.ssh(command, stdin)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def inventory(self) -> dict[str, object]:
        """The variables by which Ansible reaches it."""
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": USER,
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": " ".join(self.ssh_options),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
