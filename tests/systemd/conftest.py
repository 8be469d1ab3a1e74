"""The guest with Cockpit is one of tests/ansible, and the browser is that of tests/cockpit."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from vscaf.lab import PrivateLibvirt
from vscaf.lab.polling import until

TESTS = Path(__file__).parents[1]
BUILD = TESTS.parent / "build"
sys.path += [str(TESTS / "ansible"), str(TESTS / "cockpit")]

from cockpit_guest import COCKPIT, HANG_S, SUITE, extend, install, status  # noqa: E402  (the path is needed first)
from guests import DebianGuest  # noqa: E402

PROBE = Path(os.environ.get("VSCAF_IMAGE", BUILD / "image" / "current"))


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianGuest]:
    """A Debian with Cockpit, and with the daemon as a service."""
    images = BUILD / "systemd" / "cockpit"
    with (
        PrivateLibvirt(logs=tmp_path_factory.mktemp("logs"), cache=BUILD / "lab" / "cache") as lab,
        DebianGuest(lab, "cockpit", images, SUITE, PROBE, extend=extend, services=[COCKPIT]) as guest,
    ):
        guest.wait()
        install(guest)
        until(lambda: status(guest), "the daemon answers", HANG_S, poll_s=2)
        yield guest
