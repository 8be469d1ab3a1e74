"""The host's end of an agent's channel, for tests and benchmarks that allocate CPUs without a daemon."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from vscaf.lab.polling import HANG_S

Message = dict[str, Any]


class AgentHost:
    """Context manager: connects, sends hello, and receives the agent's messages.

    Raises TimeoutError if an expected message does not come in time.
    """

    def __init__(self, path: Path, deadline_s: float = HANG_S) -> None:
        self._path = path
        self._deadline_s = deadline_s
        self._received = b""
        self._sequence = int(time.monotonic() * 1000)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> AgentHost:
        self._socket.connect(str(self._path))
        self._send(type="hello", daemon="vscaf lab")
        self.wait("hello")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def _send(self, **fields: Any) -> None:
        self._socket.sendall(json.dumps({"v": 1, **fields}).encode() + b"\n")

    def wait(self, kind: str, where: Callable[[Message], object] = lambda _: True) -> Message:
        """The next message of that type for which `where` is true; earlier messages are dropped."""
        end_s = time.monotonic() + self._deadline_s
        last: Message = {}
        while (left_s := end_s - time.monotonic()) > 0:
            line, separator, rest = self._received.partition(b"\n")
            if not separator:
                self._socket.settimeout(left_s)
                try:
                    data = self._socket.recv(65536)
                except TimeoutError:
                    break
                if not data:
                    raise TimeoutError("the agent's channel was closed")
                self._received += data
                continue
            self._received = rest
            try:
                message: Message = json.loads(line)
            except ValueError:
                continue  # the rest of a line for an earlier host
            if message.get("type") == kind:
                last = message
                if where(message):
                    return message
        raise TimeoutError(f"no such {kind} in {self._deadline_s} s; the last one: {last}")

    def order(self, cpus: int, limit: int, deadline_ms: int = 400) -> int:
        """Sends an allocation; returns its sequence number."""
        self._sequence += 1
        self._send(
            type="allocate",
            sequence=self._sequence,
            cpus=cpus,
            limit=limit,
            competition=False,
            deadline_ms=deadline_ms,
        )
        return self._sequence

    def allocate(self, cpus: int, limit: int) -> tuple[list[int], float]:
        """Sends an allocation and waits for its acknowledgement. Returns the online CPUs and the time in seconds."""
        began_s = time.monotonic()
        sequence = self.order(cpus, limit)
        ack = self.wait("ack", lambda message: message["sequence"] == sequence)
        return ack["online"], time.monotonic() - began_s
