#!/usr/bin/env python3
"""What grows is seen to grow, and a program whose team changes all the time does not grow:

leaks.py BENCH_RUN LEAKY|WORKLOAD [WHAT]
"""

import json
import math
import os
import subprocess
import sys

SECONDS = 8.0


def run(bench_run: str, *command: str, **extra: str) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    done = subprocess.run(
        [bench_run, "--leaks", "--team", "2", "--resize", "10,1,4", "--", *command],
        env=environment | extra,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stderr.splitlines()[-1])


def main() -> None:
    bench_run, program, *what = sys.argv[1:]
    if what:
        grown = run(bench_run, program, what[0], "3")["leaks"]
        print(grown)
        for name, value in grown.items():
            if name == what[0]:
                assert value >= 3, grown
            # A thread is memory, too.
            elif what[0] != "threads":
                assert value <= (64 if name == "memory" else 0), grown
        return
    repeat = 10
    told = run(bench_run, program, NPB_REPEAT=str(repeat))
    while told["wall_seconds"] < SECONDS:
        repeat = math.ceil(repeat * min(1.2 * SECONDS / told["wall_seconds"], 20.0))
        told = run(bench_run, program, NPB_REPEAT=str(repeat))
    print(told["wall_seconds"], told["leaks"])
    assert told["leaks"]["threads"] == 0 and told["leaks"]["descriptors"] == 0, told
    # Some pages come late: buffers of the C library, the stack of a thread that is deeper than others.
    assert told["leaks"]["memory"] <= 64, told


if __name__ == "__main__":
    main()
