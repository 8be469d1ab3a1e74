#!/usr/bin/env python3
"""make_pages.py DIRECTORY: writes the host's manual pages to DIRECTORY. Needs click-man.

Each command gets a page made of its own help: vscaf.1, vscaf-status.1, vscaf-policy-set.1 and so on. The pages about
files are the templates beside this program. In them `@HELP_CONFIG@` becomes what `vscaf daemon --help-config` prints.
"""

import re
import sys
from pathlib import Path

from click import Command, Group
from click_man.core import write_man_pages
from vscaf import __version__
from vscaf.cli.main import main as vscaf
from vscaf.config import HELP

TEMPLATES = Path(__file__).parent


def literal(text: str) -> str:
    """Text that roff prints as it is."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)


def sound(page: str) -> str:
    """A page of click-man without what roff warns of. Lines that click does not wrap are not filled here either."""
    page = re.sub(r"^\x08\n(.*?)(?=^\.(?:PP|SH)|\Z)", r".nf\n\1.fi\n", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"^\n+", "", page, flags=re.MULTILINE)
    return re.sub(r"^(\.SH .*\n)\.PP\n", r"\1", page, flags=re.MULTILINE)


def show_no_hidden_options(command: Command) -> None:
    """click-man 0.4 and 0.5, those of Debian 12 and 13, fail at an option that is hidden from the help."""
    command.params = [one for one in command.params if not getattr(one, "hidden", False)]
    for below in command.commands.values() if isinstance(command, Group) else ():
        show_no_hidden_options(below)


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_pages.py DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    vscaf.load_all()
    show_no_hidden_options(vscaf)
    write_man_pages("vscaf", vscaf, version=__version__, target_dir=str(directory))
    for made in directory.glob("*.1"):
        made.write_text(sound(made.read_text(encoding="utf-8")), encoding="utf-8")
    for template in sorted(TEMPLATES.glob("*.[57].in")):
        text = template.read_text(encoding="utf-8").replace("@HELP_CONFIG@", literal(HELP))
        (directory / template.stem).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
