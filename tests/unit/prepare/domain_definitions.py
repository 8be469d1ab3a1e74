"""Persistent definitions, written as libvirt writes them: some made by virt-install, and random ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from vscaf.hypervisor.libvirt.metadata import NAMESPACE

AGENT = "org.vscaf.agent.0"
CHANNEL = "<channel type='unix'>\n      <target type='virtio' name='{}'/>\n    </channel>"
GOLDEN = Path(__file__).parent / "golden"
Q35, PC, VIRT = ((GOLDEN / f"{name}.before.xml").read_text(encoding="utf-8") for name in ("q35", "pc", "virt"))


@dataclass(frozen=True)
class Definition:
    """A definition, and the texts of it that prepare must not touch."""

    xml: str
    untouched: tuple[str, ...]
    maximum: int


def lines(indent: int, *rows: str) -> str:
    return "".join(f"{' ' * indent}{row}\n" for row in rows)


@st.composite
def topologies(draw: st.DrawFn) -> Mapping[str, int]:
    """One that fits the number of vCPUs, which is its product."""
    count = st.integers(1, 3)
    return {"sockets": draw(count), "dies": draw(count), "cores": draw(count), "threads": draw(st.integers(1, 2))}


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """A domain that prepare accepts with any maximum."""
    topology = draw(st.none() | topologies())
    maximum = draw(st.integers(1, 12))
    if topology is not None:
        maximum = topology["sockets"] * topology["dies"] * topology["cores"] * topology["threads"]
    current = draw(st.integers(1, maximum))
    name = draw(st.sampled_from(["a", "é", "a&amp;b", "a > b"]))
    text = f"<domain type='{draw(st.sampled_from(['kvm', 'qemu']))}'>\n" + lines(2, f"<name>{name}</name>")
    untouched = [f"<name>{name}</name>"]

    foreign = ["<o:a xmlns:o='http://other' b=\"1 &gt; 0\"/>", '<p:c xmlns:p="urn:p">x</p:c>']
    others = draw(st.lists(st.sampled_from(foreign), unique=True))
    mine = draw(st.sampled_from(["", f"<v:partition xmlns:v='{NAMESPACE}' min='1' weight='2.5'/>"]))
    inside = [*others, *filter(None, [mine])]
    if inside:
        text += lines(2, "<metadata>") + lines(4, *inside) + lines(2, "</metadata>")
        untouched += inside

    shown = f" current='{current}'" if current < maximum or draw(st.booleans()) else ""
    cpuset = draw(st.sampled_from(["", " cpuset='0-3'"]))
    text += lines(2, f"<vcpu placement='static'{cpuset}{shown}>{maximum}</vcpu>")
    if draw(st.booleans()):
        enabled = [number < current for number in range(maximum)]
        hotpluggable = [not on or (number > 0 and draw(st.booleans())) for number, on in enumerate(enabled)]
        order = draw(st.booleans())
        text += lines(2, "<vcpus>")
        for number, on in enumerate(enabled):
            yes, pluggable = ("yes" if one else "no" for one in (on, hotpluggable[number]))
            last = f" order='{number + 1}'" if on and order else ""
            text += lines(4, f"<vcpu id='{number}' enabled='{yes}' hotpluggable='{pluggable}'{last}/>")
        text += lines(2, "</vcpus>")
    machine = draw(st.sampled_from(["pc-q35-7.2", "pc-i440fx-7.2", "q35", "pc"]))
    os = f"<os>\n    <type arch='x86_64' machine='{machine}'>hvm</type>\n  </os>"
    features = "<features>\n    <acpi/>\n  </features>\n  <!-- by hand -->"
    text += lines(2, os, features)
    untouched += [os, features]
    if topology is not None:
        attributes = "".join(f" {level}='{count}'" for level, count in topology.items())
        text += lines(2, "<cpu mode='host-model'>") + lines(4, f"<topology{attributes}/>") + lines(2, "</cpu>")
    devices = draw(
        st.lists(
            st.sampled_from(
                [
                    "<controller type='pci' index='0' model='pcie-root'/>",
                    "<controller type='virtio-serial' index='0'/>",
                    CHANNEL.format("org.qemu.guest_agent.0"),
                    CHANNEL.format(AGENT),
                    "<memballoon model='none'/>",
                ]
            ),
            unique=True,
        )
    )
    text += lines(2, "<devices>") + lines(4, *devices) + lines(2, "</devices>") + "</domain>\n"
    return Definition(text, (*untouched, *devices), maximum)
