"""Which runs a bench makes on the scaled machine: pure functions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from vscaf.bench.places.no_vm import AGENT_POLICIES
from vscaf.bench.plan import splits
from vscaf.bench.samples import ALONE, RunKey
from vscaf.errors import UsageError

PAIRS = (
    ("ep.S", "is.S"),
    ("ep.S", "cg.S"),
    ("uts-binomial.S", "mg.W"),
    ("uts-binomial.S", "serial-half.W"),
    ("lu-hp.S", "cg.W"),
    ("ft.S", "is.S"),
)
"""LU is the variant that waits at barriers: threads of the other one spin on flags, and use up their quota."""
REPEAT = {"is.S": 40}
"""How often a program does its work in one run (NPB_REPEAT; default: once). IS is too short without. Of class W it
would be slow in its first seconds on each vCPU: an emulated TLB begins small, and grows while many pages are used."""
QUICK_PAIRS = (("ep.S", "mg.S"),)
SPLITS = "splits"
ARRANGEMENTS = ("passive", SPLITS, *AGENT_POLICIES, "unmanaged")
QUICK_ARRANGEMENTS = ("passive", "3+3", "5+1", *AGENT_POLICIES)
ROUNDS = {"unmanaged": 1, "equipartition": 2}
"""So many rounds at most have these: no target is set for them."""


def pairs_named(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Pairs by their names, such as "ep+is" of PAIRS and QUICK_PAIRS, or "ep.S+mg.W". Raises UsageError."""
    short = {"+".join(name.split(".")[0] for name in pair): pair for pair in (*QUICK_PAIRS, *PAIRS)}
    short |= {key.replace("-binomial", "").replace("-hp", ""): pair for key, pair in short.items()}
    found: list[tuple[str, ...]] = []
    for name in names:
        pair = short.get(name, tuple(name.split("+")))
        if len(pair) != 2 or not all("." in one for one in pair):
            raise UsageError(f"{name}: not a pair: give {', '.join(short)}, or shipped programs like ep.S+mg.W")
        found.append(pair)
    return found


def arranged(name: str, cpus: int) -> list[tuple[str, tuple[int, ...]]]:
    """The arrangements of that name, with the CPUs of each program if they are split by hand. Raises UsageError.

    "splits" are all static splits, "5+1" is one of them.
    """
    if name == SPLITS:
        return [("static", split) for split in splits(cpus, 2)]
    for split in splits(cpus, 2):
        if name == "+".join(map(str, split)):
            return [("static", split)]
    if name in ("passive", "unmanaged", *AGENT_POLICIES):
        return [(name, ())]
    raise UsageError(f"{name}: not an arrangement: give {', '.join(ARRANGEMENTS)} or a split of {cpus} CPUs like 5+1")


def plan(pairs: Sequence[tuple[str, ...]], arrangements: Sequence[str], cpus: int, rounds: int) -> list[RunKey]:
    """All runs, in rounds: first each program alone on one slow CPU, then the pairs, in another order each time."""
    found = []
    for number in range(1, rounds + 1):
        order = random.Random(number)
        programs = sorted({name for pair in pairs for name in pair})
        alone = [RunKey(number, (name,), ALONE, threads=1) for name in programs]
        together = [
            RunKey(number, pair, kind, allocations=split)
            for pair in pairs
            for name in arrangements
            if number <= ROUNDS.get(name, rounds)
            for kind, split in arranged(name, cpus)
        ]
        order.shuffle(alone)
        order.shuffle(together)
        found += alone + together
    return found
