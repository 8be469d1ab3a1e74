"""The role domain on libvirt's test driver. Each process has its own copy of that driver's domains, so a second run
cannot see what the first one did. That is tested in test_vscaf_domain.py, in one process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from conftest import BIN, Played

DOMAIN = [{"name": "Domain", "ansible.builtin.include_role": {"name": "vscaf.vscaf.domain"}}]
VARIABLES: dict[str, Any] = {
    "vscaf_domain_uri": "test:///default",
    "vscaf_domain_command": str(BIN / "vscaf"),
    "vscaf_domain_list": [{"name": "test", "min": 1, "weight": 2.0, "maximum_vcpus": 4}],
}


def test_rules_alone(play: Callable[..., Played]) -> None:
    given = {**VARIABLES, "vscaf_domain_prepare": False}
    for options in (("--check", "--diff"), ("--diff",)):
        done = play(DOMAIN, *options, variables=given)
        assert done.status == 0 and done.changed == ("Set the rules of the domains",), done.output
        assert '+config: <partition min="1" weight="2"/>' in done.output


def test_wrong_rules_are_refused(play: Callable[..., Played]) -> None:
    given = {**VARIABLES, "vscaf_domain_prepare": False, "vscaf_domain_list": [{"name": "test", "rest": "sleep"}]}
    done = play(DOMAIN, variables=given)
    assert done.status != 0 and "rest" in done.output


def test_vscaf_prepare(play: Callable[..., Played]) -> None:
    help_text = subprocess.run([BIN / "vscaf", "--help"], capture_output=True, text=True, check=True).stdout
    if "  prepare " not in help_text:
        pytest.skip("this vscaf has no command `prepare`: the role was not tried with it")
    for options in (("--check",), ()):
        done = play(DOMAIN, *options, variables=VARIABLES)
        assert done.status == 0, done.output
        assert done.changed == ("Make the domain partitionable", "Set the rules of the domains"), done.output
