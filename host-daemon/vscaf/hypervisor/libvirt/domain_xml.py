"""Reads a domain's live description (virDomainGetXMLDesc). libvirt gives it without asking the domain's QEMU."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree import ElementTree

from vscaf.cpulist import parse_cpu_list
from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.metadata import BadRules, parse_rules
from vscaf.values import GuestCell, GuestTopology, MetadataRules

AGENT_PORT = "org.vscaf.agent.0"
MOST_CHARACTERS = 4 * 1024 * 1024  # libvirt's own limit for a string in its protocol
# Everything that may come before the root element or a document type: white space, processing instructions, comments.
PROLOG = re.compile(r"\ufeff?(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Description:
    """A domain's live description.

    `enabled`: the numbers of the plugged vCPUs if they are listed one by one, else None (they are 0 to count - 1).
    `enabled_order`: the position of each in the order in which they were enabled, if it is listed.
    `vcpu_pins`: pins set for single vCPUs, plugged or not. `iothread_pins`: the pin of each I/O thread by id; None:
    unset. `cpuset`: where every thread without a pin of its own may run; None: everywhere.
    """

    accelerated: bool
    agent_socket: str | None
    home_nodes: frozenset[int]
    enabled: frozenset[int] | None
    vcpu_pins: Mapping[int, frozenset[int]]
    iothread_pins: Mapping[int, frozenset[int] | None]
    cpuset: frozenset[int] | None
    rules: MetadataRules | None
    rules_error: str | None
    topology: GuestTopology = field(default_factory=GuestTopology)
    enabled_order: Mapping[int, int] = field(default_factory=dict)


def parse_description(xml: str) -> Description:
    """The description in *xml*. HypervisorError if it cannot be read. Bad rules are reported in `rules_error`.

    libvirt writes this text, but parts of it come from the user who defined the domain. A document type, which
    libvirt never writes, is refused before parsing, so that no entity is ever expanded.
    """
    prolog = PROLOG.match(xml)
    if len(xml) > MOST_CHARACTERS or (prolog is not None and xml.startswith("<!", prolog.end())):
        raise HypervisorError("the domain's XML is too long or declares a document type: look at `virsh dumpxml`")
    try:
        root = ElementTree.fromstring(xml)
        rules, rules_error = None, None
        try:
            rules = parse_rules(root.find("./metadata"))
        except BadRules as error:
            rules_error = str(error)
        vcpu = root.find("./vcpu")
        vcpu_elements = root.findall("./vcpus/vcpu")
        pins = {
            int(pin.attrib["iothread"]): parse_cpu_list(pin.attrib["cpuset"])
            for pin in root.iterfind("./cputune/iothreadpin")
        }
        ids = [int(one.attrib["id"]) for one in root.iterfind("./iothreadids/iothread")]
        count = root.findtext("./iothreads")
        return Description(
            accelerated=root.get("type") != "qemu",
            agent_socket=_agent_socket(root),
            home_nodes=frozenset[int]().union(
                *(
                    parse_cpu_list(memory.get("nodeset") or "")
                    for path in ("memory", "memnode")
                    for memory in root.iterfind(f"./numatune/{path}")
                )
            ),
            enabled=frozenset(int(one.attrib["id"]) for one in vcpu_elements if one.get("enabled") == "yes")
            if vcpu_elements
            else None,
            vcpu_pins={
                int(pin.attrib["vcpu"]): parse_cpu_list(pin.attrib["cpuset"])
                for pin in root.iterfind("./cputune/vcpupin")
            },
            iothread_pins={one: pins.get(one) for one in ids or range(1, int(count or 0) + 1)},
            cpuset=parse_cpu_list(vcpu.attrib["cpuset"]) if vcpu is not None and "cpuset" in vcpu.attrib else None,
            rules=rules,
            rules_error=rules_error,
            topology=_topology(root),
            enabled_order={
                int(one.attrib["id"]): int(one.attrib["order"])
                for one in vcpu_elements
                if one.get("enabled") == "yes" and "order" in one.attrib
            },
        )
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise HypervisorError(f"the domain's XML cannot be read ({error}): look at `virsh dumpxml`") from error


def _topology(root: ElementTree.Element) -> GuestTopology:
    """The CPU topology that the guest sees. Without a <topology> each vCPU is a core."""
    shown = root.find("./cpu/topology")
    memory = {
        int(node.attrib["cellid"]): parse_cpu_list(node.get("nodeset") or "")
        for node in root.iterfind("./numatune/memnode")
    }
    cells = [
        GuestCell(parse_cpu_list(cell.attrib["cpus"]), memory.get(int(cell.get("id", index)), frozenset()))
        for index, cell in enumerate(root.iterfind("./cpu/numa/cell"))
        if cell.get("cpus")  # a cell may have only memory
    ]
    return GuestTopology(max(1, int(shown.get("threads", 1)) if shown is not None else 1), tuple(cells))


def agent_channel(root: ElementTree.Element) -> ElementTree.Element | None:
    """The <channel> of the agent in a domain's XML, live or inactive. None: there is none that the daemon can use."""
    for channel in root.iterfind("./devices/channel"):
        target, source = channel.find("target"), channel.find("source")
        if target is not None and target.get("name") == AGENT_PORT and channel.get("type") == "unix":
            # With mode="connect", the path belongs to another program's server.
            return channel if source is None or source.get("mode") != "connect" else None
    return None


def _agent_socket(root: ElementTree.Element) -> str | None:
    channel = agent_channel(root)
    source = channel.find("source") if channel is not None else None
    return source.get("path") if source is not None else None
