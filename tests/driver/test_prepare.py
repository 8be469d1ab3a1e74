"""`vscaf prepare` on libvirt's test driver: what libvirt makes of the definition, and what a running domain keeps."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest
from click.testing import CliRunner
from vscaf.cli.main import main
from vscaf.errors import HypervisorError, HypervisorUnreachable, UsageError
from vscaf.hypervisor.libvirt.metadata import NAMESPACE
from vscaf.prepare.apply import Outcome, prepare, undo
from vscaf.prepare.record import RECORD_NAMESPACE

from .faults import BROKEN_PIPE, Code, Faults
from .node import write_node

INACTIVE = libvirt.VIR_DOMAIN_XML_INACTIVE
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
CONFIG = libvirt.VIR_DOMAIN_AFFECT_CONFIG
SECURE = libvirt.VIR_DOMAIN_XML_SECURE
ELEMENT = libvirt.VIR_DOMAIN_METADATA_ELEMENT
ELEMENTS = """
    <metadata><other xmlns='urn:other' of='somebody'/></metadata>
    <cpu><topology sockets='1' dies='1' cores='2' threads='1'/></cpu>
    <devices>
      <graphics type='vnc' port='5900' passwd='secret'/>
    </devices>"""


class Site:
    """A node with one running domain `a`, and the calls under test on it."""

    def __init__(self, directory: Path, elements: str = ELEMENTS) -> None:
        self.faults = Faults()
        self.uri = write_node(directory, 8, {"a": (2, 2)}, elements)
        self.faults.open(self.uri)
        self.found = self.definition()

    @property
    def domain(self) -> Any:
        return self.faults.real.lookupByName("a")

    def definition(self) -> str:
        """The persistent definition, with its password."""
        return str(self.domain.XMLDesc(INACTIVE | SECURE))

    def run(self) -> tuple[Any, ...]:
        """The running domain: its number, its vCPUs and their pins, and its devices."""
        devices = ElementTree.fromstring(self.domain.XMLDesc(0)).find("./devices")
        assert devices is not None
        return (
            self.domain.ID(),
            self.domain.vcpusFlags(LIVE),
            self.domain.maxVcpus(),
            self.domain.vcpuPinInfo(LIVE),
            ElementTree.tostring(devices),
        )

    def prepare(self, maximum: int | None = None, **options: bool) -> Outcome:
        return prepare(self.uri, "a", maximum, opener=self.faults.open, **options)

    def undo(self, **options: bool) -> Outcome:
        return undo(self.uri, "a", opener=self.faults.open, **options)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@contextmanager
def nothing_changes(site: Site) -> Iterator[None]:
    before = site.definition(), site.domain.XMLDesc(SECURE)
    yield
    assert (site.definition(), site.domain.XMLDesc(SECURE)) == before


def test_prepared_and_put_back_while_it_runs(site: Site) -> None:
    live = site.run()
    outcome = site.prepare(4)
    root = ElementTree.fromstring(site.definition())
    assert root.findtext("./vcpu") == "4" and root.find("./vcpu[@current='2']") is not None
    assert [one.get("hotpluggable") for one in root.iterfind("./vcpus/vcpu")] == ["no", "yes", "yes", "yes"]
    assert [one.get("enabled") for one in root.iterfind("./vcpus/vcpu")] == ["yes", "yes", "no", "no"]
    assert root.find("./cpu/topology[@cores='4']") is not None
    assert root.find("./devices/controller[@type='virtio-serial']") is not None
    assert root.find("./devices/channel/target[@name='org.vscaf.agent.0']") is not None
    assert root.find("./devices/graphics[@passwd='secret']") is not None, "a definition keeps its passwords"
    assert root.find("./metadata/{urn:other}other[@of='somebody']") is not None
    assert len(outcome.done) == 5
    assert outcome.now == ("metadata: vscaf manages this domain",)
    assert len(outcome.later) == 4
    assert site.domain.isActive() and site.run() == live
    assert site.domain.metadata(ELEMENT, NAMESPACE, LIVE) == "<partition/>"

    back = site.undo()
    assert site.definition() == site.found
    assert (len(back.done), back.kept) == (6, ())
    assert site.domain.isActive() and site.run() == live
    assert NAMESPACE not in site.domain.XMLDesc(0)
    assert any("until it is shut down and started" in note for note in back.notes)


def test_a_domain_that_does_not_run_needs_no_restart(site: Site) -> None:
    site.domain.destroy()
    outcome = site.prepare(4)
    assert (outcome.now, outcome.later) == ((), ())
    site.domain.create()
    assert site.domain.maxVcpus() == 4 and site.domain.vcpusFlags(LIVE) == 2
    site.domain.setVcpusFlags(4, LIVE)
    site.domain.setVcpusFlags(1, LIVE)
    assert site.prepare().later == ()


def test_a_second_time_there_is_nothing_to_change_but_the_restart_is_still_said(site: Site) -> None:
    first = site.prepare(4)
    with nothing_changes(site):
        again = site.prepare(4)
    assert (again.diff, again.done, again.now, again.later) == ((), (), (), first.later)
    with nothing_changes(site):
        assert site.prepare().done == ()


def test_several_runs_are_put_back_in_one(site: Site) -> None:
    site.prepare()
    site.prepare(4)
    site.prepare(6)
    assert ElementTree.fromstring(site.definition()).findtext("./vcpu") == "6"
    assert site.undo().kept == ()
    assert site.definition() == site.found


def test_the_difference_is_that_of_libvirts_own_texts_without_passwords(site: Site) -> None:
    before = site.domain.XMLDesc(INACTIVE)
    diff = site.prepare(4).diff
    after = site.domain.XMLDesc(INACTIVE)
    assert [line[1:] for line in diff[2:] if line.startswith("-")] == [
        line for line in before.splitlines() if line not in after.splitlines()
    ]
    assert {line[1:] for line in diff[2:] if line.startswith("+")} >= set(after.splitlines()) - set(before.splitlines())
    assert "secret" not in "".join(diff)


def test_a_dry_run_changes_nothing_and_says_the_same(site: Site) -> None:
    with nothing_changes(site):
        dry = site.prepare(4, dry_run=True)
    real = site.prepare(4)
    assert (dry.done, dry.now, dry.later) == (real.done, real.now, real.later)
    assert {"+      <target type='virtio' name='org.vscaf.agent.0'/>"} <= {*dry.diff} & {*real.diff}
    with nothing_changes(site):
        dry = site.undo(dry_run=True)
    real = site.undo()
    assert (dry.done, dry.diff) == (real.done, real.diff)


def test_what_the_operator_changed_since_stays(site: Site) -> None:
    site.prepare(4)
    site.domain.setMetadata(ELEMENT, "<partition max='3'/>", "vscaf", NAMESPACE, CONFIG | LIVE)
    site.domain.setVcpusFlags(3, CONFIG)
    changed = site.undo()
    root = ElementTree.fromstring(site.definition())
    assert root.find("./vcpu[@current='3']") is not None and root.findtext("./vcpu") == "4"
    assert root.find("./cpu/topology[@cores='4']") is not None
    assert root.find(f"./metadata/{{{NAMESPACE}}}partition[@max='3']") is not None
    assert root.find("./devices/channel") is None and root.find("./devices/controller") is None
    assert "<vcpu> was changed since" in changed.kept and "the metadata were changed since" in changed.kept
    assert "max='3'" in site.domain.metadata(ELEMENT, NAMESPACE, LIVE).replace('"', "'")
    with nothing_changes(site):
        assert site.undo().kept


def test_live_metadata_that_were_changed_since_stay(site: Site) -> None:
    site.prepare(4)
    site.domain.setMetadata(ELEMENT, "<partition weight='2'/>", "vscaf", NAMESPACE, LIVE)
    assert site.undo().kept == ()
    assert "weight" in site.domain.metadata(ELEMENT, NAMESPACE, LIVE)


def test_a_channel_is_attached_now_if_its_controller_is_there(tmp_path: Path) -> None:
    elements = "<devices><controller type='virtio-serial' index='0'/></devices>"
    site = Site(tmp_path, elements)
    attached: list[tuple[Any, ...]] = []
    # The test driver attaches no channels, so the layer takes the call.
    site.faults.inject("attachDeviceFlags", arguments=lambda *given: attached.append(given) or given, error=None)
    outcome = site.prepare()
    ((xml, flags),) = attached
    assert "name='org.vscaf.agent.0'" in xml and flags == LIVE
    assert [line for line in outcome.later if "could not be added now" in line], "the test driver refuses it"
    assert site.definition().count("org.vscaf.agent.0") >= 1


def test_a_channel_that_is_attached_needs_no_restart(tmp_path: Path) -> None:
    site = Site(tmp_path, "<devices><controller type='virtio-serial' index='0'/></devices>")
    outcome = site.prepare(dry_run=True)
    assert "a channel org.vscaf.agent.0" in outcome.now and "a channel org.vscaf.agent.0" not in outcome.later


def test_a_domain_that_was_saved_is_noted(site: Site) -> None:
    site.domain.managedSave(0)
    assert any("virsh managedsave" in note for note in site.prepare(4).notes)


@pytest.mark.parametrize("call", [prepare, undo])
def test_a_transient_domain_and_an_unknown_one_are_refused(site: Site, call: Any) -> None:
    site.faults.real.createXML(
        "<domain type='test'><name>b</name><memory>65536</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>", 0
    )
    with pytest.raises(UsageError, match=r"domain b is transient: .* `virsh define`"):
        call(site.uri, "b", opener=site.faults.open)
    assert not site.faults.real.lookupByName("b").isPersistent()
    with pytest.raises(UsageError, match=r"domain c: libvirt at test:///.* has no such domain"):
        call(site.uri, "c", opener=site.faults.open)


@pytest.mark.parametrize("what", ["prepare", "undo"])
@pytest.mark.parametrize(
    ("method", "code", "expected"),
    [
        ("open", libvirt.VIR_ERR_NO_CONNECT, (HypervisorUnreachable, "check that libvirtd runs")),
        ("open", libvirt.VIR_ERR_AUTH_UNAVAILABLE, (HypervisorError, "not permitted .*as root")),
        ("open", BROKEN_PIPE, (HypervisorUnreachable, "check that libvirtd runs")),
        ("defineXMLFlags", BROKEN_PIPE, (HypervisorUnreachable, "check that libvirtd runs")),
        ("lookupByName", libvirt.VIR_ERR_NO_DOMAIN, (UsageError, "no such domain")),
        ("XMLDesc", libvirt.VIR_ERR_OPERATION_DENIED, (HypervisorError, "not permitted .*as root")),
        ("XMLDesc", libvirt.VIR_ERR_OPERATION_TIMEOUT, (HypervisorError, "domain a: another job .*virsh domjobinfo a")),
        ("defineXMLFlags", libvirt.VIR_ERR_OPERATION_TIMEOUT, (HypervisorError, "domain a: another job ")),
        ("XMLDesc", libvirt.VIR_ERR_INTERNAL_ERROR, (HypervisorError, "domain a: made up")),
        ("defineXMLFlags", libvirt.VIR_ERR_XML_INVALID_SCHEMA, (UsageError, "nothing was changed: made up")),
        ("defineXMLFlags", libvirt.VIR_ERR_CONFIG_UNSUPPORTED, (UsageError, "nothing was changed: made up")),
        ("defineXMLFlags", libvirt.VIR_ERR_OPERATION_FAILED, (HypervisorError, "domain a: made up")),
        ("defineXMLFlags", libvirt.VIR_ERR_ACCESS_DENIED, (HypervisorError, "not permitted")),
    ],
)
def test_errors_of_libvirt_are_told_apart_by_their_code(
    site: Site, method: str, code: Code, expected: tuple[type[Exception], str], what: str
) -> None:
    error, message = expected
    if what == "undo":
        site.prepare(4)
    site.faults.inject(method, error=code, message="made up")
    with nothing_changes(site), pytest.raises(error, match=message) as raised:
        getattr(site, what)()
    assert raised.type is error
    getattr(site, what)()


def with_address(xml: str) -> str:
    """QEMU's driver gives the channel an address. The test driver does not, so the fault layer adds it."""
    target = "<target type='virtio' name='org.vscaf.agent.0'/>"
    address = "<address type='virtio-serial' controller='0' bus='0' port='1'/>"
    return xml.replace(target, f"{target}\n      {address}")


def test_definitions_are_checked_against_libvirts_schema(site: Site) -> None:
    flags: list[int] = []
    site.faults.inject("defineXMLFlags", times=None, arguments=lambda *given: flags.append(given[1]) or given)
    site.prepare(4)
    site.undo()
    assert flags == [libvirt.VIR_DOMAIN_DEFINE_VALIDATE] * 2


def test_a_record_that_libvirt_does_not_take_is_said(site: Site) -> None:
    site.faults.inject("XMLDesc", skip=2, result=with_address)
    site.faults.inject("setMetadata", error=libvirt.VIR_ERR_OPERATION_FAILED)
    with pytest.raises(HypervisorError, match="it is prepared, but libvirt did not take the record"):
        site.prepare(4)


def test_what_libvirt_adds_to_the_channel_is_in_the_record(site: Site) -> None:
    plain = site.faults.inject("XMLDesc", skip=2, times=None, result=with_address)
    site.prepare(4)
    assert plain.hits and RECORD_NAMESPACE in site.definition()
    assert site.undo(dry_run=True).kept == ()
    site.faults.clear()
    assert "<channel> org.vscaf.agent.0 was changed since" in site.undo(dry_run=True).kept


def test_metadata_that_the_running_domain_does_not_take_need_a_restart(site: Site) -> None:
    site.domain.destroy()
    site.prepare(4)
    site.undo()
    site.domain.create()
    site.faults.inject("setMetadata", skip=0, error=libvirt.VIR_ERR_OPERATION_INVALID, message="made up")
    outcome = site.prepare()
    assert outcome.now == ()
    assert [line for line in outcome.later if "metadata" in line and "(it could not be added now: made up)" in line]


def run(site: Site, *arguments: str) -> Any:
    """The command in this process. Each of its connections to the test driver is another copy of the node."""
    return CliRunner().invoke(main, ["prepare", "a", "--uri", site.uri, *arguments])


def test_the_command_shows_the_difference_and_what_needs_a_restart(site: Site) -> None:
    done = run(site, "--maximum", "4")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- a before", "+++ a after"]
    assert {"-  <vcpu placement='static'>2</vcpu>", "+  <vcpu placement='static' current='2'>4</vcpu>"} < set(lines)
    assert lines[lines.index("a: changed:") + 1] == "  at most 4 vCPUs instead of 2"
    assert lines[lines.index("a runs, and has at once:") + 1 :][0] == "  metadata: vscaf manages this domain"
    assert any(line.startswith("a runs, and needs a shutdown and a start (a reboot from inside") for line in lines)
    dry = run(site, "--pool", "0,2-4", "--dry-run")
    assert dry.exit_code == 0
    assert "a: would be changed:" in dry.stdout and "a runs, and would have at once:" in dry.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--maximum", "4", "--pool", "0-3"], "leave one of them out"),
        (["--pool", "x"], "--pool: 'x' in CPU list 'x' is not N or N-M"),
        (["--pool", ""], "--pool names no pCPU"),
        (["--undo", "--maximum", "4"], "leave out --maximum and --pool"),
    ],
)
def test_arguments_that_do_not_go_together(site: Site, arguments: list[str], message: str) -> None:
    done = run(site, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.fullmatch(r"vscaf: .*\n", done.stderr) and message in done.stderr


def test_undo_of_a_domain_that_was_never_prepared(site: Site) -> None:
    done = run(site, "--undo")
    assert (done.exit_code, done.stdout) == (0, "a: nothing to put back\n")


def test_the_command_after_a_change_by_hand_and_a_second_time(tmp_path: Path) -> None:
    """In test:///default, which all connections of a process share."""
    connection = libvirt.open("test:///default")
    domain = connection.lookupByName("test")
    found = domain.XMLDesc(INACTIVE)
    arguments = ["prepare", "test", "--uri", "test:///default"]
    assert CliRunner().invoke(main, [*arguments, "--maximum", "4"]).exit_code == 0
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 0 and again.stdout.startswith("test: nothing to change\n")
    domain.setMetadata(ELEMENT, "<partition max='3'/>", "vscaf", NAMESPACE, CONFIG)
    left = CliRunner().invoke(main, [*arguments, "--undo"])
    assert left.exit_code == 1
    assert "vscaf: domain test: not put back: the metadata were changed since: change it by `virsh edit`" in left.stderr
    domain.setMetadata(ELEMENT, "<partition/>", "vscaf", NAMESPACE, CONFIG)
    assert CliRunner().invoke(main, [*arguments, "--undo"]).exit_code == 0
    assert domain.XMLDesc(INACTIVE) == found
    assert domain.isActive()
    connection.close()
