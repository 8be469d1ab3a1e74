"""The role guest on this machine, with its files in a temporary directory. The source is a tiny one, built by meson."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Played

Play = Callable[..., Played]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the role gives the source to root")


def role(tasks_from: str = "main") -> list[dict[str, Any]]:
    return [
        {"name": "Guest", "ansible.builtin.import_role": {"name": "vscaf.vscaf.guest", "tasks_from": tasks_from}},
    ]


def source(directory: Path, name: str, *files: str) -> str:
    """An archive whose installation has these files, which contain its name."""
    tree = directory / name
    tree.mkdir()
    lines = [f"project('vscaf', version: '{name}', meson_version: '>=1.0')"]
    for file in files:
        (tree / Path(file).name).write_text(f"{name}\n", encoding="utf-8")
        folder = f"get_option('prefix') / '{Path(file).parent}'"
        lines.append(f"install_data('{Path(file).name}', install_dir: {folder}, install_tag: 'runtime')")
    (tree / "meson.build").write_text("\n".join([*lines, ""]), encoding="utf-8")
    archive = directory / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tree, ".")
    return str(archive)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """What is /usr/local, /etc and /var in a guest."""
    path = tmp_path / "system"
    for name in ("usr/lib", "usr/src", "etc", "var"):
        (path / name).mkdir(parents=True)
    return path


def variables(system: Path, archive: str, **more: Any) -> dict[str, Any]:
    return {
        "vscaf_packages_manage": False,
        "vscaf_guest_prefix": str(system / "usr"),
        "vscaf_guest_record": str(system / "var/vscaf/packages"),
        "vscaf_guest_options_file": str(system / "etc/vscaf-agent"),
        "vscaf_guest_resize_file": str(system / "etc/programs.d/ansible"),
        "vscaf_guest_targets": [],
        "vscaf_guest_source": archive,
        "vscaf_guest_service": "none",
        "vscaf_guest_check": False,
        **more,
    }


def there(system: Path) -> set[str]:
    """All files and directories, without the source."""
    paths = {str(path.relative_to(system)) for path in system.rglob("*")}
    return {path for path in paths if not path.startswith("usr/src/")}


def test_upgrade_and_uninstall_leave_what_belongs_to_others(play: Play, system: Path, tmp_path: Path) -> None:
    before = there(system)
    first = variables(system, source(tmp_path, "first", "bin/vscaf-agent", "lib/vscaf/old.so", "share/old/old.8"))
    second = variables(system, source(tmp_path, "second", "bin/vscaf-agent", "lib/new/new.so", "man/new.8"))

    def run(given: dict[str, Any], tasks_from: str = "main", *options: str) -> Played:
        done = play(role(tasks_from), *options, variables=given)
        assert done.status == 0, done.output
        return done

    assert run(first, "main", "--check").counts["changed"] > 0
    assert there(system) == before
    run(first)
    assert {"usr/bin/vscaf-agent", "usr/lib/vscaf/old.so", "usr/share/old/old.8"} <= there(system)
    (system / "usr/lib/vscaf/others.so").touch()
    (system / "usr/share/others").mkdir()

    old = there(system)
    run(second)
    assert (system / "usr/bin/vscaf-agent").read_text(encoding="utf-8") == "second\n"
    gone = {"usr/lib/vscaf/old.so", "usr/share/old/old.8"}
    came = {"usr/lib/new", "usr/lib/new/new.so", "usr/man", "usr/man/new.8"}
    assert there(system) == (old - gone) | came
    assert run(second).changed == ()
    (system / "usr/lib/new/others.so").touch()

    new = there(system)
    assert run(second, "uninstall", "--check").counts["changed"] > 0
    assert there(system) == new
    run(second, "uninstall")
    others = {"usr/lib/vscaf", "usr/lib/vscaf/others.so", "usr/share", "usr/share/others"}
    assert there(system) == before | others | {"usr/lib/new", "usr/lib/new/others.so"}
    assert list((system / "usr/src").iterdir()) == []
    assert run(second, "uninstall").changed == ()


def test_declared_programs_are_named_and_withdrawn(play: Play, system: Path) -> None:
    given = variables(system, "", vscaf_guest_install="none")
    declared = {**given, "vscaf_guest_resize": ["/opt/solver", "/opt/mesh"]}
    before = there(system)
    file = system / "etc/programs.d/ansible"

    def run(given: dict[str, Any], tasks_from: str = "main", *options: str) -> Played:
        done = play(role(tasks_from), *options, variables=given)
        assert done.status == 0, done.output
        return done

    run(declared, "main", "--check")
    assert there(system) == before
    run(declared)
    assert file.read_text(encoding="utf-8").splitlines()[1:] == ["/opt/solver", "/opt/mesh"]
    assert (file.stat().st_uid, file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0, 0o644, 0o755)
    assert run(declared).changed == ()
    run(given)
    assert not file.exists()
    run(declared)
    run(given, "uninstall")
    assert there(system) == before


# Answers as systemd would, for one unit. Its state and what was asked for are files beside it.
SYSTEMCTL = """#!/bin/sh
cd "${0%/*}" || exit
echo "$1" >>calls
case "$1" in
    show) echo "LoadState=loaded"; echo "ActiveState=$(cat active)" ;;
    is-enabled) [ -e enabled ] ;;
    enable) [ ! -e broken ] && touch enabled ;;
    disable) rm -f enabled ;;
    start | restart) echo active >active ;;
    stop) echo inactive >active ;;
esac
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of that systemctl."""
    path = tmp_path / "systemd"
    path.mkdir()
    (path / "systemctl").write_text(SYSTEMCTL, encoding="utf-8")
    (path / "systemctl").chmod(0o755)
    (path / "active").write_text("inactive\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    return path


def test_an_agent_of_another_version_is_restarted(play: Play, system: Path, systemd: Path, tmp_path: Path) -> None:
    files = ("bin/vscaf-agent", "lib/systemd/system/vscaf-agent.service")
    first, second, third = (
        variables(system, source(tmp_path, name, *files), vscaf_guest_service="systemd")
        for name in ("first", "second", "third")
    )
    noted = system / "usr/lib/vscaf-guest-version"

    def asked(given: dict[str, Any], *options: str, status: int = 0) -> list[str]:
        """What the play asked systemd for, apart from its state."""
        (systemd / "calls").unlink(missing_ok=True)
        done = play(role(), *options, variables=given)
        assert done.status == status, done.output
        calls = (systemd / "calls").read_text(encoding="utf-8").split()
        return [call for call in calls if call in ("enable", "start", "restart", "stop")]

    assert asked(first) == ["enable", "start"]
    version = noted.read_text(encoding="utf-8")

    (systemd / "enabled").unlink()
    (systemd / "broken").touch()
    assert asked(second, status=2) == ["enable"]
    assert not noted.exists(), "a later play would not restart the old agent"
    (systemd / "broken").unlink()
    assert asked(second) == ["enable", "restart"]
    assert noted.read_text(encoding="utf-8") != version

    assert asked(third, "--tags", "vscaf_install") == ["restart"]
    checked = play(role(), "--check", variables=first)
    assert checked.status == 0 and "Restart the agent" in checked.changed, checked.output


def test_what_others_have_put_there_is_refused_and_kept(play: Play, system: Path, systemd: Path) -> None:
    options = system / "etc/vscaf-agent"
    options.write_text("VSCAF_AGENT_OPTIONS=--standalone\n", encoding="utf-8")
    given = variables(system, "", vscaf_guest_install="none", vscaf_guest_service="systemd")
    refused = play(role(), variables=given)
    assert refused.status != 0 and "put its options into vscaf_guest_options" in refused.output, refused.output
    removed = play(role("uninstall"), variables={**given, "vscaf_guest_service": "none"})
    assert removed.status == 0, removed.output
    assert options.read_text(encoding="utf-8") == "VSCAF_AGENT_OPTIONS=--standalone\n"

    (system / "usr/bin").mkdir()
    (system / "usr/bin/vscaf-agent").touch()
    refused = play(role(), variables={**given, "vscaf_guest_install": "packages"})
    assert refused.status != 0 and "is from source and would be used instead" in refused.output, refused.output
