"""The role packages with this machine's apt and dpkg, and a package database of its own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Played

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or not Path("/usr/lib/python3/dist-packages/apt").exists(),
    reason="apt and python3-apt are not both installed",
)
Play = Role = Callable[..., Played]
# No package of these names is anywhere else.
TOOL, LIBRARY, COMPILER = "vscaf-test-tool", "vscaf-test-library", "vscaf-test-compiler"
INSTALL = "Install what comes as files"


class Machine:
    """A package database, and a source of packages. The environment names it, so apt and dpkg change nothing else."""

    def __init__(self, directory: Path, environment: pytest.MonkeyPatch) -> None:
        self.root, self.source, self.built = directory / "root", directory / "source", directory / "built"
        self.record = directory / "record" / "packages"
        for path in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/apt/lists/partial", "var/log/apt"):
            (self.root / path).mkdir(parents=True)
        for path in ("var/cache/apt/archives/partial", "etc/apt/apt.conf.d", "etc/apt/preferences.d"):
            (self.root / path).mkdir(parents=True)
        self.source.mkdir()
        (self.root / "var/lib/dpkg/status").touch()
        (self.root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{self.source} ./\n")
        (self.source / "Packages").touch()
        (directory / "apt.conf").write_text(
            f'Dir "{self.root}/";\n'
            f'Dir::State::status "{self.root}/var/lib/dpkg/status";\n'
            'APT::Sandbox::User "root";\n'
            'Dpkg::Options { "--force-not-root"; "--force-bad-path"; "--log=/dev/null"; };\n'
        )
        environment.setenv("APT_CONFIG", str(directory / "apt.conf"))
        environment.setenv("DPKG_ROOT", str(self.root))
        environment.setenv("DPKG_ADMINDIR", str(self.root / "var/lib/dpkg"))

    def build(self, name: str, version: str, depends: str = "", *, fails: bool = False) -> str:
        """Builds a package. Returns the path of its file. fails: it cannot be installed."""
        tree = self.built / f"{name}-{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\n"
            f"{f'Depends: {depends}' if depends else 'Section: misc'}\nDescription: for a test\n"
        )
        if fails:
            (tree / "DEBIAN/preinst").write_text("#!/bin/sh\nexit 1\n")
            (tree / "DEBIAN/preinst").chmod(0o755)
        file = self.built / f"{name}_{version}_all.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, file], check=True, capture_output=True)
        return str(file)

    def offer(self, name: str, depends: str = "", *, fails: bool = False) -> None:
        """Builds a package and puts it into the source."""
        file = Path(self.build(name, "1", depends, fails=fails))
        shutil.copy(file, self.source)
        control = subprocess.run(["dpkg-deb", "--field", file], check=True, capture_output=True, text=True).stdout
        with (self.source / "Packages").open("a") as packages:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            packages.write(f"{control}Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n\n")
        self.apt("apt-get", "update")

    def apt(self, *arguments: str) -> str:
        done = subprocess.run(arguments, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def versions(self) -> dict[str, str]:
        lines = self.apt(
            "dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package} ${Version}\n"
        ).splitlines()
        return {name: version for status, name, version in map(str.split, lines) if status == "ii"}

    @property
    def manual(self) -> set[str]:
        return set(self.apt("apt-mark", "showmanual").split())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "machine", monkeypatch)


@pytest.fixture
def role(play: Play, machine: Machine) -> Role:
    """Plays the role several times in a row: role({"names": ...}, "uninstall")."""

    def run(*steps: str | dict[str, list[str]], status: int = 0) -> Played:
        tasks = [
            {
                "name": "Role",
                "ansible.builtin.include_role": {
                    "name": "vscaf.vscaf.packages",
                    "tasks_from": step if isinstance(step, str) else "main",
                },
                "vars": {} if isinstance(step, str) else {f"vscaf_packages_{name}": of for name, of in step.items()},
            }
            for step in steps
        ]
        done = play(tasks, variables={"vscaf_packages_record": str(machine.record)})
        assert done.status == status, done.output
        return done

    return run


def test_files_that_depend_on_each_other_are_installed_upgraded_and_removed(machine: Machine, role: Role) -> None:
    def files(version: str) -> dict[str, list[str]]:
        return {"files": [machine.build(LIBRARY, version), machine.build(TOOL, version, f"{LIBRARY} (= {version})")]}

    role(files("1"))
    assert machine.versions == {LIBRARY: "1", TOOL: "1"}
    second = files("2")
    assert INSTALL in role(second).changed
    assert machine.versions == {LIBRARY: "2", TOOL: "2"}
    assert INSTALL not in role(second, "uninstall").changed
    assert machine.versions == {} and not machine.record.parent.exists()


def test_what_was_there_and_what_an_operator_asks_for_stays(machine: Machine, role: Role) -> None:
    machine.offer(LIBRARY)
    machine.offer(COMPILER)
    machine.offer(TOOL, COMPILER)
    machine.apt("apt-get", "install", "--yes", LIBRARY)
    machine.apt("apt-mark", "auto", LIBRARY)
    role({"names": [LIBRARY, TOOL]})
    assert set(machine.versions) == {LIBRARY, COMPILER, TOOL} and machine.manual == {TOOL}
    machine.apt("apt-get", "install", "--yes", COMPILER)
    role("uninstall")
    assert set(machine.versions) == {LIBRARY, COMPILER} and machine.manual == {COMPILER}


def test_what_came_before_a_failure_is_recorded(machine: Machine, role: Role) -> None:
    machine.offer(LIBRARY)
    machine.offer(TOOL, LIBRARY, fails=True)
    done = role({"names": [TOOL]}, status=2)
    assert "undefined" not in done.output, done.output
    assert f"{LIBRARY} automatic\n" in machine.record.read_text()
