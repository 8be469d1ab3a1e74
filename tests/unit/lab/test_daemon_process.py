"""The lab's daemon when it does not get ready or does not end. Real processes stand in for `vscaf daemon`."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.errors import LabError
from vscaf.lab.processes import start_time

BEGIN = """#!{python}
import os, pathlib, signal, socket, sys, time
directory = pathlib.Path(sys.argv[-1]).parent
(directory / "pid.new").write_text(str(os.getpid()))
(directory / "pid.new").rename(directory / "pid")
"""


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    """Makes a daemon that does what a script says."""

    def make(script):
        program = tmp_path / "program"
        program.write_text(BEGIN.format(python=sys.executable) + script)
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return DaemonProcess(SimpleNamespace(uri="test:///default", directory=tmp_path, logs=tmp_path), "0", {})

    return make


def test_a_daemon_that_is_interrupted_before_it_is_ready_is_ended(daemon, monkeypatch):
    never_ready = daemon("time.sleep(1000)\n")
    pid, sleep, pids = never_ready.directory / "pid", time.sleep, []

    def interrupted(seconds):
        if pid.exists() and not pids:
            pids.append(int(pid.read_text()))
            raise KeyboardInterrupt
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt), never_ready:
        pass
    assert start_time(pids[0]) is None


def test_a_socket_at_which_nobody_listens_is_not_ready(daemon):
    made_alone = daemon('(directory / "control.sock").touch()\ntime.sleep(0.5)\nsys.exit(3)\n')
    with pytest.raises(LabError, match=r"did not start \(status 3\)"):
        made_alone.start()


def test_a_daemon_that_does_not_end_is_killed_and_the_error_says_where_to_look(daemon):
    stays = daemon(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "server = socket.socket(socket.AF_UNIX)\n"
        'server.bind(str(directory / "control.sock"))\n'
        "server.listen()\n"
        "while True: time.sleep(1000)\n"
    )
    stays.start()
    pid = int(Path(stays.directory / "pid").read_text())
    with pytest.raises(LabError, match=r"was killed.*vscaf-daemon\.log"):
        stays.stop(0.1)
    assert start_time(pid) is None


def test_an_answer_that_breaks_off_is_an_error_that_says_where_to_look(daemon):
    breaks_off = daemon(
        "server = socket.socket(socket.AF_UNIX)\n"
        'server.bind(str(directory / "control.sock"))\n'
        "server.listen()\n"
        "while True:\n"
        "    one, _ = server.accept()\n"
        "    if one.recv(65536):\n"
        '        one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\n{")\n'
        "    one.close()\n"
    )
    with breaks_off, pytest.raises(LabError, match=r"status of the daemon at .*99 more.*see .*vscaf-daemon\.log"):
        breaks_off.status()
