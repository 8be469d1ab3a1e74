"""What all commands have in common: short help with an example, completion, NO_COLOR, exit statuses, progress."""

import io
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from vscaf import command_line
from vscaf.cli import client, completion, policy_check
from vscaf.cli.completion import SHELLS
from vscaf.cli.main import main
from vscaf.command_line import progress
from vscaf.config import Config
from vscaf.errors import UsageError
from vscaf.lab.polling import HANG_S, until
from vscaf_policies.conformance import Finding, Verdict

main.load_all()  # else `commands` has those that were used
LINES, COLUMNS = 40, 80
NO_JSON = {"vscaf daemon", "vscaf completion"}  # and all of bench, which writes files


def walk(
    command: click.Command, words: tuple[str, ...] = ("vscaf",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from walk(below, (*words, name))


COMMANDS = dict(walk(main))
every_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def vscaf(*arguments: str, **environment: str) -> Result:
    clean = {"VSCAF_CONFIG": None, "VSCAF_SOCKET": None, "NO_COLOR": None}
    return CliRunner().invoke(main, list(arguments), prog_name="vscaf", env={**clean, **environment})


def help_of(words: tuple[str, ...]) -> list[str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", str(COLUMNS))
        done = vscaf(*words[1:], "--help")
    assert done.exit_code == 0
    return done.stdout.splitlines()


@every_command
def test_help_fits_a_screen(words: tuple[str, ...]) -> None:
    lines = help_of(words)
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


@every_command
def test_help_has_an_example_that_this_command_line_understands(words: tuple[str, ...]) -> None:
    lines = help_of(words)
    start = next(number for number, line in enumerate(lines) if line in ("  Example:", "  Examples:"))
    examples = [line.strip() for line in lines[start + 1 :]]
    examples = examples[: examples.index("")]
    assert examples
    for example in examples:
        assert " ".join(words) in example
        for part in example.split("&&"):
            check_words(shlex.split(part.split("|")[0].split(">")[0]))


def check_words(example: list[str]) -> None:
    """The commands and the options of an example exist."""
    command: click.Command = main
    for number, word in enumerate(example[1:]):
        if isinstance(command, click.Group):
            assert word in command.commands, example
            command = command.commands[word]
        elif word.startswith("-"):
            assert any(word in parameter.opts for parameter in command.params), (example, number)


@every_command
def test_options_that_mean_the_same_have_the_same_name(words: tuple[str, ...]) -> None:
    by_name = {parameter.name: parameter for parameter in COMMANDS[words].params}
    for name, variable in (("config", "VSCAF_CONFIG"), ("socket", "VSCAF_SOCKET")):
        if name in by_name:
            assert by_name[name].envvar == variable and variable in " ".join(help_of(words))
    if "uri" in by_name:
        assert "config" in by_name, "a libvirt that is not that of the configuration"
    assert "params" not in by_name or by_name["params"].hidden
    if not isinstance(COMMANDS[words], click.Group) and " ".join(words) not in NO_JSON and "bench" not in words:
        assert "--json" in by_name["as_json"].opts


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_scripts(shell: str) -> None:
    done = vscaf("completion", shell)
    assert done.exit_code == 0 and f"_VSCAF_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=done.stdout, text=True, check=True)


def completed(shell: str, *words: str) -> set[str]:
    """What is offered for the last of *words*."""
    line = " ".join(words)
    current = {"fish": words[-1]}.get(shell, str(len(words) - 1))
    environment = {"COMP_WORDS": line, "COMP_CWORD": current, "_VSCAF_COMPLETE": f"{shell}_complete"}
    done = vscaf(**environment)
    lines = [line for line in done.stdout.splitlines() if line]
    if shell == "zsh":
        return set(lines[1::3])
    return {one.split(",", 1)[1].split("\t")[0] for one in lines}


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_policies_are_completed(shell: str) -> None:
    assert {"check-config", "completion"} <= completed(shell, "vscaf", "c")
    assert completed(shell, "vscaf", "status", "--js") == {"--json"}
    assert "--param" not in completed(shell, "vscaf", "policy", "set", "x", "--")
    assert completed(shell, "vscaf", "policy", "set", "equi") == {"equipartition"}
    assert completed(shell, "vscaf", "release", "--config", "/absent", "x") == set(), "no daemon answers"


def test_domains_are_completed_without_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every other command, completion then asks at the default socket."""
    asked: list[str] = []

    async def status(path: Path, _timeout_s: float) -> dict[str, list[dict[str, str]]]:
        asked.append(str(path))
        return {"domains": [{"name": "web"}, {"name": "cfd"}]}

    def refused(path: Path) -> Config:
        raise UsageError(f"{path}: not readable")

    monkeypatch.setattr(completion, "get_status", status)
    monkeypatch.setattr(command_line, "load_config", refused)
    assert completed("bash", "vscaf", "release", "w") == {"web"}
    assert asked == ["/run/vscaf/control.sock"]
    assert completed("bash", "vscaf", "release", "--config", "/absent", "w") == set(), "it was asked for"


def test_bash_completes(tmp_path: Path) -> None:
    command = tmp_path / "vscaf"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m vscaf "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    script = vscaf("completion", "bash").stdout + (
        f"COMP_WORDS=({command} policy set equi); COMP_CWORD=3\n"
        f"_vscaf_completion {command}; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("equipartition\n", "")


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    def styled(**environment: str | None) -> str:
        @main.command("styled", hidden=True)
        def command() -> None:
            click.secho("text", fg="red")

        try:
            done = CliRunner().invoke(main, ["styled"], env={"NO_COLOR": None, **environment}, color=True)
        finally:
            del main.commands["styled"]
        return str(done.stdout)

    assert "\x1b[31m" in styled() and "\x1b[31m" in styled(NO_COLOR="")
    assert styled(NO_COLOR="1") == "text\n"


def test_no_color_in_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        file = io.StringIO()
        console = Console(file=file, force_terminal=True, color_system="standard")
        policy_check.show("x", [Finding("returns", Verdict.FAILED, "bad")], console)
        return file.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "31m" in shown()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in shown()


def test_an_interrupt_ends_a_command_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "get_status", interrupted)
    done = vscaf("status", "--socket", "/x")
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "vscaf: interrupted\n")
    monkeypatch.setattr(client, "follow", interrupted_stream)
    assert vscaf("events", "--follow", "--socket", "/x").exit_code == 0


async def interrupted_stream(*_given: object) -> object:
    raise KeyboardInterrupt
    yield


@pytest.mark.parametrize(
    "arguments", [["--colour"], ["no-such"], ["policy", "set"], ["completion", "tcsh"]], ids=" ".join
)
def test_a_wrong_request_ends_with_2(arguments: list[str]) -> None:
    done = vscaf(*arguments)
    assert (done.exit_code, done.stdout) == (2, "") and done.stderr


def test_param_is_an_old_name_of_option() -> None:
    for name, warned in (("--param", True), ("--option", False)):
        done = vscaf("policy", "set", "static", name, "allocations", "--socket", "/x")
        assert done.exit_code == 2 and "--option allocations: write KEY=VALUE" in done.stderr
        assert ("vscaf: warning: --param is deprecated: write --option\n" in done.stderr) == warned


def test_the_configuration_says_which_libvirt(tmp_path: Path) -> None:
    config = tmp_path / "vscaf.toml"
    config.write_text(f'pool = "0"\nuri = "test://{tmp_path}/of-the-configuration.xml"\n', encoding="utf-8")
    for command in (["prepare", "a"], ["bench", "pairs", "--existing", "a,b", "--output", str(tmp_path)]):
        for options, environment in ((["--config", str(config)], {}), ([], {"VSCAF_CONFIG": str(config)})):
            done = vscaf(*command, *options, **environment)
            assert done.exit_code != 0 and "of-the-configuration.xml" in done.stderr, done.stderr
        done = vscaf(*command, "--uri", f"test://{tmp_path}/of-the-option.xml", VSCAF_CONFIG=str(config))
        assert "of-the-option.xml" in done.stderr
        done = vscaf(*command, VSCAF_CONFIG=f"{tmp_path}/absent")
        assert done.exit_code == 2 and "No such file" in done.stderr


def test_what_check_config_says_as_json(tmp_path: Path) -> None:
    config = tmp_path / "vscaf.toml"
    config.write_text('pool = "0"\n[domains.a]\nweight = 2\n[policy]\nname = "max-speedup"\n', encoding="utf-8")
    done = vscaf("check-config", str(config), "--json")
    found = json.loads(done.stdout)
    assert (found["pool"], found["policy"], found["domains"], found["metadata"]) == ("0", "max-speedup", ["a"], True)
    assert "ignores weights" in found["warning"]


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_takes_long_says_what_it_waits_for() -> None:
    console = terminal()
    with progress("waiting for x", console, after_s=0.0):
        until(lambda: "waiting for x ..." in written(console))


def test_what_is_quick_says_nothing_and_neither_does_a_file() -> None:
    quick, file = terminal(), Console(file=io.StringIO())
    with progress("waiting", quick, after_s=HANG_S):
        pass
    with progress("waiting", file, after_s=0.0):
        pass
    assert written(quick) == written(file) == ""


def test_progress_ends_with_an_error_too() -> None:
    console = terminal()
    with pytest.raises(ValueError, match="wrong"), progress("waiting", console, after_s=0.0):
        until(lambda: "waiting" in written(console))
        raise ValueError("wrong")
    assert "\x1b[?25h" in written(console), "the cursor is shown again"
