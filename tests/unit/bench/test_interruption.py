"""A bench that is ended while it builds programs leaves no process behind. Of two benches with one output directory,
the second is refused."""

import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import npb_tree
import pytest
from click.testing import CliRunner
from npb_tree import HANGING_MAKEFILE
from vscaf.cli.main import main
from vscaf.journal import Lock
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
        assert f"{128 + number}" in CliRunner().invoke(main, ["bench", "--help"]).output
        until(lambda: start_time(sleeper) is None, "the build has ended")
    finally:
        if bench.poll() is None:
            for pid in reversed(tree(bench.pid)):
                with suppress(ProcessLookupError):  # it ended with the one before
                    os.kill(pid, signal.SIGKILL)
            bench.wait()


def test_a_build_whose_start_is_interrupted_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine make may compute before Popen has returned, so the bench does not know make yet."""
    source = npb_tree.npb_tree(tmp_path, "3.4", {"CG": HANGING_MAKEFILE})
    monkeypatch.chdir(tmp_path)
    found: list[int] = []
    begin = subprocess.Popen.__init__

    def sleeping() -> list[int]:
        return [pid for pid in tree(os.getpid()) if b"sleep\x00100000" in command_line(pid)]

    def interrupted(self: Any, arguments: list[str], *others: Any, **options: Any) -> None:
        begin(self, arguments, *others, **options)
        if "CG" in arguments:
            until(sleeping, "make runs")
            found.extend(sleeping())
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "__init__", interrupted)
    done = CliRunner().invoke(main, ["bench", "pairs", "--no-vm", "--npb-source", str(source)])
    assert done.exit_code == 130, done.output
    left = [pid for pid in found if start_time(pid) is not None]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(found) == 1 and left == []


def test_a_second_bench_with_the_same_output_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    command = [sys.executable, "-m", "vscaf", "bench", "pairs", "--no-vm", "--restart", "--output", str(output)]
    command += ["--command", "a=true"]

    def bench() -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PATH": "/usr/bin:/bin",
            "VSCAF_BUILD": "/",
        }
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    samples = output / "samples.jsonl"
    samples.write_text("of the first bench")
    with closing(Lock(output / "lock", "bench", "the first")):
        refused = bench()
    assert (refused.returncode, samples.read_text()) == (2, "of the first bench"), refused.stderr
    assert f"--output {output}: another vscaf bench uses it: stop that one first" in refused.stderr
    assert bench().returncode == 1 and "of the first bench" not in samples.read_text(), (
        "it fails later, without programs"
    )
    assert not (output / "lock").exists()
