"""The roles host and guest, without their services, in minimal Debian systems, each in a chroot.

For `make check-ansible-roots`. Needs root, debootstrap, Debian's mirror and PyPI. The Makefile starts it in a mount
namespace of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Played

pytestmark = pytest.mark.skipif(
    "VSCAF_ANSIBLE_ROOTS" not in os.environ, reason="only make check-ansible-roots sets VSCAF_ANSIBLE_ROOTS"
)
SUITES = os.environ.get("VSCAF_ANSIBLE_SUITES", "bookworm trixie").split()
MIRROR = os.environ.get("VSCAF_MIRROR", "http://deb.debian.org/debian")
Play = Callable[..., Played]


def role(name: str, tasks_from: str = "main") -> list[dict[str, Any]]:
    return [{"name": "Role", "ansible.builtin.include_role": {"name": f"vscaf.vscaf.{name}", "tasks_from": tasks_from}}]


@pytest.fixture(scope="module", params=SUITES)
def system(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A minimal Debian in build/ansible-roots, with the Python that Ansible needs. It is kept for the next run."""
    path = Path(os.environ["VSCAF_ANSIBLE_ROOTS"]) / request.param
    if not (path / "usr/bin/python3").exists():
        path.mkdir(parents=True, exist_ok=True)
        packages = "--include=python3,python3-apt,ca-certificates"
        subprocess.run(
            ["debootstrap", "--variant=minbase", packages, request.param, path, MIRROR],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    for source in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
        (path / source[1:]).write_bytes(Path(source).read_bytes())
    for kind, where in (("proc", "proc"), ("sysfs", "sys")):
        if not any((path / where).iterdir()):
            subprocess.run(["mount", "-t", kind, kind, path / where], check=True)
    if not (path / "dev/zero").exists():
        subprocess.run(["mount", "--rbind", "/dev", path / "dev"], check=True)
    yield path


def state(system: Path) -> Mapping[str, bytes]:
    """What an uninstall must leave as it was: the packages, all of /etc, and the files in /usr/local and /opt."""
    packages = subprocess.run(
        ["chroot", system, "dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package} ${Version}\n"],
        capture_output=True,
        check=True,
    ).stdout
    etc = {str(path): path.read_bytes() for path in (system / "etc").rglob("*") if path.is_file()}
    # Caches that dpkg's triggers write, in another order each time.
    etc = {path: text for path, text in etc.items() if not path.endswith(("ld.so.cache", ".pyc", "mailcap"))}
    others = [path for top in ("usr/local", "opt") for path in (system / top).rglob("*") if not path.is_dir()]
    return {"packages": packages, **etc, "others": "\n".join(sorted(map(str, others))).encode()}


def different(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, tuple[object, object]]:
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return {key: (before.get(key, b"")[-2000:], after.get(key, b"")[-2000:]) for key in keys}


def there(system: Path) -> dict[str, Any]:
    return {
        "all": {
            "hosts": {
                "there": {
                    "ansible_connection": "root",
                    "ansible_host": str(system),
                    "ansible_python_interpreter": "/usr/bin/python3",
                    "ansible_remote_tmp": "/tmp/ansible",
                }
            }
        }
    }


def inside(system: Path, *command: str) -> str:
    return subprocess.run(["chroot", system, *command], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["host", "guest"])
def test_install_again_and_uninstall(play: Play, system: Path, archive: Path, name: str) -> None:
    before = state(system)
    given = {
        f"vscaf_{name}_source": str(archive),
        f"vscaf_{name}_service": "none",
        "vscaf_host_pool": "0-1",
        "vscaf_guest_check": False,  # there is no port to a host
    }

    def run(tasks: Any, *options: str) -> Played:
        done = play(tasks, *options, variables=given, inventory=there(system))
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
    assert run(role(name, "uninstall"), "--check").counts["changed"] > 0
    run(role(name, "uninstall"))
    assert different(before, state(system)) == {}
    assert run(role(name, "uninstall")).changed == ()
