#!/usr/bin/env python3
"""Counts a tree of UTS by another implementation, and compares what the program counts: count_uts.py PROGRAM

Takes about two seconds for a million nodes.
"""

import hashlib
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Children = Callable[[int, float], int]


def geometric(depth_limit: int) -> Children:
    """A mean of four children, at most 100, down to the limit."""
    return lambda depth, random: (
        min(100, math.floor(math.log(1.0 - random) / math.log(0.8))) if depth < depth_limit else 0
    )


def binomial(branches: int, probability: float) -> Children:
    """2000 children of the root; of any other node `branches` or none."""
    return lambda depth, random: 2000 if depth == 0 else branches if random < probability else 0


# The seed and the number of children by depth and random number, by the program's name and class.
TREES: dict[str, tuple[int, Children]] = {
    "uts-geometric.S": (19, geometric(8)),
    "uts-geometric.W": (19, geometric(9)),
    "uts-geometric.A": (19, geometric(10)),
    "uts-geometric.B": (29, geometric(13)),
    "uts-binomial.S": (42, binomial(8, 0.124)),
    "uts-binomial.W": (42, binomial(8, 0.1246)),
    "uts-binomial.A": (42, binomial(8, 0.124875)),
    "uts-binomial.B": (7, binomial(5, 0.200014)),
}


def count(seed: int, children: Children) -> tuple[int, int, int]:
    """Nodes, leaves, and the depth of the deepest node."""
    nodes = leaves = deepest = 0
    waiting = [(hashlib.sha1(bytes(16) + seed.to_bytes(4, "big")).digest(), 0)]
    while waiting:
        digest, depth = waiting.pop()
        nodes += 1
        deepest = max(deepest, depth)
        number = children(depth, (int.from_bytes(digest[16:], "big") & 0x7FFFFFFF) / 2.0**31)
        leaves += number == 0
        for child in range(number):
            waiting.append((hashlib.sha1(digest + child.to_bytes(4, "big")).digest(), depth + 1))
    return nodes, leaves, deepest


def main() -> None:
    program = sys.argv[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    done = subprocess.run([program], env=clean | {"OMP_NUM_THREADS": "2"}, capture_output=True, text=True, check=False)
    row = re.search(r"^ +(\d+) +(\d+) +(\d+)$", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and row is not None, (done.returncode, done.stdout, done.stderr)
    counted = count(*TREES[Path(program).name])
    print(counted)
    assert tuple(map(int, row.groups())) == counted, (row.groups(), counted)


if __name__ == "__main__":
    main()
