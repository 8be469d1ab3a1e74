"""`vscaf plot` on processes that look like QEMU, beside a real control server."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from control_recorder import Recorder, on_server
from vscaf.cli.main import main
from vscaf.events import EventLog
from vscaf.lab.polling import soon, until
from vscaf.occupancy.qemu import vcpu_threads
from vscaf.plot import session
from vscaf.plot.recording import Recording, _to_sample, record
from vscaf_bench.pseudo_terminal import in_terminal

# A thread with the name of a vCPU computes until standard input ends.
COMPUTES = """
import ctypes, sys, threading
def compute():
    ctypes.CDLL(None).prctl(15, b"CPU 0/KVM")
    while True:
        sum(range(1000))
threading.Thread(target=compute, daemon=True).start()
sys.stdin.read()
"""
NAME = f"vscaf-plot-{os.getpid()}"


@contextmanager
def qemu(name: str = NAME) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", COMPUTES, "-name", f"guest={name},debug-threads=on"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            until(lambda: vcpu_threads(process.pid))  # only then does it look like QEMU
            yield process
        finally:
            process.communicate()


def vscaf_plot(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plot", *arguments])


def test_use_and_allocations_are_recorded(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        recording = Recording(0.1, [NAME, "a"])
        recorded = asyncio.create_task(record(path, recording))
        with qemu():
            await soon(lambda: recording.domains == ["a", NAME])
            assert [(one.domain, one.cpus) for one in recording.changes] == [("a", {0, 1})]
            assert recording.pool == {0, 1, 2, 3} and recording.problems == {}
            events.record("allocation", "a", before="0-1", after="2")
            events.record("allocation", "other", after="3")
            await soon(lambda: len(recording.changes) == 2)
            assert recording.changes[1].cpus == {2}
            assert abs(recording.changes[1].at_s - time.monotonic()) < 3600, "another clock"
        recorded.cancel()

    on_server(directory, work)


def test_a_daemon_that_is_away_is_no_obstacle(tmp_path: Path) -> None:
    async def work() -> None:
        recording = Recording(0.1, [NAME])
        recorded = asyncio.create_task(record(tmp_path / "s", recording))
        with qemu():
            await soon(lambda: recording.domains == [NAME])
            assert "is `vscaf daemon` running?" in recording.problems["daemon"] and recording.changes == []
        recorded.cancel()

    asyncio.run(work())


def test_only_domains_of_one_process_are_sampled() -> None:
    assert _to_sample(Recording(0.1), {"a": [1], "b": [2, 3]}) == {1: "a"}
    assert _to_sample(Recording(0.1, ["b", "c"]), {"a": [1], "b": [2, 3], "c": [4]}) == {4: "c"}


def test_two_domains_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    async def work() -> None:
        recording = Recording(0.1, [NAME])
        recorded = asyncio.create_task(record(tmp_path / "s", recording))
        with qemu(), qemu():
            await soon(lambda: "names" in recording.problems)
            assert NAME in recording.problems["names"]
        await soon(lambda: "names" not in recording.problems)
        recorded.cancel()

    asyncio.run(work())


def test_a_terminal_shows_the_timeline_while_it_grows(tmp_path: Path) -> None:
    with qemu(), in_terminal("plot", NAME, "--socket", f"{tmp_path}/s") as terminal:
        terminal.wait_for(f"a {NAME}: has ?, uses")
        terminal.type(b"\x03")
        until(terminal.ended)
        assert terminal.process.returncode == 0, terminal.output


def test_a_pipe_gets_the_timeline_at_the_end(tmp_path: Path) -> None:
    with qemu():
        done = vscaf_plot(NAME, "--seconds", "3", "--socket", f"{tmp_path}/s")
    assert done.exit_code == 0, done.output
    assert "allocations are not known" in done.stdout and f"a {NAME}: has ?, uses" in done.stdout


def test_what_was_recorded_as_json(tmp_path: Path) -> None:
    with qemu():
        done = vscaf_plot(NAME, "--seconds", "3", "--json", "--socket", f"{tmp_path}/s")
    recorded = json.loads(done.stdout)
    assert recorded["allotted"] == [] and "allocations are not known" in recorded["not_known"][0]
    assert any(sum(by_domain[NAME]) > 0 for by_domain in recorded["used"].values())


def test_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    with qemu():
        done = vscaf_plot(NAME, "--seconds", "3", "--output", str(path), "--socket", f"{tmp_path}/s")
    assert (done.exit_code, done.stdout) == (0, f"written to {path}\n"), done.output
    assert path.read_text(encoding="utf-8").startswith("<?xml")


def test_a_recording_that_is_not_shown_says_that_it_goes_on(tmp_path: Path) -> None:
    arguments = ("plot", "--seconds", "600", "--output", f"{tmp_path}/x.svg", "--socket", f"{tmp_path}/s")
    with in_terminal(*arguments) as terminal:
        terminal.wait_for("recording for 600 s")
        terminal.type(b"\x03")
        until(terminal.ended)
        assert terminal.process.returncode == 0, terminal.output


@pytest.mark.parametrize(("output", "why"), [("x.gif", "must end in .png or .svg"), ("absent/x.png", "make it first")])
def test_outputs_that_cannot_be_written_are_refused_at_once(tmp_path: Path, output: str, why: str) -> None:
    done = vscaf_plot("--seconds", "86400", "--output", str(tmp_path / output))
    assert (done.exit_code, done.stdout) == (2, "") and why in done.stderr and done.stderr.count("\n") == 1


def test_without_matplotlib_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> str:
        done = vscaf_plot("--seconds", "86400", "--output", str(tmp_path / "x.png"))
        assert done.exit_code == 2 and done.stderr.count("\n") == 1
        assert "python3-matplotlib" in done.stderr and "'.[pictures]'" in done.stderr
        return done.stderr

    with monkeypatch.context() as patch:
        patch.setattr("matplotlib.__version_info__", (3, 6, 3, "final", 0))
        patch.setattr("matplotlib.__version__", "3.6.3")
        assert "matplotlib 3.8 or later (this is 3.6.3)" in refused()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "matplotlib 3.8 or later" in refused()


def test_no_domain_runs(tmp_path: Path) -> None:
    recording = Recording(0.25, ["no-such-domain"])
    assert "no domain of libvirt runs" in session._lines(recording, 80, None).plain
    recording.pool = frozenset(range(50))
    short = session._lines(recording, 80, 10).plain.splitlines()
    assert len(short) == 10 and short[1] == "42 more lines do not fit: --output FILE.svg has all"
