"""Commands and files over SSH. The program ssh is a stand-in that runs the words of a command by a shell here, as a
server would: in a session of its own."""

import os

import pytest
from vscaf.bench.places import ssh
from vscaf.bench.places.place import PlaceError
from vscaf.bench.places.ssh import Ssh
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.processes import start_time

SSH = """#!/bin/sh
# The master: -M -N -S SOCKET TARGET. A client: -o BatchMode=yes -o ConnectTimeout=20 -S SOCKET TARGET COMMAND
case "$*" in
*nobody@nowhere*) echo "Permission denied (publickey)." >&2; exit 255 ;;
*-M*) while [ "$1" != -S ]; do shift; done; echo $$ > "${0%/*}/master"; touch "$2"; exec sleep 1000 ;;
*) [ -e "$6" ] || { echo "No route to host" >&2; exit 255; }; exec setsid --wait sh -c "$8" ;;
esac
"""


@pytest.fixture
def connection(tmp_path, monkeypatch):
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = Ssh("user@guest")
    yield found
    found.close()


def test_a_command_runs_with_output_and_errors_together(connection):
    ended = connection.start('echo "it\'s"; echo two >&2; echo $((1 + 2)); exit 7').wait(HANG_S)
    assert (ended.status, ended.output) == (7, "it's\ntwo\n3\n")
    assert "".join(text for _, text in ended.pieces) == ended.output


def test_a_command_that_is_not_there(connection):
    ended = connection.start("no-such-program").wait(HANG_S)
    assert ended.status == 127 and "no-such-program" in ended.output


def test_kill_ends_all_that_was_started(connection, tmp_path):
    child = tmp_path / "child"
    started = connection.start(f"sleep 1000 & echo $! > {child}; wait")
    until(lambda: child.exists() and child.read_text().strip())
    with pytest.raises(TimeoutError):
        started.wait(0.0)
    started.kill()
    assert started.wait(HANG_S).status != 0
    until(lambda: start_time(int(child.read_text())) is None)
    started.kill()  # once more: nothing happens


def test_a_file_arrives(connection, tmp_path):
    content = bytes(range(256)) * 1000
    connection.write(str(tmp_path / "it's a file"), content)
    assert (tmp_path / "it's a file").read_bytes() == content
    with pytest.raises(PlaceError, match="could not be written"):
        connection.write(str(tmp_path / "no" / "file"), content)


def test_no_connection_is_said_with_what_ssh_says(connection):
    with pytest.raises(PlaceError, match=r"nobody@nowhere: no SSH connection: Permission denied.*try `ssh"):
        Ssh("nobody@nowhere")


def test_an_interruption_while_it_connects_ends_ssh(connection, tmp_path, monkeypatch):
    master = tmp_path / "master"
    master.unlink()

    def interrupted(*_):
        until(lambda: master.exists() and master.read_text().strip())
        raise KeyboardInterrupt

    monkeypatch.setattr(ssh, "until", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Ssh("user@guest")
    assert start_time(int(master.read_text())) is None


def test_a_connection_that_has_ended_is_said(connection, tmp_path):
    started = connection.start(f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 255")
    connection.close()
    (tmp_path / "go").touch()
    with pytest.raises(PlaceError, match="connection has ended"):
        started.wait(HANG_S)
    with pytest.raises(PlaceError, match="could not be ended over SSH: No route to host"):
        started.kill()
    with pytest.raises(PlaceError, match="could be started"):
        connection.start("true")
