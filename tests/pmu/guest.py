"""A guest with an emulated aarch64 processor and its counters. All that it has is an initramfs.

The kernel, busybox and PAPI come from this Debian's packages for arm64. Its C library and libgomp are those of the
cross compiler.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = Path("/usr/aarch64-linux-gnu/lib")  # of the cross compiler
APT_OPTIONS = """
Dir::State "{directory}";
Dir::State::status "/dev/null";
Dir::Cache "{directory}/cache";
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Sandbox::User "root";
Acquire::Languages "none";
"""
# Virtual time passes by 4 ns with each instruction. QEMU's processor has 1 GHz: 4 cycles.
COUNTING = ["-icount", "shift=2", "-accel", "tcg,thread=single"]
INSTRUCTIONS_PER_CYCLE = 0.25
# Two vCPUs that really run at the same time. Instructions are not counted.
PARALLEL = ["-accel", "tcg,thread=multi"]
HUNG_S = 3600.0


@dataclass(frozen=True)
class Command:
    """A program of this machine's file system, run at the same path in the guest with these variables."""

    name: str
    arguments: list[str]
    environment: dict[str, str]

    @property
    def line(self) -> str:
        """As a line of the shell."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join(["env", *variables, shlex.join(self.arguments)])


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    status: int
    output: str


def _run(command: list[str], cwd: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{shlex.join(command)}` ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def packages(directory: Path) -> Path:
    """The unpacked packages for arm64, downloaded once. This machine's own apt and dpkg do not learn of arm64.

    Raises RuntimeError if a package is missing.
    """
    unpacked = directory / "packages"
    if unpacked.exists():
        return unpacked
    (directory / "apt" / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (directory / "apt" / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (directory / "apt.conf").write_text(APT_OPTIONS.format(directory=directory / "apt"))
    apt = {"APT_CONFIG": str(directory / "apt.conf")}
    _run(["apt-get", "update", "-qq"], directory, apt)
    depends = _run(["apt-cache", "depends", "linux-image-cloud-arm64"], directory, apt)
    kernel = re.search(r"Depends: (linux-image-\d\S+)", depends)
    papi = re.search(r"^libpapi\d\S*", _run(["apt-cache", "pkgnames", "libpapi"], directory, apt), re.MULTILINE)
    if kernel is None or papi is None:
        raise RuntimeError("apt's sources have no kernel or no PAPI for arm64: this needs Debian's mirror")
    with tempfile.TemporaryDirectory(prefix=".packages-", dir=directory) as scratch:
        wanted = [kernel.group(1), papi.group(0), "libpfm4", "busybox-static"]
        _run(["apt-get", "download", "-q", *wanted], Path(scratch), apt)
        root = Path(scratch) / "root"
        for package in Path(scratch).glob("*.deb"):
            _run(["dpkg", "-x", str(package), str(root)], directory, {})
        root.rename(unpacked)
    return unpacked


def _initramfs(unpacked: Path, files: list[Path], commands: list[Command], archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="vscaf-initramfs-") as scratch:
        root = Path(scratch)
        for name in ("bin", "dev", "proc", "sys", "tmp", "lib"):
            (root / name).mkdir()
        shutil.copy(next(unpacked.glob("**/bin/busybox")), root / "bin")
        shutil.copy(HERE / "init", root / "init")
        (root / "init").chmod(0o755)
        for path in [*LIBRARIES.glob("*.so.*"), *unpacked.glob("usr/lib/aarch64-linux-gnu/lib*.so.*")]:
            shutil.copy(path, root / "lib" / path.name, follow_symlinks=False)
        for path in files:
            (root / path.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path.relative_to("/"))
        (root / "commands").write_text("".join(f"{command.name}\t{command.line}\n" for command in commands))
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        with archive.open("wb") as output:
            subprocess.run(
                ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"],
                input="\n".join(names).encode(),
                stdout=output,
                cwd=root,
                check=True,
            )


def run(directory: Path, files: list[Path], commands: list[Command], accelerator: list[str]) -> dict[str, Result]:
    """Boots a guest of two vCPUs, runs the commands one after the other, and returns their results by name.

    `files`: copied into the guest, to the same paths. The guest's console is kept in `directory`/console.log.
    Raises RuntimeError if the guest did not run them all.
    """
    unpacked = packages(directory)
    _initramfs(unpacked, files, commands, directory / "initrd.img")
    kernel = next((unpacked / "boot").glob("vmlinuz-*"))
    qemu = ["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a57", "-smp", "2", "-m", "1024", *accelerator]
    qemu += ["-nodefaults", "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot"]
    qemu += ["-kernel", str(kernel), "-initrd", str(directory / "initrd.img"), "-append", "console=ttyAMA0 quiet"]
    with (directory / "console.log").open("w+b") as console:
        subprocess.run(
            qemu, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, timeout=HUNG_S, check=False
        )
        console.seek(0)
        said = console.read().decode(errors="replace").replace("\r", "")
    if "\ncomplete\n" not in said:
        raise RuntimeError(f"the guest did not run all commands: {said[-2000:]}")
    found = re.findall(r"^begin (.*)\n((?:.*\n)*?)end (\d+)$", said, re.MULTILINE)
    return {name: Result(int(status), output) for name, output, status in found}
