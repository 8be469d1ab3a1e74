"""Reads facts of the host from files below a root directory: the kernel's, and those of other controllers."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

from vscaf.cpulist import parse_cpu_list
from vscaf.doctor.facts import Irq, Process, SystemFacts
from vscaf.doctor.finding import Unknown

T = TypeVar("T")

HOOKS = "etc/libvirt/hooks"
PINS = re.compile(r"vcpupin|emulatorpin|iothreadpin|taskset|cpuset|\bcset\b|AllowedCPUs|sched_setaffinity")
CIB = "var/lib/pacemaker/cib/cib.xml"
NO = frozenset({"false", "no", "off", "0", "n"})


def read_system(root: Path) -> SystemFacts:
    """The facts in the files below *root*, which is / except in tests. What cannot be read is Unknown."""
    return SystemFacts(
        kvm_device=(root / "dev/kvm").exists(),
        libvirt_daemons=tuple(name for name in ("libvirtd", "virtqemud") if (root / "usr/sbin" / name).exists()),
        cpu_flags=_read(_cpu_flags, root),
        controllers=_read(_controllers, root),
        isolated=_read(_cpu_file, root / "sys/devices/system/cpu/isolated"),
        nohz_full=_read(_cpu_file, root / "sys/devices/system/cpu/nohz_full"),
        irqs=_read(_irqs, root),
        processes=_read(_processes, root),
        tuned_profile=_read(_tuned_profile, root),
        pinning_hooks=_read(_pinning_hooks, root),
        pacemaker=_read(_pacemaker, root),
        hugepages=_read(_hugepages, root),
        default_hugepage_kib=_read(_default_hugepage_kib, root),
    )


def _read(read: Callable[[Path], T], path: Path) -> T | Unknown:
    try:
        return read(path)
    except OSError as error:
        return Unknown(f"{error.filename or path}: {error.strerror or error}")
    except ValueError as error:
        return Unknown(f"{path}: {error}")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _cpu_flags(root: Path) -> frozenset[str] | None:
    for line in _text(root / "proc/cpuinfo").splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return None


def _controllers(root: Path) -> frozenset[str]:
    """The controllers of the mounted hierarchies. In version 1 they are options of the mount."""
    found: set[str] = set()
    for line in _text(root / "proc/self/mounts").splitlines():
        _device, place, kind, options = line.split()[:4]
        if kind == "cgroup":
            found.update(options.split(","))
        elif kind == "cgroup2":
            found.update(_text(root / place.lstrip("/") / "cgroup.controllers").split())
    return frozenset(found)


def _cpu_file(path: Path) -> frozenset[int]:
    """A CPU list of the kernel. No file: the kernel was built without the option, so there is no such CPU."""
    try:
        text = _text(path).strip()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        return frozenset()
    return frozenset() if text == "(null)" else parse_cpu_list(text)


def _irqs(root: Path) -> tuple[Irq, ...]:
    """The interrupts with a handler. The kernel makes a directory for each handler."""
    found = []
    for directory in sorted((root / "proc/irq").iterdir()):
        if not directory.name.isdigit() or not any(entry.is_dir() for entry in directory.iterdir()):
            continue
        for name in ("effective_affinity_list", "smp_affinity_list"):
            try:
                cpus = parse_cpu_list(_text(directory / name))
            except FileNotFoundError:
                continue
            if cpus:
                found.append(Irq(int(directory.name), cpus))
                break
    return tuple(sorted(found))


def _processes(root: Path) -> tuple[Process, ...]:
    """All processes, without kernel threads and processes that have ended. Neither of these has memory of its own.

    A missing command line is no sign of them: a program has none just after its start, and may remove it later.
    """
    found = []
    for directory in (root / "proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            fields = dict(line.split(":", 1) for line in _text(directory / "status").splitlines() if ":" in line)
            if "VmSize" not in fields:
                continue
            process = Process(
                int(directory.name), fields["Name"].strip(), parse_cpu_list(fields["Cpus_allowed_list"].strip())
            )
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        except KeyError as error:
            raise ValueError(f"{directory / 'status'} has no {error}") from error
        found.append(process)
    return tuple(sorted(found))


def _tuned_profile(root: Path) -> str:
    try:
        return _text(root / "etc/tuned/active_profile").strip()
    except FileNotFoundError:
        return ""


def _pinning_hooks(root: Path) -> tuple[str, ...]:
    """The hook scripts that libvirt runs and that name a way to set CPUs outside comments."""
    hooks = root / HOOKS
    found = []
    for file in (*_entries(hooks, "qemu"), *_entries(hooks / "qemu.d", "*")):
        if not file.is_file() or not file.stat().st_mode & 0o111:
            continue
        lines = [line for line in _text(file).splitlines() if not line.lstrip().startswith("#")]
        if PINS.search("\n".join(lines)):
            found.append(f"/{file.relative_to(root)}")
    return tuple(found)


def _entries(directory: Path, pattern: str) -> list[Path]:
    """The matching entries. Empty if there is no such directory; OSError if it may not be read."""
    try:
        return sorted(entry for entry in directory.iterdir() if entry.match(pattern))
    except FileNotFoundError:
        return []


def _pacemaker(root: Path) -> tuple[str, ...]:
    """VirtualDomain resources for which `autoset_utilization_cpu` is on, which is its default."""
    try:
        text = _text(root / CIB)
    except FileNotFoundError:
        return ()
    try:
        cib = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML: {error}") from error
    found = []
    for resource in cib.iterfind(".//primitive[@type='VirtualDomain']"):
        values = [
            pair.get("value", "").lower()
            for pair in resource.iterfind("./instance_attributes/nvpair[@name='autoset_utilization_cpu']")
        ]
        if not any(value in NO for value in values):
            found.append(resource.get("id", "?"))
    return tuple(found)


def _hugepages(root: Path) -> Mapping[int, Mapping[int, int]]:
    nodes = root / "sys/devices/system/node"
    found: dict[int, dict[int, int]] = {}
    for directory in nodes.glob("node[0-9]*"):
        sizes = found.setdefault(int(directory.name.removeprefix("node")), {})
        for pages in directory.glob("hugepages/hugepages-*kB"):
            size = pages.name.removeprefix("hugepages-").removesuffix("kB")
            sizes[int(size)] = int(_text(pages / "nr_hugepages"))
    if not found:
        raise ValueError(f"{nodes} has no nodes")
    return found


def _default_hugepage_kib(root: Path) -> int:
    line = re.search(r"^Hugepagesize:\s*(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    if line is None:
        raise ValueError("this kernel has no hugepages")
    return int(line[1])
