"""Processes of QEMU, told by their command lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from vscaf.lab.polling import until
from vscaf.occupancy.qemu import domain_of, qemu_pid_of, qemu_pids


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([b"qemu", b"-name", b"guest=web,debug-threads=on", b"-S"], "web"),
        ([b"qemu", b"-name", b"guest=a,,b,debug-threads=on"], "a,b"),
        ([b"qemu", b"-name", b"guest=a,,,debug-threads=on"], "a,"),
        ([b"qemu", b"-name", b"other"], None),
        ([b"qemu", b"-name"], None),
        ([b"vim", b"guest=web"], None),
    ],
)
def test_the_name_of_a_domain(words: list[bytes], name: str | None) -> None:
    assert domain_of(words) == name


def test_processes_are_found_by_name_and_by_uuid() -> None:
    name, uuid = f"vscaf-test-{os.getpid()}", f"uuid-{os.getpid()}"
    program = [sys.executable, "-c", "input()", "-name", f"guest={name},debug-threads=on", "-uuid", uuid]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        until(lambda: name in qemu_pids())
        assert qemu_pids()[name] == [process.pid] and qemu_pid_of(uuid) == process.pid
        process.communicate(b"\n")
    assert name not in qemu_pids() and qemu_pid_of(uuid) is None


def test_processes_that_are_hidden_from_this_user_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with /proc mounted with hidepid=1."""
    read = Path.read_bytes

    def hidden(path: Path) -> bytes:
        if path.name == "cmdline" and path.parent.name != str(os.getpid()):
            raise PermissionError(1, "Operation not permitted", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", hidden)
    assert qemu_pids() == {} and qemu_pid_of("uuid") is None
