"""What vscaf reads of a domain's live description (virDomainGetXMLDesc), which needs no answer of its QEMU."""

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from vscaf.cpulist import parse_cpu_list
from vscaf.errors import HypervisorError
from vscaf.hypervisor.metadata import BadRules, parse_rules
from vscaf.hypervisor.values import Rules

AGENT_PORT = "org.vscaf.agent.0"
MOST_CHARACTERS = 4 * 1024 * 1024  # libvirt's own limit of a string on the wire


@dataclass(frozen=True, slots=True)
class Description:
    """A domain's live description.

    `enabled`: the numbers of the plugged vCPUs where they are listed one by one, else None (then 0 to count - 1).
    `vcpu_pins`: those set for single vCPUs, plugged or not. `iothread_pins`: of each I/O thread by its id, None: unset.
    `cpuset`: where all that has no pin of its own may run, None: everywhere.
    """

    accelerated: bool
    agent_socket: str | None
    home_nodes: frozenset[int]
    enabled: frozenset[int] | None
    vcpu_pins: Mapping[int, frozenset[int]]
    iothread_pins: Mapping[int, frozenset[int] | None]
    cpuset: frozenset[int] | None
    rules: Rules | None
    rules_error: str | None


def parse_description(xml: str) -> Description:
    """The description in *xml*. HypervisorError where it is none. Bad rules are a sentence in `rules_error`.

    libvirt writes this text itself, but parts of it came from whoever defined the domain. A document type, which
    libvirt never writes, is refused: so no entity is ever expanded.
    """
    if len(xml) > MOST_CHARACTERS or "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        raise HypervisorError("the domain's XML is too long or declares a document type: look at `virsh dumpxml`")
    try:
        root = ElementTree.fromstring(xml)
        rules, rules_error = None, None
        try:
            rules = parse_rules(root.find("./metadata"))
        except BadRules as error:
            rules_error = str(error)
        vcpu = root.find("./vcpu")
        each = root.findall("./vcpus/vcpu")
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
            enabled=frozenset(int(one.attrib["id"]) for one in each if one.get("enabled") == "yes") if each else None,
            vcpu_pins={
                int(pin.attrib["vcpu"]): parse_cpu_list(pin.attrib["cpuset"])
                for pin in root.iterfind("./cputune/vcpupin")
            },
            iothread_pins={one: pins.get(one) for one in ids or range(1, int(count or 0) + 1)},
            cpuset=parse_cpu_list(vcpu.attrib["cpuset"]) if vcpu is not None and "cpuset" in vcpu.attrib else None,
            rules=rules,
            rules_error=rules_error,
        )
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise HypervisorError(f"the domain's XML cannot be read ({error}): look at `virsh dumpxml`") from error


def _agent_socket(root: ElementTree.Element) -> str | None:
    for channel in root.iterfind("./devices/channel"):
        target, source = channel.find("target"), channel.find("source")
        if target is not None and target.get("name") == AGENT_PORT and channel.get("type") == "unix":
            return source.get("path") if source is not None else None
    return None
