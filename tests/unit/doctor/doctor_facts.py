"""A good host with a good domain, as facts, and changes of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from vscaf.config import Config
from vscaf.doctor.facts import DomainXml, HostFacts, Irq, LibvirtFacts, NoLibvirt, Process, SystemFacts
from vscaf.doctor.facts_domain import parse_definition
from vscaf.doctor.finding import Unknown
from vscaf.values import HostCpus

DOMAIN = """<domain type='kvm'>
  <name>cfd</name>
  <metadata><vscaf:partition xmlns:vscaf="https://vscaf.org/xmlns/partition/1" max="4"/></metadata>
  <memory unit='KiB'>4194304</memory>
  <vcpu placement='static' current='2'>4</vcpu>
  <vcpus>
    <vcpu id='0' enabled='yes' hotpluggable='no' order='1'/>
    <vcpu id='1' enabled='yes' hotpluggable='yes' order='2'/>
    <vcpu id='2' enabled='no' hotpluggable='yes'/>
    <vcpu id='3' enabled='no' hotpluggable='yes'/>
  </vcpus>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <features><acpi/><pmu state='on'/></features>
  <cpu mode='host-passthrough'><topology sockets='1' dies='1' cores='4' threads='1'/></cpu>
  <devices>
    <channel type='unix'>
      <source mode='bind' path='/run/libvirt/cfd'/>
      <target type='virtio' name='org.vscaf.agent.0' state='connected'/>
    </channel>
  </devices>
</domain>"""

SYSTEM = SystemFacts(
    kvm_device=True,
    libvirt_daemons=("libvirtd",),
    cpu_flags=frozenset({"fpu", "vmx"}),
    controllers=frozenset({"cpu", "cpuset", "memory"}),
    isolated=frozenset(),
    nohz_full=frozenset(),
    irqs=(Irq(1, frozenset({0})), Irq(24, frozenset({0, 1}))),
    processes=(
        Process(1, "systemd", frozenset({0, 1})),
        Process(700, "sshd", frozenset({1})),
        Process(900, "qemu-system-x86", frozenset(range(8))),
    ),
    tuned_profile="virtual-host",
    pinning_hooks=(),
    pacemaker=(),
    hugepages={0: {2048: 0}, 1: {2048: 0}},
    default_hugepage_kib=2048,
)

CPUS = HostCpus(
    online=frozenset(range(8)),
    cores=tuple(frozenset({cpu}) for cpu in range(8)),
    node_of={cpu: cpu // 4 for cpu in range(8)},
)


def status(**changes: Any) -> dict[str, Any]:
    """The daemon's status, of which doctor needs only this. *changes* are those of the domain."""
    domain = {"name": "cfd", "state": "cooperating", "why": "", "agent": "connected", "steal_governor": False}
    return {
        "policy": "max-speedup-fitted",
        "violations": [],
        "domains": [{**domain, "agent_version": "vscaf-agent 0.1.0", **changes}],
    }


def domain(
    name: str = "cfd", xml: str = DOMAIN, *, running: bool = True, persistent: bool = True, later: str | None = None
) -> DomainXml:
    """A domain with this XML now and, if it runs, *later* (unset: the same) at its next start."""
    next_start = parse_definition(xml if later is None else later) if running and persistent else None
    return DomainXml(
        name=name, running=running, persistent=persistent, now=parse_definition(xml), next_start=next_start
    )


def host(
    *domains: DomainXml,
    settings: Mapping[str, Any] | Unknown | None = None,
    system: Mapping[str, Any] | None = None,
    virt: Mapping[str, Any] | NoLibvirt | None = None,
    **changes: Any,
) -> HostFacts:
    """The good host with these domains (unset: the good one) and these changes."""
    shown = {one.name: one for one in domains or (domain(),)}
    libvirt: Any = virt
    if not isinstance(virt, NoLibvirt):
        values: dict[str, Any] = {
            "driver": "QEMU",
            "version": 9_000_000,
            "driver_version": 7_002_000,
            "guest_types": frozenset({"kvm", "qemu"}),
            "cpus": CPUS,
            "domains": shown,
        }
        libvirt = LibvirtFacts(**{**values, **(virt or {})})
    config = settings if isinstance(settings, Unknown) else msgspec.convert({"pool": "2-7", **(settings or {})}, Config)
    facts: dict[str, Any] = {
        "config_file": "/etc/vscaf/vscaf.toml",
        "config_found": True,
        "config": config,
        "system": replace(SYSTEM, **(system or {})),
        "libvirt": libvirt,
        "status": status(),
    }
    return HostFacts(**{**facts, **changes})
