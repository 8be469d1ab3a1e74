"""A policy of another author: the README's example is installed as a package, found, checked and used."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from vscaf.cli.main import main
from vscaf.cli.policy_check import run_checks
from vscaf.config import PolicyConfig
from vscaf.core.decide.decision import decide
from vscaf.errors import UsageError
from vscaf.policy.loading import chosen_policy
from vscaf.policy.trial import Request
from vscaf_policies import DomainState, PoolState, policy_names

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "plugin" / "half_and_rest"
POLICIES = Path(__file__).parents[3] / "policies"
README = (POLICIES / "README.md").read_text(encoding="utf-8")
EMPTY = PoolState(8, 1, 0.0, ())


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which the example is installed from a copy, because a build writes into its source directory."""
    directory = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, directory / "source")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", directory / "target", directory / "source"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return directory / "target"


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example is installed in this process and in the processes that it starts."""
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))


def test_the_readme_shows_these_very_files() -> None:
    shown = dict(re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)```$", README, re.M | re.S))
    files = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLE.iterdir() if path.is_file()}
    assert shown == files
    assert len(files["half_and_rest.py"].splitlines()) <= 20


def first_cells(title: str) -> set[str]:
    """All text in backquotes in the first cells of the tables of this section of the README."""
    rows = [
        line.split("|")[1] for line in README.split(f"\n## {title}\n")[1].split("\n## ")[0].splitlines() if "|" in line
    ]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_readme_has_every_policy() -> None:
    config = configparser.ConfigParser()
    config.read(POLICIES / "setup.cfg", encoding="utf-8")
    lines = config["options.entry_points"]["vscaf.policies"].strip().splitlines()
    assert {line.split("=")[0].strip() for line in lines} <= first_cells("The policies")


def test_the_readme_has_every_check(tmp_path: Path) -> None:
    path = tmp_path / "loud.py"
    path.write_text("def loud(pool, options):\n    print('x')\n", encoding="utf-8")
    checks = {one.check for one in run_checks(Request("check", str(path), {}, 0, 20.0, 200.0))}
    assert first_cells("What the check tries") == checks


def test_it_can_be_tried_in_the_simulator_as_it_is() -> None:
    arguments = [
        "simulate",
        str(EXAMPLE / "try.toml"),
        "--policy",
        f"max-speedup,{EXAMPLE / 'half_and_rest.py'}",
        "--json",
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    runs = json.loads(done.stdout)["scenarios"][0]["runs"]
    assert runs[1]["moments"][-1]["allocations"] == {"cg": 18, "lu": 9, "ft": 9}


@pytest.mark.usefixtures("installed")
def test_the_daemon_finds_and_takes_it() -> None:
    assert "half-and-rest" in policy_names()
    policy = chosen_policy(PolicyConfig(name="half-and-rest", options={"favourite": "b"}), EMPTY)
    domains = tuple(DomainState(name, 1, 8, 1.0, 8, 0, True, None, False, ()) for name in "abc")
    decision = decide(PoolState(8, 1, 0.0, domains), policy, {"favourite": "b"})
    assert decision.allocations == {"a": 2, "b": 4, "c": 2}
    with pytest.raises(UsageError, match="favourite must be the name of a domain: set it"):
        chosen_policy(PolicyConfig(name="half-and-rest"), EMPTY)
    with pytest.raises(UsageError, match="'favorite'"):
        chosen_policy(PolicyConfig(name="half-and-rest", options={"favorite": "b"}), EMPTY)


@pytest.mark.usefixtures("installed")
def test_it_passes_the_check_by_its_name() -> None:
    done = CliRunner().invoke(main, ["policy", "check", "half-and-rest", "--option", 'favourite="vm-01"'])
    assert done.exit_code == 0, done.output
    assert "fresh-process" in done.output and " failed" not in done.output and " noted" not in done.output


@pytest.mark.usefixtures("installed")
def test_it_is_listed_with_what_it_does(tmp_path: Path) -> None:
    config = tmp_path / "vscaf.toml"
    config.write_text(f'pool = "0"\ncontrol_socket = "{tmp_path}/no.sock"\n', encoding="utf-8")
    done = CliRunner().invoke(main, ["policy", "list", "--config", str(config)])
    assert done.exit_code == 0 and "half-and-rest" in done.output and "Half of the pool for the domain" in done.output


@pytest.mark.parametrize(
    "text", ["def mine(:\n", "import sys\nsys.exit(3)\n", "1 / 0\n", "import no_such\n", "other = 1\n"]
)
def test_one_that_does_not_load_is_named_and_hides_no_other(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "does_not_load.py").write_text(text, encoding="utf-8")
    (tmp_path / "mine-1.0.dist-info").mkdir()
    (tmp_path / "mine-1.0.dist-info" / "METADATA").write_text("Name: mine\nVersion: 1.0\n", encoding="utf-8")
    entry = "[vscaf.policies]\nmine = does_not_load:mine\n"
    (tmp_path / "mine-1.0.dist-info" / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "does_not_load", raising=False)
    with pytest.raises(
        UsageError, match=r"policy 'mine' \(does_not_load:mine\) does not load: .*: fix or uninstall it"
    ):
        chosen_policy(PolicyConfig(name="mine"), EMPTY)
    config = tmp_path / "vscaf.toml"
    config.write_text(f'pool = "0"\ncontrol_socket = "{tmp_path}/no.sock"\n', encoding="utf-8")
    done = CliRunner().invoke(main, ["policy", "list", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert "does not load" in done.output and "equipartition" in done.output
