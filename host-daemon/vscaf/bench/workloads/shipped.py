"""The workloads that come with vscaf (images/npb)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

MARKS = {"NPB_PROGRESS": "/proc/self/fd/1"}
_NAME = re.compile(r"[a-z][a-z-]*\.[SWAB]")
# A progress mark: the part of the work that is done, and when. images/npb/npb.h describes them.
_MARK = re.compile(r"^([01]\.\d{9}) (\d+\.\d{9})$")


def shipped(names: Sequence[str]) -> list[Workload]:
    """The shipped workloads of these names, such as "cg.W". They are in every place's PATH. Raises UsageError."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name}: not a shipped workload: give names like cg.W, with a class S, W, A or B")
    return [Workload(name, name, npb=True, marks_environment=MARKS, progress=_MARK, timed=True) for name in names]
