"""Reads facts of libvirt and its domains, with calls that change nothing and ask no QEMU."""

from typing import Any
from xml.etree import ElementTree

import libvirt

from vscaf.cpulist import parse_cpu_list
from vscaf.doctor.facts import Definition, DomainXml, LibvirtFacts
from vscaf.doctor.finding import Unknown
from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.capabilities import parse_capabilities
from vscaf.hypervisor.libvirt.domain_xml import AGENT_PORT, agent_channel, parse_description
from vscaf.hypervisor.libvirt.masks import mask_cpus


def read_libvirt(connection: Any) -> LibvirtFacts:
    """What *connection*, which may be one that only reads, says. libvirtError or HypervisorError if it fails.

    A domain that has gone meanwhile is left out. A domain whose XML cannot be read has an Unknown.
    """
    _count, online_map, _online = connection.getCPUMap()
    capabilities = connection.getCapabilities()
    domains = [read for domain in connection.listAllDomains() if (read := _read_domain(domain)) is not None]
    return LibvirtFacts(
        driver=connection.getType(),
        version=connection.getLibVersion(),
        driver_version=_driver_version(connection),
        guest_types=guest_types(capabilities),
        cpus=parse_capabilities(capabilities, mask_cpus(online_map)),
        domains={one.name: one for one in sorted(domains, key=lambda one: one.name)},
    )


def _driver_version(connection: Any) -> int:
    try:
        return int(connection.getVersion())
    except libvirt.libvirtError:  # there is no QEMU whose version could be told, which guest_types shows
        return 0


def guest_types(capabilities: str) -> frozenset[str]:
    """The types of domains in the XML of virConnectGetCapabilities. Empty if no emulator is installed."""
    root = ElementTree.fromstring(capabilities)
    return frozenset(one.attrib["type"] for one in root.iterfind("./guest/arch/domain") if "type" in one.attrib)


def _read_domain(domain: Any) -> DomainXml | None:
    name = domain.name()
    try:
        running, persistent = bool(domain.isActive()), bool(domain.isPersistent())
        now = _definition(domain.XMLDesc())
        next_start = None
        if running and persistent:
            read = _definition(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            next_start = None if isinstance(read, Unknown) else read
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        failed = Unknown(f"libvirt: {error.get_error_message()}")
        return DomainXml(name=name, running=False, persistent=False, now=failed)
    return DomainXml(name=name, running=running, persistent=persistent, now=now, next_start=next_start)


def _definition(xml: str) -> Definition | Unknown:
    try:
        return parse_definition(xml)
    except HypervisorError as error:
        return Unknown(str(error))


def parse_definition(xml: str) -> Definition:
    """The definition in a domain's XML, live or inactive. HypervisorError if it cannot be read."""
    description = parse_description(xml)  # refuses what must not be parsed
    root = ElementTree.fromstring(xml)
    try:
        maximum = int(root.findtext("./vcpu") or 1)
        vcpu = root.find("./vcpu")
        vcpus = int(vcpu.get("current", maximum)) if vcpu is not None else 1
        return Definition(
            description=description,
            vcpus=vcpus,
            maximum=maximum,
            fixed_vcpus=_fixed_vcpus(root, vcpus),
            topology_named=root.find("./cpu/topology") is not None,
            channel=agent_channel(root) is not None,
            wrong_channel=agent_channel(root) is None and _names_channel(root),
            channel_opened=_channel_opened(agent_channel(root)),
            arch=_attribute(root, "./os/type", "arch"),
            machine=_attribute(root, "./os/type", "machine"),
            placement_auto="auto"
            in {_attribute(root, "./vcpu", "placement"), _attribute(root, "./numatune/memory", "placement")},
            emulator_pin=_emulator_pin(root),
            features=_features(root),
            pmu=_pmu(root),
            cpu_mode=_attribute(root, "./cpu", "mode"),
            memory_kib=int(root.findtext("./memory") or 0),
            hugepages_kib=_hugepages_kib(root),
        )
    except (KeyError, ValueError) as error:
        raise HypervisorError(f"the domain's XML cannot be read ({error}): look at `virsh dumpxml`") from error


def _attribute(root: ElementTree.Element, path: str, name: str) -> str | None:
    element = root.find(path)
    return element.get(name) if element is not None else None


def _fixed_vcpus(root: ElementTree.Element, vcpus: int) -> frozenset[int]:
    """libvirt lists vCPUs one by one only if they differ. Those that it does not list are there since the start."""
    listed = root.findall("./vcpus/vcpu")
    if not listed:
        return frozenset(range(1, vcpus))
    fixed = (one for one in listed if one.get("enabled") == "yes" and one.get("hotpluggable") != "yes")
    return frozenset(int(one.attrib["id"]) for one in fixed) - {0}


def _names_channel(root: ElementTree.Element) -> bool:
    return root.find(f"./devices/channel/target[@name='{AGENT_PORT}']") is not None


def _features(root: ElementTree.Element) -> frozenset[str] | None:
    features = root.find("./features")
    return frozenset(one.tag for one in features) if features is not None else None


def _channel_opened(channel: ElementTree.Element | None) -> bool | None:
    state = _attribute(channel, "./target", "state") if channel is not None else None
    return {"connected": True, "disconnected": False}.get(state or "")


def _emulator_pin(root: ElementTree.Element) -> frozenset[int] | None:
    cpus = _attribute(root, "./cputune/emulatorpin", "cpuset")
    return parse_cpu_list(cpus) if cpus is not None else None


def _pmu(root: ElementTree.Element) -> bool | None:
    pmu = root.find("./features/pmu")
    return pmu.get("state", "on") == "on" if pmu is not None else None


def _hugepages_kib(root: ElementTree.Element) -> frozenset[int]:
    hugepages = root.find("./memoryBacking/hugepages")
    if hugepages is None:
        return frozenset()
    return frozenset(int(page.attrib["size"]) for page in hugepages.iterfind("./page")) or frozenset({0})
