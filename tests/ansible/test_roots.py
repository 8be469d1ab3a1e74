"""The roles host and guest, without their services, in minimal Debian systems, each in a chroot.

For `make check-ansible-roots`. Needs root, debootstrap, Debian's mirror and PyPI. The Makefile starts it in a mount
namespace of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
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


BUILD_PACKAGES = """
export DEBIAN_FRONTEND=noninteractive
cd /root/vscaf
apt-get update
apt-get install -y --no-install-recommends git dpkg-dev
profile=$(tests/packages/profile)
apt-get build-dep -y --no-install-recommends ${profile:+-P $profile} ./
tests/packages/build /root/packages
"""


@pytest.fixture(scope="module", params=SUITES)
def lower(request: pytest.FixtureRequest) -> Path:
    """A minimal Debian, with the Python that Ansible needs."""
    return debian(Path(os.environ["VSCAF_ANSIBLE_ROOTS"]), request.param)


@pytest.fixture(scope="module")
def system(lower: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same, for the roles to change."""
    with overlay(lower, tmp_path_factory.mktemp(lower.name)) as root:
        yield root


@pytest.fixture(scope="module")
def packages(lower: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The files of vscaf's packages by name, built in another copy of that Debian."""
    made = tmp_path_factory.mktemp("packages")
    with overlay(lower, tmp_path_factory.mktemp("build")) as root:
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, root / "root/vscaf"], check=True)
        done = subprocess.run(
            ["chroot", root, "env", "-u", "TMPDIR", "HOME=/root", "sh", "-euc", BUILD_PACKAGES],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        for path in (root / "root/packages").glob("*.deb"):
            shutil.copy(path, made)
    return {path.name.partition("_")[0]: path for path in made.iterdir()}


def inside(system: Path, *command: str) -> str:
    return subprocess.run(["chroot", system, *command], capture_output=True, text=True, check=True).stdout


def player(play: Play, system: Path, given: Mapping[str, Any]) -> Callable[..., Played]:
    """Plays tasks on the system with these variables. They must succeed."""

    def run(tasks: Any, *options: str) -> Played:
        done = play(tasks, *options, variables=given, inventory={"all": {"hosts": {"there": by_chroot(system)}}})
        assert done.status == 0, done.output
        return done

    return run


def check_works(system: Path, name: str) -> None:
    """What the role has installed works."""
    if name == "host":
        assert "good: pool 0-1" in inside(system, "vscaf", "check-config")
    else:
        assert "vscaf" in inside(system, "vscaf-agent", "--version")
        assert inside(system, "vscaf-run", "/bin/true") == ""


@pytest.mark.parametrize("name", ["host", "guest"])
def test_install_again_and_uninstall(play: Play, system: Path, archive: Path, tmp_path: Path, name: str) -> None:
    before = state(system)
    given = {
        f"vscaf_{name}_source": str(archive),
        f"vscaf_{name}_service": "none",
        "vscaf_host_pool": "0-1",
        "vscaf_guest_check": False,  # there is no port to a host
    }

    run = player(play, system, given)
    assert run(role(name), "--check").counts["changed"] > 0
    assert different(before, state(system)) == {}, "check mode has changed something"
    assert run(role(name)).changed
    check_works(system, name)
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


@pytest.mark.parametrize(
    ("name", "files"),
    [("host", ["vscaf-policies", "vscaf-host"]), ("guest", ["libvscaf-gomp", "vscaf-run", "vscaf-agent"])],
)
def test_packages_again_and_uninstall(
    play: Play, system: Path, packages: Mapping[str, Path], name: str, files: list[str]
) -> None:
    # As hosts and guests have it. When it is removed, its users stay.
    inside(system, "apt-get", "install", "--yes", "--no-install-recommends", "systemd")
    before = state(system)
    given = {
        f"vscaf_{name}_install": "packages",
        f"vscaf_{name}_package_files": [str(packages[one]) for one in files],
        f"vscaf_{name}_service": "none",
        "vscaf_host_pool": "0-1",
        "vscaf_guest_check": False,  # there is no port to a host
    }
    run = player(play, system, given)
    assert run(role(name), "--check").changed
    assert different(before, state(system)) == {}, "check mode has changed something"
    assert run(role(name)).changed
    check_works(system, name)
    assert run(role(name)).changed == () == run(role(name), "--check").changed
    assert run(role(name, "uninstall"), "--check").changed
    run(role(name, "uninstall"))
    assert different(before, state(system)) == {}
    assert run(role(name, "uninstall")).changed == ()
