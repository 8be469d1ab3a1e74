"""Tests whether guests boot under KVM here. Opening the KVM device is no proof, so it boots an image once."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from vscaf.lab.errors import LabError
from vscaf.lab.processes import end_child

PROBE_LIMIT_S = 20.0
READY = b"vscaf guest ready"
EMULATOR = "qemu-system-x86_64"


def emulator() -> str:
    """The path of QEMU. Raises LabError if it is not installed."""
    path = shutil.which(EMULATOR)
    if path is None:
        raise LabError(f"{EMULATOR} is not installed: install the package qemu-system-x86")
    return path


def _identity(image: Path) -> str:
    """Identifies the guest kernel, QEMU and the host kernel."""
    version = subprocess.run([emulator(), "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256((image / "vmlinuz").read_bytes())
    for part in (version, platform.release().encode(), platform.version().encode()):
        digest.update(b"\0" + part)
    return digest.hexdigest()[:16]


def _boots_under_kvm(image: Path) -> bool:
    command = [emulator(), "-accel", "kvm", "-cpu", "host", "-machine", "pc", "-m", "512", "-smp", "2", "-nodefaults"]
    command += ["-display", "none", "-no-reboot", "-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1"]
    command += ["-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd.img")]
    command += ["-device", "virtio-serial-pci", "-device", "virtserialport,name=org.vscaf.lab.0,chardev=none"]
    command += ["-chardev", "null,id=none"]
    deadline_s = time.monotonic() + PROBE_LIMIT_S
    seen = b""
    qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert qemu.stdout is not None
    try:
        while READY not in seen and time.monotonic() < deadline_s:
            if not select.select([qemu.stdout], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                break
            piece = os.read(qemu.stdout.fileno(), 65536)
            if not piece:
                break
            seen += piece
        return READY in seen
    finally:
        end_child(qemu, 2.0)
        qemu.stdout.close()


def domain_type(image: Path, cache: Path | None) -> str:
    """ "kvm" if the image boots under KVM, else "qemu" (TCG). The answer is kept in the directory `cache`."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "qemu"
    kept = cache / f"kvm-{_identity(image)}.json" if cache is not None else None
    if kept is not None and kept.exists():
        return str(json.loads(kept.read_text())["domain_type"])
    answer = "kvm" if _boots_under_kvm(image) else "qemu"
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False) as file:
            json.dump({"domain_type": answer}, file)
        Path(file.name).rename(kept)
    return answer
