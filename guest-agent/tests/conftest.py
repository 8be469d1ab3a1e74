from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    """An agent's environment, not yet started. Its directory is its own and has a short path, for the socket's path."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Rig(Path(directory))
        try:
            yield rig
        finally:
            rig.close()
