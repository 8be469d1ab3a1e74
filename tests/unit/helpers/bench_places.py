"""A place whose members are real processes of this machine, without the programs of vscaf."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vscaf.bench.places.no_vm import NoVmPlace


@contextmanager
def plain_place(directory: Path, members: tuple[str, ...] = ("first", "second")) -> Iterator[NoVmPlace]:
    """Two members that share one CPU."""
    place = NoVmPlace(
        members, sorted(os.sched_getaffinity(0))[:1], directory, directory / "logs", os.environ.get("PATH", os.defpath)
    )
    try:
        yield place
    finally:
        place.close()
