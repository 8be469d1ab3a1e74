"""The guest's kernel: the distribution's own package for virtual machines, and its virtio modules."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# The meta package, and the name prefix of the package with the kernel's modules, if they have their own package.
KERNEL_PACKAGES = {
    "debian": ("linux-image-cloud-amd64", None),
    "ubuntu": ("linux-image-virtual", "linux-modules-"),
}
# Drivers that a guest needs; those built into the kernel need no file.
WANTED_MODULES = ("virtio_pci", "virtio_console", "virtio_blk")


class ImageError(Exception):
    """The image cannot be built. The message names what is missing and the fix."""


def run(command: list[str], mend: str, accept: tuple[int, ...] = (0,), cwd: Path | None = None) -> str:
    """The command's standard output.

    Raises ImageError if its exit status is not in `accept` (with its output and `mend`, the fix), or if it is missing.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    except FileNotFoundError:
        raise ImageError(f"{command[0]} is not installed: install the package that has it") from None
    if done.returncode not in accept:
        raise ImageError(f"`{' '.join(command[:6])}` failed: {(done.stderr or done.stdout).strip()[-2000:]}; {mend}")
    return done.stdout


@dataclass(frozen=True)
class GuestKernel:
    """`directory` has `vmlinuz`, the modules as NAME.ko, and `order`: their file names, dependencies first."""

    directory: Path
    package: str
    release: str


def distribution() -> str:
    """Either "debian" or "ubuntu", the kind of this machine's packages.

    Raises ImageError on other distributions.
    """
    fields = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    identifiers = [fields.get(key, "").strip('"') for key in ("ID", "ID_LIKE")]
    for word in " ".join(identifiers).split():
        if word in KERNEL_PACKAGES:
            return word
    raise ImageError(
        f"the distribution is {identifiers[0] or 'unknown'}: it must be Debian or Ubuntu (see KERNEL_PACKAGES)"
    )


def kernel_packages() -> list[str]:
    """The packages of the kernel and its modules, the kernel's first."""
    meta, modules_prefix = KERNEL_PACKAGES[distribution()]
    mend = "if there are no package lists, run `apt-get update` as root"
    depends = run(["apt-cache", "depends", meta], mend)
    match = re.search(r"^ *\|?Depends: (linux-image-\d\S+)$", depends, re.MULTILINE)
    if match is None:
        raise ImageError(f"apt knows no {meta} with a kernel: {mend}")
    image = match.group(1)
    if modules_prefix is None:
        return [image]
    return [image, modules_prefix + re.sub(r"^linux-image-(unsigned-)?", "", image)]


def decompressed(path: Path) -> bytes:
    """A module's bytes, from NAME.ko, NAME.ko.xz or NAME.ko.zst."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        if shutil.which("zstd") is None:
            raise ImageError("the kernel's modules are compressed with zstd: install the package zstd")
        return subprocess.run(["zstd", "-dcq", str(path)], capture_output=True, check=True).stdout
    return path.read_bytes()


def module_name(path: str) -> str:
    """For example "virtio_rng" for ".../virtio-rng.ko.xz"."""
    return re.sub(r"\.ko(\.\w+)?$", "", Path(path).name).replace("-", "_")


def modules_in_order(modules: Path) -> dict[str, bytes]:
    """The wanted modules and their dependencies, dependencies first: name -> bytes. `modules`: /lib/modules/RELEASE.

    A module names its dependencies in its .modinfo section, as "depends=a,b".
    Raises ImageError if a module is neither a file nor built in.
    """
    files = {module_name(path.name): path for path in modules.rglob("*.ko*") if ".ko" in path.suffixes}
    built_in = {module_name(line) for line in (modules / "modules.builtin").read_text().splitlines()}
    ordered: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in built_in or name in ordered:
            return
        if name not in files:
            raise ImageError(f"the kernel in {modules} has no module {name}: take another kernel package")
        content = decompressed(files[name])
        match = re.search(rb"\0depends=([^\0]*)\0", content)
        for dependency in (match.group(1).decode() if match else "").split(","):
            if dependency:
                add(dependency.replace("-", "_"))
        ordered[name] = content

    for wanted in WANTED_MODULES:
        add(wanted)
    return ordered


def prepare(packages: list[str], directory: Path, say: Callable[[str], None]) -> None:
    """Downloads and unpacks the packages; writes into `directory` what GuestKernel describes."""
    with tempfile.TemporaryDirectory(prefix="vscaf-kernel-") as scratch_name:
        scratch = Path(scratch_name)
        say(f"downloading {' '.join(packages)}")
        # apt's own user cannot write into a private directory, and apt would print a long warning when run as root.
        run(
            ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *packages],
            "check the network; if the package lists are old, run `apt-get update` as root",
            cwd=scratch,
        )
        say("unpacking the kernel")
        for package in scratch.glob("*.deb"):
            run(["dpkg", "-x", str(package), str(scratch / "root")], "is the disk full?")
        kernels = sorted((scratch / "root" / "boot").glob("vmlinuz-*"))
        if len(kernels) != 1:
            raise ImageError(f"{packages[0]} holds {len(kernels)} kernels under /boot, not one: take another package")
        release = kernels[0].name.removeprefix("vmlinuz-")
        trees = [path for path in (scratch / "root").glob(f"**/lib/modules/{release}") if path.is_dir()]
        if not trees:
            raise ImageError(f"{' '.join(packages)} hold no /lib/modules/{release}: take other packages")
        modules = modules_in_order(trees[0])
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=directory.parent))
        shutil.copy(kernels[0], new / "vmlinuz")
        (new / "vmlinuz").chmod(0o644)
        for name, content in modules.items():
            (new / f"{name}.ko").write_bytes(content)
        (new / "order").write_text("".join(f"{name}.ko\n" for name in modules))
        (new / "kernel.json").write_text(json.dumps({"package": packages[0], "release": release}) + "\n")
        new.chmod(0o755)
        if directory.exists():
            shutil.rmtree(directory)
        new.rename(directory)


def guest_kernel(cache: Path, update: bool, say: Callable[[str], None]) -> GuestKernel:
    """The kernel kept in `cache`. It is downloaded if there is none, or if `update` finds another one.

    Raises ImageError, with the fix, if it is not available.
    """
    cache.mkdir(parents=True, exist_ok=True)
    kept = cache / "current"
    if update or not (kept / "kernel.json").exists():
        packages = kernel_packages()
        known = json.loads((kept / "kernel.json").read_text()) if (kept / "kernel.json").exists() else {}
        if known.get("package") != packages[0]:
            prepare(packages, kept, say)
    known = json.loads((kept / "kernel.json").read_text())
    return GuestKernel(kept, known["package"], known["release"])
