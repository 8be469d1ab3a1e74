#!/usr/bin/env python3
"""Checks that growth is noticed, and that a program whose team changes all the time does not grow:

leaks.py BENCH_RUN LEAKY|WORKLOAD [WHAT]
"""

import json
import math
import os
import subprocess
import sys

LOOKS = 36  # how often a running program's resources are counted
SECTIONS = 100  # the least between two looks: two losses of a leaky program
ATTEMPTS = 10


def run(bench_run: str, options: list[str], *command: str, **extra: str) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    done = subprocess.run(
        [bench_run, "--leaks", *options, "--team", "2", "--resize", "10,1,4", "--", *command],
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
        grown = run(bench_run, ["--looks", str(LOOKS), "--sections", str(SECTIONS)], program, what[0])["leaks"]
        print(grown)
        for name, value in grown.items():
            if name == what[0]:
                assert value >= 3, grown
            # A thread also needs memory.
            elif what[0] != "threads":
                assert value <= (64 if name == "memory" else 0), grown
        return
    repeat = 10
    told = run(bench_run, [], program, NPB_REPEAT=str(repeat))
    for _ in range(ATTEMPTS):
        if told["looks"] >= LOOKS:
            break
        repeat = math.ceil(repeat * min(max(1.2 * LOOKS / (told["looks"] + 1), 2.0), 8.0))
        told = run(bench_run, [], program, NPB_REPEAT=str(repeat))
    print(told["looks"], told["leaks"])
    assert told["looks"] >= LOOKS, told
    assert told["leaks"]["threads"] == 0 and told["leaks"]["descriptors"] == 0, told
    # Some pages are used late: buffers of the C library, the stack of a thread with deeper calls.
    assert told["leaks"]["memory"] <= 64, told


if __name__ == "__main__":
    main()
