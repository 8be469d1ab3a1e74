"""The role domain on libvirt's test driver.

Each process reads that driver's domains from a file and forgets its changes at its end. With the fixture `kept` each
process writes them back to the file. virsh is a stand-in where a domain is shut down and started.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import libvirt
import pytest
from conftest import BIN, Played

from tests.driver.node import NODE, write_node

RULES = '<partition min="1" weight="2"/>'
CHANGED = ("Make the domain partitionable", "Set the rules of the domains")
TAKEN = ("Remove the rules of the domains", "Undo what vscaf prepare has changed")
NAMESPACE = "https://vscaf.org/xmlns/partition/1"
Play = Callable[..., Played]


def role(tasks_from: str = "main") -> list[dict[str, Any]]:
    return [{"name": "Role", "ansible.builtin.include_role": {"name": "vscaf.vscaf.domain", "tasks_from": tasks_from}}]


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """Variables for a node with one running domain."""
    return {
        "vscaf_domain_uri": write_node(tmp_path, 8, {"a": (2, 2)}),
        "vscaf_domain_command": str(BIN / "vscaf"),
        "vscaf_domain_notes": str(tmp_path / "notes"),
        "vscaf_domain_list": [{"name": "a", "min": 1, "weight": 2.0, "maximum_vcpus": 4}],
    }


KEEP = f"""
import libvirt

close = libvirt.virConnect.close

def keep(connection):
    domains = "".join(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) for domain in connection.listAllDomains())
    with open(connection.getURI().removeprefix("test://"), "w", encoding="utf-8") as file:
        file.write({NODE!r}.format(cpus=8, domains=domains))
    return close(connection)

libvirt.virConnect.close = keep
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python that a play starts keeps the changes of the test driver's domains, and lets them run."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "sitecustomize.py").write_text(KEEP, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'python'}:{os.environ.get('PYTHONPATH', '')}")


def definitions(uri: str) -> dict[str, str]:
    """What `virsh dumpxml --inactive` prints of each domain."""
    connection = libvirt.open(uri)
    found = {domain.name(): domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) for domain in connection.listAllDomains()}
    connection.close()
    return found


def test_a_domain_is_prepared_and_gets_its_rules(play: Play, given: dict[str, Any]) -> None:
    for options in (("--check", "--diff"), ("--diff",)):
        done = play(role(), *options, variables=given)
        assert done.status == 0 and done.changed == CHANGED, done.output
        assert f"+config: {RULES}" in done.output
        assert "org.vscaf.agent.0" in done.output and "needs a shutdown and a start" in done.output


@pytest.mark.usefixtures("kept")
def test_a_second_run_changes_nothing_and_uninstall_takes_all(
    play: Play, given: dict[str, Any], tmp_path: Path
) -> None:
    """But not what somebody has changed since. A domain that is gone by then is no failure."""
    uri = given["vscaf_domain_uri"] = write_node(tmp_path, 8, {"a": (2, 2), "b": (2, 2), "gone": (2, 2)})
    subprocess.run([sys.executable, "-c", f"import libvirt; libvirt.open({uri!r}).close()"], check=True)  # with UUIDs
    before = definitions(uri)
    given["vscaf_domain_list"] = [{"name": name, "min": 1, "weight": 2.0, "maximum_vcpus": 4} for name in before]
    done = play(role(), variables=given)
    assert done.status == 0 and done.changed == CHANGED, done.output
    for options in (("--check",), ()):
        done = play(role(), *options, variables=given)
        assert done.status == 0 and done.changed == (), done.output

    prepared = definitions(uri)
    more = prepared["b"].replace(">4</vcpu>", ">6</vcpu>")
    assert RULES.split()[1] in prepared["a"] and more != prepared["b"]
    (tmp_path / "node.xml").write_text(NODE.format(cpus=8, domains=prepared["a"] + more), encoding="utf-8")
    checked = play(role("uninstall"), "--check", variables=given)
    assert checked.status == 0 and checked.changed == TAKEN, checked.output
    done = play(role("uninstall"), variables=given)
    assert done.status == 0 and done.changed == TAKEN, done.output
    assert "<vcpu> was changed since" in done.output and "has no such domain" in done.output
    left = definitions(uri)
    assert left["a"] == before["a"]
    assert ">6</vcpu>" in left["b"] and "org.vscaf.agent.0" not in left["b"]


def test_uninstall_of_what_was_never_prepared(play: Play, given: dict[str, Any]) -> None:
    for options in (("--check",), ()):
        done = play(role("uninstall"), *options, variables=given)
        assert done.status == 0 and done.changed == (), done.output


def test_check_mode_before_vscaf_is_there(play: Play, given: dict[str, Any]) -> None:
    """As with `site.yml --check` on a new host, where check mode has installed nothing."""
    given |= {"vscaf_domain_command": "/nowhere/vscaf"}
    done = play(role(), "--check", variables=given)
    assert done.status == 0 and done.changed == () and "is not there yet" in done.output, done.output
    assert play(role(), variables=given).status != 0


def test_uninstall_after_that_of_the_host(play: Play, given: dict[str, Any]) -> None:
    done = play(role("uninstall"), variables={**given, "vscaf_domain_command": "/nowhere/vscaf"})
    assert done.status == 0 and done.changed == () and "left as they are" in done.output, done.output


def test_rules_alone(play: Play, given: dict[str, Any]) -> None:
    done = play(role(), variables={**given, "vscaf_domain_prepare": False})
    assert done.status == 0 and done.changed == CHANGED[1:], done.output


def test_wrong_rules_are_refused(play: Play, given: dict[str, Any]) -> None:
    done = play(role(), variables={**given, "vscaf_domain_list": [{"name": "a", "rest": "sleep"}]})
    assert done.status != 0 and "rest" in done.output


VIRSH = """#!/bin/sh
# --connect URI COMMAND NAME
cd "${0%/*}/../domains"
echo "$3 $4" >>log
case $3 in
    domstate) cat "$4" ;;
    shutdown) [ -e hangs ] || echo 'shut off' >"$4" ;;
    start) grep -q 'shut off' "$4" && echo running >"$4" ;;
esac
"""
NEEDS = """#!/bin/sh
! grep -q 'shut off' "${0%/*}/../domains/$2" || { echo "$2: nothing to change"; exit; }
echo "$2 runs, and needs a shutdown and a start for:"
"""


class StandIns:
    """Of virsh and vscaf: domains whose states are files."""

    def __init__(self, directory: Path, **states: str) -> None:
        self.domains, self.programs = directory / "domains", directory / "programs"
        self.domains.mkdir()
        self.programs.mkdir()
        for name, state in states.items():
            self.put(name, state)
        for name, text in {"virsh": VIRSH, "vscaf": NEEDS}.items():
            (self.programs / name).write_text(text, encoding="utf-8")
            (self.programs / name).chmod(0o755)

    def put(self, name: str, state: str) -> None:
        (self.domains / name).write_text(f"{state}\n", encoding="utf-8")

    def state(self, name: str) -> str:
        return (self.domains / name).read_text(encoding="utf-8").strip()

    def asked(self, command: str) -> list[str]:
        """The domains for which it was called."""
        lines = (self.domains / "log").read_text(encoding="utf-8").splitlines()
        return [line.split()[1] for line in lines if line.split()[0] == command]


def test_a_domain_that_shuts_down_too_slowly_is_started_by_the_next_play(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that somebody else has shut down stays off, and of one that is paused the play says so."""
    there = StandIns(tmp_path, slow="running", off="shut off", quick="running", paused="paused")
    monkeypatch.setenv("PATH", f"{there.programs}:{os.environ['PATH']}")
    given: dict[str, Any] = {
        "vscaf_domain_command": str(there.programs / "vscaf"),
        "vscaf_domain_notes": str(tmp_path / "notes"),
        "vscaf_domain_power_cycle": True,
        "vscaf_domain_power_cycle_timeout_s": 2,
    }

    def run(*names: str) -> Played:
        domains = [{"name": name} for name in names]
        return play(role(), "--skip-tags", "vscaf_rules", variables={**given, "vscaf_domain_list": domains})

    (there.domains / "hangs").touch()
    failed = run("slow", "off")
    assert failed.status != 0 and there.asked("shutdown") == ["slow"] and there.asked("start") == [], failed.output
    (there.domains / "hangs").unlink()
    there.put("slow", "shut off")
    done = run("slow", "off", "quick")
    assert done.status == 0 and there.asked("start") == ["slow", "quick"], done.output
    assert there.state("off") == "shut off" and list((tmp_path / "notes").iterdir()) == []
    failed = run("paused")
    assert failed.status != 0 and there.asked("shutdown") == ["slow", "quick"], failed.output
