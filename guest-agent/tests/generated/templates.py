"""Reads the blocks of which programs are made, and fills them in.

A file in blocks/ has parts that begin with a line `//// KEYWORD ...`:

    //// kind NAME EXPECTED [TAG...]  a function `@name@(round)` that returns a check sum, with one or more sections
    //// number NAME                  a function `@number@()` that returns the program's number of threads
    //// other                        belongs to the part before it, but goes into another object
    //// any other text               a comment

EXPECTED is what verdict a good reader gives: `free`, `own`, or `any`. Only reports use it. Tags: `persists` and
`disturbs` (blocks/thread_data.c and own.c), `gcc` (it calls libgomp itself).

In the text `@(a@@b)@` is one of both by chance, `@N@` a size, `@K@` a small number, `@T@` the number of threads,
`@SCHEDULE@` a schedule clause, `@PAUSE@` what a thread does while it waits, and `@from_number@` a number from anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

BLOCKS = Path(__file__).parent / "blocks"
FILES = {
    "c": ["worksharing.c", "divided.c", "tasks.c", "waits.c", "thread_data.c", "own.c"],
    "c++": ["worksharing.c", "divided.c", "tasks.c", "waits.c", "thread_data.c", "own.c", "cxx.cc"],
    "fortran": ["fortran.f90", "fortran_team.f90"],
}
NUMBERS = {"c": "numbers.c", "c++": "numbers.c", "fortran": "fortran_numbers.f90"}
SCHEDULES = ["", "static", "static, 1", "static, 7", "dynamic", "dynamic, 5", "guided", "guided, 3", "auto", "runtime"]
PAUSES = ["sched_yield()", "sched_yield()", "usleep(1)"]


@dataclass(frozen=True)
class Template:
    kind: str
    is_number: bool
    expected: str
    tags: frozenset[str]
    text: str
    other: str


@dataclass
class Piece:
    """Text of one block for one object."""

    kind: str
    text: str


@dataclass
class Block:
    kind: str
    name: str
    tags: frozenset[str]
    own: list[Piece] = field(default_factory=list)
    other: list[Piece] = field(default_factory=list)


def read(path: Path) -> list[Template]:
    found: list[Template] = []
    for part in re.split(r"(?m)^//// ", path.read_text())[1:]:
        head, _, text = part.partition("\n")
        word, *rest = head.split()
        if word == "other":
            last = found.pop()
            found.append(Template(last.kind, last.is_number, last.expected, last.tags, last.text, text))
        elif word == "kind":
            found.append(Template(rest[0], False, rest[1], frozenset(rest[2:]), text, ""))
        elif word == "number":
            found.append(Template("number_" + rest[0], True, "own", frozenset(), text, ""))
    return found


def templates(language: str) -> list[Template]:
    return [template for name in FILES[language] for template in read(BLOCKS / name)]


def numbers(language: str) -> list[Template]:
    return read(BLOCKS / NUMBERS[language])


def expected_by_kind() -> dict[str, str]:
    every = [template for language in FILES for template in templates(language) + numbers(language)]
    return {template.kind: template.expected for template in every}


def fill_in(text: str, values: dict[str, str], random: Random) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] == "SCHEDULE":
            schedule = random.choice(SCHEDULES)
            return f"schedule({schedule})" if schedule else ""
        return values[match[1]]

    text = re.sub(r"@(SCHEDULE|PAUSE|name|number|N|K|T)@", value, text)
    # `@@(` and `)@@` separate two choices, of which one has a bracket there.
    begin, end = r"(?<!@)@\(", r"\)@(?!@)"
    innermost = re.compile(f"{begin}((?:(?!{begin}|{end}).)*){end}", re.DOTALL)
    while (match := innermost.search(text)) is not None:
        text = text[: match.start()] + random.choice(match[1].split("@@")) + text[match.end() :]
    assert not re.search(r"@\w+@", text), text
    return text


def make_block(template: Template, sources: list[Template], index: int, threads: int, random: Random) -> Block:
    """A block with names of its own, so that any number of them fit into one program."""
    values = {
        "name": f"kind_{template.kind}_{index}",
        "N": str(random.randrange(48, 400, 4)),
        "K": str(random.randrange(2, 9)),
        "T": str(threads),
        "PAUSE": random.choice(PAUSES),
    }
    block = Block(template.kind, values["name"], template.tags)
    before, from_number, after = template.text.rpartition("@from_number@\n")
    if from_number:
        source = random.choice(sources)
        values["number"] = f"kind_{source.kind}_{index}"
        block.own.append(Piece(source.kind, fill_in(source.text, values, random)))
        if source.other:
            block.other.append(Piece(source.kind, fill_in(source.other, values, random)))
    block.own.append(Piece(template.kind, fill_in(before + after, values, random)))
    if template.other:
        block.other.append(Piece(template.kind, fill_in(template.other, values, random)))
    return block
