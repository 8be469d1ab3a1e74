"""A real vscaf daemon over libvirt's test driver."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vscaf.lab.polling import until

CONFIG = """
uri = "test:///default"
pool = "0,2"
state_directory = "{directory}/state"
control_socket = "{directory}/control.sock"
period_ms = 20
deadline_ms = 50
[policy]
name = "equipartition"
[domains.test]
"""


@contextmanager
def a_daemon(directory: Path, config: Path) -> Iterator[Path]:
    """A daemon with this configuration, which has its control socket in *directory*. Yields the socket."""
    control = directory / "control.sock"
    with (directory / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen([sys.executable, "-m", "vscaf", "daemon", "--config", str(config)], stderr=log)
    try:
        until(
            lambda: control.exists() or process.poll() is not None,
            lambda: (directory / "log").read_text(encoding="utf-8"),
        )
        assert process.poll() is None, (directory / "log").read_text(encoding="utf-8")
        yield control
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()
