"""The guest with Cockpit is one of tests/ansible, and the browser is that of tests/cockpit."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "ansible"), str(TESTS / "cockpit")]
