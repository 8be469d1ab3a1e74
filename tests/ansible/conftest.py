"""The collection as it would be installed, and ways to run it: playbooks as processes, modules in this process."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "ansible"
BIN = Path(sys.executable).parent
TIMEOUT_S = 1200.0  # a command that hangs; on a busy machine a play takes minutes
TEST_TIMEOUT_S = 6 * TIMEOUT_S

# A busy machine may be slow.
settings.register_profile("vscaf", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("vscaf")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sets the time-out of tests whose module sets none: each has several plays."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


@dataclass(frozen=True)
class Played:
    """What a playbook did. changed: names of the tasks that changed something. counts: the recap of its last host."""

    status: int
    output: str
    changed: tuple[str, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the collection, built and installed by ansible-galaxy."""
    directory = tmp_path_factory.mktemp("collections")
    environment = os.environ | {"ANSIBLE_HOME": str(directory / "home"), "ANSIBLE_COLLECTIONS_PATH": str(directory)}
    galaxy = [str(BIN / "ansible-galaxy"), "collection"]
    for arguments in (
        ["build", str(COLLECTION), "--output-path", str(directory)],
        ["install", *(f"{directory}/vscaf-vscaf-{version()}.tar.gz",), "--offline", "-p", str(directory)],
    ):
        done = subprocess.run(
            [*galaxy, *arguments], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return directory


def version() -> str:
    return str(yaml.safe_load((COLLECTION / "galaxy.yml").read_text(encoding="utf-8"))["version"])


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source, as users make it for the roles."""
    path = tmp_path_factory.mktemp("archive") / "vscaf.tar.gz"
    subprocess.run(["git", "-C", ROOT, "archive", "--output", path, "HEAD"], check=True)
    return path


@pytest.fixture
def play(collections: Path, tmp_path: Path) -> Callable[..., Played]:
    """Runs a play on this machine, with this Python: play(roles or tasks, **variables), or play("site.yml", ...)."""

    def run(
        what: str | list[dict[str, Any]],
        *options: str,
        variables: Mapping[str, Any] | None = None,
        inventory: Mapping[str, Any] | Path | None = None,
        hang_s: float = TIMEOUT_S,
    ) -> Played:
        if isinstance(what, str):
            playbook = collections / "ansible_collections/vscaf/vscaf/playbooks" / what
        else:
            playbook = tmp_path / "play.yml"
            heading = {"name": "Test", "hosts": "all", "gather_facts": False}
            playbook.write_text(yaml.safe_dump([{**heading, "tasks": what}]), encoding="utf-8")
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        if not isinstance(inventory, Path):
            hosts = inventory or {"all": {"hosts": {"here": here}}}
            path = tmp_path / "inventory.yml"
            path.write_text(yaml.safe_dump(hosts), encoding="utf-8")
            inventory = path
        (tmp_path / "variables.json").write_text(json.dumps(dict(variables or {})), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VSCAF_")} | {
            "ANSIBLE_HOME": str(tmp_path / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).parent / "connection_plugins"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_TIMEOUT": f"{TIMEOUT_S:.0f}",  # also for sudo's answer in a guest that is short of CPUs
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_RETRY_FILES_ENABLED": "0",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        command = [str(BIN / "ansible-playbook"), "--inventory", str(inventory), str(playbook)]
        done = subprocess.run(
            [*command, "--extra-vars", f"@{tmp_path}/variables.json", *options],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=hang_s,
            check=False,
        )
        return played(done.returncode, done.stdout + done.stderr)

    return run


def played(status: int, output: str) -> Played:
    changed, task = [], ""
    for line in output.splitlines():
        heading = re.match(r"(?:TASK|RUNNING HANDLER) \[(.*)\] \**$", line)
        if heading:
            task = heading.group(1).rpartition(" : ")[2]
        elif line.startswith("changed: ") and task not in changed:
            changed.append(task)
    recap = output.partition("PLAY RECAP")[2]
    counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", recap)}
    return Played(status, output, tuple(changed), counts)


@pytest.fixture
def module(collections: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs a module in this process, so that it shares libvirt's test driver with the test. Returns its answer."""
    from ansible.module_utils.testing import patch_module_args  # noqa: PLC0415  (only in Ansible's environment)

    sys.path.insert(0, str(collections))

    def run(module_name: str, /, *, check: bool = False, **parameters: Any) -> dict[str, Any]:
        loaded = importlib.import_module(f"ansible_collections.vscaf.vscaf.plugins.modules.{module_name}")
        given = {**parameters, "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(given), pytest.raises(SystemExit):
            loaded.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return answer

    yield run
    sys.path.remove(str(collections))


@pytest.fixture
def plugins(collections: Path) -> Iterator[Callable[[str], Any]]:
    """Imports a part of the collection: plugins("filter.host_config")."""
    sys.path.insert(0, str(collections))
    yield lambda name: importlib.import_module(f"ansible_collections.vscaf.vscaf.plugins.{name}")
    sys.path.remove(str(collections))
