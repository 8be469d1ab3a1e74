"""The commands when no daemon runs, and how they find a daemon."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from vscaf.cli import client as commands
from vscaf.cli.client import event_line
from vscaf.cli.main import main
from vscaf.command_line import parse_options
from vscaf.config import Config
from vscaf.cpulist import parse_cpu_list
from vscaf.errors import UsageError, VscafError
from vscaf.values import HostCpus

COMMANDS = [
    ["status"],
    ["events"],
    ["policy", "show"],
    ["policy", "set", "x"],
    ["policy", "rollback"],
    ["reload"],
    ["manage"],
]


def vscaf(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"VSCAF_CONFIG": None, "VSCAF_SOCKET": None, **environment})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "vscaf.toml"
    text = f'pool = "0"\nstate_directory = "{tmp_path}/state"\ncontrol_socket = "{tmp_path}/mine.sock"\n'
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_daemon(arguments: list[str], config: Path, tmp_path: Path) -> None:
    done = vscaf(*arguments, "--config", str(config))
    assert done.exit_code == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "is `vscaf daemon` running" in done.stderr
    assert f"{tmp_path}/mine.sock" in done.stderr


@pytest.mark.parametrize("arguments", [*COMMANDS, ["release"], ["off"]], ids=" ".join)
def test_all_find_the_daemon_alike(arguments: list[str], config: Path, tmp_path: Path) -> None:
    """--socket wins over --config, and options win over the environment."""
    mine = ["--config", str(config)]
    for options, environment, where in (
        (["--socket", "/x/s", *mine], {}, "/x/s"),
        (["--socket", "/x/s", *mine], {"VSCAF_SOCKET": "/x/e"}, "/x/s"),
        (mine, {"VSCAF_SOCKET": "/x/e"}, "/x/e"),
        (mine, {"VSCAF_CONFIG": "/x/absent"}, f"{tmp_path}/mine.sock"),
        ([], {"VSCAF_CONFIG": str(config)}, f"{tmp_path}/mine.sock"),
    ):
        done = vscaf(*arguments, *options, **environment)
        assert where in done.output, done.output


@pytest.mark.parametrize(
    "arguments",
    [
        *COMMANDS,
        *(["release"], ["off"], ["policy", "list"], ["record", "show"], ["explain", "a"], ["doctor"], ["prepare", "a"]),
        *(["top", "--once"], ["top", "--json"], ["plot", "--seconds", "1"]),
    ],
    ids=" ".join,
)
def test_a_configuration_that_was_asked_for_has_to_be_readable(arguments: list[str], tmp_path: Path) -> None:
    done = vscaf(*arguments, "--config", f"{tmp_path}/absent")
    assert (done.exit_code, done.stdout) == (2, "") and "No such file" in done.stderr


def test_the_policies_can_be_listed_without_a_daemon(config: Path) -> None:
    done = vscaf("policy", "list", "--config", str(config))
    assert done.exit_code == 0
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"equipartition", "max-speedup", "static", "unmanaged"} <= set(names)
    assert "equipartition  Equal shares" not in done.stdout and "The same number of CPUs" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "domain"), [(["release"], None), (["release", "a"], "a"), (["off"], None)], ids=["all", "one", "off"]
)
def test_release_and_off_without_a_daemon(
    arguments: list[str], domain: str | None, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None]] = []
    outcome: list[Any] = [["a", "b"]]

    async def restore(config: Config, domain: str | None) -> list[str]:
        asked.append((config.control_socket, domain))
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]  # type: ignore[no-any-return]

    monkeypatch.setattr(commands, "restore_from_journal", restore)
    done = vscaf(*arguments, "--config", str(config))
    assert done.exit_code == 0 and "a: as it was found" in done.stdout and "no daemon answers at" in done.stdout
    assert asked == [(f"{config.parent}/mine.sock", domain)]
    outcome[0] = []
    done = vscaf(*arguments, "--config", str(config))
    assert done.exit_code == 0 and "nothing was put back" in done.stdout
    outcome[0] = VscafError("domain a: libvirt\nrefuses")
    done = vscaf(*arguments, "--config", str(config))
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "vscaf: domain a: libvirt refuses\n")
    outcome[0] = UsageError("another vscaf daemon uses it")
    assert vscaf(*arguments, "--config", str(config)).exit_code == 2


def test_off_really_asks_the_journal(config: Path) -> None:
    """Without a daemon and a journal there is nothing to do. The command says so without libvirt."""
    done = vscaf("off", "--config", str(config))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"nothing was put back: no daemon answers at {config.parent}/mine.sock")


def cores_of_this_host(monkeypatch: pytest.MonkeyPatch, *cores: str) -> None:
    of_cores = tuple(map(parse_cpu_list, cores))
    found = HostCpus(frozenset[int]().union(*of_cores), of_cores, {})
    monkeypatch.setattr("vscaf.cli.main.read_host_cpus", lambda: found)


def test_check_config(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores_of_this_host(monkeypatch, "0", "1")
    good = vscaf("check-config", str(config))
    assert vscaf("check-config", VSCAF_CONFIG=str(config)).output == good.output, "another file than other commands use"
    assert good.exit_code == 0
    assert good.stdout == (
        f"{config}: good: pool 0, policy max-speedup-fitted, "
        "domains: none by name, and those marked by their metadata\n"
    )
    for text, expected in {
        'pool = "0"\ncolour = 1\n': ["colour", "--help-config"],
        'pool = "0"\ncontrol_read_group = "no-such"\n': ["control_read_group", "no-such", "groupadd"],
        'pool = "0"\n[policy]\nname = "best"\n': ["best", "max-speedup"],
        'pool = "0"\n[policy]\nname = "static"\n': ["allocations", "set it"],
        'pool = "0"\nmetrics_address = "here"\n': ["metrics_address", "127.0.0.1:9753"],
    }.items():
        bad = tmp_path / "bad.toml"
        bad.write_text(text, encoding="utf-8")
        done = vscaf("check-config", str(bad))
        assert vscaf("daemon", VSCAF_CONFIG=str(bad)).output == done.output
        assert (done.exit_code, done.stdout) == (2, "") and done.stderr.count("\n") == 1
        for word in expected:
            assert word in done.stderr


def test_check_config_warns_of_a_pool_that_the_daemon_refuses_on_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "vscaf.toml"

    def checked(text: str) -> str:
        file.write_text(text, encoding="utf-8")
        done = vscaf("check-config", str(file))
        assert done.exit_code == 0 and "good" in done.stdout
        return done.stderr

    cores_of_this_host(monkeypatch, "0,4", "1,5", "2,6", "3,7")
    assert checked('pool = "1-3,5-7"') == checked('pool = "2-7"\nsmt = "thread"') == ""
    assert "would not start on this host: pool: CPU 4 shares a core with CPU 0" in checked('pool = "2-7"')
    assert "CPU 8 is not online" in checked('pool = "2,6,8"')
    cores_of_this_host(monkeypatch)
    assert checked('pool = "2-7"') == "", "a host that tells nothing is no reason to warn"


def test_check_config_warns_of_weights_that_the_policy_ignores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores_of_this_host(monkeypatch, "0", "1")
    file = tmp_path / "weights.toml"

    def checked(policy: str, weights: str) -> str:
        file.write_text(f'pool = "0"\n[policy]\nname = "{policy}"\n[domains]\n{weights}\n', encoding="utf-8")
        done = vscaf("check-config", str(file))
        assert done.exit_code == 0 and "good" in done.stdout
        return done.stderr

    weights = "b = {weight = 2}\nc = {}\na = {weight = 0.5}"
    warning = checked("max-speedup", weights)
    assert warning.startswith("vscaf: warning: weight of a, b: policy max-speedup ignores weights")
    assert warning.count("\n") == 1 and warning.endswith("such as max-speedup-fitted\n")
    assert checked("max-speedup", "a = {weight = 1}") == checked("fair", weights) == ""
    assert checked("max-speedup-fitted", weights) == ""


@pytest.mark.parametrize(
    ("params", "options"),
    [
        ((), {}),
        (("a=1",), {"a": 1}),
        (("a = 0.5", "b=true", "c='x'", 'd="y z"'), {"a": 0.5, "b": True, "c": "x", "d": "y z"}),
        (("t.a=1", "t.b=2"), {"t": {"a": 1, "b": 2}}),
        (("t={a=1}",), {"t": {"a": 1}}),
        (('t."my guest"=1', "l=[1, 2]"), {"t": {"my guest": 1}, "l": [1, 2]}),
    ],
)
def test_params(params: tuple[str, ...], options: dict[str, Any]) -> None:
    assert parse_options(params) == options


@pytest.mark.parametrize(
    "params",
    [
        ("a",),
        ("a=",),
        ("=1",),
        ("a=b",),
        ("a=1\nb=2",),
        ("[a]",),
        ("[a]\nb=1",),
        ("",),
        ("#a=1",),
        ("a=nan",),
        ("a=1979-05-27",),
        ("a=1", "a=2"),
        ("a=1", "a.b=2"),
        ("x=1", "a=b"),
    ],
)
def test_params_that_are_none(params: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as refused:
        parse_options(params)
    assert "--option" in str(refused.value) and "\n" not in str(refused.value)


@given(st.lists(st.text(max_size=30), max_size=3))
def test_any_params_are_options_or_refused(params: list[str]) -> None:
    try:
        options = parse_options(tuple(params))
    except UsageError:
        return
    json.dumps(options, allow_nan=False)


def test_an_event_as_a_line() -> None:
    event: dict[str, Any] = {"number": 3, "time": "T", "kind": "allocation", "domain": "a\x1b]0;x\x07", "fields": {}}
    event |= {"from": "0-1", "to": "", "why": "b computes"}
    line = event_line(event)
    assert line == "3 T allocation a\N{REPLACEMENT CHARACTER}]0;x\N{REPLACEMENT CHARACTER} 0-1 -> -: b computes"


@pytest.mark.parametrize("arguments", [[], ["policy"], *COMMANDS, ["release"], ["off"], ["check-config"]], ids=" ".join)
def test_help_is_there_and_names_the_exit_status(arguments: list[str]) -> None:
    done = vscaf(*arguments, "--help")
    assert done.exit_code == 0 and done.stdout.startswith("Usage: ")
    assert "..." not in done.stdout.replace("[ARGS]...", ""), "a summary is cut off"
    if not arguments:
        assert "Exit status: 0: done" in done.stdout
    assert vscaf("no-such-command").exit_code == 2
