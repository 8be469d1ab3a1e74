"""The module vscaf_domain on libvirt's test driver, and what it writes read by the daemon's own parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.hypervisor.libvirt import metadata
from vscaf.hypervisor.libvirt.metadata import BadRules, parse_rules
from vscaf.values import MetadataRules

URI = "test:///default"
LIVE, CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
Module = Callable[..., dict[str, Any]]


@pytest.fixture
def domain() -> Iterator[libvirt.virDomain]:
    """The test driver's domain. While this connection is open, others in this process see the same domain."""
    connection = libvirt.open(URI)
    yield connection.lookupByName("test")
    connection.close()


def rules(domain: libvirt.virDomain, flags: int = 0) -> MetadataRules | None:
    return parse_rules(ElementTree.fromstring(domain.XMLDesc(flags)).find("./metadata"))


def test_rules_are_set_changed_and_removed(module: Module, domain: libvirt.virDomain) -> None:
    given_rules = {"name": "test", "uri": URI, "min": 1, "max": 4, "weight": 2.5, "priority": -3, "rest": "keep"}
    foreseen = module("vscaf_domain", check=True, **given_rules)
    assert foreseen["changed"] and rules(domain) is None
    first = module("vscaf_domain", **given_rules)
    assert first["changed"] and first["diff"] == foreseen["diff"] and sorted(first["changed_in"]) == ["config", "live"]
    assert first["diff"]["before"] == "config: none\nlive: none\n"
    wanted = MetadataRules(minimum=1, maximum=4, weight=2.5, priority=-3, rest="keep")
    assert rules(domain) == rules(domain, libvirt.VIR_DOMAIN_XML_INACTIVE) == wanted
    again = module("vscaf_domain", **given_rules)
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    assert not module("vscaf_domain", check=True, **given_rules)["changed"]

    fewer = module("vscaf_domain", name="test", uri=URI, min=2)
    assert fewer["changed"] and fewer["partition"] == '<partition min="2"/>'
    assert rules(domain) == MetadataRules(minimum=2, maximum=None, weight=None, priority=None, rest=None)

    gone = module("vscaf_domain", name="test", uri=URI, state="absent")
    assert gone["changed"] and rules(domain) is None
    assert not module("vscaf_domain", name="test", uri=URI, state="absent")["changed"]


def test_rules_that_are_the_same_in_other_words_are_not_changed(module: Module, domain: libvirt.virDomain) -> None:
    xml = '<partition weight="2.000" max="04" min="1"/>'
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, xml, "vscaf", metadata.NAMESPACE, LIVE | CONFIG)
    before = domain.XMLDesc()
    assert not module("vscaf_domain", name="test", uri=URI, min=1, max=4, weight=2)["changed"]
    assert domain.XMLDesc() == before


def test_only_the_definition_that_differs_is_changed(module: Module, domain: libvirt.virDomain) -> None:
    module("vscaf_domain", name="test", uri=URI, min=1)
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, None, metadata.NAMESPACE, LIVE)
    answer = module("vscaf_domain", name="test", uri=URI, min=1)
    assert answer["changed_in"] == ["live"]
    assert rules(domain) is not None


def test_an_element_that_the_daemon_refuses_is_replaced(module: Module, domain: libvirt.virDomain) -> None:
    wrong = '<partition min="many" colour="red"/>'
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, wrong, "vscaf", metadata.NAMESPACE, LIVE)
    with pytest.raises(BadRules):
        rules(domain)
    assert module("vscaf_domain", name="test", uri=URI)["changed"]
    assert rules(domain) == MetadataRules(minimum=None, maximum=None, weight=None, priority=None, rest=None)


def test_other_metadata_stay(module: Module, domain: libvirt.virDomain) -> None:
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "<owner/>", "o", "urn:owner", LIVE | CONFIG)
    module("vscaf_domain", name="test", uri=URI, min=1)
    module("vscaf_domain", name="test", uri=URI, state="absent")
    assert "owner" in domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "urn:owner", LIVE)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"min": 0}, "min is 0"),
        ({"min": 3, "max": 2}, "min 3 is above max 2"),
        ({"max": 70000}, "max is 70000"),
        ({"weight": 0}, "weight is 0"),
        ({"weight": 1e-12}, "weight is 1e-12"),
        ({"weight": 1000.5}, "weight is 1000.5"),
        ({"weight": float("nan")}, "weight is nan"),
        ({"priority": 1001}, "priority is 1001"),
        ({"rest": "sleep"}, "rest must be one of"),
    ],
)
def test_wrong_rules_change_nothing(
    module: Module, domain: libvirt.virDomain, wrong: dict[str, Any], said: str
) -> None:
    answer = module("vscaf_domain", name="test", uri=URI, **wrong)
    assert answer["failed"] and said in answer["msg"]
    assert rules(domain) is None


def test_a_domain_that_is_not_there(module: Module, domain: libvirt.virDomain) -> None:
    answer = module("vscaf_domain", name="nobody", uri=URI, min=1)
    assert answer["failed"] and "domain nobody at test:///default" in answer["msg"]
    assert not module("vscaf_domain", name="nobody", uri=URI, state="absent")["changed"]
    answer = module("vscaf_domain", name="test", uri="test:///nowhere.xml", state="absent")
    assert answer["failed"] and "test:///nowhere.xml" in answer["msg"]


def test_a_domain_that_does_not_run(module: Module, domain: libvirt.virDomain) -> None:
    domain.destroy()
    try:
        assert module("vscaf_domain", name="test", uri=URI, min=1)["changed_in"] == ["config"]
        assert rules(domain) is not None
    finally:
        domain.create()


def test_its_constants_are_the_daemons(plugins: Callable[[str], Any]) -> None:
    ours = plugins("module_utils.partition")
    for name in ("NAMESPACE", "MOST_CPUS", "MOST_WEIGHT", "MOST_PRIORITY", "RESTS"):
        assert getattr(ours, name) == getattr(metadata, name), name


@given(
    least=st.none() | st.integers(-1, 70000),
    most=st.none() | st.integers(-1, 70000),
    weight=st.none() | st.floats(0, 1001),
    priority=st.none() | st.integers(-1001, 1001),
    rest=st.none() | st.sampled_from(metadata.RESTS),
)
def test_the_daemon_accepts_what_the_module_accepts(
    collections: Any, *, least: Any, most: Any, weight: Any, priority: Any, rest: Any
) -> None:
    import importlib  # noqa: PLC0415
    import sys  # noqa: PLC0415

    if str(collections) not in sys.path:
        sys.path.insert(0, str(collections))
    ours = importlib.import_module("ansible_collections.vscaf.vscaf.plugins.module_utils.partition")
    given_rules = {"min": least, "max": most, "weight": weight, "priority": priority, "rest": rest}
    element = ours.partition_xml(given_rules).replace("<partition", f'<partition xmlns="{metadata.NAMESPACE}"')
    whole = ElementTree.fromstring(f"<metadata>{element}</metadata>")
    if ours.wrong_rule(given_rules):
        with pytest.raises(BadRules):
            parse_rules(whole)
    else:
        read = parse_rules(whole)
        assert read is not None
        assert (read.minimum, read.maximum, read.priority, read.rest) == (least, most, priority, rest)
        assert read.weight == (None if weight is None else pytest.approx(weight, abs=1e-9))
        assert ours.same_form(ours.partition_xml(given_rules)) == ours.partition_xml(given_rules)
