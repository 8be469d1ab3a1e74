"""The machine that figures are from, without its name, and the versions of the programs that they depend on."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import vscaf_policies

import vscaf
from vscaf import __version__
from vscaf.bench.c_programs import workload_directory
from vscaf.top.host_cpus import read_host_cpus

ABSENT = "not there"


def machine() -> dict[str, object]:
    """The properties of the machine that figures depend on. cpus: that this process may use. cores: online ones of the
    host. load_at_start: the mean load of the last minute."""
    cpuinfo, host = Path("/proc/cpuinfo").read_text(encoding="utf-8"), read_host_cpus()
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:  # there is no such file
        system = "unknown"
    return {
        "cpu": model[1].strip() if model else platform.processor() or "unknown",
        "cpus": len(os.sched_getaffinity(0)),
        "cores": len(host.cores) or "unknown",
        "numa_nodes": len(set(host.node_of.values())) or "unknown",
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "is_a_guest": "hypervisor" in cpuinfo.split(),  # x86 tells it among the flags
        "kernel": platform.release(),
        "system": system,
        "clocksource": clock.read_text().strip() if clock.exists() else "unknown",
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """Versions of vscaf, Python, libvirt and QEMU, as far as they are there."""
    return {
        "vscaf": __version__,
        "python": platform.python_version(),
        "libvirt": first_line(["libvirtd", "--version"]),
        "QEMU": first_line([f"qemu-system-{platform.machine()}", "--version"]),
    }


def build_identity(image: Path, *, no_vm: bool) -> str:
    """A hash over what is measured: vscaf's Python files, and the guests' image or, without guests, the C parts.

    Samples of another build must not be mixed.
    """
    digest = hashlib.sha256()
    packages = (Path(vscaf.__file__).parent, Path(vscaf_policies.__file__).parent)
    build = Path(os.environ.get("VSCAF_BUILD", "build/meson"))
    files = [path for package in packages for path in sorted(package.rglob("*.py"))]
    if no_vm:
        files += sorted(build.glob("guest-*/*vscaf*")) + sorted(workload_directory().glob("*.[SWAB]"))
    else:
        digest.update(image.resolve().name.encode())
    for path in files:
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def first_line(command: Sequence[str]) -> str:
    """The first line that a command prints; ABSENT if it cannot be run or prints nothing."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return ABSENT
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines else ABSENT
