#!/usr/bin/env python3
"""pin_private_python.py: writes debian/private-python.txt, with the newest versions that setup.cfg allows. Needs PyPI.

The file pins what vscaf-host on Debian 12 has in /usr/lib/vscaf/python. Debian does not update these copies: run this
again, and release, when one of them has a security fix.
"""

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What Debian 12 lacks or has too old. What these need comes along, so nothing in there depends on Debian's versions.
NAMES = ("aiohttp", "msgspec", "textual")
# Debian 12 has Python 3.11 and glibc 2.36.
PLATFORMS = {
    machine: [f"--platform=manylinux{version}_{machine}" for version in ("2014", "_2_28", "_2_34")]
    for machine in ("x86_64", "aarch64")
}
HEADER = """\
# Written by debian/pin_private_python.py: do not edit.
# What vscaf-host on Debian 12 has in /usr/lib/vscaf/python. The hashes are those of the wheels for amd64 and arm64.
"""


def wanted() -> list[str]:
    """The requirements of setup.cfg for NAMES."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = [parser["options"]["install_requires"], parser["options.extras_require"]["top"]]
    found = [line.replace(" ", "") for line in "\n".join(lines).splitlines()]
    return [line for line in found if re.match(r"[\w-]*", line)[0] in NAMES]


def resolve(machine: str, requirements: list[str]) -> dict[str, str]:
    """`name==version` and the hash of its wheel, for all that the requirements need."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report=-"]
    command += ["--only-binary=:all:", "--python-version=3.11", "--target=/nonexistent", *PLATFORMS[machine]]
    done = subprocess.run([*command, *requirements], stdout=subprocess.PIPE, text=True, check=True)
    return {
        f"{one['metadata']['name'].lower()}=={one['metadata']['version']}": one["download_info"]["archive_info"]["hash"]
        for one in json.loads(done.stdout)["install"]
    }


def main() -> int:
    first = resolve("x86_64", wanted())
    second = resolve("aarch64", list(first))
    entries = [
        " \\\n".join([name, *(f"    --hash={one.replace('=', ':')}" for one in sorted({first[name], second[name]}))])
        for name in sorted(first)
    ]
    (ROOT / "debian" / "private-python.txt").write_text(HEADER + "\n".join(entries) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
