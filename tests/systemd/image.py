"""A guest with systemd as its first process. It has the other guests' kernel, its own initramfs, and two disks.

The disks are plain tar archives that the initramfs unpacks into memory, so no mounts and no filesystem driver are
needed. `base.tar` is this distribution's smallest system with systemd (from debootstrap, kept between runs). `own.tar`
has what `meson install` installs, the lab's runner as a unit, and the agent's unit enabled.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path

from vscaf.lab import Guest, PrivateLibvirt

HERE = Path(__file__).resolve().parent
PACKAGES = "systemd,systemd-sysv,udev,dbus,kmod,libjansson4,libgomp1,procps"
LEFT_OUT = ["./usr/share/doc", "./usr/share/locale", "./usr/share/man", "./usr/share/info", "./var/cache", "./boot"]
LEFT_OUT += ["./var/lib/apt/lists", "./dev", "./proc", "./sys", "./run"]
RUNNER_UNIT = """
[Unit]
DefaultDependencies=no
After=systemd-udevd.service
[Service]
Environment=HOME=/root
ExecStart=/usr/local/libexec/vscaf/lab-runner /dev/virtio-ports/org.vscaf.lab.0
Restart=always
RestartSec=200ms
[Install]
WantedBy=multi-user.target
"""
# Units that use the CPU for themselves, or look for a network.
MASKED = ["serial-getty@ttyS0.service", "getty@tty1.service", "apt-daily.timer", "apt-daily-upgrade.timer"]
MASKED += ["dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer", "systemd-timesyncd.service"]


def sources() -> tuple[str, str]:
    """The code name of this distribution's release, and the mirror that this machine's apt uses."""
    fields = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    suite = fields["VERSION_CODENAME"].strip('"')
    for path in [*sorted(Path("/etc/apt/sources.list.d").glob("*.sources")), Path("/etc/apt/sources.list")]:
        text = path.read_text() if path.exists() else ""
        found = re.search(r"^(?:URIs:|deb)\s+(?:\[.*?\]\s+)?(https?://\S+)", text, re.MULTILINE)
        if found:
            return suite, found.group(1)
    raise RuntimeError("no mirror in /etc/apt/sources.list.d/*.sources or /etc/apt/sources.list: add one there")


def base(directory: Path) -> Path:
    """The archive of the base system, built once. Needs root, debootstrap and the mirror."""
    archive = directory / "base.tar"
    if archive.exists():
        return archive
    suite, mirror = sources()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".root-", dir=directory) as root:
        log = directory / "debootstrap.log"
        with log.open("w") as output:
            done = subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, root, mirror],
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise RuntimeError(f"debootstrap failed: see {log}")
        excluded = [f"--exclude={name}" for name in LEFT_OUT]
        new = directory / ".base.new"
        subprocess.run(["tar", "-C", root, *excluded, "-cf", str(new), "."], check=True)
        new.rename(archive)
    return archive


def _add(archive: tarfile.TarFile, name: str, content: str, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content.encode()), mode
    archive.addfile(entry, io.BytesIO(content.encode()))


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


def own(meson_build: Path, archive_path: Path) -> None:
    """Writes the archive of what this tree installs. It is unpacked over the base system."""
    with tempfile.TemporaryDirectory(prefix="vscaf-install-") as tree, tarfile.open(archive_path, "w") as archive:
        subprocess.run(
            ["meson", "install", "-C", meson_build, "--destdir", tree, "--quiet"], check=True, stdout=subprocess.DEVNULL
        )

        def as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            if entry.isdir():  # a temporary directory is closed to other users
                entry.mode = 0o755
            return entry

        archive.add(tree, ".", filter=as_root)
        units = "./etc/systemd/system"
        _add(archive, f"{units}/lab-runner.service", RUNNER_UNIT)
        for unit, path in (
            ("lab-runner.service", "/etc/systemd/system"),
            ("vscaf-agent.service", "/usr/local/lib/systemd/system"),
        ):
            _link(archive, f"{units}/multi-user.target.wants/{unit}", f"{path}/{unit}")
        for unit in MASKED:
            _link(archive, f"{units}/{unit}", "/dev/null")
        _link(archive, f"{units}/default.target", "/lib/systemd/system/multi-user.target")
        _add(archive, "./etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        _add(archive, "./etc/hostname", "guest\n")


def initramfs(modules: Path, archive: Path) -> None:
    """Writes the initramfs: busybox, the modules, and `init`."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise RuntimeError("busybox is not installed: install the package busybox-static")
    with tempfile.TemporaryDirectory(prefix="vscaf-initramfs-") as directory:
        root = Path(directory)
        for name in ("bin", "dev", "proc", "sys", "lib/modules"):
            (root / name).mkdir(parents=True)
        shutil.copy(busybox, root / "bin" / "busybox")
        shutil.copy(HERE / "init", root / "init")
        (root / "init").chmod(0o755 | stat.S_IXUSR)
        for path in [*modules.glob("*.ko"), modules / "order"]:
            shutil.copy(path, root / "lib" / "modules")
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        with archive.open("wb") as output:
            subprocess.run(
                ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"],
                input="\n".join(names).encode(),
                stdout=output,
                cwd=root,
                check=True,
            )


def build(output: Path, meson_build: Path, kernel: Path) -> Path:
    """Fills the image's directory: vmlinuz, initrd.img, base.tar, own.tar. `kernel`: build/image/kernel/current."""
    base(output)
    own(meson_build, output / "own.tar")
    initramfs(kernel, output / "initrd.img")
    shutil.copy(kernel / "vmlinuz", output / "vmlinuz")
    for name in ("base.tar", "own.tar"):  # a disk has whole sectors
        size = (output / name).stat().st_size
        os.truncate(output / name, -(-size // 512) * 512)
    return output


class SystemdGuest(Guest):
    """A guest from this image."""

    def __init__(self, lab: PrivateLibvirt, name: str, image: Path, *, vcpus: int = 2) -> None:
        super().__init__(lab, name, image, vcpus=vcpus, memory_mib=1024)

    @property
    def xml(self) -> str:
        """The domain's definition, with the disks."""
        disks = "".join(
            f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{self.image / archive}'/>"
            f"<target dev='{disk}' bus='virtio'/><readonly/></disk>"
            for disk, archive in (("vda", "base.tar"), ("vdb", "own.tar"))
        )
        return super().xml.replace("</devices>", f"{disks}</devices>")
