"""Each command of the documentation is run by a test, or says why not; and it exists, with the options that it uses."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from site_commands import PROGRAMS, ROOT, Block, blocks, pages, summary
from site_reference import PAGES, agent_options
from vscaf.cli.main import main
from vscaf.config import load_config
from vscaf.hypervisor.libvirt.metadata import NAMESPACE, parse_rules

main.load_all()  # else `commands` has those that were used
BLOCKS = [block for page in pages() for block in blocks(page)]
RUN_HERE = {"cat", "vscaf"}
"""Programs that an unmarked block may use. Such blocks are run, in a directory of their own for each page."""
UNITS = {"vscaf", "vscaf-agent"}


def label(block: Block) -> str:
    return f"{block.page}:{block.line}"


def check_vscaf(arguments: list[str]) -> None:
    """AssertionError if click refuses the command line, except for files that are not there."""
    command: click.Command = main
    context = click.Context(main)
    try:
        while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
            _, found, arguments = command.resolve_command(context, arguments)
            assert found is not None
            command = found
            context = click.Context(command, parent=context)
        command.make_context("vscaf", list(arguments))
    except click.exceptions.Exit:
        pass  # --help and --version end the program
    except click.MissingParameter as error:
        raise AssertionError(error.format_message()) from error
    except click.BadParameter as error:
        assert isinstance(error.param and error.param.type, click.Path), error.format_message()
    except click.UsageError as error:
        raise AssertionError(error.format_message()) from error


def check_make(arguments: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for one in arguments:
        name, is_variable, _ = one.partition("=")
        assert name in (("ARGS", "SETUP", "AT_ONCE", "VSCAF_EXPLORE") if is_variable else targets), one


def check_agent(arguments: list[str]) -> None:
    options = agent_options()
    for one in arguments:
        if one.startswith("-"):
            assert one.removeprefix("--") in options, one


def check_virsh(arguments: list[str]) -> None:
    if "--set" in arguments:
        element = ElementTree.fromstring(arguments[arguments.index("--set") + 1])
        element.tag = f"{{{NAMESPACE}}}{element.tag}"
        parent = ElementTree.Element("metadata")
        parent.append(element)
        assert parse_rules(parent) is not None
    if "metadata" in arguments:
        assert any(one in arguments for one in (NAMESPACE, "https://vscaf.org/xmlns/prepared/1"))


def check_systemctl(arguments: list[str]) -> None:
    if arguments[0] != "daemon-reload":
        assert UNITS & set(arguments), arguments


def check_playbook(arguments: list[str]) -> None:
    (name,) = (one for one in arguments if one.startswith("vscaf.vscaf."))
    assert (ROOT / "ansible" / "playbooks" / f"{name.rpartition('.')[2]}.yml").exists()


CHECKS = {
    "vscaf": check_vscaf,
    "build/venv/bin/vscaf": check_vscaf,
    "make": check_make,
    "vscaf-agent": check_agent,
    "virsh": check_virsh,
    "systemctl": check_systemctl,
    "ansible-playbook": check_playbook,
}


def test_there_are_commands() -> None:
    assert sum(len(one.commands) for one in BLOCKS) > 100


def test_indented_commands_are_found() -> None:
    readme = {one.text for one in BLOCKS if one.page == "README.md"}
    assert "ln -s /opt/vscaf/bin/vscaf /usr/local/bin/" in readme
    assert "meson setup build && meson install -C build" in readme


def test_each_command_has_a_mark_or_is_run_here() -> None:
    without = {label(one) for one in BLOCKS if one.mark == "none"}
    assert not without, "fence these commands as sh, and mark them: CONTRIBUTING.md"


@pytest.mark.parametrize("block", BLOCKS, ids=label)
def test_commands_and_their_options_exist(block: Block) -> None:
    for program, *arguments in block.commands:
        if program in CHECKS:
            CHECKS[program](arguments)
        else:
            assert (
                program.rpartition("/")[2] in PROGRAMS or program.startswith("build/") or (ROOT / program).is_file()
            ), program


def words_of(program: str, arguments: list[str]) -> list[str]:
    """What a test that runs this command must contain: the command or subcommand, and options of vscaf's programs."""
    options = [one for one in arguments if one.startswith("--")] if program.startswith("vscaf") else []
    if program != "vscaf":
        return [program, *options]
    command: click.Command = main
    path = []
    for one in arguments:
        if not isinstance(command, click.Group):
            break
        command = command.commands[one]
        path.append(one)
    return [*path, *options]


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.mark == "run by"], ids=label)
def test_the_tests_that_run_a_command_name_it(block: Block) -> None:
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in block.reason.split(", ")]
    if any(f'"{block.page}"' in text for text in texts):
        return  # it reads them from the page
    for program, *arguments in block.commands:
        if program in ("cat", "tee"):
            continue
        words = words_of(program, arguments)
        patterns = [rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words]
        assert any(all(re.search(pattern, text) for pattern in patterns) for text in texts), words


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.mark == "not run"], ids=label)
def test_a_reason_is_a_sentence(block: Block) -> None:
    assert len(block.reason.split()) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({one.page for one in BLOCKS if one.mark == ""}))
def test_unmarked_commands_run(page: str, tmp_path: Path) -> None:
    """In one shell for each page, so that a command finds the files that an earlier one has made."""
    unmarked = [one for one in BLOCKS if one.page == page and one.mark == ""]
    used = {words[0] for block in unmarked for words in block.commands}
    assert used <= RUN_HERE, f"mark the block: `not run` or `run by`: {used - RUN_HERE}"
    vscaf = tmp_path / "bin" / "vscaf"
    vscaf.parent.mkdir()
    vscaf.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vscaf "$@"\n', encoding="utf-8")
    vscaf.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PATH": f"{vscaf.parent}:{os.environ['PATH']}", "COLUMNS": "200"}
    script = "\n".join(one.text for one in unmarked)
    done = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_page_of_docs_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"(?:- |: )(\S+\.md)$", navigation, re.MULTILINE))
    there = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    generated = {f"docs/reference/{name}.md" for name in PAGES}
    assert there | generated == {name for name in listed if name.startswith("docs/")}, "change `nav` in mkdocs.yml"


def toml_blocks() -> list[tuple[str, str]]:
    """Blocks of configuration in the pages for users."""
    found = []
    for page in pages():
        name = str(page.relative_to(ROOT))
        if name.startswith(("docs/tutorial/", "docs/how-to/", "docs/explanation/")):
            texts = re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
            found += [(name, text) for text in texts]
    return found


@pytest.mark.parametrize(("page", "text"), toml_blocks(), ids=lambda value: value.partition("\n")[0])
def test_configurations_are_good(page: str, text: str, tmp_path: Path) -> None:
    """A part of a configuration gets the pool that it needs."""
    whole = text if re.search(r"^pool =", text, re.MULTILINE) else f'pool = "2-7"\n{text}'
    (tmp_path / "vscaf.toml").write_text(whole, encoding="utf-8")
    load_config(tmp_path / "vscaf.toml")


def test_all_are_counted() -> None:
    """The page of the site has each command once: as run here, run by another test, or not run."""
    rows = re.findall(r"^\| \[[^|]*\| (\d*) \| (\d*) \| (\d*) \|$", summary(), re.MULTILINE)
    counted = sum(int(count) for row in rows for count in row if count)
    assert counted == sum(len(one.commands) for one in BLOCKS)
