"""Two domains of libvirt's test driver with stand-ins for their guests, and the place that `vscaf bench --existing`
makes of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libvirt
import pytest
from vscaf.bench.places.domains import DomainsPlace
from vscaf.bench.places.existing import existing_place
from vscaf.bench.places.no_vm import NoVmStarted
from vscaf.bench.workloads.workload import Workload
from vscaf.hypervisor.libvirt.masks import mask_cpus

from .faults import Faults
from .node import write_node

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
SYS = "/sys/devices/system/cpu"
POOL = [0, 2]
FOUND = {"a": [{2}, {0, 4}], "b": [{0, 2, 4}, {4}, {0}]}  # pins by hand
IN_GUEST = {"a": {0, 1}, "b": {0, 1}}  # b has put its third CPU offline


@dataclass
class ShellGuest:
    """Stands in for a guest: its commands run here, and its CPUs are files."""

    directory: Path
    cpus: int
    online: set[int]
    closed: bool = False
    shows_output: bool = True
    commands: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.directory / "bin").mkdir(parents=True)
        for cpu in range(1, self.cpus):
            (self.directory / f"cpu{cpu}").mkdir()
            (self.directory / f"cpu{cpu}" / "online").write_text(f"{int(cpu in self.online)}\n")

    def now_online(self) -> set[int]:
        files = {cpu: self.directory / f"cpu{cpu}" / "online" for cpu in range(1, self.cpus)}
        return {0} | {cpu for cpu, file in files.items() if file.is_file() and file.read_text().strip() == "1"}

    def install(self, name: str, script: str) -> None:
        path = self.directory / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self, command: str) -> NoVmStarted:
        self.commands.append(command)
        (self.directory / "online").write_text(",".join(map(str, sorted(self.now_online()))) + "\n")
        environment = {"PATH": f"{self.directory / 'bin'}:/usr/bin:/bin"}
        inside = command.replace(SYS, str(self.directory)).replace("/sys/module", str(self.directory / "module"))
        return NoVmStarted(["sh", "-c", inside], self.directory, environment, lambda *_: None)

    def write(self, path: str, content: bytes) -> None:
        Path(path).write_bytes(content)

    def close(self) -> None:
        self.closed = True


class Bench:
    """Two domains with pins of their own, their guests, and the place that a bench makes of them."""

    def __init__(self, directory: Path) -> None:
        self.faults = Faults()
        self.output = directory / "output"
        self.uri = write_node(directory, 4, {name: (len(pins), len(pins)) for name, pins in FOUND.items()})
        self.guests = {
            name: ShellGuest(directory / f"guest-{name}", len(pins), IN_GUEST[name]) for name, pins in FOUND.items()
        }
        connection = self.faults.open(self.uri)
        for name, pins in FOUND.items():
            for vcpu, cpus in enumerate(pins):
                connection.lookupByName(name).pinVcpu(vcpu, tuple(cpu in cpus for cpu in range(8)))
        self.faults.called.clear()

    def channels(self) -> dict[str, Callable[[Any], ShellGuest]]:
        def channel(name: str) -> Callable[[Any], ShellGuest]:
            return lambda domain: self.guests[domain.name()] if domain.name() == name else pytest.fail("another domain")

        return {name: channel(name) for name in FOUND}

    def place(
        self, arrangements: tuple[str, ...] = (), workloads: tuple[Workload, ...] = (), **options: Any
    ) -> AbstractContextManager[DomainsPlace]:
        return existing_place(
            self.uri,
            self.channels(),
            POOL,
            workloads=workloads,
            arrangements=arrangements,
            programs=self.output / "no-programs",
            opener=self.faults.open,
            **{"output": self.output, "control_socket": self.output / "no-daemon.sock", **options},
        )

    def pins(self, name: str) -> list[set[int]]:
        masks = self.faults.real.lookupByName(name).vcpuPinInfo(LIVE)
        return [set(mask_cpus(mask)) for mask in masks]

    def as_found(self) -> bool:
        return all(
            self.pins(name) == FOUND[name] and self.guests[name].now_online() == IN_GUEST[name] for name in FOUND
        )
