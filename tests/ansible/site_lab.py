"""A host and two guests for the playbooks: this machine's own system, a private libvirtd, and Debian guests.

The host is an overlay over this machine's files, by chroot. What is installed there is gone at the end, and the machine
itself is not changed. Needs root, and a mount namespace of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from guests import DebianGuest
from roots import by_chroot, overlay
from vscaf.lab import PrivateLibvirt
from vscaf.lab.polling import until
from vscaf.lab.private_libvirt import BINDS
from vscaf.lab.processes import end_child, signals_exit

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PROBE = Path(os.environ.get("VSCAF_IMAGE", BUILD / "image" / "current"))
IMAGES = BUILD / "ansible-guests"
GUESTS = {"cfd": "bookworm", "chemistry": "trixie"}
PATIENCE_S = 30.0
HANG_S = 7200.0


@dataclass
class Site:
    """`host`: the root directory of the host. `guests`: by the names of their domains."""

    lab: PrivateLibvirt
    host: Path
    guests: Mapping[str, DebianGuest] = field(default_factory=dict)
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def inventory(self) -> dict[str, Any]:
        """That of ansible/inventory/example.yml, with these machines."""
        example = yaml.safe_load((ROOT / "ansible/inventory/example.yml").read_text(encoding="utf-8"))
        here = {
            **by_chroot(self.host),
            "vscaf_domain_list": [{"name": name, "maximum_vcpus": 2, "min": 1} for name in self.guests],
            "vscaf_domain_power_cycle": True,
            "vscaf_domain_power_cycle_timeout_s": 1200,
            "vscaf_host_service": "none",
            "vscaf_host_pool": "0-1",
        }
        return {
            "vscaf_hosts": {"hosts": {"here": here}},
            "vscaf_guests": {"hosts": {name: guest.inventory for name, guest in self.guests.items()}},
            "all": example["all"],
        }

    def run(self, *command: str) -> str:
        """The output of a command on the host."""
        done = subprocess.run(["chroot", self.host, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def start_daemon(self) -> None:
        """Starts the daemon as one does without systemd."""
        with (self.lab.logs / "vscaf.log").open("ab") as log:
            command = ["chroot", self.host, "vscaf", "daemon", "--config", "/etc/vscaf/vscaf.toml"]
            self.daemon = subprocess.Popen(command, stdout=log, stderr=log)


@contextmanager
def a_site(directory: Path, names: Mapping[str, str] = GUESTS, lower: Path = Path("/")) -> Iterator[Site]:
    """The host and guests that run. `names`: the Debian of each guest. `lower`: the host's system before."""
    with ExitStack() as stack:
        lab = stack.enter_context(PrivateLibvirt(logs=directory / "logs", cache=BUILD / "lab" / "cache"))
        # The host has the lab's libvirtd as its own, with the sockets of the guests' channels.
        libvirt = {BINDS[name]: lab.directory / name for name in ("run", "lib")}
        site = Site(lab, stack.enter_context(overlay(lower, directory / "host", libvirt)))
        stack.callback(lambda: site.daemon and end_child(site.daemon, PATIENCE_S))
        for name, suite in names.items():
            guest = stack.enter_context(DebianGuest(lab, name, IMAGES, suite, PROBE))
            site.guests = {**site.guests, name: guest}
        for guest in site.guests.values():
            guest.wait()
        yield site


def domains(site: Site) -> dict[str, dict[str, Any]]:
    """The domains in `vscaf status --json`, by name."""
    return {domain["name"]: domain for domain in json.loads(site.run("vscaf", "status", "--json"))["domains"]}


def wait(site: Site, condition: Callable[[dict[str, dict[str, Any]]], bool]) -> None:
    """Waits until the condition is true for `domains`."""
    log = site.lab.logs / "vscaf.log"
    until(lambda: condition(domains(site)), lambda: f"{domains(site)}\n{log.read_text()[-3000:]}", HANG_S, poll_s=2)


def main() -> None:
    """site_lab.py DIRECTORY: a site until SIGTERM. DIRECTORY has `pid` meanwhile, and `inventory.yml` once it is up."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    pid, inventory = directory / "pid", directory / "inventory.yml"
    pid.write_text(f"{os.getpid()}\n", encoding="utf-8")
    try:
        with signals_exit(), tempfile.TemporaryDirectory(dir=directory) as scratch, a_site(Path(scratch)) as site:
            whole = directory / ".inventory"
            whole.write_text(json.dumps(site.inventory), encoding="utf-8")
            whole.rename(inventory)
            signal.pause()
    finally:
        inventory.unlink(missing_ok=True)
        pid.unlink()


if __name__ == "__main__":
    main()
