from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    """An agent's environment. The agent is not started yet. The directory's path is short, as a socket needs."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Rig(Path(directory))
        try:
            yield rig
        finally:
            rig.close()
