"""The paths that the pages name exist, and the glossary is short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("host-daemon", "guest-agent", "guest-libgomp", "policies", "images", "ansible", "tests", "docs")
PAGES = sorted([*ROOT.glob("*.md"), *(page for part in PARTS for page in (ROOT / part).rglob("*.md"))])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_is_there(page):
    text = page.read_text()
    paths = [name for name in re.findall(r"`([\w./-]+/[\w./-]+)`", text) if name.split("/")[0] in PARTS]
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text)
    here = (ROOT, page.parent)
    assert [name for name in paths if "NAME" not in name and not any((top / name).exists() for top in here)] == []
    assert [name for name in links if not (page.parent / name).exists()] == []


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
