"""What prepare changed is put back, and nothing that was changed since."""

import re

import pytest
from domain_definitions import PC, Q35, Definition, definitions
from hypothesis import given
from hypothesis import strategies as st
from vscaf.errors import HypervisorError
from vscaf.prepare.plan import plan
from vscaf.prepare.record import (
    RECORD,
    Record,
    difference,
    fingerprint,
    read_record,
    record_element,
    revert,
    with_metadata,
    with_record,
)

SLOT = "<address type='virtio-serial' controller='0' bus='0' port='2'/>"


@given(definitions(), st.none() | st.integers(1, 16))
def test_undo_gives_the_same_text_back(found: Definition, maximum: int | None) -> None:
    prepared = plan(found.xml, maximum)
    reverted = revert(prepared.xml)
    assert reverted.xml == found.xml
    assert reverted.kept == () and bool(reverted.put_back) == bool(prepared.changes)


@given(definitions(), st.lists(st.integers(1, 16), min_size=2, max_size=4))
def test_undo_goes_back_to_before_the_first_of_several_runs(found: Definition, maxima: list[int]) -> None:
    xml = found.xml
    for maximum in maxima:
        xml = plan(xml, maximum).xml
    assert revert(xml).xml == found.xml


@given(definitions())
def test_there_is_nothing_to_put_back_in_a_domain_that_was_not_prepared(found: Definition) -> None:
    assert revert(found.xml) == type(revert(found.xml))(found.xml)


@given(definitions(), st.none() | st.integers(1, 16))
def test_the_record_is_read_as_it_was_written(found: Definition, maximum: int | None) -> None:
    record = difference(found.xml, plan(found.xml, maximum).xml)
    assert read_record(with_record(found.xml, record)) == record


def as_libvirt_writes(prepared: str, before: str) -> str:
    """The definition after libvirt has added addresses and a port for them, with the record of that. The controller
    with the port has been changed, too."""
    written = (
        prepared.replace(
            "name='org.vscaf.agent.0'/>\n    </channel>", f"name='org.vscaf.agent.0'/>\n      {SLOT}\n    </channel>"
        )
        .replace(
            "<controller type='pci' index='0' model='pci-root'/>",
            "<controller type='pci' index='0' model='pci-root'>\n"
            "      <address multifunction='on'/>\n    </controller>",
        )
        .replace(
            "<controller type='virtio-serial' index='0'/>",
            "<controller type='pci' index='7' model='pcie-root-port'/>\n"
            "    <controller type='virtio-serial' index='0'>\n"
            "      <address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/>\n    </controller>",
        )
    )
    assert written != prepared
    return with_record(written, difference(before, written))


def test_what_libvirt_added_to_it_goes_too() -> None:
    written = as_libvirt_writes(plan(PC).xml, PC)
    assert revert(written).xml == PC
    assert {made.which: bool(made.before) for made in read_record(written).made if made.element == "controller"} == {
        "pci 0": True,
        "pci 7": False,
        "virtio-serial 0": False,
    }


def test_a_controller_that_others_use_since_stays_with_its_port() -> None:
    written = as_libvirt_writes(plan(PC).xml, PC)
    other = "<channel type='unix'><target type='virtio' name='other'/>" + SLOT.replace("'2'", "'3'") + "</channel>"
    used = written.replace("<memballoon", f"{other}\n    <memballoon")
    reverted = revert(used)
    assert "virtio-serial" in reverted.xml and "index='7'" in reverted.xml
    assert "org.vscaf.agent.0" not in reverted.xml
    assert "<address multifunction='on'/>" in reverted.xml, "it was changed for the port that stays"
    assert set(reverted.kept) == {f"<controller> {one} is in use" for one in ("virtio-serial 0", "pci 7", "pci 0")}
    # When the other device is gone, the rest can be put back.
    assert revert(reverted.xml.replace(f"{other}\n    ", "")).xml == PC


@pytest.mark.parametrize(
    ("old", "new", "kept", "back"),
    [
        (r"current='2'>6", "current='3'>6", "<vcpu>", "<channel>"),
        (r">6</vcpu>", ">8</vcpu>", "<vcpu>", "<channel>"),
        (r"cores='6'", "cores='3' ", "<topology>", "<channel>"),
        (r"id='1' enabled='yes' hotpluggable='yes'", "id='1' enabled='yes' hotpluggable='no'", "<vcpus>", "<channel>"),
        (
            r"<target type='virtio' name='org.vscaf.agent.0'/>",
            "<source mode='bind' path='/run/a'/><target type='virtio' name='org.vscaf.agent.0'/>",
            "<channel> org.vscaf.agent.0",
            "<vcpu>",
        ),
        (r"<vscaf:partition ", "<vscaf:partition min='1' ", "the metadata", "<vcpu>"),
    ],
)
def test_what_was_changed_since_is_left_alone_and_said(old: str, new: str, kept: str, back: str) -> None:
    prepared = plan(Q35, 6).xml
    head, mark, tail = prepared.partition("</metadata>")
    changed = head.replace(old, new) + mark + tail.replace(old, new)
    assert changed != prepared
    reverted = revert(changed)
    assert any(one.startswith(f"{kept} was changed") or one.startswith(f"{kept} were changed") for one in reverted.kept)
    assert new in reverted.xml
    assert any(one.startswith(back) for one in reverted.put_back)
    assert revert(reverted.xml).xml == reverted.xml, "a second time changes nothing, and says the same"
    assert set(revert(reverted.xml).kept) == set(reverted.kept)


@pytest.mark.parametrize("element", ["vcpu", "vcpus", "topology"])
def test_counts_of_vcpus_are_put_back_together_or_not_at_all(element: str) -> None:
    prepared = plan(Q35, 6).xml
    changed = {
        "vcpu": prepared.replace("current='2'>6", "current='3'>6"),
        "vcpus": re.sub(r"(id='5' enabled=)'no'", r"\1'yes'", prepared),
        "topology": prepared.replace("cores='6'", "cores='3' "),
    }[element]
    assert changed != prepared
    reverted = revert(changed)
    for part in (r">6</vcpu>", r"<vcpu id='5'"):
        assert part in reverted.xml
    assert len([one for one in reverted.kept if "stays with it" in one]) == 2
    assert "org.vscaf.agent.0" not in reverted.xml.partition("</metadata>")[2]


def test_what_was_put_back_by_hand_is_forgotten() -> None:
    prepared = plan(Q35, 6).xml
    channel = r"\s*<channel type='unix'>\s*<target type='virtio' name='org.vscaf.agent.0'/>\s*</channel>"
    by_hand = re.sub(channel, "", prepared)
    assert by_hand != prepared
    reverted = revert(by_hand)
    assert reverted.xml == Q35 and reverted.kept == ()


def test_prepared_again_after_a_change_by_hand_undo_goes_back_to_that_change() -> None:
    changed = plan(PC, 6).xml.replace("hotpluggable='yes'", "hotpluggable='no'", 1)
    again = plan(changed)
    assert [change.kind for change in again.changes] == ["pluggable"]
    reverted = revert(again.xml)
    assert reverted.kept == () or "hotpluggable='no'" in reverted.xml


@pytest.mark.parametrize(
    ("element", "before"),
    [
        ("vcpu", "<vcpu>2</vcpu><devices/>"),
        ("vcpu", "<devices/>"),
        ("vcpu", "<vcpu><disk/></vcpu>"),
        ("vcpus", "<vcpus><disk/></vcpus>"),
        ("vcpus", "<vcpus><vcpu><disk/></vcpu></vcpus>"),
        ("topology", "not XML"),
        ("channel", "<channel type='unix'/>"),
        ("controller", "<controller type='usb' index='0'/>"),
        ("controller", "<controller><disk/></controller>"),
        ("disk", ""),
    ],
)
def test_a_record_that_says_anything_else_is_refused(element: str, before: str) -> None:
    """Who may edit metadata must not define devices by it."""
    text = record_element(difference(Q35, plan(Q35).xml)).replace("element='vcpus'", f"element='{element}'", 1)
    escaped = before.replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(rf"(<[\w:-]+ element='{element}' fingerprint='\w+')/>", rf"\1>{escaped}</vscaf-prepared:made>", text)
    xml = with_metadata(Q35, RECORD, text)
    with pytest.raises(HypervisorError, match=r"damaged.*virsh metadata DOMAIN"):
        revert(xml)
    assert read_record(with_metadata(Q35, RECORD, record_element(Record()))) == Record()


def test_fingerprints_do_not_depend_on_how_an_element_is_written() -> None:
    assert fingerprint("<a b='1' c='2'>\n  <d/>\n</a>") == fingerprint('<a c="2" b="1"><d></d></a>')
    assert fingerprint("<a b='1'/>") != fingerprint("<a b='2'/>")
