"""The paths that the pages name exist, and the glossary is short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["docs/architecture.md", "CONTRIBUTING.md", "SECURITY.md", "README.md"]
PARTS = ("host-daemon", "guest-agent", "guest-libgomp", "policies", "images", "tests", "docs")


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text()
    named = {name for name in re.findall(r"`([\w./-]+)`", text) if name.split("/")[0] in PARTS and "NAME" not in name}
    named |= {str((ROOT / page).parent / name) for name in re.findall(r"\]\(([\w./-]+)\)", text)}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_paths_in_the_table_of_steps_are_there():
    text = (ROOT / "docs/architecture.md").read_text()
    table = text.partition("file, in `host-daemon/vscaf/`")[2].partition("\n\n")[0]
    named = re.findall(r"`([\w./-]+)`", table)
    assert len(named) >= 8
    places = (ROOT / "host-daemon/vscaf", ROOT)
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_glossary_is_short():
    glossary = (ROOT / "docs/architecture.md").read_text().partition("## Glossary\n")[2]
    assert 20 < len(glossary.strip().splitlines()) <= 40
