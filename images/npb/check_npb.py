#!/usr/bin/env python3
"""Checks one kernel's executable: `check_npb.py right|wrong|regions PROGRAM`. An assertion fails if it
misbehaves.

right: on 1, 2, 3 and 4 threads it verifies and prints the usual block, and its figures do not depend on the team. It
repeats the work, writes progress marks, and refuses bad arguments. wrong: it must find that its result is wrong.
regions: it has as many parallel regions as it should; one more argument is the library that counts them.
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

# Progress marks of one repetition, by the program's name and class.
STEPS = {
    "ep": {"S": 16, "W": 32},
    "cg": {"S": 15 * 26, "W": 15 * 26},
    "mg": {"S": 4, "W": 4},
    "is": {"S": 12, "W": 12},
    "ft": {"S": 7, "W": 7},
    "bt": {"S": 60, "W": 200},
    "sp": {"S": 100, "W": 400},
    "lu": {"S": 50, "W": 300},
    "lu-hp": {"S": 50, "W": 300},
    "uts-geometric": {"S": 40, "W": 40},
    "uts-binomial": {"S": 40, "W": 40},
    "barrier": {"S": 20, "W": 50},
    "serial-half": {"S": 20, "W": 80},
}

# Parallel regions of one repetition. In a time step the original BT has 5, SP 9 and LU 2; the others are norms, the
# set-up and the like.
REGIONS = {
    "ep": 16,
    "cg": 421,
    "mg": 91,
    "is": 13,
    "ft": 28,
    "bt": 5 * 60 + 4,
    "sp": 9 * 100 + 4,
    "lu": 2 * 50 + 5,
    "lu-hp": 2 * 50 + 5,
    "uts-geometric": 40,
    "uts-binomial": 40,
    "barrier": 20,
    "serial-half": 20,
}


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with OMP_ and NPB_ variables only from `environment`. Threads sleep at barriers, because other
    tests run at the same time and need the CPUs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NPB_"))}
    return subprocess.run(
        [program, *arguments],
        env=clean | {"OMP_WAIT_POLICY": "passive"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def block(output: str) -> dict[str, str]:
    """The output block as a dictionary; fails if a field is missing."""
    fields = dict(re.findall(r"^ ([A-Z][\w/ ]*?) *= +(.*?) *$", output, re.MULTILINE))
    missing = [field for field in FIELDS if field not in fields]
    assert not missing, f"no {missing} in the output block:\n{output}"
    name = r"^ (EP|CG|MG|IS|FT|BT|SP|LU|UTS|BARRIER|SERIAL-HALF) Benchmark Completed\.$"
    assert re.search(name, output, re.MULTILINE), output
    return fields


def result_lines(output: str) -> list[str]:
    """The lines whose figures depend on the computation, not on the clock."""
    lines = re.findall(r"^ (?:Sums|Zeta is|L2 Norm is|Error is|No\. Gaussian).*$|^ +\d+ +\S+.*$", output, re.MULTILINE)
    assert lines, f"no figures in:\n{output}"
    return lines


def check_right(program: str) -> None:
    """Verification, independence of the team, repetition, progress marks, usage errors."""
    results = set()
    kernel, class_name = Path(program).name.split(".")
    for threads in ("1", "2", "3", "4"):
        done = run(program, OMP_NUM_THREADS=threads)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        fields = block(done.stdout)
        assert fields["Verification"] == "SUCCESSFUL" and fields["Total threads"] == threads, fields
        assert fields["Class"] == class_name, fields
        threads_line = re.search(r"^ Number of available threads: +(\d+)$", done.stdout, re.MULTILINE)
        assert threads_line is not None and threads_line[1] == threads, done.stdout
        results.add("\n".join(result_lines(done.stdout)))
    assert len(results) == 1, f"the result depends on the team: {results}"

    with tempfile.TemporaryDirectory() as directory:
        marks_file = Path(directory, "marks")
        before = time.monotonic()
        done = run(program, OMP_NUM_THREADS="2", NPB_REPEAT="2", NPB_PROGRESS=str(marks_file))
        after = time.monotonic()
        assert done.returncode == 0, done.stderr
        marks = [tuple(map(float, line.split())) for line in marks_file.read_text().splitlines()]
        assert len(marks) == 1 + 2 * STEPS[kernel][class_name], (len(marks), marks)
        assert marks[0][0] == 0.0 and marks[-1][0] == 1.0, marks
        assert all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(marks)), marks
        assert before <= marks[0][1] and marks[-1][1] <= after, (before, marks[0], marks[-1], after)
        taken = float(block(done.stdout)["Time in seconds"])
        assert 0 <= taken <= after - before + 0.01, (before, taken, after)  # printed with two digits

        for arguments, environment in (
            (["surplus"], {}),
            ([], {"NPB_REPEAT": "0"}),
            ([], {"NPB_REPEAT": "2x"}),
            ([], {"NPB_PROGRESS": f"{directory}/absent/marks"}),
        ):
            done = run(program, *arguments, **environment)
            assert done.returncode == 2 and done.stderr, (arguments, environment, done)


def check_wrong(program: str) -> None:
    """A wrong result gives exit status 1 and UNSUCCESSFUL."""
    done = run(program, OMP_NUM_THREADS="2")
    assert done.returncode == 1, done
    assert block(done.stdout)["Verification"] == "UNSUCCESSFUL", done.stdout


def check_regions(program: str, library: str) -> None:
    """The regions of one more repetition."""
    kernel = Path(program).name.split(".")[0]
    counts: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        for repeat in ("1", "2"):
            file = Path(directory, "regions")
            done = run(program, NPB_REPEAT=repeat, OMP_NUM_THREADS="2", NPB_REGIONS=str(file), LD_PRELOAD=library)
            assert done.returncode == 0, done.stderr
            counts.append(int(file.read_text()))
    assert counts[1] - counts[0] == REGIONS[kernel], counts


CHECKS = {"right": check_right, "wrong": check_wrong, "regions": check_regions}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](*sys.argv[2:])
