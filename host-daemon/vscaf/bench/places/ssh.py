"""Commands and files in a running guest, over SSH. One connection serves all commands."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from vscaf.bench.places.output import Output
from vscaf.bench.places.place import Ended, PlaceError
from vscaf.lab.polling import until
from vscaf.lab.processes import end_child

CONNECT_S = 20
SSH_FAILED = 255  # its exit status if there is no connection
# The shell's process group, so that a command can be ended with all that it started.
_SAY_GROUP = "read -r _ _ _ _ group _ < /proc/$$/stat; echo $group; exec 2>&1\n"


class SshStarted:
    """A command that was started."""

    def __init__(self, connection: Ssh, command: str) -> None:
        self._connection = connection
        self._command = command
        self._ended: Ended | None = None
        self._lock = threading.Lock()
        arguments = connection.arguments(f"sh -c {shlex.quote(_SAY_GROUP + command)}")
        # Without a buffer, so that the output after the first line is left to be read by another.
        self._process = subprocess.Popen(
            arguments, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout is not None
        self._group = self._process.stdout.readline().decode(errors="replace").strip()
        if not self._group.isdigit():
            output = self._group + "\n" + self._process.communicate()[0].decode(errors="replace")
            raise PlaceError(f"{connection.target}: no command could be started over SSH: {output.strip()[-300:]}")
        self._output = Output(self._process.stdout, connection.target)

    def wait(self, timeout_s: float) -> Ended:
        with self._lock:
            if self._ended is not None:
                return self._ended
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            so_far = self._output.text()[-500:]
            raise TimeoutError(
                f"`{self._command}` has not ended after {timeout_s:g} s; so far it said: {so_far}"
            ) from None
        if self._process.returncode == SSH_FAILED and not self._connection.alive():
            raise PlaceError(f"{self._connection.target}: the SSH connection has ended: does the guest still run?")
        self._output.finish()
        with self._lock:
            self._ended = Ended(self._process.returncode, self._output.text(), self._output.pieces())
            return self._ended

    def kill(self) -> None:
        with self._lock:
            ended = self._ended is not None
        if ended:
            return
        done = subprocess.run(
            self._connection.arguments(f"kill -KILL -{self._group}"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode == SSH_FAILED:
            text = done.stderr.decode(errors="replace").strip()[-300:]
            raise PlaceError(f"{self._connection.target}: a command could not be ended over SSH: {text}")


class Ssh:
    """A connection to USER@HOST, as the command ssh knows it: ~/.ssh/config counts. It never asks for a password.

    Raises PlaceError if there is no connection.
    """

    shows_output = True

    def __init__(self, target: str) -> None:
        self.target = target
        self._directory = tempfile.TemporaryDirectory(prefix="vscaf-ssh-")
        self._socket = Path(self._directory.name) / "control"
        log = Path(self._directory.name) / "log"
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", "-o", "ControlPersist=no"]
        options += ["-o", "ServerAliveInterval=15"]  # notices a guest that is gone
        try:
            with log.open("wb") as file:
                self._master = subprocess.Popen(
                    ["ssh", *options, "-M", "-N", "-S", str(self._socket), target],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
        except FileNotFoundError:
            raise PlaceError("the command ssh is missing: install the package openssh-client") from None
        with ExitStack() as stack:
            stack.callback(self.close)
            try:
                until(lambda: self._socket.exists() or not self.alive(), "there is no connection")
            except TimeoutError as error:
                raise PlaceError(f"{target}: {error}") from None
            if not self.alive():
                text = log.read_text(errors="replace").strip()[-300:]
                raise PlaceError(f"{target}: no SSH connection: {text}: try `ssh {target} true`")
            stack.pop_all()

    def alive(self) -> bool:
        """Whether the connection still exists."""
        return self._master.poll() is None

    def arguments(self, command: str) -> Sequence[str]:
        """The words of an ssh command that runs a command of the guest's shell over this connection."""
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]  # without a master, ssh connects anew
        return ["ssh", *options, "-S", str(self._socket), self.target, command]

    def start(self, command: str) -> SshStarted:
        """Starts a shell command."""
        return SshStarted(self, command)

    def write(self, path: str, content: bytes) -> None:
        """Writes a file."""
        done = subprocess.run(
            self.arguments(f"cat > {shlex.quote(path)}"), input=content, capture_output=True, check=False
        )
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace").strip()[-300:]
            raise PlaceError(f"{self.target}: {path} could not be written: {text}")

    def close(self) -> None:
        """Ends the connection."""
        if self.alive():
            end_child(self._master, 5.0)
        self._directory.cleanup()
