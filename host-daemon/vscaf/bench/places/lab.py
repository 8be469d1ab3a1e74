"""Guests of a lab: a private libvirtd, and a guest of the vscaf image for each member."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libvirt

from vscaf.bench.places.domains import DomainsPlace, check_policies
from vscaf.bench.places.options import MEMORY_MIB
from vscaf.bench.places.own_pool import own_pool
from vscaf.bench.places.place import Ended, PlaceError
from vscaf.bench.workloads.workload import Workload
from vscaf.lab import Command, Guest, LabError, PrivateLibvirt

WORKLOADS = "/workloads"
# The pool may have a part of a core, which a daemon refuses otherwise, or be one core, which it never splits otherwise.
DAEMON_SETTINGS = {"smt": "thread"}
# The guest's /init starts an agent again and again unless this file exists.
_AGENT_OFF = "touch /run/vscaf/agent.off; killall -q vscaf-agent; while pidof vscaf-agent; do usleep 10000; done"
_AGENT_ON = "rm -f /run/vscaf/agent.off; until pidof vscaf-agent; do usleep 10000; done"


@dataclass
class LabStarted:
    """A command in a guest."""

    command: Command

    def wait(self, timeout_s: float) -> Ended:
        try:
            done = self.command.wait(timeout_s)
        except LabError as error:
            raise PlaceError(str(error)) from None
        return Ended(done.status, done.text, self.command.pieces())

    def kill(self) -> None:
        if not self.command.done():
            with suppress(LabError):  # the guest is gone, and so is the command
                self.command.kill()


class LabMember:
    """A guest of the lab."""

    directory = WORKLOADS

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self.name = guest.name
        self.vcpus: Sequence[int] = range(guest.vcpus)
        self.cpus: Sequence[int] = self.vcpus

    @property
    def domain(self) -> Any:
        return self._guest.domain

    @property
    def qemu_pid(self) -> int:
        return self._guest.qemu_pid

    def use_agent(self, running: bool) -> None:
        try:
            done = self._guest.run(_AGENT_ON if running else _AGENT_OFF)
        except TimeoutError as error:
            raise PlaceError(f"guest {self.name}: its agent could not be switched: {error}") from None
        if done.status != 0:
            raise PlaceError(f"guest {self.name}: its agent could not be switched: {done.text[-300:]}")

    def clock_ahead_s(self) -> float | None:
        try:
            return self._guest.clock_offset().seconds
        except (LabError, TimeoutError) as error:
            raise PlaceError(f"the clock of guest {self.name} could not be read: {error}") from None

    def start(self, command: str) -> LabStarted:
        try:
            return LabStarted(self._guest.start(command))
        except LabError as error:
            raise PlaceError(str(error)) from None


def image_with(image: Path, workloads: Sequence[Workload], directory: Path) -> Path:
    """An image of guests that also has the workloads' files, in WORKLOADS. It is made in *directory* if there are any.

    The kernel unpacks archives that follow each other, so the files are appended to the image's own.
    """
    if not (image / "initrd.img").exists():
        raise PlaceError(f"there is no guest image in {image}: build it with `make image`, or name one with --image")
    if not any(workload.files for workload in workloads):
        return image
    with tempfile.TemporaryDirectory(prefix="vscaf-workloads-") as temporary:
        root = Path(temporary)
        (root / WORKLOADS.lstrip("/")).mkdir()
        for workload in workloads:
            workload.copy_files(root / WORKLOADS.lstrip("/"))
        names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        try:
            archive = subprocess.run(
                ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"],
                input="\n".join(names).encode(),
                stdout=subprocess.PIPE,
                cwd=root,
                check=True,
            ).stdout
        except FileNotFoundError:
            raise PlaceError("the command cpio is missing: install the package cpio") from None
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "initrd.img").write_bytes((image / "initrd.img").read_bytes() + archive)
    kernel = directory / "vmlinuz"
    kernel.unlink(missing_ok=True)
    kernel.symlink_to((image / "vmlinuz").resolve())
    return directory


def _boot(stack: ExitStack, guest: Guest) -> Guest:
    """Boots a guest, which is ended with the stack. Raises PlaceError if it does not start or answer in time."""
    try:
        return stack.enter_context(guest)
    except TimeoutError as error:
        raise PlaceError(f"guest {guest.name} did not boot: {error}") from None
    except libvirt.libvirtError as error:
        raise PlaceError(
            f"guest {guest.name} could not be started: {error}: if the host has too little memory for all guests, give "
            "a smaller --memory"
        ) from None


@contextmanager
def lab_place(
    names: Sequence[str],
    workloads: Sequence[Workload],
    arrangements: Sequence[str],
    image: Path,
    output: Path,
    *,
    pool_cpus: int,
    memory_mib: int = MEMORY_MIB,
) -> Iterator[DomainsPlace]:
    """Boots a guest for each name on *pool_cpus* CPUs of this process. memory_mib: of each guest.

    Raises PlaceError or LabError, UsageError for an unknown arrangement.
    """
    check_policies(arrangements)
    pool = own_pool(pool_cpus)
    with ExitStack() as stack:
        lab = stack.enter_context(PrivateLibvirt(logs=output / "logs", cache=Path("build/lab/cache")))
        with_workloads = image_with(image, workloads, lab.directory / "image")
        guests = [
            _boot(
                stack,
                Guest(
                    lab,
                    name,
                    with_workloads,
                    vcpus=pool_cpus,
                    memory_mib=memory_mib,
                    cpuset=",".join(map(str, pool)),
                ),
            )
            for name in names
        ]
        kind = {"kvm": "KVM", "qemu": "QEMU without KVM (TCG)"}[guests[0].domain_type]
        description = f"{len(guests)} guests of {pool_cpus} vCPUs on {pool_cpus} pCPUs, {kind}"
        place = DomainsPlace(
            [LabMember(guest) for guest in guests],
            pool,
            lab,
            description,
            helpers=[lab.libvirtd_pid],
            settings=DAEMON_SETTINGS,
        )
        place.refuse_unless_possible(arrangements)
        yield place
