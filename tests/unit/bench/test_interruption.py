"""A bench that is ended while it builds programs leaves no process behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import npb_tree
import pytest
from npb_tree import HANGING_MAKEFILE
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.processes import start_time, tree


def command_line(pid: int) -> bytes:
    """Its words; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_build_ends_with_the_bench(tmp_path: Path, number: signal.Signals) -> None:
    source = npb_tree.npb_tree(tmp_path, "3.4", {"CG": HANGING_MAKEFILE})
    arguments = ["bench", "pairs", "--no-vm", "--npb-source", str(source)]
    bench = subprocess.Popen(
        # nohup, and shells for background jobs, make their commands ignore signals.
        ["env", "--default-signal", sys.executable, "-m", "vscaf", *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    def sleeping() -> list[int]:
        return [pid for pid in tree(bench.pid) if b"sleep\x00100000" in command_line(pid)]

    try:
        until(sleeping, "make runs")
        (sleeper,) = sleeping()
        bench.send_signal(number)
        assert bench.wait(HANG_S) == 128 + number
        until(lambda: start_time(sleeper) is None, "the build has ended")
    finally:
        if bench.poll() is None:
            for pid in reversed(tree(bench.pid)):
                with suppress(ProcessLookupError):  # it ended with the one before
                    os.kill(pid, signal.SIGKILL)
            bench.wait()
