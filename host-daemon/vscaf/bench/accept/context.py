"""What a part of the acceptance runs in: a lab of its own, guests, daemons, and notes for the report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vscaf.bench.accept.host import Host
from vscaf.bench.accept.part import Deadline, Verdict
from vscaf.cpulist import format_cpu_list
from vscaf.lab import Command, Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.processes import end, read_pid

GRACE_S = 5.0  # after the deadline, for waits that know it
END_S = 2.0
LIBVIRTD_PID = "driver.pid"  # lies beside the files of the guests
BUSY = "NPB_REPEAT=10000 vscaf-run cg.W"  # in a guest: a program that computes until it is ended


@dataclass
class Context:
    """logs: directory of the part's logs and samples. commands, events: for the report; see `Result`."""

    host: Host
    image: Path
    logs: Path
    cache: Path
    deadline: Deadline
    print_line: Callable[[str], None]
    commands: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def lab(self) -> Iterator[PrivateLibvirt]:
        """A private libvirtd. Its guests are ended soon after the deadline, so that nothing waits for them for ever."""
        with PrivateLibvirt(logs=self.logs, cache=self.cache) as lab:
            timer = threading.Timer(self.deadline.left_s() + GRACE_S, end_guests, (lab.directory,))
            timer.daemon = True
            timer.start()
            try:
                yield lab
            finally:
                timer.cancel()

    @contextmanager
    def daemon(
        self,
        lab: PrivateLibvirt,
        pool: Sequence[int],
        domains: Mapping[str, Mapping[str, Any]],
        policy: str,
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[DaemonProcess]:
        """A daemon. Its configuration and its events are noted."""
        daemon = DaemonProcess(lab, format_cpu_list(pool), domains, policy=policy, settings=settings)
        with daemon:
            self.commands.append(f"vscaf daemon with {(daemon.directory / 'vscaf.toml').read_text()}")
            try:
                yield daemon
            finally:
                self.note_events(daemon)

    def note_events(self, daemon: DaemonProcess) -> None:
        """Takes the daemon's events into the report."""
        self.events += daemon.events()

    def start(self, guest: Guest, command: str) -> Command:
        """Starts a shell command in a guest, and notes it."""
        self.commands.append(f"in {guest.name}: {command}")
        return guest.start(command)


@dataclass(frozen=True)
class Part:
    """A part of the acceptance. budget_s: how long it may take. obstacle: why this host cannot show it; None: it can.
    run: its work; what it raises counts as failed."""

    name: str
    shows: str
    budget_s: float
    obstacle: Callable[[Host], str | None]
    run: Callable[[Context], Verdict]


def end_guests(lab: Path) -> None:
    """Ends QEMU of each guest of the lab in this directory."""
    for file in (lab / "run" / "qemu").glob("*.pid"):
        pid = read_pid(file)
        if pid is not None and file.name != LIBVIRTD_PID:
            end(pid, END_S)
