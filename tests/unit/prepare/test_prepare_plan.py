"""`plan` adds what a definition lacks, and nothing else."""

import re
from math import prod
from xml.etree import ElementTree

import pytest
from domain_definitions import AGENT, GOLDEN, PC, Q35, VIRT, Definition, definitions
from hypothesis import given
from hypothesis import strategies as st
from vscaf.errors import HypervisorError, UsageError
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.prepare.plan import Kind, fitting, missing, plan
from vscaf.prepare.record import revert


@pytest.mark.parametrize(("name", "maximum"), [("q35", 6), ("pc", None), ("virt", None)])
def test_definitions_as_virt_install_makes_them(name: str, maximum: int | None) -> None:
    before, after = ((GOLDEN / f"{name}.{when}.xml").read_text(encoding="utf-8") for when in ("before", "after"))
    assert plan(before, maximum).xml == after


@pytest.mark.parametrize(
    ("xml", "maximum", "kinds", "restart"),
    [
        (Q35, 6, ["maximum", "pluggable", "topology", "channel", "metadata"], [True, True, True, False, False]),
        (Q35, None, ["pluggable", "channel", "metadata"], [True, False, False]),
        (PC, None, ["pluggable", "channel", "metadata"], [True, True, False]),
        (VIRT, None, ["channel", "metadata"], [False, False]),
    ],
)
def test_what_a_running_domain_cannot_take_needs_a_restart(
    xml: str, maximum: int | None, kinds: list[str], restart: list[bool]
) -> None:
    changes = plan(xml, maximum).changes
    assert [change.kind for change in changes] == kinds
    assert [change.restart_needed for change in changes] == restart


def test_the_words_of_changes() -> None:
    assert [change.what for change in plan(Q35, 6).changes] == [
        "at most 6 vCPUs instead of 2",
        "vCPUs that can be unplugged (hotpluggable='yes'): 1",
        "a CPU topology of 6 vCPUs: sockets 1, dies 1, cores 6, threads 1",
        "a channel org.vscaf.agent.0",
        "metadata: vscaf manages this domain",
    ]
    assert "a channel org.vscaf.agent.0, with a virtio-serial controller" in [one.what for one in plan(PC).changes]


@given(definitions(), st.none() | st.integers(1, 16))
def test_nothing_is_missing_afterwards_and_a_second_run_changes_nothing(found: Definition, maximum: int | None) -> None:
    once = plan(found.xml, maximum)
    again = plan(once.xml, maximum)
    assert (again.xml, again.changes) == (once.xml, ())
    assert missing(once.xml, maximum) == ()
    assert plan(once.xml).changes == (), "a later run without --maximum has nothing to change either"


@given(definitions(), st.none() | st.integers(1, 16))
def test_what_it_does_not_change_stays_as_it_is(found: Definition, maximum: int | None) -> None:
    after = plan(found.xml, maximum).xml
    position = 0
    for text in found.untouched:
        assert text in after[position:], f"{text} is gone or has moved"
        position = after.index(text, position)


@given(definitions(), st.none() | st.integers(1, 16))
def test_the_result_is_what_the_daemon_needs(found: Definition, maximum: int | None) -> None:
    """By the daemon's own reader, and by libvirt's rules for <vcpus> and <topology>."""
    before, after = ElementTree.fromstring(found.xml), ElementTree.fromstring(plan(found.xml, maximum).xml)
    described = parse_description(plan(found.xml, maximum).xml)
    assert described.rules is not None and described.rules_error is None
    channels = [one.get("name") for one in after.iterfind("./devices/channel/target")]
    assert channels.count("org.vscaf.agent.0") == 1
    assert after.find("./devices/controller[@type='virtio-serial']") is not None or "channel" not in {
        change.kind for change in plan(found.xml, maximum).changes
    }
    most = int(after.findtext("./vcpu") or "")
    assert most == max(found.maximum, maximum or 0)
    vcpus = after.findall("./vcpus/vcpu")

    def at_start(root: ElementTree.Element) -> int:
        vcpu = root.find("./vcpu")
        assert vcpu is not None
        return int(vcpu.get("current") or vcpu.text or "")

    assert at_start(after) == at_start(before)
    for one in vcpus:
        assert (one.get("hotpluggable") == "yes") == (one.get("id") != "0"), ElementTree.tostring(one)
    if vcpus:
        assert sum(one.get("enabled") == "yes" for one in vcpus) == at_start(before)
    else:
        assert at_start(before) == 1
    topology = after.find("./cpu/topology")
    if topology is not None:
        assert prod(int(count) for count in topology.attrib.values()) == most


@given(definitions())
def test_a_topology_that_fits_is_not_touched(found: Definition) -> None:
    shown = re.findall(r"<topology.*/>", found.xml)
    assert re.findall(r"<topology.*/>", plan(found.xml).xml.partition("</metadata>")[2]) == shown


@given(
    st.fixed_dictionaries({level: st.integers(1, 4) for level in ("sockets", "dies", "cores", "threads")}),
    st.integers(1, 64),
)
def test_a_topology_is_made_to_fit_without_new_threads(topology: dict[str, int], vcpus: int) -> None:
    made = fitting(topology, vcpus)
    assert prod(made.values()) == vcpus and list(made) == list(topology)
    assert made["threads"] in (1, topology["threads"])


@pytest.mark.parametrize(
    ("topology", "vcpus", "expected"),
    [
        ({"sockets": 1, "cores": 2, "threads": 2}, 8, {"sockets": 1, "cores": 4, "threads": 2}),
        ({"sockets": 2, "cores": 1, "threads": 1}, 6, {"sockets": 2, "cores": 3, "threads": 1}),
        ({"sockets": 2, "cores": 1, "threads": 1}, 5, {"sockets": 1, "cores": 5, "threads": 1}),
        ({"sockets": 1, "dies": 2, "cores": 1, "threads": 2}, 6, {"sockets": 1, "dies": 1, "cores": 6, "threads": 1}),
    ],
)
def test_topologies_that_are_made_to_fit(topology: dict[str, int], vcpus: int, expected: dict[str, int]) -> None:
    assert fitting(topology, vcpus) == expected


@pytest.mark.parametrize(
    ("xml", "maximum", "reason"),
    [
        (VIRT, 8, r"its machine type virt-7\.2 \(aarch64\) cannot plug vCPUs: run prepare without --maximum"),
        (PC.replace("pc-i440fx-7.2", "isapc"), 8, r"machine type isapc \(x86_64\) cannot plug vCPUs"),
        (PC.replace("pc-i440fx-7.2", "microvm"), 8, "machine type microvm"),
        (PC.replace("pc-i440fx-7.2", "pc-i440fx-2.6"), 8, r"machine type pc-i440fx-2\.6 \(x86_64\) cannot plug"),
        (PC.replace("<acpi/>", ""), 8, "it has no ACPI"),
        (
            PC.replace("check='partial'/>", "><numa><cell id='0' cpus='0-3' memory='1' unit='GiB'/></numa></cpu>"),
            8,
            "NUMA cells, and prepare cannot know to which of them vCPUs 4-7 belong",
        ),
        (
            Q35.replace("org.qemu.guest_agent.0", AGENT).replace("channel type='unix'", "channel type='pty'"),
            None,
            "not a UNIX socket on which QEMU listens",
        ),
        (
            Q35.replace(
                "<target type='virtio' name='org.qemu",
                f"<source mode='connect' path='/a'/><target type='virtio' name='{AGENT}'/><x name='org.qemu",
            ),
            None,
            "not a UNIX socket on which QEMU listens",
        ),
        (
            PC.replace(
                "</title>",
                "</title><metadata><v:partition xmlns:v='https://vscaf.org/xmlns/partition/1' min='0'/></metadata>",
            ),
            None,
            "metadata: min='0': give a whole number from 1 to 65535: correct it by `virsh metadata`",
        ),
    ],
)
def test_what_prepare_cannot_mend_is_refused_with_a_reason(xml: str, maximum: int | None, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        plan(xml, maximum)


def test_numa_cells_are_no_hindrance_while_the_maximum_stays() -> None:
    cells = "><numa><cell id='0' cpus='0-3' memory='1' unit='GiB'/></numa></cpu>"
    assert plan(PC.replace("check='partial'/>", cells)).changes


@pytest.mark.parametrize(
    ("xml", "maximum", "note"),
    [
        (PC, 2, "the maximum of 4 vCPUs is above 2; prepare never lowers it"),
        (VIRT, None, "cannot plug vCPUs; vscaf uses the 4 vCPUs that it starts with"),
        (Q35.replace(">2</vcpu>", ">1</vcpu>").replace("cores='2'", "cores='1'"), None, "one vCPU at most"),
        (PC, None, "it has pins of its own (<vcpupin>)"),
        (Q35.replace("placement='static'", "placement='static' cpuset='0-3'"), None, "(<vcpu cpuset>)"),
        (Q35.replace("placement='static'", "placement='auto'"), None, "placement='auto'"),
        (Q35.replace("  <os>", "<numatune><memory placement='auto'/></numatune>\n  <os>"), None, "numad"),
    ],
)
def test_what_the_operator_should_know(xml: str, maximum: int | None, note: str) -> None:
    assert any(note in one for one in plan(xml, maximum).notes)


def test_the_order_of_vcpus_is_kept() -> None:
    rows = "<vcpu id='1' enabled='no'/><vcpu id='0' enabled='yes' order='1'/><vcpu id='2' enabled='yes' order='2'/>"
    xml = Q35.replace(">2</vcpu>", f" current='2'>3</vcpu>\n  <vcpus>{rows}</vcpus>").replace("cores='2'", "cores='3'")
    assert re.findall(r"<vcpu id.*/>", plan(xml).xml) == [
        "<vcpu id='0' enabled='yes' order='1' hotpluggable='no'/>",
        "<vcpu id='1' enabled='no' hotpluggable='yes'/>",
        "<vcpu id='2' enabled='yes' order='2' hotpluggable='yes'/>",
    ]


def test_there_is_nothing_to_note_of_a_plain_domain() -> None:
    assert plan(Q35, 6).notes == ()


@pytest.mark.parametrize(
    "xml",
    [
        "",
        "<domain",
        "<!DOCTYPE domain [<!ENTITY a 'b'>]><domain><name>&a;</name><vcpu>1</vcpu></domain>",
        "<domain><name>a</name></domain>",
        "<domain><name>a</name><vcpu>many</vcpu></domain>",
        "<domain><name>a</name><vcpu>1</vcpu><cpu><topology sockets='0' cores='1' threads='1'/></cpu></domain>",
    ],
)
def test_a_text_that_cannot_be_read_is_an_error(xml: str) -> None:
    with pytest.raises(HypervisorError, match="virsh dumpxml"):
        plan(xml)


def test_a_machine_without_machine_types_is_trusted_to_plug() -> None:
    xml = "<domain type='test'>\n  <name>a</name>\n  <vcpu>2</vcpu>\n  <devices/>\n</domain>"
    assert Kind.MAXIMUM in {change.kind for change in plan(xml, 4).changes}
    assert revert(plan(xml, 4).xml).put_back
