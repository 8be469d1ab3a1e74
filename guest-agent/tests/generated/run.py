#!/usr/bin/env python3
"""Runs random OpenMP programs under the shim while their teams change, and compares each with its plain run.

    run.py --build build/meson --programs 60              the first 60
    run.py --build build/meson --seed 17                  this one
    run.py --build build/meson --seed 17 --shrink         without the blocks that are not needed to make it fail
    run.py --build build/meson --programs 20000 --shard 1/4 --progress FILE    a part; what FILE names is done already

What fails is kept in --keep, with its sources, options and outputs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attempt import HANG_S, Manner, Outcome, Tools, attempt
from program import generate
from templates import expected_by_kind

REPEATED = 5  # a failure may depend on time


def shrink(seed: int, tools: Tools, place: Path, manner: Manner) -> frozenset[int]:
    """Drops blocks as long as the program still fails."""
    dropped: frozenset[int] = frozenset()
    for index in range(len(generate(seed, language=manner.language).blocks)):
        without = dropped | {index}
        outcome = attempt(seed, tools, place, manner, without)
        if outcome.result in ("wrong", "hung"):
            dropped = without
    return dropped


class Totals:
    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        self.verdicts: Counter[tuple[str, str]] = Counter()
        self.samples = self.resized = self.changes = self.started = self.apart = 0

    def add(self, outcome: Outcome) -> None:
        self.results[outcome.result] += 1
        for kind, counts in outcome.verdicts.items():
            for verdict, count in counts.items():
                self.verdicts[kind, verdict] += count
        report = outcome.report
        if report:
            self.samples += report["samples"]
            self.resized += report["samples_resized"]
            self.changes += report["changes"]
            self.started += report["started"]
            self.apart += not report["joined"]

    def lines(self) -> Iterator[str]:
        """The table: which share of the sections may be resized, by kind."""
        expected = expected_by_kind()
        kinds = sorted({kind for kind, _ in self.verdicts})
        if kinds:
            yield f"{'kind':28} {'expected':9} {'sections':>8} {'FREE':>6} {'UP_TO':>6} {'OWN':>6}"
        for kind in kinds:
            counts = [self.verdicts[kind, verdict] for verdict in ("FREE", "UP_TO", "OWN")]
            shares = " ".join(f"{count / sum(counts):6.0%}" for count in counts)
            yield f"{kind:28} {expected.get(kind, ''):9} {sum(counts):8} {shares}"
        share = self.resized / self.samples if self.samples else 0.0
        yield (
            f"{sum(self.results.values())} programs: "
            + ", ".join(f"{n} {what}" for what, n in self.results.items())
            + f"; {self.apart} did not join; {self.started} sections, {self.changes} changes of the size; "
            f"{share:.0%} of the sections looked at had another size than the program's own"
        )


def one(seed: int, tools: Tools, manner: Manner, keep: Path) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="vscaf-generated-") as name:
        place = Path(name)
        outcome = attempt(seed, tools, place, manner)
        if outcome.result != "right":
            kept = keep / f"seed-{seed}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(place, kept)
            outcome.told.append(f"kept in {kept}; again: {Path(__file__).name} --build ... --seed {seed} --times 20")
    return outcome


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="what tests/build-c made")
    parser.add_argument("--programs", type=int, default=60)
    parser.add_argument("--first", type=int, default=1, help="seed of the first program")
    parser.add_argument("--seed", type=int, help="only this program")
    parser.add_argument("--times", type=int, default=1, help="how often each is run under the shim")
    parser.add_argument("--language", choices=["c", "c++", "fortran"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shard", default="1/1", help="I/N: every N-th program, from the I-th on")
    parser.add_argument("--progress", type=Path, help="a file with the seeds that were right; those are not run again")
    parser.add_argument("--keep", type=Path, default=Path("build/generated/failed"))
    parser.add_argument("--shrink", action="store_true", help="with --seed")
    parser.add_argument("--all-free", action="store_true", help="break the law: every section counts as free")
    parser.add_argument("--no-growth", action="store_true", help="no team is larger than the program's own number")
    parser.add_argument("--always-set", action="store_true", help="OMP_NUM_THREADS is always set")
    parser.add_argument("--plain", action="store_true", help="without the shim: are the programs right by themselves?")
    parser.add_argument("--inspect", action="store_true", help="run nothing: which verdicts do the sections have?")
    parser.add_argument("--hang", type=float, default=HANG_S, help="seconds until a program counts as hung")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    tools = Tools.of(chosen.build.absolute())
    times = max(chosen.times, REPEATED) if chosen.shrink else chosen.times
    manner = Manner(
        all_free=chosen.all_free,
        growth=not chosen.no_growth,
        always_set=chosen.always_set,
        plain=chosen.plain,
        inspect=chosen.inspect,
        hang_s=chosen.hang,
        language=chosen.language,
        times=times,
    )
    keep = chosen.keep.absolute()
    if chosen.seed is not None and chosen.shrink:
        place = keep / f"seed-{chosen.seed}-small"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        dropped = shrink(chosen.seed, tools, place, manner)
        outcome = attempt(chosen.seed, tools, place, manner, dropped)
        print(*outcome.told, outcome.result, f"in {place}", sep="\n")
        return 0
    part, parts = map(int, chosen.shard.split("/"))
    seeds = (
        [chosen.seed]
        if chosen.seed is not None
        else range(chosen.first, chosen.first + chosen.programs)[part - 1 :: parts]
    )
    totals = Totals()
    done = set()
    if chosen.progress and chosen.progress.exists():
        for line in chosen.progress.read_text().splitlines():
            outcome = Outcome(**json.loads(line))
            done.add(outcome.seed)
            totals.add(outcome)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        waiting = [seed for seed in seeds if seed not in done]
        outcomes = pool.map(lambda s: one(s, tools, manner, keep), waiting)
        for number, outcome in enumerate(outcomes, 1):
            totals.add(outcome)
            if number % 1000 == 0:
                print(f"{number} of {len(waiting)} ...", flush=True)
            if outcome.result != "right":
                print(f"{outcome.result}:", *outcome.told, sep="\n    ", flush=True)
            elif chosen.progress:
                outcome.report.pop("sections", None)
                chosen.progress.parent.mkdir(parents=True, exist_ok=True)
                with chosen.progress.open("a") as file:
                    file.write(json.dumps(vars(outcome)) + "\n")
    print(*totals.lines(), sep="\n")
    return 0 if set(totals.results) <= {"right"} else 1


if __name__ == "__main__":
    sys.exit(main())
