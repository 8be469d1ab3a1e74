"""The workloads that come with vscaf (images/npb)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

_NAME = re.compile(r"[a-z][a-z-]*\.[SWAB]")


def shipped(names: Sequence[str]) -> list[Workload]:
    """The shipped workloads of these names, such as "cg.W". They are in every place's PATH. Raises UsageError."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name}: not a shipped workload: give names like cg.W, with a class S, W, A or B")
    return [Workload(name, name, npb=True) for name in names]
