"""Guests of a lab: a private libvirtd, and a guest of the vscaf image for each member."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import libvirt

from vscaf.bench.observe.watch import Watch
from vscaf.bench.places.baselines import QUOTA_PERIOD_US, Setting, setting
from vscaf.bench.places.place import Arranged, Ended, PlaceError
from vscaf.bench.workloads.workload import Workload
from vscaf.lab import Command, Guest, LabError, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess

WORKLOADS = "/workloads"
SETTING_DEADLINE_S = 120.0


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
            self.command.kill()


@dataclass
class Unmanaged:
    """Members that no daemon manages."""

    launcher: str = ""
    helpers: Sequence[int] = ()

    def transitions(self) -> int:
        return 0


@dataclass
class Managed:
    """Members that a daemon manages."""

    daemon: DaemonProcess
    launcher: str = "vscaf-run "
    helpers: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        self.helpers = (self.daemon.pid,)

    def transitions(self) -> int:
        return int(self.daemon.status()["transitions"])


class LabPlace:
    """Guests of as many vCPUs as the pool has pCPUs."""

    def __init__(self, lab: PrivateLibvirt, guests: Sequence[Guest], pool: Sequence[int]) -> None:
        self._lab = lab
        self._guests = guests
        self._pool = pool
        self._daemons = 0
        self.members: Sequence[str] = [guest.name for guest in guests]
        self.cpus = len(pool)
        kind = {"kvm": "KVM", "qemu": "QEMU without KVM (TCG)"}[guests[0].domain_type]
        self.description = f"{len(guests)} guests of {self.cpus} vCPUs on {self.cpus} pCPUs, {kind}"

    def _guest(self, member: str) -> Guest:
        return self._guests[self.members.index(member)]

    def start(self, member: str, command: str, environment: Mapping[str, str]) -> LabStarted:
        settings = "".join(f"{name}={shlex.quote(value)} " for name, value in environment.items())
        return LabStarted(self._guest(member).start(f"cd {WORKLOADS} && {settings}exec {command}"))

    @contextmanager
    def arrange(self, arrangement: str, allocations: Sequence[int]) -> Iterator[Arranged]:
        settings = [
            setting(arrangement, self._pool, self.cpus, allocations, number) for number in range(len(self._guests))
        ]
        if all(one is not None for one in settings):
            neutral = setting("unmanaged", self._pool, self.cpus, allocations, 0)
            try:
                for guest, one in zip(self._guests, settings, strict=True):
                    apply(guest, one)
                yield Unmanaged()
            finally:
                for guest in self._guests:
                    apply(guest, neutral)
            return
        self._daemons += 1
        daemon = DaemonProcess(
            self._lab,
            ",".join(map(str, self._pool)),
            {guest.name: {} for guest in self._guests},
            policy=arrangement,
            name=f"{arrangement}-{self._daemons}",
        )
        with daemon:
            yield Managed(daemon)

    def watch(self, helpers: Sequence[int]) -> Watch:
        processes = {guest.name: guest.qemu_pid for guest in self._guests}
        return Watch(self._pool, processes, [self._lab.libvirtd_pid, *helpers])


def apply(guest: Guest, wanted: Setting | None) -> None:
    """Sets a guest's pins, online vCPUs and quota. Raises PlaceError."""
    if wanted is None:
        raise PlaceError("some members would be managed by vscaf and others not")
    host_cpus = max(max(cpus) for cpus in wanted.pins) + 1
    try:
        for vcpu, cpus in enumerate(wanted.pins):
            guest.domain.pinVcpu(vcpu, tuple(cpu in cpus for cpu in range(host_cpus)))
        guest.domain.setSchedulerParametersFlags(
            {
                "vcpu_period": QUOTA_PERIOD_US,
                "vcpu_quota": -1 if wanted.quota_us is None else wanted.quota_us,
            },
            libvirt.VIR_DOMAIN_AFFECT_LIVE,
        )
    except libvirt.libvirtError as error:
        raise PlaceError(f"guest {guest.name}: {error}") from error
    switch = "; ".join(
        f"f=/sys/devices/system/cpu/cpu{cpu}/online; [ $(cat $f) = {int(cpu < wanted.online)} ] || "
        f"echo {int(cpu < wanted.online)} > $f"
        for cpu in range(1, len(wanted.pins))
    )
    done = guest.run(switch or "true", SETTING_DEADLINE_S)
    if done.status != 0:
        raise PlaceError(f"guest {guest.name}: its CPUs could not be switched: {done.text[-300:]}")


def image_with(image: Path, workloads: Sequence[Workload], directory: Path) -> Path:
    """An image of guests that also has the workloads' files, in WORKLOADS. It is made in *directory*.

    The kernel unpacks archives that follow each other, so the files are appended to the image's own.
    """
    if not (image / "initrd.img").exists():
        raise PlaceError(f"there is no guest image in {image}: build it with `make image`, or name one with --image")
    with tempfile.TemporaryDirectory(prefix="vscaf-workloads-") as temporary:
        root = Path(temporary)
        (root / WORKLOADS.lstrip("/")).mkdir()
        for workload in workloads:
            for name, file in workload.files.items():
                target = root / WORKLOADS.lstrip("/") / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    target.write_bytes(file.read_bytes())
                    target.chmod(file.stat().st_mode & 0o777)
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


@contextmanager
def lab_place(
    names: Sequence[str], workloads: Sequence[Workload], image: Path, pool_cpus: int, output: Path
) -> Iterator[LabPlace]:
    """Boots a guest for each name on the first *pool_cpus* CPUs of this process. Raises PlaceError or LabError."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < max(2, pool_cpus):
        raise PlaceError(f"there are {len(cpus)} CPUs, and {max(2, pool_cpus)} are needed: give this machine more")
    pool = cpus[:pool_cpus]
    with ExitStack() as stack:
        lab = stack.enter_context(PrivateLibvirt(logs=output / "logs", cache=Path("build/lab/cache")))
        with_workloads = image_with(image, workloads, lab.directory / "image")
        guests = [
            stack.enter_context(Guest(lab, name, with_workloads, vcpus=pool_cpus, cpuset=",".join(map(str, pool))))
            for name in names
        ]
        yield LabPlace(lab, guests, pool)
