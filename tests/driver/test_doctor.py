"""`vscaf doctor` on libvirt's test driver: it finds what domains lack, and nothing at a good domain."""

import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libvirt
import pytest
from click.testing import CliRunner
from vscaf.cli.main import main
from vscaf.config import load_config
from vscaf.doctor import examination
from vscaf.doctor.examination import examine, gather
from vscaf.doctor.finding import Finding, Severity
from vscaf.lab.polling import until
from vscaf.prepare.apply import prepare

from .faults import Faults
from .hosts import ONLINE
from .node import write_node
from .test_commands import CONFIG, a_site

METADATA = '<metadata><vscaf:partition xmlns:vscaf="https://vscaf.org/xmlns/partition/1" max="2"/></metadata>'
VCPUS = "<vcpus><vcpu id='0' enabled='yes' hotpluggable='no'/><vcpu id='1' enabled='{}' hotpluggable='{}'/></vcpus>"
CHANNEL = """<devices><channel type='unix'><source mode='{}'/>
<target type='virtio' name='org.vscaf.agent.0'/></channel></devices>"""
GOOD = METADATA + VCPUS.format("yes", "yes") + CHANNEL.format("bind")

BROKEN = {
    "channel": (GOOD.replace("org.vscaf.agent.0", "org.qemu.guest_agent.0"), (2, 2)),
    "vcpus": (METADATA + CHANNEL.format("bind"), (1, 1)),
    "hotplug": (GOOD.replace("hotpluggable='yes'", "hotpluggable='no'"), (2, 2)),
    "managed": (GOOD.replace("max=", "most="), (2, 2)),
    "topology": (f"{GOOD}<cpu><topology sockets='1' cores='1' threads='2'/></cpu>", (2, 2)),
    "numa": (f"{GOOD}<numatune><memory mode='strict' nodeset='1'/></numatune>", (2, 2)),
    "hugepages": (f"{GOOD}<memoryBacking><hugepages/></memoryBacking>", (2, 2)),
}
"""A domain for each check: what is wrong with it, and its vCPUs and their maximum."""


@dataclass
class Site:
    """A host whose files are made up, and its configuration."""

    directory: Path
    uri: str

    @property
    def config(self) -> Path:
        return self.directory / "vscaf.toml"

    def findings(self, *named: str, opener: Callable[[str], Any] = libvirt.openReadOnly) -> list[Finding]:
        """Of the made-up host."""

        async def work() -> list[Finding]:
            settings = load_config(self.config)
            socket, root = self.directory / "control.sock", self.directory / "root"
            return examine(await gather(self.config, settings, socket, named, root=root, opener=opener))

        return asyncio.run(work())

    def severities(self, name: str, faults: Faults) -> dict[str, Severity]:
        """Of each check of a domain."""
        findings = self.findings(opener=faults.open)
        return {one.check: one.severity for one in findings if one.subject == f"domain {name}"}

    def problems(self) -> dict[str, set[str]]:
        """The checks with a problem, by domain."""
        found: dict[str, set[str]] = {}
        for one in self.findings():
            if one.severity is Severity.PROBLEM:
                assert one.fix
                found.setdefault(one.subject, set()).add(one.check)
        return {subject: checks for subject, checks in found.items() if subject != "host"}


def make_site(directory: Path, bodies: dict[str, tuple[str, tuple[int, int]]], pool: str = "2,4") -> Site:
    """A site with these running domains (name -> further XML, vCPUs and maximum)."""
    uri = write_node(directory, 4, {name: vcpus for name, (_xml, vcpus) in bodies.items()})
    node = directory / "node.xml"
    text = node.read_text(encoding="utf-8")
    for name, (xml, _vcpus) in bodies.items():
        before, _, after = text.partition(f"<name>{name}</name>")
        text = f"{before}<name>{name}</name>{after.replace('<os>', f'{xml}<os>', 1)}"
    node.write_text(text, encoding="utf-8")
    (directory / "vscaf.toml").write_text(f'uri = "{uri}"\npool = "{pool}"\n', encoding="utf-8")
    pages = directory / "root/sys/devices/system/node/node0/hugepages/hugepages-2048kB"
    pages.mkdir(parents=True)
    (pages / "nr_hugepages").write_text("0\n", encoding="utf-8")
    (directory / "root/proc").mkdir()
    (directory / "root/proc/meminfo").write_text("Hugepagesize:       2048 kB\n", encoding="utf-8")
    return Site(directory, uri)


def test_good_domains_have_no_problem(tmp_path: Path) -> None:
    site = make_site(tmp_path, {"a": (GOOD, (2, 2)), "b": (GOOD, (2, 2))})
    assert site.problems() == {}
    states = {one.check: one.severity for one in site.findings("a") if one.subject == "domain a"}
    for check in ("managed", "vcpus", "hotplug", "channel", "topology", "accelerator", "pins", "numa", "hugepages"):
        assert states[check] is Severity.READY, check


def test_each_problem_is_found_at_its_domain_and_at_no_other(tmp_path: Path) -> None:
    site = make_site(tmp_path, {**BROKEN, "good": (GOOD, (2, 2))})
    assert site.problems() == {f"domain {check}": {check} for check in BROKEN}


def test_a_stranger_on_the_pool(tmp_path: Path) -> None:
    site = make_site(
        tmp_path, {"stranger": ("", (1, 1)), "away": ("<cputune><vcpupin vcpu='0' cpuset='0'/></cputune>", (1, 1))}
    )
    assert site.problems() == {"domain stranger": {"managed"}}
    (finding,) = [one for one in site.findings() if one.severity is Severity.PROBLEM and one.subject != "host"]
    assert "CPU 2,4 of the pool" in finding.text and "vcpupin stranger $vcpu 0 --live --config" in (finding.fix or "")


def test_the_host_is_read_from_libvirt(tmp_path: Path) -> None:
    site = make_site(tmp_path, {"a": (GOOD, (2, 2))}, pool="0,2,6")
    host = {one.check: one for one in site.findings() if one.subject == "host"}
    assert host["libvirt"].severity is Severity.READY and host["qemu"].severity is Severity.NOTE
    assert host["pool"].severity is Severity.PROBLEM and "CPU 6 is not online" in host["pool"].text
    assert host["daemon"].severity is Severity.NOTE
    assert {0, 2, 4} == ONLINE


def test_a_domain_of_the_configuration_that_is_not_there(tmp_path: Path) -> None:
    site = make_site(tmp_path, {"a": (GOOD, (2, 2))})
    with site.config.open("a", encoding="utf-8") as file:
        file.write("[domains.gone]\n")
    (finding,) = [one for one in site.findings() if one.check == "domains"]
    assert finding.severity is Severity.PROBLEM and "[domains.gone]" in finding.text


def test_libvirt_that_cannot_be_reached(tmp_path: Path) -> None:
    site = make_site(tmp_path, {"a": (GOOD, (2, 2))})
    (tmp_path / "node.xml").unlink()
    findings = site.findings()
    assert {one.subject for one in findings} == {"host"}
    assert [one.severity for one in findings if one.check == "libvirt"] == [Severity.PROBLEM]
    assert [one.severity for one in findings if one.check == "domains"] == [Severity.UNKNOWN]


@pytest.mark.parametrize("code", [libvirt.VIR_ERR_OPERATION_DENIED, libvirt.VIR_ERR_AUTH_UNAVAILABLE])
def test_who_may_not_ask_libvirt_is_told_to_be_root(code: int, tmp_path: Path) -> None:
    site, faults = make_site(tmp_path, {"a": (GOOD, (2, 2))}), Faults()
    faults.inject("open", error=code)
    (finding,) = [one for one in site.findings(opener=faults.open) if one.check == "libvirt"]
    assert (finding.severity, finding.fix) == (Severity.PROBLEM, "sudo vscaf doctor")


def test_doctor_only_reads(tmp_path: Path) -> None:
    """It opens a connection that cannot write, and leaves the domains as they are."""
    opened: list[Any] = []
    really = libvirt.openReadOnly

    def open_read_only(uri: str) -> Any:
        opened.append(really(uri))
        return opened[-1]

    site = make_site(tmp_path, {"a": (GOOD, (2, 2))})

    async def work() -> list[Finding]:
        facts = await gather(site.config, load_config(site.config), tmp_path / "none", opener=open_read_only)
        return examine(facts)

    assert asyncio.run(work()) and len(opened) == 1
    with pytest.raises(libvirt.libvirtError):
        opened[0].getType()  # closed
    assert gather.__kwdefaults__["opener"] is libvirt.openReadOnly


def test_a_domain_that_cannot_be_read_is_unknown_and_hides_no_other(tmp_path: Path) -> None:
    site, faults = make_site(tmp_path, {"a": (GOOD, (2, 2)), "b": BROKEN["channel"]}), Faults()
    faults.inject("XMLDesc", "a", error=libvirt.VIR_ERR_OPERATION_FAILED)
    findings = site.findings(opener=faults.open)
    assert [(one.check, one.severity) for one in findings if one.subject == "domain a"] == [
        ("managed", Severity.UNKNOWN)
    ]
    assert site.severities("b", faults)["channel"] is Severity.PROBLEM


def test_a_domain_that_goes_away_meanwhile_is_left_out(tmp_path: Path) -> None:
    site, faults = make_site(tmp_path, {"a": (GOOD, (2, 2)), "b": (GOOD, (2, 2))}), Faults()
    faults.inject("XMLDesc", "a", error=libvirt.VIR_ERR_NO_DOMAIN)
    assert {one.subject for one in site.findings(opener=faults.open)} == {"host", "domain b"}


@pytest.mark.parametrize("hang", [True, False])
def test_libvirt_that_fails_or_hangs_amid_the_reading(
    hang: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hang:  # else a busy machine may take longer to give the error
        monkeypatch.setattr(examination, "LIBVIRT_TIMEOUT_S", 0.2)
    site, faults = make_site(tmp_path, {"a": (GOOD, (2, 2))}), Faults()
    faults.inject("listAllDomains", hang=hang, error=None if hang else libvirt.VIR_ERR_RPC)
    (finding,) = [one for one in site.findings(opener=faults.open) if one.check == "libvirt"]
    faults.clear()
    assert finding.severity is Severity.PROBLEM and ("no answer" if hang else "made up") in finding.text


def test_a_transient_domain_is_defined_before_it_is_prepared(tmp_path: Path) -> None:
    site, faults = make_site(tmp_path, {"a": (GOOD, (2, 2))}), Faults()
    faults.open(site.uri)
    xml = faults.real.lookupByName("a").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    xml = re.sub("<uuid>.*</uuid>", "", xml).replace("<name>a<", "<name>b<").replace("org.vscaf.agent.0", "none")
    faults.real.createXML(xml)
    (finding,) = [one for one in site.findings("b", opener=faults.open) if one.check == "channel"]
    assert " define b.xml && vscaf prepare b " in (finding.fix or "")


@pytest.mark.parametrize("check", ["channel", "vcpus", "hotplug"])
def test_vscaf_prepare_and_a_restart_make_a_domain_good(check: str, tmp_path: Path) -> None:
    """The commands that doctor prints, on the test driver's connection, which each process has for itself."""
    site, faults = make_site(tmp_path, {check: BROKEN[check]}), Faults()
    (finding,) = [one for one in site.findings(opener=faults.open) if one.severity is Severity.PROBLEM and one.fix]
    words = shlex.split(finding.fix or "")
    assert finding.check == check and words[:3] == ["vscaf", "prepare", check]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    prepare(options["--uri"], check, int(options.get("--maximum", 0)) or None, opener=faults.open)
    if site.severities(check, faults)[check] is not Severity.READY:  # only the next start is good
        (finding,) = [one for one in site.findings(opener=faults.open) if one.severity is Severity.PROBLEM]
        assert " shutdown " in (finding.fix or "") and " start " in (finding.fix or "")
        domain = faults.real.lookupByName(check)
        domain.destroy()
        domain.create()
    assert site.severities(check, faults)[check] is Severity.READY
    assert [one for one in site.findings(opener=faults.open) if one.severity is Severity.PROBLEM] == []


def test_the_command(tmp_path: Path) -> None:
    """The host is this machine, so only the domains' findings are known before."""
    site = make_site(tmp_path, {"channel": BROKEN["channel"], "good": (GOOD, (2, 2))})
    options = ["--config", str(site.config), "--socket", str(tmp_path / "control.sock")]
    done = CliRunner().invoke(main, ["doctor", *options, "--json"])
    assert done.exit_code == 1, done.output
    bad = [one for one in json.loads(done.stdout) if one["severity"] == "problem" and one["subject"] != "host"]
    assert [(one["subject"], one["check"], one["fix"]) for one in bad] == [
        ("domain channel", "channel", f"vscaf prepare channel --uri {site.uri}")
    ]
    shown = CliRunner().invoke(main, ["doctor", *options])
    assert shown.exit_code == 1
    assert "fix: vscaf prepare channel --uri" in shown.stdout and "1 of 2 domains" in shown.stdout.splitlines()[-1]
    wrong = CliRunner().invoke(main, ["doctor", *options, "nobody"])
    assert (wrong.exit_code, wrong.stdout) == (2, "") and "domain nobody" in wrong.stderr


def test_beside_a_daemon(tmp_path: Path) -> None:
    """Its status is asked, and nothing else of it changes. (Its domains are those of its own connection.)"""
    with a_site(tmp_path, CONFIG) as site:
        until(lambda: set(site.states().values()) == {"contained"})
        assert site.run("release", "b").exit_code == 0
        until(lambda: site.status()["domains"][0]["partition"] == "0,2")  # the next look gives a what b had
        before = site.status()
        findings = json.loads(site.run("doctor", "--json").stdout)
        (daemon,) = [one for one in findings if one["check"] == "daemon"]
        assert (daemon["severity"], daemon["text"]) == ("ready", "runs, policy equipartition")
        released = [one for one in findings if one["check"] == "pins" and one["severity"] == "note"]
        assert [(one["subject"], one["text"]) for one in released] == [("domain b", "released: by request")]
        shown = site.run("doctor", find="--socket").stdout
        assert "no daemon runs" not in shown
        same = ("policy", "pool", "transitions", "managing")
        assert {key: site.status()[key] for key in same} == {key: before[key] for key in same}
        assert site.process.poll() is None


def test_the_command_for_wrong_metadata_makes_them_good(tmp_path: Path) -> None:
    """virsh is a process of its own, and the test driver's state is too, so one virsh changes and shows the domain."""
    site = make_site(tmp_path, {"managed": BROKEN["managed"]})
    (finding,) = [one for one in site.findings() if one.check == "managed"]
    words = shlex.split(finding.fix or "")
    assert words[:3] == ["virsh", "-c", site.uri]
    done = subprocess.run(
        [*words[:3], f"{shlex.join(words[3:])}; dumpxml managed"], capture_output=True, text=True, check=True
    )
    xml = done.stdout[done.stdout.index("<domain ") :]
    assert "most=" in BROKEN["managed"][0] and "most=" not in xml and "partition/1" in xml
