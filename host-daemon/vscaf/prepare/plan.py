"""What a domain lacks to be partitioned, and its definition with that: a pure function from XML to XML."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from xml.etree import ElementTree

from vscaf.cpulist import format_cpu_list
from vscaf.errors import HypervisorError, UsageError
from vscaf.hypervisor.libvirt.domain_xml import AGENT_PORT
from vscaf.hypervisor.libvirt.machine_types import plugs_vcpus
from vscaf.hypervisor.libvirt.metadata import NAMESPACE, BadRules, parse_rules
from vscaf.prepare.record import PARTITION, PARTITION_ELEMENT, difference, revert, with_metadata, with_record
from vscaf.prepare.xml_edit import Document, Element, element_text

CHANNEL_ELEMENT = f"<channel type='unix'>\n  <target type='virtio' name='{AGENT_PORT}'/>\n</channel>"
CONTROLLER_ELEMENT = "<controller type='virtio-serial' index='0'/>"
LEVELS = ("sockets", "dies", "clusters", "cores", "threads")  # of <topology>; their product is the number of vCPUs


class Kind(StrEnum):
    """What a change is about."""

    MAXIMUM = "maximum"
    PLUGGABLE = "pluggable"
    TOPOLOGY = "topology"
    CHANNEL = "channel"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a definition, in words.

    `restart_needed`: a running domain cannot take it; it has to be shut down and started.
    """

    kind: Kind
    what: str
    restart_needed: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """A definition that lacks nothing, how it differs from the one before, and what the operator should know.

    `maximum`: the vCPU maximum.
    """

    xml: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    maximum: int


def plan(xml: str, maximum: int | None = None) -> Plan:
    """The persistent definition *xml* with all that vscaf needs, and with the record of the changes in its metadata.

    maximum: the vCPU maximum that is wanted; it is never lowered. Without a change the text is the same. UsageError if
    the domain cannot be prepared, HypervisorError if the text cannot be read.
    """
    document = Document(xml)
    try:
        cpus = _Cpus(document.root, maximum)
        _refuse(xml, document.root, cpus)
        changes = missing(xml, maximum)
        kinds = {change.kind for change in changes}
        _edit(document, cpus, kinds)
        notes = tuple(_notes(document.root, cpus, maximum))
    except ValueError as error:
        raise HypervisorError(f"the domain's XML cannot be read ({error}): look at `virsh dumpxml`") from error
    if not changes:
        return Plan(xml, (), notes, cpus.wanted)
    text = document.edited()
    if Kind.METADATA in kinds:
        text = with_metadata(text, PARTITION, PARTITION_ELEMENT)
    # What an earlier prepare changed stays in the record.
    return Plan(with_record(text, difference(revert(xml).xml, text)), changes, notes, cpus.wanted)


def missing(xml: str, maximum: int | None = None) -> tuple[Change, ...]:
    """What a domain's definition lacks, persistent or live, with a vCPU maximum of at least *maximum*.

    HypervisorError if the text cannot be read.
    """
    root = Document(xml).root
    try:
        cpus = _Cpus(root, maximum)
        topology = _topology(root)
        changes = []
        if cpus.wanted > cpus.found:
            changes.append(Change(Kind.MAXIMUM, f"at most {cpus.wanted} vCPUs instead of {cpus.found}", True))
        if cpus.fixed and cpus.obstacle is None:
            which = format_cpu_list(cpus.fixed)
            changes.append(Change(Kind.PLUGGABLE, f"vCPUs that can be unplugged (hotpluggable='yes'): {which}", True))
        if topology is not None and prod(topology.values()) != cpus.wanted:
            words = ", ".join(f"{level} {count}" for level, count in fitting(topology, cpus.wanted).items())
            changes.append(Change(Kind.TOPOLOGY, f"a CPU topology of {cpus.wanted} vCPUs: {words}", True))
    except ValueError as error:
        raise HypervisorError(f"the domain's XML cannot be read ({error}): look at `virsh dumpxml`") from error
    if not _agent_channels(root):
        # A channel can be attached where its controller is there already.
        with_controller = "" if _has_controller(root) else ", with a virtio-serial controller"
        changes.append(Change(Kind.CHANNEL, f"a channel {AGENT_PORT}{with_controller}", bool(with_controller)))
    metadata = root.first("metadata")
    if metadata is None or not any(child.name.startswith(f"{{{NAMESPACE}}}") for child in metadata.children):
        changes.append(Change(Kind.METADATA, "metadata: vscaf manages this domain", False))
    return tuple(changes)


def fitting(topology: Mapping[str, int], vcpus: int) -> dict[str, int]:
    """A topology of *vcpus* vCPUs: the same with another number of cores, else one socket of cores with one thread.

    So no vCPU becomes a thread of another's core that was none.
    """
    others = prod(count for level, count in topology.items() if level != "cores")
    if vcpus % others == 0:
        return {**topology, "cores": vcpus // others}
    return {level: vcpus if level == "cores" else 1 for level in topology}


class _Cpus:
    """The vCPUs of a definition. ValueError if they cannot be read.

    `found`, `wanted`: the vCPU maximum. `current`: vCPUs at the start. `states`: the attributes of the vCPUs that are
    listed one by one. `fixed`: vCPUs at the start that cannot be unplugged, without vCPU 0, which never can.
    `obstacle`: why vCPUs cannot be plugged at all.
    """

    def __init__(self, root: Element, maximum: int | None) -> None:
        element = root.first("vcpu")
        if element is None:
            raise ValueError("it has no <vcpu>")
        self.element = element
        self.found = int(element.text)
        self.wanted = max(self.found, maximum or self.found)
        self.current = int(element.attributes.get("current", self.found))
        self.states = {int(one.attributes.get("id", "")): one.attributes for one in root.all("vcpus", "vcpu")}
        enabled = [number for number, one in self.states.items() if one.get("enabled") == "yes"]
        self.fixed = [
            number
            for number in (sorted(enabled) if self.states else range(self.current))
            if number > 0 and self.states.get(number, {}).get("hotpluggable") != "yes"
        ]
        self.obstacle = _obstacle(root)

    def vcpu_text(self) -> str:
        """<vcpu> with the wanted maximum; as many as before at the start."""
        attributes = {**self.element.attributes, "current": self.current}
        return element_text("vcpu", attributes, str(self.wanted))

    def vcpus_text(self) -> str:
        """<vcpus> with each vCPU; all but vCPU 0 can be unplugged."""
        rows = []
        for number in range(self.wanted):
            enabled = "yes" if not self.states and number < self.current else "no"
            before = self.states.get(number, {"id": str(number), "enabled": enabled})
            rows.append(element_text("vcpu", {**before, "hotpluggable": "yes" if number else "no"}))
        return "\n".join(["<vcpus>", *(f"  {row}" for row in rows), "</vcpus>"])


def _edit(document: Document, cpus: _Cpus, kinds: set[Kind]) -> None:
    root = document.root
    if Kind.MAXIMUM in kinds:
        document.replace(cpus.element, cpus.vcpu_text())
    if Kind.PLUGGABLE in kinds:
        listed = root.first("vcpus")
        if listed is not None:
            document.replace(listed, document.indented(cpus.vcpus_text(), listed))
        else:
            document.insert_after(cpus.element, cpus.vcpus_text())
    shown = root.first("cpu", "topology")
    topology = _topology(root)
    if Kind.TOPOLOGY in kinds and shown is not None and topology is not None:
        attributes = {**shown.attributes, **fitting(topology, cpus.wanted)}
        document.replace(shown, element_text("topology", attributes))
    if Kind.CHANNEL in kinds:
        new = [CHANNEL_ELEMENT] if _has_controller(root) else [CONTROLLER_ELEMENT, CHANNEL_ELEMENT]
        devices = root.first("devices")
        if devices is not None:
            document.append(devices, *new)
        else:
            inside = "\n".join(new).replace("\n", "\n  ")
            document.append(root, f"<devices>\n  {inside}\n</devices>")


def _refuse(xml: str, root: Element, cpus: _Cpus) -> None:
    """UsageError if the domain lacks something that prepare does not change."""
    if cpus.wanted > cpus.found and cpus.obstacle is not None:
        raise UsageError(
            f"a maximum of {cpus.wanted} vCPUs is above the present {cpus.found}, but {cpus.obstacle}: run prepare "
            "without --maximum and --pool, and vscaf uses the vCPUs that it has"
        )
    cells = [cell for cell in root.all("cpu", "numa", "cell") if cell.attributes.get("cpus")]
    if cpus.wanted > cpus.found and cells:
        raise UsageError(
            f"the guest has NUMA cells, and prepare cannot know to which of them vCPUs {cpus.found}-{cpus.wanted - 1} "
            "belong: set <vcpu> and <cpu><numa> by `virsh edit`, then run prepare without --maximum and --pool"
        )
    for channel in _agent_channels(root):
        source = channel.first("source")
        if channel.attributes.get("type") != "unix" or (
            source is not None and source.attributes.get("mode") == "connect"
        ):
            raise UsageError(
                f"the channel {AGENT_PORT} is not a UNIX socket on which QEMU listens (type='unix', mode='bind'), so "
                "the daemon cannot use it: remove it by `virsh edit`, then run prepare again"
            )
    try:
        parse_rules(ElementTree.fromstring(xml).find("./metadata"))
    except BadRules as error:
        raise UsageError(f"{error}: correct it by `virsh metadata`, then run prepare again") from error


def _notes(root: Element, cpus: _Cpus, maximum: int | None) -> list[str]:
    notes = []
    if maximum is not None and maximum < cpus.found:
        notes.append(f"the maximum of {cpus.found} vCPUs is above {maximum}; prepare never lowers it")
    if cpus.obstacle is not None:
        notes.append(f"{cpus.obstacle}; vscaf uses the {cpus.current} vCPUs that it starts with")
    elif cpus.wanted == 1:
        notes.append("it has one vCPU at most, so vscaf cannot give it more CPUs: --maximum N changes that")
    pins = {element.name for tune in root.all("cputune") for element in tune.children if element.name.endswith("pin")}
    if pins or "cpuset" in cpus.element.attributes:
        where = ", ".join(f"<{name}>" for name in sorted(pins)) or "<vcpu cpuset>"
        notes.append(
            f"it has pins of its own ({where}): vscaf replaces them while it manages the domain, and puts them back "
            "when it gives the domain back; no other program should set pins meanwhile"
        )
    if any(one.attributes.get("placement") == "auto" for one in (cpus.element, *root.all("numatune", "memory"))):
        notes.append(
            "libvirt asks numad where to place it (placement='auto'): vscaf moves its vCPUs, but its memory stays on "
            "the nodes that numad chose; placement='static' avoids that"
        )
    return notes


def _obstacle(root: Element) -> str | None:
    """Why the domain cannot plug vCPUs. None: it can, or its hypervisor has no machine types."""
    kind = root.first("os", "type")
    machine = kind.attributes.get("machine") if kind is not None else None
    if kind is None or machine is None:
        return None
    arch = kind.attributes.get("arch", "")
    if not plugs_vcpus(arch, machine):
        return f"its machine type {machine} ({arch}) cannot plug vCPUs"
    if root.first("features", "acpi") is None:
        return "it has no ACPI (<features><acpi/>), without which a guest does not notice plugged vCPUs"
    return None


def _topology(root: Element) -> dict[str, int] | None:
    """The counts of <topology>. None: there is none, so each vCPU is a socket, which fits any maximum."""
    shown = root.first("cpu", "topology")
    if shown is None:
        return None
    counts = {level: int(shown.attributes[level]) for level in LEVELS if level in shown.attributes}
    if any(count < 1 for count in counts.values()):
        raise ValueError("<topology> has a count below 1")
    return {**counts, "cores": counts.get("cores", 1)}


def _agent_channels(root: Element) -> list[Element]:
    return [
        channel
        for channel in root.all("devices", "channel")
        if any(target.attributes.get("name") == AGENT_PORT for target in channel.all("target"))
    ]


def _has_controller(root: Element) -> bool:
    return any(one.attributes.get("type") == "virtio-serial" for one in root.all("devices", "controller"))
