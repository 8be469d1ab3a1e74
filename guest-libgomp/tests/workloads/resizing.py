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
ATTEMPTS = 10  # each with at least three times the work
REPEAT_MAX = 10000  # what NPB_REPEAT may be


def run(bench_run: str, hertz: str, program: str, repeat: int) -> dict:
    """Runs PROGRAM, checks its result, and returns the figures of its page.

    Threads let others run while they wait: more of them than CPUs must not spin for each other.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    done = subprocess.run(
        [bench_run, "--team", "2", "--resize", f"{hertz},1,{SIZES}", "--", program],
        env=clean | {"NPB_REPEAT": str(repeat), "OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    verified = [line.split()[-1] for line in done.stdout.splitlines() if line.strip().startswith("Verification")]
    assert verified == ["SUCCESSFUL"], done.stdout
    return json.loads(done.stderr.splitlines()[-1])


def main() -> None:
    bench_run, hertz, program = sys.argv[1:]
    # A section that takes long follows only one of the sizes that come meanwhile.
    sizes, changes = (4, 4) if float(hertz) < 50 else (100, 25)
    repeat = 2
    for _ in range(ATTEMPTS):
        told = run(bench_run, hertz, program, repeat)
        print(
            f"{repeat} times, {told['wall_seconds']:.1f} s: {told['resizes']} sizes, {told['followed']} changes "
            f"followed, {told['end']['team_sizes']} of {SIZES} sizes, {told['end']['started']} sections"
        )
        done = min(told["resizes"] / sizes, told["followed"] / changes)
        if done >= 1.0 and told["end"]["team_sizes"] == SIZES:
            return
        repeat = min(REPEAT_MAX, math.ceil(repeat * min(max(1.2 / (done + 1.0 / sizes), 3.0), 8.0)))
    raise AssertionError("the program never followed enough changes, or never had all sizes")


if __name__ == "__main__":
    main()
