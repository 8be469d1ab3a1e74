#!/usr/bin/env python3
"""A workload whose team changes all the time computes what it should: resizing.py BENCH_RUN HERTZ PROGRAM

Runs PROGRAM for some seconds under the shim (VSCAF_BENCH_PRELOAD), its teams being of 1 to 4 threads by chance.
"""

import json
import math
import os
import subprocess
import sys

SECONDS = 1.2


def run(bench_run: str, hertz: str, program: str, repeat: int) -> dict:
    """What the page told of a run, which was right."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    done = subprocess.run(
        [bench_run, "--team", "2", "--resize", f"{hertz},1,4", "--", program],
        env=clean | {"NPB_REPEAT": str(repeat)},
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
    repeat = 2
    told = run(bench_run, hertz, program, repeat)
    while told["wall_seconds"] < SECONDS:
        repeat = 1 + math.ceil(repeat * min(1.2 * SECONDS / told["wall_seconds"], 20.0))
        told = run(bench_run, hertz, program, repeat)
    print(f"{repeat} times, {told['wall_seconds']:.1f} s: {told['resizes']} sizes, {told['end']['started']} sections")
    assert told["resizes"] >= 4, told
    # Otherwise nothing has been shown.
    assert told["end"]["team_sizes"] >= 2, told


if __name__ == "__main__":
    main()
