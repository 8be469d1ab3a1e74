"""The collection is whole: what its files say of each other is true."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BIN, COLLECTION, ROOT, TIMEOUT_S, Played, version

ROLES = sorted(path for path in (COLLECTION / "roles").iterdir() if path.is_dir())
# Where a variable is given a name in a role: by defaults and vars, by register, and by the vars of tasks.
REGISTERED = re.compile(r"^\s*register: (\w+)", re.MULTILINE)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def task_vars(node: Any) -> set[str]:
    """Names of all `vars` in a file of tasks."""
    if isinstance(node, list):
        return set().union(*map(task_vars, node))
    if not isinstance(node, dict):
        return set()
    return set(node.get("vars") or {}).union(*(task_vars(node[key]) for key in ("block", "always") if key in node))


def files(role: Path) -> list[Path]:
    return [path for folder in ("tasks", "handlers") for path in sorted((role / folder).glob("*.yml"))]


def test_its_version_is_that_of_vscaf() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert version() == setup["metadata"]["version"]
    assert version() in load(COLLECTION / "changelogs/changelog.yaml")["releases"]


def test_the_changelog_names_its_plugins() -> None:
    told = {}
    for release in load(COLLECTION / "changelogs/changelog.yaml")["releases"].values():
        for one in (*release.get("modules", ()), *release.get("plugins", {}).get("filter", ())):
            told[one["name"]] = one["description"]
    documented = [load(path)["DOCUMENTATION"] for path in (COLLECTION / "plugins/filter").glob("*.yml")]
    modules = {path.stem for path in (COLLECTION / "plugins/modules").glob("*.py")}
    assert set(told) == modules | {one["name"] for one in documented}
    assert {one["name"]: one["short_description"] for one in documented}.items() <= told.items()


def test_what_is_installed_has_the_license_and_all_that_its_pages_link_to(collections: Path) -> None:
    installed = collections / "ansible_collections/vscaf/vscaf"
    assert (installed / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert not (installed / "extensions").exists()
    for page in installed.rglob("*.md"):
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            assert target.exists() and target.is_relative_to(installed), f"{page}: {link}"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_argument_specs_are_the_defaults(role: Path) -> None:
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    defaults = load(role / "defaults/main.yml")
    assert set(specs) == {"main", "uninstall"}
    for entry in specs.values():
        assert set(entry["options"]) == set(defaults)
        for name, option in entry["options"].items():
            if "default" in option:  # one that is computed has none there
                assert option["default"] == defaults[name], name
            else:
                assert "{{" in str(defaults[name]) or name.endswith("_command"), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_all_variables_of_a_role_have_its_prefix(role: Path) -> None:
    names = set(load(role / "defaults/main.yml"))
    if (role / "vars/main.yml").exists():
        names |= set(load(role / "vars/main.yml"))
    for path in files(role):
        names |= set(REGISTERED.findall(path.read_text(encoding="utf-8"))) | task_vars(load(path))
    wrong = {name for name in names if not name.startswith((f"vscaf_{role.name}_", "vscaf_packages_"))}
    assert wrong == set()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_readme_of_a_role_has_all_its_variables_and_tags(role: Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")
    rows = "\n".join(line.split("|")[1] for line in readme.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(load(role / "defaults/main.yml"))
    text = "".join(path.read_text(encoding="utf-8") for path in files(role))
    tags = {tag for names in re.findall(r"tags: \[([^\]]*)\]", text) for tag in names.split(", ")}
    assert tags == set(re.findall(r"`(vscaf_\w+)`", readme.partition("\nTags: ")[2].partition("\n")[0]))


@pytest.mark.parametrize("name", ["site.yml", "test_host.yml", "uninstall.yml"])
def test_playbooks_can_be_read_with_the_inventory_example(play: Any, name: str) -> None:
    done: Played = play(name, "--syntax-check", inventory=COLLECTION / "inventory/example.yml")
    assert done.status == 0, done.output
    assert "WARNING" not in done.output and "DEPRECATION" not in done.output, done.output


def test_the_example_names_every_group_of_the_playbooks() -> None:
    groups = {entry["hosts"] for path in (COLLECTION / "playbooks").glob("*.yml") for entry in load(path)}
    assert groups == set(load(COLLECTION / "inventory/example.yml")) - {"all"}


def test_uninstall_takes_the_agents_away_after_the_hosts_have_given_the_cpus_back() -> None:
    hosts, guests = load(COLLECTION / "playbooks/uninstall.yml")
    assert (hosts["hosts"], guests["hosts"]) == ("vscaf_hosts", "vscaf_guests")
    assert hosts["any_errors_fatal"]


def test_molecule_ends_only_its_own_lab(play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that was killed leaves its pid, which may be another process's by now."""
    monkeypatch.setenv("MOLECULE_EPHEMERAL_DIRECTORY", str(tmp_path))
    file = tmp_path / "lab/pid"
    file.parent.mkdir()
    with subprocess.Popen(["sleep", "infinity"]) as other:
        try:
            file.write_text(f"{other.pid}\n", encoding="utf-8")
            done: Played = play(str(COLLECTION / "extensions/molecule/site/destroy.yml"))
            assert done.status == 0 and not file.exists(), done.output
            assert other.poll() is None
        finally:
            other.kill()


def test_ansible_doc_shows_every_plugin_and_role(collections: Path, tmp_path: Path) -> None:
    plugins = COLLECTION / "plugins"
    kinds = {
        "module": [path.stem for path in (plugins / "modules").glob("*.py")],
        "filter": [path.stem for path in (plugins / "filter").glob("*.yml")],
        "role": [role.name for role in ROLES],
    }
    environment = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_HOME": str(tmp_path)}
    for kind, names in kinds.items():
        full = [f"vscaf.vscaf.{name}" for name in names]
        done = subprocess.run(
            [BIN / "ansible-doc", "--type", kind, "--json", *full],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert set(json.loads(done.stdout)) == set(full)
