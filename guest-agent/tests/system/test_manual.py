"""The manual pages agree with the programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rig import AGENT, BUILD

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = BUILD / "guest-agent" / "man"
RUN = BUILD / "guest-libgomp" / "vscaf-run"
ALL = ["vscaf-agent.8", "vscaf-run.1", "vscaf-gomp.7"]


def listed_options(page: str) -> dict[str, str]:
    """The options in the page's list, with their defaults ("" for none)."""
    entries = re.findall(r"^\.It Fl -(\S+)[^\n]*\n((?:[^.][^\n]*\n)*)", page, re.MULTILINE)
    defaults = {name: re.search(r"The default is (.*)\.$", text, re.MULTILINE) for name, text in entries}
    return {name: found.group(1) if found else "" for name, found in defaults.items()}


def test_the_agents_page_has_every_option_with_its_default() -> None:
    text = subprocess.run([AGENT, "--help"], capture_output=True, text=True, check=True).stdout
    said = {}
    for name, words in re.findall(r"^ +--([a-z-]+)(.*)$", text, re.MULTILINE):
        default = re.search(r"\(default: (.*)\)$", words)
        said[name] = default.group(1) if default else ""
    assert len(said) >= 11
    assert listed_options((PAGES / "vscaf-agent.8").read_text()) == said, (
        "guest-agent/man/fill.py did not understand --help: rows are `  --NAME VALUE  WORDS (default: X)`"
    )


def variables_of(page: str) -> set[str]:
    return {name for line in re.findall(r"^\.It Ev (.*)$", page, re.MULTILINE) for name in re.findall(r"[A-Z_]+", line)}


def test_the_shims_page_has_every_variable() -> None:
    readme = (REPOSITORY / "guest-libgomp" / "README.md").read_text()
    table = readme.split("## Environment")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    wanted = {name for cell in cells for name in re.findall(r"[A-Z][A-Z_]+", cell)}
    for source in (REPOSITORY / "guest-libgomp" / "src").rglob("*.c"):
        wanted |= set(re.findall(r'getenv\("(VSCAF_[A-Z_]+)"', source.read_text()))
    missing = wanted - variables_of((PAGES / "vscaf-gomp.7").read_text())
    assert len(wanted) >= 9 and not missing, f"add `.It Ev` for {missing} to guest-libgomp/man/vscaf-gomp.7.in"


def test_the_pages_of_vscaf_run_agree() -> None:
    text = subprocess.run([RUN, "--help"], capture_output=True, text=True, check=True).stdout
    said = set(re.findall(r"^  ([A-Z_]+) ", text, re.MULTILINE))
    assert len(said) >= 5 and variables_of((PAGES / "vscaf-run.1").read_text()) == said
    missing = said - variables_of((PAGES / "vscaf-gomp.7").read_text())
    assert not missing, f"add `.It Ev` for {missing} to guest-libgomp/man/vscaf-gomp.7.in"


@pytest.mark.parametrize("page", ALL)
def test_nothing_is_left_to_fill_in(page: str) -> None:
    assert not re.search(r"@[A-Za-z]+@", (PAGES / page).read_text())


@pytest.mark.parametrize("page", ALL)
def test_the_page_is_sound(page: str) -> None:
    linters = [["groff", "-mdoc", "-ww", "-z", "-Tutf8"], ["mandoc", "-Tlint", "-Wwarning"]]
    there = [command for command in linters if shutil.which(command[0])]
    if not there:
        pytest.skip("neither groff nor mandoc is installed, so the pages cannot be checked")
    for command in there:
        done = subprocess.run([*command, PAGES / page], capture_output=True, text=True, check=False)
        assert done.stdout + done.stderr == "", command
