"""The layout of the C parts: no cycle of includes between or within folders, and at most 30 sources in a folder.

Within a folder a header and its source are one unit, so a.c -> b.h and b.c -> a.h is a cycle too.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES_MOST = 30
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)

# Units of one folder that may include each other, and the reason: their functions call each other.
MUTUAL: dict[str, dict[frozenset[str], str]] = {
    "guest-agent": {},
    "guest-libgomp": {},
}


class Include(NamedTuple):
    """One file includes another. Both are paths below src."""

    by: PurePosixPath
    of: PurePosixPath

    def __str__(self) -> str:
        return f"{self.by} includes {self.of}"


def includes_of(src: Path) -> list[Include]:
    """Every include of a file of the part itself. A name in quotes is searched in the file's folder, then below src."""
    found = []
    for file in sorted(src.rglob("*.[ch]")):
        for mark, name in INCLUDE.findall(file.read_text()):
            places = [file.parent / name, src / name] if mark == '"' else [src / name]
            target = next((path for path in places if path.is_file()), None)
            if target is not None:
                found.append(
                    Include(
                        PurePosixPath(file.relative_to(src)),
                        PurePosixPath(target.resolve().relative_to(src.resolve())),
                    )
                )
    return found


def folder(path: PurePosixPath) -> str:
    return str(path.parent)


def unit(path: PurePosixPath) -> str:
    return str(path.with_suffix(""))


def file(path: PurePosixPath) -> str:
    return str(path)


def shortest_cycle(includes: Iterable[Include], node_of: Callable[[PurePosixPath], str]) -> list[Include]:
    """The includes along a shortest cycle of nodes. Empty: there is no cycle."""
    edges: dict[str, dict[str, Include]] = {}
    for include in includes:
        by, of = node_of(include.by), node_of(include.of)
        if by != of:
            edges.setdefault(by, {}).setdefault(of, include)
    shortest: list[Include] = []
    for start in sorted(edges):
        ways: dict[str, list[Include]] = {start: []}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for after, include in edges.get(node, {}).items():
                if after == start:
                    cycle = [*ways[node], include]
                    if not shortest or len(cycle) < len(shortest):
                        shortest = cycle
                elif after not in ways:
                    ways[after] = [*ways[node], include]
                    queue.append(after)
    return shortest


PARTS = ("guest-agent", "guest-libgomp")


def message(what: str, cycle: list[Include]) -> str:
    return f"{what}:\n" + "\n".join(f"  {include}" for include in cycle)


@pytest.mark.parametrize("part", PARTS)
def test_no_cycle_between_folders(part: str) -> None:
    cycle = shortest_cycle(includes_of(REPOSITORY / part / "src"), folder)
    assert not cycle, message(f"{part}/src: folders include each other", cycle)


@pytest.mark.parametrize("part", PARTS)
def test_no_cycle_between_headers(part: str) -> None:
    headers = [include for include in includes_of(REPOSITORY / part / "src") if include.by.suffix == ".h"]
    cycle = shortest_cycle(headers, file)
    assert not cycle, message(f"{part}/src: headers include each other", cycle)


@pytest.mark.parametrize("part", PARTS)
def test_no_cycle_within_a_folder(part: str) -> None:
    allowed = MUTUAL[part]
    within = [
        include
        for include in includes_of(REPOSITORY / part / "src")
        if folder(include.by) == folder(include.of)
        and not any({unit(include.by), unit(include.of)} <= group for group in allowed)
    ]
    cycle = shortest_cycle(within, unit)
    assert not cycle, message(f"{part}/src: files of one folder include each other", cycle)


@pytest.mark.parametrize("part", PARTS)
def test_every_exception_is_needed(part: str) -> None:
    includes = includes_of(REPOSITORY / part / "src")
    for group, reason in MUTUAL[part].items():
        inside = [include for include in includes if {unit(include.by), unit(include.of)} <= group]
        assert shortest_cycle(inside, unit), f"{part}/src: {sorted(group)} no longer include each other: {reason}"


def test_every_source_of_the_agent_has_its_header() -> None:
    """Otherwise a unit's functions would be declared in another header, and a cycle would not be found."""
    src = REPOSITORY / "guest-agent" / "src"
    without = [str(path.relative_to(src)) for path in src.rglob("*.c") if not path.with_suffix(".h").is_file()]
    assert without == ["main.c"]


@pytest.mark.parametrize("part", PARTS)
def test_folders_are_small(part: str) -> None:
    found = [path for below in ("src", "tests") for path in (REPOSITORY / part / below).rglob("*")]
    sources = [path for path in found if path.suffix in {".c", ".h", ".py", ".f90"}]
    counts = Counter(str(path.parent.relative_to(REPOSITORY)) for path in sources)
    large = {name: count for name, count in counts.items() if count > SOURCES_MOST}
    assert not large, f"more than {SOURCES_MOST} sources in a folder: {large}"


def test_a_cycle_is_found(tmp_path: Path) -> None:
    """The check finds folders that include each other, and files that do."""
    texts = {
        "one/a.c": '#include "one/a.h"\n#include "one/b.h"\n',
        "one/a.h": "",
        "one/b.c": '#include "b.h"\n# include "a.h"\n',
        "one/b.h": '#include "two/c.h"\n#include "vscaf/page.h"\n',
        "two/c.h": "#include <stdint.h>\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    includes = includes_of(tmp_path)
    assert not shortest_cycle(includes, folder) and not shortest_cycle(includes, file)
    assert [str(include) for include in shortest_cycle(includes, unit)] == [
        "one/a.c includes one/b.h",
        "one/b.c includes one/a.h",
    ]
    (tmp_path / "two/c.h").write_text("#include <one/a.h>\n")
    assert [str(include) for include in shortest_cycle(includes_of(tmp_path), folder)] == [
        "one/b.h includes two/c.h",
        "two/c.h includes one/a.h",
    ]
