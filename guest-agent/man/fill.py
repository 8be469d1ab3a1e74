#!/usr/bin/env python3
"""fill.py TEMPLATE OUTPUT [KEY=VALUE...] -- PROGRAM [ARGUMENT...]: completes a manual page in mdoc.

A line `@OPTIONS@` becomes the options of PROGRAM's --help, and `@ENVIRONMENT@` its environment variables. So the page
and the program cannot differ. `@KEY@` anywhere becomes VALUE.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

OPTION = re.compile(r"^  --([a-z][a-z-]*)(?:[ =]?(\S+))?(?:  +(.*))?$")
VARIABLE = re.compile(r"^  ([A-Z][A-Z_]+)  +(.*)$")
MORE = re.compile(r"^ {8,}(\S.*)$")


def rows(text: str, pattern: re.Pattern[str]) -> list[list[str]]:
    """The entries of the help: the groups of the pattern. The last group includes the lines that continue it."""
    found: list[list[str]] = []
    taking = False
    for line in text.splitlines():
        match, more = pattern.match(line), MORE.match(line)
        if match:
            found.append([group or "" for group in match.groups()])
        elif taking and more:
            found[-1][-1] = f"{found[-1][-1]} {more.group(1)}".strip()
        taking = bool(match) or (taking and bool(more))
    return found


def plain(text: str) -> str:
    """Text for roff: each sentence on its own line, and no line that roff takes for a request."""
    text = text.replace("\\", "\\e")
    lines = re.sub(r"(?<=[.;:]) +(?=The default)", "\n", text).splitlines()
    return "\n".join(f"\\&{line}" if line[:1] in ".'" else line for line in lines)


def value_words(value: str) -> str:
    """An option's value: PATH, [SECONDS], or words to choose from."""
    if not value:
        return ""
    if value.startswith("["):
        return f" Oo Ar {value.strip('[]=')} Oc"
    return " " + " Ns | Ns ".join(f"{'Ar' if word.isupper() else 'Cm'} {word}" for word in value.split("|"))


def sentence(text: str) -> str:
    """The text of the help as a sentence, and the default as a second one."""
    match = re.fullmatch(r"(.*?)(?: \(default: (.*)\))?", text)
    assert match is not None
    words = match.group(1)[:1].upper() + match.group(1)[1:]
    default = f" The default is {match.group(2)}." if match.group(2) else ""
    return f"{words.rstrip('.')}.{default}"


def options(text: str) -> str:
    """The list of options."""
    entries = [
        f".It Fl -{name}{value_words(value)}\n{plain(sentence(words))}" for name, value, words in rows(text, OPTION)
    ]
    return "\n".join([".Bl -tag -width Ds", *entries, ".El"])


def environment(text: str) -> str:
    """The list of variables."""
    entries = [f".It Ev {name}\n{plain(sentence(words))}" for name, words in rows(text, VARIABLE)]
    return "\n".join([".Bl -tag -width Ds", *entries, ".El"])


def main() -> int:
    split = sys.argv.index("--")
    template, output, *pairs = sys.argv[1:split]
    page = Path(template).read_text()
    text = subprocess.run([*sys.argv[split + 1 :], "--help"], capture_output=True, text=True, check=True).stdout
    for key, fill in (("OPTIONS", options), ("ENVIRONMENT", environment)):
        if f"@{key}@" in page:
            filled = fill(text)
            if ".It" not in filled:
                print(
                    f"fill.py: {sys.argv[split + 1]} --help has nothing for @{key}@: see the patterns", file=sys.stderr
                )
                return 1
            page = page.replace(f"@{key}@", filled)
    for pair in pairs:
        key, value = pair.split("=", 1)
        page = page.replace(f"@{key}@", value)
    Path(output).write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
