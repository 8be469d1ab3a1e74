#!/usr/bin/env python3
"""Checks one kernel's executable: `check_npb.py right|wrong PROGRAM`. An assertion fails where it misbehaves.

right: on 1, 2 and 4 threads it verifies, says so in the usual block, with figures that do not depend on the team; it
repeats, keeps progress marks, and refuses what it cannot use. wrong: it must find that its result is wrong.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIELDS = (
    "Class",
    "Size",
    "Iterations",
    "Time in seconds",
    "Total threads",
    "Mop/s total",
    "Operation type",
    "Verification",
    "Version",
)


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program's end, with OMP_ and NPB_ variables from `environment` alone; threads sleep at barriers, since the
    tests that run beside this one want the CPUs too."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    return subprocess.run(
        [program, *arguments],
        env=clean | {"OMP_WAIT_POLICY": "passive"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def block(output: str) -> dict[str, str]:
    """The output block as a dictionary; fails where a field is missing."""
    fields = dict(re.findall(r"^ ([A-Z][\w/ ]*?) *= +(.*?) *$", output, re.MULTILINE))
    missing = [field for field in FIELDS if field not in fields]
    assert not missing, f"no {missing} in the output block:\n{output}"
    assert re.search(r"^ (EP|CG) Benchmark Completed\.$", output, re.MULTILINE), output
    return fields


def result_lines(output: str) -> list[str]:
    """The lines whose figures are the computation's, not the clock's."""
    return re.findall(r"^ (?:Sums|Zeta is|Error is|No\. Gaussian).*$|^ +\d+ +\S+.*$", output, re.MULTILINE)


def check_right(program: str) -> None:
    """Verification, independence of the team, repetition, progress marks, usage errors."""
    results = set()
    for threads in ("1", "2", "4"):
        done = run(program, OMP_NUM_THREADS=threads)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        fields = block(done.stdout)
        assert fields["Verification"] == "SUCCESSFUL" and fields["Total threads"] == threads, fields
        assert fields["Class"] == program[-1], fields
        results.add("\n".join(result_lines(done.stdout)))
    assert len(results) == 1, f"the result depends on the team: {results}"

    with tempfile.TemporaryDirectory() as directory:
        marks_file = Path(directory, "marks")
        before = time.monotonic()
        done = run(program, OMP_NUM_THREADS="2", NPB_REPEAT="2", NPB_PROGRESS=str(marks_file))
        after = time.monotonic()
        assert done.returncode == 0, done.stderr
        marks = [tuple(map(float, line.split())) for line in marks_file.read_text().splitlines()]
        assert len(marks) > 2 * 15 and marks[0][0] == 0.0 and marks[-1][0] == 1.0, marks
        assert all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(marks)), marks
        assert before <= marks[0][1] and marks[-1][1] <= after, (before, marks[0], marks[-1], after)
        taken = float(block(done.stdout)["Time in seconds"])
        assert abs(marks[-1][1] - marks[0][1] - taken) < 0.01 + 0.1 * taken, (marks[0], marks[-1], taken)

        for arguments, environment in (
            (["surplus"], {}),
            ([], {"NPB_REPEAT": "0"}),
            ([], {"NPB_REPEAT": "2x"}),
            ([], {"NPB_PROGRESS": f"{directory}/absent/marks"}),
        ):
            done = run(program, *arguments, **environment)
            assert done.returncode == 2 and done.stderr, (arguments, environment, done)


def check_wrong(program: str) -> None:
    """A wrong result is exit status 1 and UNSUCCESSFUL."""
    done = run(program, OMP_NUM_THREADS="2")
    assert done.returncode == 1, done
    assert block(done.stdout)["Verification"] == "UNSUCCESSFUL", done.stdout


if __name__ == "__main__":
    {"right": check_right, "wrong": check_wrong}[sys.argv[1]](sys.argv[2])
