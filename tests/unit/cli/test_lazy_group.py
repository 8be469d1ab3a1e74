"""A command imports what it needs itself, and the help of a group still names all commands."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from vscaf.cli.lazy_group import LazyGroup
from vscaf.cli.main import COMMANDS_AT, main

RUN = """
import sys
from vscaf.cli.main import main
try:
    main(["status", "--socket", "/no/such/socket"])
finally:
    print(*sys.modules)
"""


def test_a_question_to_the_daemon_imports_no_numpy_and_no_simulator():
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=False)
    imported = done.stdout.split()
    assert done.returncode == 1 and "vscaf.control.client" in imported, done.stderr
    assert not {"numpy", "libvirt", "textual", "vscaf.simulate.command", "vscaf.bench.command"} & set(imported)


def test_every_place_has_its_command():
    context = click.Context(main)
    for name in COMMANDS_AT:
        command = main.get_command(context, name)
        assert command is not None and command.name == name
    assert set(COMMANDS_AT) < set(main.list_commands(context))


def test_loads_one_command_or_all():
    inner = LazyGroup("inner", commands_at={"digits": "vscaf.cli.completion:completion"})
    group = LazyGroup("outer", commands_at={"shells": "vscaf.cli.completion:completion"}, commands={"inner": inner})
    assert group.list_commands(click.Context(group)) == ["inner", "shells"] and list(group.commands) == ["inner"]
    assert "Print the script" in CliRunner().invoke(group, ["shells", "--help"]).output
    assert list(inner.commands) == []
    group.load_all()
    assert list(inner.commands) == ["digits"]


def test_an_unknown_command_is_a_usage_error():
    with pytest.raises(click.UsageError, match="No such command"):
        main.resolve_command(click.Context(main), ["no-such"])
