#!/usr/bin/env python3
"""A workload whose team changes all the time computes right results: resizing.py BENCH_RUN HERTZ PROGRAM

Runs PROGRAM under the shim (VSCAF_BENCH_PRELOAD), with random teams of 1 to 4 threads, until its sections have followed
enough changes and had each size.
"""

import json
import math
import os
import subprocess
import sys

SIZES = 4
ATTEMPTS = 10  # each with about twice the work


def run(bench_run: str, hertz: str, program: str, repeat: int) -> dict:
    """Runs PROGRAM, checks its result, and returns the figures of its page."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    done = subprocess.run(
        [bench_run, "--team", "2", "--resize", f"{hertz},1,{SIZES}", "--", program],
        env=clean | {"NPB_REPEAT": str(repeat)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    verified = [line.split()[-1] for line in done.stdout.splitlines() if line.strip().startswith("Verification")]
    assert verified == ["SUCCESSFUL"], done.stdout
    return json.loads(done.stderr.splitlines()[-1])


def is_enough(told: dict, enough: int) -> bool:
    return told["followed"] >= enough and told["end"]["team_sizes"] == SIZES


def main() -> None:
    bench_run, hertz, program = sys.argv[1:]
    repeat = 2
    told = run(bench_run, hertz, program, repeat)
    enough = 4 if float(hertz) < 50 else 100
    for _ in range(ATTEMPTS):
        if is_enough(told, enough):
            break
        repeat = 1 + math.ceil(repeat * min(max(1.2 * enough / (told["followed"] + 1), 2.0), 8.0))
        told = run(bench_run, hertz, program, repeat)
    print(
        f"{repeat} times, {told['wall_seconds']:.1f} s: {told['resizes']} sizes, {told['followed']} changes followed, "
        f"{told['end']['started']} sections"
    )
    assert is_enough(told, enough), told


if __name__ == "__main__":
    main()
