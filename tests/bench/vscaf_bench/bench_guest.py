"""The guest of a benchmark: real, with no agent yet, on two pCPUs."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vscaf.lab import Guest, PrivateLibvirt

PCPUS = 2
PATHS = {
    "image": ("build/image/current", "the guest image"),
    "cache": ("build/lab/cache", "the lab's cache between runs"),
}
"""Options of the benchmark's command line: for run_benchmark()."""


@contextmanager
def bench_guest(name: str, vcpus: int, options: argparse.Namespace) -> Iterator[tuple[Guest, int]]:
    """The guest, and on how many pCPUs it is: fewer than two if the machine has only one."""
    pool = sorted(os.sched_getaffinity(0))[:PCPUS]
    with (
        tempfile.TemporaryDirectory(prefix="vscaf-bench-") as logs,
        PrivateLibvirt(logs=Path(logs), cache=options.cache.resolve()) as lab,
        Guest(
            lab,
            name,
            options.image,
            vcpus=vcpus,
            cpuset=",".join(map(str, pool)),
            kernel_arguments="vscaf.agent=off",
        ) as guest,
    ):
        yield guest, len(pool)
