#!/usr/bin/env python3
"""Builds the guest image for tests and demo: the distribution's own kernel and a small initramfs.

The initramfs has busybox, everything that `meson install` installs (agent, shim, vscaf-run, workloads), the shared
libraries that these need, and the virtio modules that are not built into the kernel. The result is OUTPUT/HASH/ with
`vmlinuz`, `initrd.img` and `image.json`, and a link OUTPUT/current to it. HASH covers all inputs, so unchanged inputs
build nothing. It needs no root and no loop mount. The kernel is downloaded once with apt-get and kept in OUTPUT/kernel
(`--update-kernel` looks for a newer one).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from guest_kernel import ImageError, guest_kernel, run

HERE = Path(__file__).resolve().parent
KEPT_IMAGES = 4  # older results are removed: each takes about 20 MB
START = time.monotonic()


def say(text: str) -> None:
    """A progress line."""
    print(f"image [{time.monotonic() - START:5.1f} s] {text}", flush=True)


def installed_files(meson_build: Path, destination: Path) -> dict[str, Path]:
    """The files that `meson install` of this build directory installs: path in the guest -> file. Headers and static
    libraries are left out."""
    run(
        ["meson", "install", "-C", str(meson_build), "--destdir", str(destination), "--quiet"],
        "run `meson setup` first",
    )
    return tree_files(destination)


def tree_files(root: Path) -> dict[str, Path]:
    """The files of an install tree: path in the guest -> file."""
    return {
        f"/{path.relative_to(root)}": path
        for path in sorted(root.rglob("*"))
        if (path.is_file() or path.is_symlink()) and path.suffix not in (".h", ".a", ".pc")
    }


def is_elf(path: Path) -> bool:
    """Whether the file is an ELF object."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def shared_libraries(programs: list[Path]) -> dict[str, Path]:
    """The shared libraries and the loader that these ELF objects need, recursively: path in the guest -> file."""
    libraries: dict[str, Path] = {}
    # ldd ends with 1 if one of them is static, as vscaf-run is.
    for line in run(["ldd", *map(str, programs)], "are all of them for this machine?", accept=(0, 1)).splitlines():
        fields = line.split()
        if line.startswith("\t") and "not found" in line:
            raise ImageError(f"{fields[0]} is needed in the guest, but not on this machine: install its package")
        path = fields[2] if "=>" in fields and len(fields) > 2 else fields[0] if fields else ""
        if line.startswith("\t") and path.startswith("/"):
            libraries[path] = Path(path).resolve()
    return libraries


def verdicts(programs: dict[str, Path], cache: Path) -> dict[str, Path]:
    """What vscaf-inspect says of the benchmark programs, as the agent's cache: path in the guest -> file."""
    inspect = next((path for name, path in programs.items() if name.endswith("/bin/vscaf-inspect")), None)
    shipped = [path for name, path in programs.items() if "/libexec/vscaf/npb/" in name and not path.is_symlink()]
    shipped = [path for path in shipped if is_elf(path)]
    if inspect is None or not shipped:
        return {}
    run([str(inspect), "--cache", str(cache), *map(str, shipped)], "is vscaf-inspect built for this machine?")
    return {f"/var/cache/vscaf/{path.name}": path for path in sorted(cache.iterdir())}


def busybox() -> Path:
    """A statically linked busybox.

    Raises ImageError if there is none.
    """
    path = shutil.which("busybox", path="/bin:/usr/bin")
    if path is None or ".so" in run(["ldd", path], "", accept=(0, 1)):
        raise ImageError("no statically linked busybox: install the package busybox-static")
    return Path(path)


def fingerprint(files: dict[str, Path]) -> str:
    """A hash over names, permissions and contents."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        mode = path.lstat().st_mode & 0o111
        digest.update(f"{name}\0{mode:o}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def write_initramfs(files: dict[str, Path], result: Path) -> None:
    """Writes a newc archive. It is not compressed: unpacking takes time under emulation, and size does not matter."""
    with tempfile.TemporaryDirectory(prefix="vscaf-initramfs-") as directory:
        root = Path(directory)
        for name in ("dev", "proc", "sys", "run", "tmp", "bin", "root"):
            (root / name).mkdir()
        for name, path in files.items():
            target = root / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target, follow_symlinks=False)
            if not target.is_symlink():
                target.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        with result.open("wb") as archive:
            subprocess.run(
                ["cpio", "--create", "--format=newc", "--owner=0:0", "--reproducible", "--quiet"],
                input="\n".join(names).encode(),
                stdout=archive,
                cwd=root,
                check=True,
            )


def build(output: Path, meson_build: Path | None, install_tree: Path | None, update_kernel: bool) -> Path:
    """Builds what is missing; returns the image's directory.

    Raises ImageError, with the fix, if an input is missing.
    """
    kernel = guest_kernel(output / "kernel", update=update_kernel, say=say)
    with tempfile.TemporaryDirectory(prefix="vscaf-image-") as directory:
        if meson_build is not None:
            say(f"installing {meson_build} for the guest")
            programs = installed_files(meson_build, Path(directory))
        else:
            programs = tree_files(install_tree) if install_tree is not None else {}
        objects = [path for path in programs.values() if not path.is_symlink() and is_elf(path)]
        files = {"/init": HERE / "guest" / "init", "/bin/busybox": busybox()}
        files |= {f"/lib/modules/{path.name}": path for path in sorted(kernel.directory.glob("*.ko"))}
        files |= {"/lib/modules/order": kernel.directory / "order"}
        files |= programs | (shared_libraries(objects) if objects else {})
        files |= verdicts(programs, Path(directory) / ".verdicts")
        name = fingerprint(files | {"vmlinuz": kernel.directory / "vmlinuz", "recipe": Path(__file__)})
        image = output / name
        if image.exists():
            say(f"unchanged: {image}")
        else:
            say("writing the initramfs")
            scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=output))
            write_initramfs(files, scratch / "initrd.img")
            shutil.copy(kernel.directory / "vmlinuz", scratch / "vmlinuz")
            manifest = {"kernel": kernel.release, "package": kernel.package, "files": sorted(files)}
            (scratch / "image.json").write_text(json.dumps(manifest, indent=1) + "\n")
            scratch.chmod(0o755)
            scratch.rename(image)
            say(f"built {image} ({(image / 'initrd.img').stat().st_size / 1e6:.1f} MB initramfs)")
    link = output / f".current-{os.getpid()}"
    link.symlink_to(name)
    link.rename(output / "current")
    images = sorted((path.parent for path in output.glob("*/image.json")), key=lambda path: path.stat().st_mtime)
    for old in [path for path in images if not path.is_symlink() and path.name not in (name, "current")][:-KEPT_IMAGES]:
        shutil.rmtree(old)
    return image


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--meson", type=Path, help="Meson build directory to install into the guest")
    parser.add_argument("--install-tree", type=Path, help="instead of --meson: an installed tree (a DESTDIR)")
    parser.add_argument("--output", type=Path, default=HERE.parent / "build" / "image", help="default: %(default)s")
    parser.add_argument("--update-kernel", action="store_true", help="ask apt for a newer kernel")
    options = parser.parse_args()
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        build(options.output, options.meson, options.install_tree, options.update_kernel)
    except ImageError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
