"""A good host for `vscaf doctor`: made-up files of the kernel, a configuration, and a domain of a real libvirt that
does not run. One thing at a time is then made bad, and the printed command must make it good again."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import libvirt
from vscaf.config import load_config
from vscaf.cpulist import format_cpu_list
from vscaf.doctor.examination import examine, gather
from vscaf.doctor.finding import HOST, Finding, Severity
from vscaf.doctor.report import report

CPUS = "sys/devices/system/cpu"
PAGES = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
METADATA = '<vscaf:partition xmlns:vscaf="https://vscaf.org/xmlns/partition/1"/>'
PORT = "org.vscaf.agent.0"
ACPI = "<features><acpi/></features>"
DOMAIN = """<domain type='{type}'>
  <name>cfd</name>
  <uuid>6d1f2c0e-5b0a-4a3f-9f0e-2f2f7a2b9c11</uuid>
  <metadata>{metadata}</metadata>
  <memory unit='MiB'>64</memory>
  <vcpu placement='static' current='{vcpus}'>{maximum}</vcpu>
  <vcpus>{listed}</vcpus>
  <os><type{machine}>hvm</type></os>
  {acpi}
  <cpu><topology sockets='1' dies='1' cores='{cores}' threads='{threads}'/></cpu>
  <devices>
    <controller type='usb' model='none'/>
    <controller type='virtio-serial' index='0'/>
    <channel type='unix'><source mode='bind'/><target type='virtio' name='{port}'/></channel>
  </devices>
</domain>"""

Severities = dict[tuple[str, str], Severity]


@dataclass
class DoctorHost:
    """`directory`: for its files; commands are run there. `connection`: to the libvirt at *uri*, for the test's own
    changes. `opener`: doctor's way to it. `type`, `machine`: of the domain. `threads`: of a core of the host.
    `processes`: those that the test has started."""

    directory: Path
    uri: str
    connection: Any
    pool: frozenset[int]
    others: frozenset[int]
    type: str
    machine: str = ""
    threads: int = 1
    opener: Callable[[str], Any] = libvirt.openReadOnly
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        others = format_cpu_list(self.others)
        files = {
            "dev/kvm": "",
            "usr/sbin/libvirtd": "",
            "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vmx\n",
            "proc/self/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
            "proc/meminfo": "Hugepagesize:       2048 kB\n",
            "proc/1/status": f"Name:\tsystemd\nVmSize:\t16524 kB\nCpus_allowed_list:\t{others}\n",
            "proc/irq/9/acpi/mark": "",
            "proc/irq/9/effective_affinity_list": f"{others}\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
            f"{CPUS}/isolated": "\n",
            f"{CPUS}/nohz_full": "(null)\n",
            PAGES: "0\n",
        }
        for name, text in files.items():
            self.write(name, text)
        self.configure()
        self.define()

    @property
    def config(self) -> Path:
        return self.directory / "vscaf.toml"

    def write(self, name: str, text: str) -> None:
        """A file of the host's kernel, below the made-up root."""
        path = self.directory / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def configure(self, pool: str | None = None) -> None:
        """Writes the configuration. pool: unset: the good one."""
        text = f'uri = "{self.uri}"\npool = "{pool or format_cpu_list(self.pool)}"\n'
        self.config.write_text(text, encoding="utf-8")

    def define(self, *changes: tuple[str, str], **values: Any) -> None:
        """Defines the good domain with other values, or with these changes of its XML."""
        threads = values.setdefault("threads", self.threads)
        values.setdefault("vcpus", 2)
        maximum = values.setdefault("maximum", 4 * self.threads * -(-len(self.pool) // 4))
        listed = "".join(
            f"<vcpu id='{vcpu}' enabled='{'yes' if vcpu < values['vcpus'] else 'no'}'"
            f" hotpluggable='{'yes' if vcpu else 'no'}'/>"
            for vcpu in range(maximum)
        )
        given = {"type": self.type, "machine": self.machine, "metadata": METADATA, "acpi": ACPI, "port": PORT}
        xml = DOMAIN.format(**{**given, "cores": maximum // threads, "listed": listed, **values})
        for old, new in changes:
            assert old in xml, old
            xml = xml.replace(old, new)
        self.connection.defineXML(xml)

    def findings(self, named: Sequence[str] = ()) -> list[Finding]:
        """What doctor finds. named: domains as on its command line."""

        async def work() -> list[Finding]:
            socket, root = self.directory / "control.sock", self.directory / "root"
            settings = load_config(self.config)
            return examine(await gather(self.config, settings, socket, named, root=root, opener=self.opener))

        return asyncio.run(work())

    def severities(self) -> Severities:
        """The findings that are not ready: (subject, check) -> the worst severity."""
        order = list(Severity)
        worst: Severities = {}
        for one in self.findings():
            if one.severity is not Severity.READY:
                key = one.subject, one.check
                worst[key] = min(one.severity, worst.get(key, one.severity), key=order.index)
        return worst

    def printed_fix(self, subject: str, check: str, named: Sequence[str] = ()) -> str:
        """The command that doctor prints for the problem."""
        (problem,) = [
            one for one in self.findings(named) if (one.subject, one.check, one.severity) == (subject, check, "problem")
        ]
        _, found, fix = click.unstyle(report([problem])).splitlines()[2].partition("fix: ")
        assert found
        return fix

    def run(self, command: str) -> None:
        """Runs a printed command as an operator would: by a shell, with `vscaf` in its PATH."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.directory,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


@dataclass(frozen=True)
class Injection:
    """A problem: the check that finds it, and what makes the good host so. `subject`: whom it is found at."""

    check: str
    inject: Callable[[DoctorHost], None]
    subject: str = "domain cfd"


def on_host(check: str, inject: Callable[[DoctorHost], None]) -> Injection:
    return Injection(check, inject, HOST)


def check_found_and_fixed(host: DoctorHost, problem: Injection, run: Callable[[str], None] | None = None) -> None:
    """Doctor finds no problem at the good host, then exactly the injected one, and all is as before once the command
    that it prints has run. run: unset: by a shell."""
    good = host.severities()
    assert Severity.PROBLEM not in good.values(), good
    problem.inject(host)
    key = problem.subject, problem.check
    new = {one: found for one, found in host.severities().items() if good.get(one) != found}
    assert new == {key: Severity.PROBLEM}, new
    (run or host.run)(host.printed_fix(*key))
    assert host.severities() == good, host.severities()
