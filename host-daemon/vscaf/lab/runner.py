"""The host's side of the guest's runner: commands in the guest, over the virtio-serial port org.vscaf.lab.0.

images/guest/lab_runner.c describes the protocol.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import signal
import socket
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from vscaf.lab.errors import LabError


class CommandResult(NamedTuple):
    """The end of a command: its exit status (128 + signal if a signal ended it), and its output and errors together."""

    status: int
    output: bytes

    @property
    def text(self) -> str:
        """The output as text."""
        return self.output.decode(errors="replace")


class ClockOffset(NamedTuple):
    """CLOCK_MONOTONIC of the guest minus that of the host, and the largest error (half the round trip)."""

    seconds: float
    uncertainty_s: float


@dataclass
class Command:
    """A command that was started. `await command` gives its result, as does `wait`."""

    text: str
    identity: int
    _runner: Runner
    _pieces: list[tuple[float, bytes]] = field(default_factory=list)
    _future: concurrent.futures.Future[CommandResult] = field(default_factory=concurrent.futures.Future)

    def wait(self, timeout_s: float) -> CommandResult:
        """The result. Raises TimeoutError (the command goes on), or LabError if the guest is gone."""
        try:
            return self._future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            output_text = self.output()[-500:].decode(errors="replace")
            raise TimeoutError(
                f"`{self.text}` has not ended after {timeout_s} s; so far it said: {output_text}"
            ) from None

    def done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def output(self) -> bytes:
        """Its output so far."""
        return b"".join(piece for _, piece in self._pieces)

    def pieces(self) -> list[tuple[float, str]]:
        """Its output so far as it came, each piece with its time: CLOCK_MONOTONIC of the host, in seconds."""
        return [(at_s, piece.decode(errors="replace")) for at_s, piece in self._pieces]

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to its process group."""
        self._runner.send(f"kill {self.identity} {int(number)}")

    def __await__(self) -> Generator[None, None, CommandResult]:
        return asyncio.wrap_future(self._future).__await__()


class Runner:
    """One guest's connection. A thread reads; every method may be called from any thread."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self._identities = itertools.count(1)
        self._lock = threading.Lock()
        self._commands: dict[int, Command] = {}
        self._clocks: dict[int, concurrent.futures.Future[tuple[int, int]]] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise LabError(f"guest {name}: {path}: {error.strerror}: is the domain running?") from error
        self._thread = threading.Thread(target=self._read, name=f"lab {name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the connection; callers that wait get a LabError."""
        with contextlib.suppress(OSError):  # QEMU may have closed its end already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def send(self, line: str) -> None:
        """Sends one request. Raises LabError if the guest is gone."""
        try:
            with self._lock:
                self._socket.sendall(line.encode() + b"\n")
        except OSError as error:
            raise LabError(f"guest {self._name} is gone ({error.strerror}): see its console log") from error

    def start(self, text: str) -> Command:
        """Starts a command in the guest's shell."""
        command = Command(text, next(self._identities), self)
        self._commands[command.identity] = command
        self.send(f"run {command.identity} {text.encode().hex() or '-'}")
        return command

    def clock(self, timeout_s: float) -> tuple[int, int, int]:
        """Host time before, guest time, host time after: CLOCK_MONOTONIC, nanoseconds.

        Raises TimeoutError if the guest does not answer in time.
        """
        identity = next(self._identities)
        future: concurrent.futures.Future[tuple[int, int]] = concurrent.futures.Future()
        self._clocks[identity] = future
        before = time.monotonic_ns()
        self.send(f"clock {identity} -")
        try:
            guest, after = future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            self._clocks.pop(identity, None)
            raise TimeoutError(f"guest {self._name} did not answer within {timeout_s} s: see its console log") from None
        return before, guest, after

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                piece = self._socket.recv(65536)
            except OSError:
                piece = b""
            if not piece:
                break
            now = time.monotonic_ns()
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._take(line.decode(errors="replace"), now)
        gone = LabError(f"guest {self._name} is gone: see its console log")
        for command in list(self._commands.values()):
            command._future.set_exception(gone)
        for future in list(self._clocks.values()):
            future.set_exception(gone)

    def _take(self, line: str, now: int) -> None:
        word, _, rest = line.partition(" ")
        number, _, value = rest.partition(" ")
        if not number.isdigit():
            return  # part of a line from before this connection
        identity = int(number)
        if word == "clock":
            if (future := self._clocks.pop(identity, None)) is not None:  # else `clock` has given up
                future.set_result((int(value), now))
        elif word == "out" and identity in self._commands:
            self._commands[identity]._pieces.append((now / 1e9, bytes.fromhex(value)))
        elif word == "exit" and identity in self._commands:
            command = self._commands.pop(identity)
            command._future.set_result(CommandResult(int(value), command.output()))
        elif word == "error" and identity in self._commands:
            self._commands.pop(identity)._future.set_exception(LabError(f"guest {self._name}: {value}"))
