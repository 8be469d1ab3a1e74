"""The roles host and guest, without their services, in minimal Debian systems, each in a chroot.

For `make check-ansible-roots`. Needs root, debootstrap, Debian's mirror and PyPI. The Makefile starts it in a mount
namespace of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Played
from installed import different, state
from roots import by_chroot, debian, overlay

pytestmark = pytest.mark.skipif(
    "VSCAF_ANSIBLE_ROOTS" not in os.environ, reason="only make check-ansible-roots sets VSCAF_ANSIBLE_ROOTS"
)
SUITES = os.environ.get("VSCAF_ANSIBLE_SUITES", "bookworm trixie").split()
Play = Callable[..., Played]


def role(name: str, tasks_from: str = "main") -> list[dict[str, Any]]:
    return [{"name": "Role", "ansible.builtin.include_role": {"name": f"vscaf.vscaf.{name}", "tasks_from": tasks_from}}]


@pytest.fixture(scope="module", params=SUITES)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A minimal Debian, with the Python that Ansible needs."""
    lower = debian(Path(os.environ["VSCAF_ANSIBLE_ROOTS"]), request.param)
    with overlay(lower, tmp_path_factory.mktemp(request.param)) as root:
        yield root


def inside(system: Path, *command: str) -> str:
    return subprocess.run(["chroot", system, *command], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["host", "guest"])
def test_install_again_and_uninstall(play: Play, system: Path, archive: Path, tmp_path: Path, name: str) -> None:
    before = state(system)
    given = {
        f"vscaf_{name}_source": str(archive),
        f"vscaf_{name}_service": "none",
        "vscaf_host_pool": "0-1",
        "vscaf_guest_check": False,  # there is no port to a host
    }

    def run(tasks: Any, *options: str) -> Played:
        done = play(tasks, *options, variables=given, inventory={"all": {"hosts": {"there": by_chroot(system)}}})
        assert done.status == 0, done.output
        return done

    assert run(role(name), "--check").counts["changed"] > 0
    assert different(before, state(system)) == {}, "check mode has changed something"
    first = run(role(name))
    assert first.counts["changed"] > 0
    if name == "host":
        assert "good: pool 0-1" in inside(system, "vscaf", "check-config")
    else:
        assert "vscaf" in inside(system, "vscaf-agent", "--version")
        assert inside(system, "vscaf-run", "/bin/true") == ""
    assert run(role(name)).changed == ()
    assert run(role(name), "--check").changed == ()
    if name == "host":
        another = tmp_path / "another.tar.gz"
        subprocess.run(["git", "-C", ROOT, "archive", "--prefix=vscaf/", "--output", another, "HEAD"], check=True)
        given["vscaf_host_source"] = str(another)
        assert "Remove older versions" in run(role(name)).changed
        assert "good: pool 0-1" in inside(system, "vscaf", "check-config")
        assert len(list((system / "opt/vscaf").iterdir())) == 1
        assert run(role(name)).changed == ()
    assert run(role(name, "uninstall"), "--check").counts["changed"] > 0
    run(role(name, "uninstall"))
    assert different(before, state(system)) == {}
    assert run(role(name, "uninstall")).changed == ()
