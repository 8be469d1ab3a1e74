"""The role domain on libvirt's test driver.

Each process reads that driver's domains from a file and forgets its changes at its end. So for the second run, what the
first one makes of a domain is written to the file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import libvirt
import pytest
from conftest import BIN, Played
from vscaf.prepare.apply import prepare

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
        "vscaf_domain_list": [{"name": "a", "min": 1, "weight": 2.0, "maximum_vcpus": 4}],
    }


def after_the_first_run(directory: Path, uri: str) -> str:
    """Writes a node whose domain is as the role leaves it. Returns its URI."""
    connection = libvirt.open(uri)
    prepare(uri, "a", 4, opener=lambda _uri: _Kept(connection))
    domain = connection.lookupByName("a")
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, RULES, "vscaf", NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    path = directory / "prepared.xml"
    path.write_text(NODE.format(cpus=8, domains=domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)), encoding="utf-8")
    connection.close()
    return f"test://{path}"


class _Kept:
    """A connection that stays open, because the test driver forgets all when it is closed."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def close(self) -> None:
        pass


def test_a_domain_is_prepared_and_gets_its_rules(play: Play, given: dict[str, Any]) -> None:
    for options in (("--check", "--diff"), ("--diff",)):
        done = play(role(), *options, variables=given)
        assert done.status == 0 and done.changed == CHANGED, done.output
        assert f"+config: {RULES}" in done.output
        assert "org.vscaf.agent.0" in done.output and "needs a shutdown and a start" in done.output


def test_a_second_run_changes_nothing_and_uninstall_takes_all(
    play: Play, given: dict[str, Any], tmp_path: Path
) -> None:
    given["vscaf_domain_uri"] = after_the_first_run(tmp_path, given["vscaf_domain_uri"])
    for options in (("--check",), ()):
        done = play(role(), *options, variables=given)
        assert done.status == 0 and done.changed == (), done.output
    checked = play(role("uninstall"), "--check", variables=given)
    assert checked.status == 0 and checked.changed == TAKEN, checked.output


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
