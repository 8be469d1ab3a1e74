"""A control group whose processes may together use so much CPU time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vscaf.bench.places.place import PlaceError
from vscaf.lab.cgroups import hierarchies
from vscaf.lab.polling import until


@contextmanager
def quota_group(quota_us: int, period_us: int) -> Iterator[Path]:
    """Makes a group until the end of the context. Its processes have *quota_us* of CPU time in each *period_us*.

    Returns its cgroup.procs: who writes a pid there moves that process into the group. All processes of the group must
    have ended at the end. Raises PlaceError if this process may not make such a group.
    """
    root = _root()
    try:
        group = Path(tempfile.mkdtemp(prefix="vscaf-bench-", dir=root))
    except OSError as error:
        raise PlaceError(f"a CPU quota needs root and a control group: {root}: {error.strerror}") from None
    try:
        _set_quota(group, _settings(root, quota_us, period_us))
        yield group / "cgroup.procs"
    finally:
        until(lambda: _removed(group), f"{group} can be removed: a process in it still runs")


def group_commands(name: str, quota_us: int, period_us: int) -> tuple[list[str], Path]:
    """The commands that make such a group of this name, and its cgroup.procs. Raises PlaceError if none can exist."""
    root = _root()
    lines = [f"mkdir {root / name}"]
    lines += [f"echo {text} > {root / name / file}" for file, text in _settings(root, quota_us, period_us).items()]
    return lines, root / name / "cgroup.procs"


def _settings(root: Path, quota_us: int, period_us: int) -> dict[str, str]:
    """File of a group -> what is written there, in order."""
    if (root / "cpu.cfs_quota_us").exists():
        return {"cpu.cfs_period_us": str(period_us), "cpu.cfs_quota_us": str(quota_us)}
    return {"cpu.max": f"{quota_us} {period_us}"}


def _set_quota(group: Path, settings: Mapping[str, str]) -> None:
    try:
        for name, text in settings.items():
            (group / name).write_text(text)
    except OSError as error:
        raise PlaceError(f"a CPU quota could not be set: {error}: leave out the arrangement quota") from None


def _root() -> Path:
    """The top of the hierarchy that has the CPU controller, version 1 or 2."""
    for root in hierarchies():
        control = root / "cgroup.subtree_control"
        if (root / "cpu.cfs_quota_us").exists() or (control.exists() and "cpu" in control.read_text().split()):
            return root
    raise PlaceError("there is no control group with a CPU quota here: leave out the arrangement quota")


def _removed(group: Path) -> bool:
    """Removes the group. The kernel refuses for a moment after the last process has ended."""
    try:
        group.rmdir()
    except OSError:
        return False
    return True
