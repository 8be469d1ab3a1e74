"""tests/behaviours.md has every behaviour once and in order, and each test that it names exists."""

import ast
import re
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = REPOSITORY / "tests" / "behaviours.md"
BEHAVIOURS = 35
ROW = re.compile(r"\| (\d+) \| ([^|]+) \| ([^|]+) \|")
TEST = re.compile(r"`([\w/.-]+\.py)::(\w+)`")


def rows() -> list[tuple[int, str, str]]:
    text = TABLE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    matched = [ROW.fullmatch(line) for line in lines]
    assert all(matched), [line for line, match in zip(lines, matched, strict=True) if match is None]
    return [(int(match[1]), match[2], match[3]) for match in matched if match is not None]


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_behaviour_has_its_row() -> None:
    assert [number for number, _behaviour, _shown in rows()] == list(range(1, BEHAVIOURS + 1))


def test_every_row_names_a_test_or_says_why_there_is_none() -> None:
    for number, _behaviour, shown in rows():
        assert TEST.search(shown) or shown.startswith("Does not apply: "), number


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{number}: {path}::{name}"
        for number, _behaviour, shown in rows()
        for path, name in TEST.findall(shown)
        if not (name.startswith("test_") and (REPOSITORY / path).is_file() and name in functions_of(REPOSITORY / path))
    ]
    assert missing == []


def test_nothing_in_backticks_escapes_the_check() -> None:
    for number, _behaviour, shown in rows():
        assert all(TEST.fullmatch(f"`{quoted}`") for quoted in re.findall(r"`([^`]*)`", shown)), number
