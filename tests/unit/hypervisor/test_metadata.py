"""Rules from a domain's metadata: valid rules are read, invalid ones give a sentence, and nothing breaks the reader."""

from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.domain_xml import MOST_CHARACTERS, parse_description
from vscaf.hypervisor.libvirt.metadata import NAMESPACE, BadRules, parse_rules
from vscaf.values import GuestCell, GuestTopology, MetadataRules


def metadata(attributes: str, *, name: str = "partition", content: str = "", namespace: str = NAMESPACE) -> str:
    return f"<metadata><v:{name} xmlns:v='{namespace}' {attributes}>{content}</v:{name}></metadata>"


def domain(inside: str) -> str:
    return f"<domain type='kvm'><name>a</name>{inside}<devices/></domain>"


@pytest.mark.parametrize(
    ("attributes", "rules"),
    [
        ("", MetadataRules()),
        ("min='1'", MetadataRules(minimum=1)),
        ("max='65535' min='65535'", MetadataRules(minimum=65535, maximum=65535)),
        ("weight='0.25' priority='-1000'", MetadataRules(weight=0.25, priority=-1000)),
        ("weight='1000' priority='1000' rest='reserve'", MetadataRules(weight=1000.0, priority=1000, rest="reserve")),
        ("rest='share'", MetadataRules(rest="share")),
        ("rest='keep' min='007'", MetadataRules(minimum=7, rest="keep")),
    ],
)
def test_what_is_right_is_read(attributes: str, rules: MetadataRules) -> None:
    assert parse_rules(ElementTree.fromstring(metadata(attributes))) == rules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (metadata("min='0'"), "min='0': give a whole number from 1"),
        (metadata("min='-1'"), "min="),
        (metadata("min='1.5'"), "min="),
        (metadata("min=' 1'"), "min="),
        (metadata("min=''"), "min="),
        (metadata("min='\N{ARABIC-INDIC DIGIT ONE}'"), "min="),
        (metadata("min='1e3'"), "min="),
        (metadata("max='65536'"), "max="),
        (metadata(f"max='{'9' * 5000}'"), "max="),
        (metadata("min='3' max='2'"), "min 3 is above max 2: lower"),
        (metadata("weight='0'"), "weight="),
        (metadata("weight='nan'"), "weight="),
        (metadata("weight='inf'"), "weight="),
        (metadata("weight='-1'"), "weight="),
        (metadata("weight='1e400'"), "weight="),
        (metadata("weight='1000.1'"), "at most 1000"),
        (metadata("priority='1001'"), "priority="),
        (metadata("priority='high'"), "priority='high': give a whole number"),
        (metadata("rest='sleep'"), "give one of reserve, share, keep"),
        (metadata("colour='red'"), "'colour' is unknown: it takes min"),
        (metadata("", content="<x/>"), "has content"),
        (metadata("", content="text"), "has content"),
        (metadata("", name="partitions"), "'partitions'> is unknown: write <vscaf:partition/>"),
        (f"<metadata>{metadata('')[10:-11] * 2}</metadata>", "more than one"),
    ],
)
def test_what_is_wrong_is_one_short_sentence(text: str, expected: str) -> None:
    with pytest.raises(BadRules) as refused:
        parse_rules(ElementTree.fromstring(text))
    message = str(refused.value)
    assert expected in message
    assert message.startswith("metadata: ") and "\n" not in message and len(message) < 160
    described = parse_description(domain(text))
    assert (described.rules, described.rules_error) == (None, message)


def test_the_metadata_of_others_are_none_of_ours() -> None:
    assert parse_rules(None) is None
    assert parse_rules(ElementTree.fromstring(metadata("colour='red'", namespace="https://else.where/1"))) is None
    assert parse_rules(ElementTree.fromstring("<metadata><partition min='x'/><!-- vscaf --></metadata>")) is None


@given(st.dictionaries(st.sampled_from(["min", "max", "weight", "priority", "rest"]), st.text(max_size=30)))
def test_whatever_is_written_is_rules_or_a_sentence(given_attributes: dict[str, str]) -> None:
    words = {name: "".join(c for c in text if c.isprintable()) for name, text in given_attributes.items()}
    try:
        root = ElementTree.fromstring(metadata(" ".join(f"{name}={quoteattr(text)}" for name, text in words.items())))
    except ElementTree.ParseError:
        return  # not even XML: libvirt would not accept it
    try:
        rules = parse_rules(root)
    except BadRules as error:
        assert "\n" not in str(error) and len(str(error)) < 160
    else:
        assert rules is not None
        assert rules.minimum is None or rules.maximum is None or 1 <= rules.minimum <= rules.maximum
        assert rules.weight is None or 0 < rules.weight <= 1000


def test_a_description_with_a_document_type_is_refused_unread() -> None:
    """A "billion laughs" bomb costs nothing, because no entity is ever declared."""
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    bomb = f"<!DOCTYPE domain [<!ENTITY l0 'ha'>{laughs}]>" + domain("<title>&l9;</title>")
    for text in (
        bomb,
        "<!DOCTYPE x>" + domain(""),
        "x" * (MOST_CHARACTERS + 1),
        "<domain",
        "",
        domain("<vcpus><vcpu enabled='yes'/></vcpus>"),
    ):
        with pytest.raises(HypervisorError, match="virsh dumpxml"):
            parse_description(text)


def test_the_topology_that_the_guest_is_shown() -> None:
    described = parse_description(
        domain(
            "<vcpu current='3'>8</vcpu><vcpus><vcpu id='0' enabled='yes' order='1'/>"
            "<vcpu id='1' enabled='yes' order='3'/>"
            "<vcpu id='2' enabled='no' order='9'/><vcpu id='3' enabled='yes' order='2'/></vcpus>"
            "<numatune><memnode cellid='1' mode='strict' nodeset='2-3'/></numatune>"
            "<cpu mode='custom'><topology sockets='1' dies='2' clusters='1' cores='2' threads='2'/><numa>"
            "<cell id='1' cpus='0-1,6' memory='1'/><cell id='0' cpus='2-5' memory='1'/><cell id='2' memory='1'/>"
            "</numa></cpu>"
        )
    )
    cells = (GuestCell(frozenset({0, 1, 6}), frozenset({2, 3})), GuestCell(frozenset({2, 3, 4, 5})))
    assert described.topology == GuestTopology(2, cells)
    assert described.enabled_order == {0: 1, 1: 3, 3: 2}
    assert described.home_nodes == frozenset({2, 3})
    plain = parse_description(domain("<vcpu>4</vcpu><cpu mode='host-passthrough'/>"))
    assert plain.topology == GuestTopology() and plain.enabled_order == {}


def test_what_is_read_of_a_description() -> None:
    described = parse_description(
        domain(
            "<vcpu placement='static' cpuset='0-3' current='2'>4</vcpu>"
            "<vcpus><vcpu id='0' enabled='yes'/><vcpu id='1' enabled='no'/><vcpu id='2' enabled='yes'/></vcpus>"
            "<iothreads>2</iothreads><cputune><vcpupin vcpu='1' cpuset='3'/><vcpupin vcpu='2' cpuset='0,2'/>"
            "<iothreadpin iothread='2' cpuset='1'/></cputune>"
            "<numatune><memory mode='strict' nodeset='0-1'/><memnode cellid='0' mode='strict' nodeset='3'/></numatune>"
        ).replace(
            "<devices/>",
            "<devices><channel type='pty'><target type='virtio' name='org.vscaf.agent.0'/></channel>"
            "<channel type='unix'><source mode='bind' path='/run/other'/><target type='virtio' name='other'/></channel>"
            "<channel type='unix'><source mode='bind' path='/run/x'/>"
            "<target type='virtio' name='org.vscaf.agent.0'/></channel></devices>",
        )
    )
    assert described.accelerated
    assert described.agent_socket == "/run/x"
    assert described.enabled == frozenset({0, 2})
    assert described.cpuset == frozenset({0, 1, 2, 3})
    assert described.vcpu_pins == {1: frozenset({3}), 2: frozenset({0, 2})}
    assert described.iothread_pins == {1: None, 2: frozenset({1})}
    assert described.home_nodes == frozenset({0, 1, 3})
    plain = parse_description("<domain type='qemu'><vcpu>2</vcpu></domain>")
    assert not plain.accelerated
    assert (plain.agent_socket, plain.enabled, plain.cpuset, plain.iothread_pins) == (None, None, None, {})


@pytest.mark.parametrize(
    "inside", ["<x><![CDATA[<!DOCTYPE]]></x>", "<!-- <!DOCTYPE --><x/>", "<x><![CDATA[<!ENTITY]]></x>"]
)
def test_who_may_write_metadata_makes_no_domain_unreadable(inside: str) -> None:
    """A document type declares something only in front of the root element."""
    assert parse_description(domain(f"<metadata>{inside}</metadata>")).accelerated


@pytest.mark.parametrize(
    "before", ["", "\n ", "<!-- x > -->", "<?xml version='1.0'?>\n<!--<domain>--><?a <domain> ?>", "\ufeff"]
)
def test_a_document_type_is_found_behind_whatever_may_stand_before_it(before: str) -> None:
    with pytest.raises(HypervisorError, match="document type"):
        parse_description(before + "<!DOCTYPE domain [<!ENTITY a 'b'>]>" + domain(""))


def test_a_channel_that_connects_elsewhere_is_not_the_agents() -> None:
    """At that path listens another server, not the guest."""
    channel = "<channel type='unix'><source {}path='/run/a'/><target type='virtio' name='org.vscaf.agent.0'/></channel>"
    for mode, path in (("mode='bind' ", "/run/a"), ("", "/run/a"), ("mode='connect' ", None)):
        assert parse_description(domain(f"<devices>{channel.format(mode)}</devices>")).agent_socket == path
