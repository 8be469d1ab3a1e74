"""The commands of the documentation, and what becomes of each: run by a test, or not run for a reason.

Commands are in blocks fenced as `sh`, or as `console` with their output, after `# ` or `$ `. The line above a block may
say how its commands are tested:

    <!-- run by: PATH, PATH -->    tests that run these commands, if with other names
    <!-- not run: REASON -->

tests/unit/test_site_commands.py runs all other blocks. Of a test that is named it checks only that its text has the
words of each command: the subcommand and the long options of vscaf, else the name of the program; or the name of the
page, if it reads the commands from there.

A line of an indented block is a command if it begins with one of `PROGRAMS` or with build/. Such blocks have no marks:
`INDENTED_MARKS` has one for all of a page. A text that stands far behind such a command explains it. Commands within a
sentence are not counted.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "host-daemon", "guest-agent", "guest-libgomp", "policies", "ansible")
MARK = re.compile(r"<!-- (run by|not run): (.*?) -->")
INDENTED_MARKS = {
    "README.md": (
        "not run",
        "the tests of the wheels and of the Ansible roles install from source, those of the tutorials run the other "
        "commands, and make runs the tests themselves",
    ),
    "docs/cockpit.md": ("run by", "tests/packages/check"),
    "docs/doctor.md": ("run by", "tests/driver/test_doctor.py"),
    "docs/explain.md": ("run by", "tests/driver/test_explain.py"),
    "docs/plot.md": ("run by", "tests/unit/plot/test_plot_command.py"),
    "docs/replay.md": ("run by", "tests/driver/test_explain.py, tests/unit/cli/test_replay_command.py"),
    "docs/top.md": ("not run", "no test runs --sort and --interval; tests/unit/top runs the others"),
}
PROGRAMS = {
    *(
        "adduser",
        "ansible-galaxy",
        "ansible-playbook",
        "apt-get",
        "cat",
        "cd",
        "cp",
        "curl",
        "docker",
        "echo",
        "editor",
    ),
    *("git", "journalctl", "kill", "ln", "lscpu", "make", "meson", "mkdir", "ninja", "numactl", "pip", "python3", "rm"),
    *("rmdir", "systemctl", "taskset", "tee", "virsh", "vscaf", "vscaf-agent", "vscaf-agent-run", "vscaf-run"),
}
"""All programs that the pages use."""
INDENTED = re.compile(rf"^ {{4}}(?:# |\$ )?((?:sudo )?(?:{'|'.join(sorted(PROGRAMS))}|build/\S+)(?: .*)?)$")
BEFORE_A_COMMAND = {"sudo", "&&", "||", ";", "|", "&"}


@dataclass(frozen=True)
class Block:
    """A block of shell commands. `mark` is "run by", "not run", "" (the test runs it) or "none" (an indented one)."""

    page: str
    line: int
    text: str
    mark: str
    reason: str = ""

    @property
    def commands(self) -> list[list[str]]:
        """The simple commands, as words, without redirections, assignments and sudo."""
        return [command for line in _logical_lines(self.text) for command in _simple_commands(line)]


def pages() -> list[Path]:
    """All pages of the site that are in the repository."""
    return sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of shell commands of a page, in order."""
    name = str(page.relative_to(ROOT))
    lines = page.read_text(encoding="utf-8").splitlines()
    fence, begun, before = "", 0, ""
    for number, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            if fence:
                if fence in ("```sh", "```console"):
                    mark = MARK.fullmatch(before)
                    body = lines[begun + 1 : number]
                    if fence == "```console":
                        body = [one[2:] for one in body if one.startswith(("# ", "$ "))]
                    yield Block(name, begun + 1, "\n".join(body), mark[1] if mark else "", mark[2] if mark else "")
                fence = ""
            else:
                fence, begun, before = line.strip(), number, lines[number - 1].strip() if number else ""
        elif not fence and (found := INDENTED.match(line)):
            mark_of_page = INDENTED_MARKS.get(name, ("none", ""))
            yield Block(name, number + 1, re.split(" {3,}", found[1])[0], *mark_of_page)


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations, without here-documents."""
    lines = iter(text.splitlines())
    for first in lines:
        line = first
        while line.endswith("\\"):
            line = line[:-1] + next(lines)
        if here := re.search(r"<<-?\s*'?(\w+)'?", line):
            line = line[: here.start()]
            while next(lines).strip() != here[1]:
                pass
        yield line


def _simple_commands(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for word in [*lexer, ";"]:
        if skip:
            skip = False
        elif word in (">", ">>", "<"):
            skip = True
        elif word in BEFORE_A_COMMAND:
            if words:
                yield words
            words = []
        elif words or not re.match(r"\w+=", word):
            words.append(word)


def summary() -> str:
    """How many commands each page has, and what becomes of them; then each reason not to run some."""
    rows, reasons = [], []
    for page in pages():
        found = list(blocks(page))
        counts = {
            mark: sum(len(one.commands) for one in found if one.mark == mark) for mark in ("", "run by", "not run")
        }
        if any(counts.values()):
            link = f"[{found[0].page}](../../{found[0].page})"
            rows.append(f"| {link} | " + " | ".join(str(count or "") for count in counts.values()) + " |")
        for one in found:
            if one.mark == "not run":
                reasons += [
                    f"| [{one.page}](../../{one.page}) | `{' '.join(words)}` | {one.reason} |" for words in one.commands
                ]
    return "\n".join(
        [
            "# Commands of this documentation",
            "",
            "What becomes of the commands in blocks of these pages. Those within a sentence are not counted. A test",
            "reads each command of vscaf, and each target of make: commands and options must exist. Where another test",
            "runs a command, it is checked that the text of that test has the words of the command, or reads the page,",
            "and not that it runs this very line.",
            "",
            "| page | run by the test of the pages | run by another test | not run |",
            "|---|---|---|---|",
            *rows,
            "",
            "## Not run",
            "",
            "| page | command | why |",
            "|---|---|---|",
            *reasons,
            "",
        ]
    )
