"""What is shown elsewhere is shown here too: the half minute of tests/screenshots.py, the states of tests/unit/top."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS), str(TESTS / "unit" / "top")]
