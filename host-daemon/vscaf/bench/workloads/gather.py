"""The workloads of a bench, from all sources that its options name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from vscaf.bench.workloads.commands import commands, progress_patterns
from vscaf.bench.workloads.directory import directory
from vscaf.bench.workloads.npb_source import npb_source
from vscaf.bench.workloads.options import DEFAULT_SHIPPED, Sources
from vscaf.bench.workloads.shipped import shipped
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError


def gather(sources: Sources, cache: Path, print_line: Callable[[str], None]) -> dict[str, Workload]:
    """The workloads by name. cache: a directory for programs that are built here. print_line gets what was built, what
    not, and what is ignored. Raises UsageError."""
    if sources.npb_class is not None and sources.npb_source is None:
        raise UsageError("--class says how large the programs of --npb-source are: give --npb-source too")
    chosen = shipped(sources.shipped)
    if sources.npb_source is not None:
        chosen += npb_source(sources.npb_source, sources.npb_class or "W", cache, print_line)
    if sources.directory is not None:
        chosen += directory(sources.directory, print_line)
    chosen += commands(sources.commands)
    if not chosen:
        chosen = shipped(DEFAULT_SHIPPED.split(","))
    found: dict[str, Workload] = {}
    files: dict[str, Path] = {}
    for workload in chosen:
        if workload.name in found:
            raise UsageError(f"there are two workloads {workload.name}: leave out or rename one")
        found[workload.name] = workload
        for name, path in workload.files.items():
            if files.setdefault(name, path) != path:
                raise UsageError(f"two files would be {name} in a guest: {files[name]} and {path}: leave out one")
    for name, pattern in progress_patterns(sources.progress).items():
        found[name] = dataclasses.replace(found[known(name, found)], progress=pattern, timed=False)
    return found


def known(name: str, workloads: Mapping[str, Workload]) -> str:
    """The name. Raises UsageError, with the names that exist, if there is no workload of it."""
    if name not in workloads:
        raise UsageError(f"there is no workload {name}: there are {', '.join(sorted(workloads))}")
    return name
