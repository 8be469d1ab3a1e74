"""A Debian guest with Cockpit as operators have it: systemd, the login, sudo with a password, the daemon as a service.

Its daemon works on libvirt's test driver. The image has Debian's packages only, and is kept between runs; what this
tree has is copied into the guest after its boot.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from guests import USER, DebianGuest

REPOSITORY = Path(__file__).resolve().parents[2]
HOST_DAEMON = REPOSITORY / "host-daemon"
SUITE = "trixie"  # the first Debian with all Python packages of the daemon
COCKPIT = 9090
PASSWORD = "a password for this test"
PACKAGES = ["cockpit-ws", "cockpit-bridge", "cockpit-system", "python3-aiohttp", "python3-click", "python3-libvirt"]
PACKAGES += ["python3-msgspec", "python3-numpy", "python3-prometheus-client", "python3-rich"]
CONFIG = """
uri = "test:///default"
pool = "0"
control_read_group = "vscaf"
[domains.test]
"""
COMMAND = '#!/bin/sh\nPYTHONPATH=/opt/vscaf exec python3 -m vscaf "$@"\n'
HANG_S = 1200.0  # an emulated guest on a busy machine
SUDO = f"{USER} ALL=(ALL) ALL\n"


def extend(root: Path) -> None:
    """Installs Cockpit and the daemon's Python packages. Not by debootstrap: it cannot configure them all.

    Scripts of packages read /proc. It is mounted for them alone, and is gone with them.
    """
    (root / "etc/resolv.conf").write_bytes(Path("/etc/resolv.conf").read_bytes())
    with_proc = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", with_proc, root, "apt-get", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"apt-get {command[0]} in the guest's root: {done.stdout}{done.stderr}")


def copies(directory: Path) -> list[Path]:
    """Copies of the two Python projects, because a build writes into its source directory."""
    for name in ("policies", "host-daemon"):
        shutil.copytree(REPOSITORY / name, directory / name)
    for name in ("pyproject.toml", "setup.cfg", "README.md"):
        shutil.copy(REPOSITORY / name, directory)
    return [directory / "policies", directory]


def install(guest: DebianGuest) -> None:
    """Copies the daemon, its unit and the page into the guest, and starts the service. The user then needs a password
    for sudo, as in a new Debian."""
    with tempfile.TemporaryDirectory(prefix="vscaf-install-") as name:
        tree, projects = Path(name) / "tree", Path(name) / "projects"
        tree.mkdir()
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", tree / "opt/vscaf", *copies(projects)], check=True, cwd=tree)
        for path, text in (
            ("usr/local/bin/vscaf", COMMAND),
            ("etc/vscaf/vscaf.toml", CONFIG),
            ("etc/systemd/system/vscaf.service", (HOST_DAEMON / "service/vscaf.service").read_text(encoding="utf-8")),
            *(
                (f"usr/share/cockpit/vscaf/{one.name}", one.read_text(encoding="utf-8"))
                for one in (HOST_DAEMON / "cockpit").iterdir()
            ),
        ):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
        (tree / "usr/local/bin/vscaf").chmod(0o755)
        with subprocess.Popen(["tar", "-C", tree, "-cz", "opt", "usr", "etc"], stdout=subprocess.PIPE) as archive:
            guest.output("sudo tar -C / -xz --no-same-owner --no-overwrite-dir", stdin=archive.stdout)
    guest.output("echo 127.0.1.1 guest | sudo tee -a /etc/hosts")  # sudo asks for this name each time
    guest.output("sudo groupadd --system vscaf && sudo usermod --append --groups vscaf debian")
    guest.output("sudo systemctl daemon-reload && sudo systemctl start vscaf cockpit.socket")
    guest.output(f"echo '{USER}:{PASSWORD}' | sudo chpasswd && echo '{SUDO}' | sudo tee /etc/sudoers.d/debian")


def status(guest: DebianGuest) -> dict[str, Any]:
    """`vscaf status --json` in the guest; empty if no daemon answers."""
    done = guest.ssh("vscaf status --json")
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found
