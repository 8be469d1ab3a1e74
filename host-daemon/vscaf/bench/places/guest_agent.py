"""Commands and files in a running guest, through its QEMU guest agent.

Its requests and answers are described in the QEMU Guest Agent Protocol Reference.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import libvirt
import libvirt_qemu
import msgspec

from vscaf.bench.places.place import Ended, PlaceError

ANSWER_S = 30  # longer than a guest without CPU time needs to answer
POLL_S = 0.05  # an end is seen so late at most; each poll costs the guest CPU time
PIECE_BYTES = 48 * 1024  # of a file, so that a request stays far below libvirt's and the agent's limits
INSTALL = "install qemu-guest-agent in the guest and give the domain a channel named org.qemu.guest_agent.0"

T = TypeVar("T")


class _Answer(msgspec.Struct, Generic[T]):
    value: T = msgspec.field(name="return")


class _Process(msgspec.Struct):
    pid: int


class _Status(msgspec.Struct):
    exited: bool
    exitcode: int = 0
    signal: int | None = None
    out: str = msgspec.field(default="", name="out-data")
    err: str = msgspec.field(default="", name="err-data")


class _Written(msgspec.Struct):
    count: int


def request(command: str, **arguments: Any) -> str:
    """A request in JSON. Keywords have "_" where the protocol has "-"."""
    fields = {name.replace("_", "-"): value for name, value in arguments.items()}
    return msgspec.json.encode({"execute": command, "arguments": fields} if fields else {"execute": command}).decode()


def answer(text: str, kind: type[T]) -> T:
    """The value in an answer. PlaceError if it is not of that kind."""
    try:
        return msgspec.json.decode(text, type=_Answer[kind]).value  # type: ignore[valid-type]
    except msgspec.DecodeError as error:
        raise PlaceError(f"the guest agent's answer is not as expected ({error}): {text[:200]}") from None


def exec_request(command: str) -> str:
    """The request that starts a shell command, with its output and errors together, in a process group of its own."""
    return request("guest-exec", path="setsid", arg=["sh", "-c", f"exec 2>&1\n{command}"], capture_output=True)


def exec_end(text: str) -> Ended | None:
    """The end of a command in an answer to guest-exec-status; None: it still runs."""
    status = answer(text, _Status)
    if not status.exited:
        return None
    try:
        output = b"".join(base64.b64decode(part, validate=True) for part in (status.out, status.err))
    except ValueError as error:
        raise PlaceError(f"the guest agent's answer is not as expected ({error}): {text[:200]}") from None
    code = status.exitcode if status.signal is None else 128 + status.signal
    return Ended(code, output.decode(errors="replace"))


class AgentStarted:
    """A command that was started."""

    def __init__(self, agent: GuestAgent, command: str, pid: int) -> None:
        self._agent = agent
        self._command = command
        self._pid = pid
        self._ended: Ended | None = None

    def wait(self, timeout_s: float) -> Ended:
        end_s = time.monotonic() + timeout_s
        while self._ended is None:
            self._ended = exec_end(self._agent.ask(request("guest-exec-status", pid=self._pid)))
            if self._ended is None:
                if time.monotonic() > end_s:
                    raise TimeoutError(f"`{self._command}` has not ended after {timeout_s:g} s")
                time.sleep(POLL_S)
        return self._ended

    def kill(self) -> None:
        if self._ended is None:
            self._agent.ask(request("guest-exec", path="kill", arg=["-KILL", "--", f"-{self._pid}"]))


class GuestAgent:
    """The guest agent of one guest. call: makes one request, returns the answer; raises PlaceError."""

    shows_output = False  # it keeps a command's output until the end

    def __init__(self, call: Callable[[str], str]) -> None:
        self._call = call
        self._lock = threading.Lock()

    def ask(self, text: str) -> str:
        """The answer to a request."""
        with self._lock:
            return self._call(text)

    def ping(self) -> None:
        """Raises PlaceError if the agent does not answer."""
        self.ask(request("guest-ping"))

    def start(self, command: str) -> AgentStarted:
        """Starts a shell command."""
        return AgentStarted(self, command, answer(self.ask(exec_request(command)), _Process).pid)

    def write(self, path: str, content: bytes) -> None:
        """Writes a file."""
        handle = answer(self.ask(request("guest-file-open", path=path, mode="w")), int)
        try:
            rest = memoryview(content)
            while rest:
                piece = base64.b64encode(rest[:PIECE_BYTES]).decode()
                written = answer(self.ask(request("guest-file-write", handle=handle, buf_b64=piece)), _Written).count
                if written <= 0:
                    raise PlaceError(f"{path} could not be written in the guest: is its disk full?")
                rest = rest[written:]
        finally:
            self.ask(request("guest-file-close", handle=handle))

    def close(self) -> None:
        """Nothing is open between requests."""


def agent_of(domain: Any) -> GuestAgent:
    """The guest agent of a domain, by libvirt. Raises PlaceError if it does not answer."""
    name = domain.name()

    def call(text: str) -> str:
        try:
            return str(libvirt_qemu.qemuAgentCommand(domain, text, ANSWER_S, 0))
        except libvirt.libvirtError as error:
            command = msgspec.json.decode(text)["execute"]
            raise PlaceError(f"guest {name}: its guest agent could not do {command}: {_reason(error)}") from error

    agent = GuestAgent(call)
    agent.ping()
    return agent


def _reason(error: libvirt.libvirtError) -> str:
    """What an error of a request means and what to do, by its code."""
    advice = {
        libvirt.VIR_ERR_NO_SUPPORT: "this hypervisor has no guest agents: give --ssh DOMAIN=USER@HOST",
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED: f"{INSTALL}, or give --ssh DOMAIN=USER@HOST",
        libvirt.VIR_ERR_AGENT_UNRESPONSIVE: "it does not run in the guest: start it there "
        "(systemctl start qemu-guest-agent), or give --ssh DOMAIN=USER@HOST",
        libvirt.VIR_ERR_AGENT_UNSYNCED: "it does not answer: restart it, or give --ssh DOMAIN=USER@HOST",
        libvirt.VIR_ERR_INTERNAL_ERROR: "if its configuration forbids this command, allow it (--block-rpcs, "
        "--allow-rpcs, BLACKLIST_RPC), or give --ssh DOMAIN=USER@HOST",
        libvirt.VIR_ERR_OPERATION_INVALID: "the domain does not run: start it",
        libvirt.VIR_ERR_NO_DOMAIN: "the domain is gone",
        libvirt.VIR_ERR_OPERATION_DENIED: "not permitted: run this as root, or in the group libvirt",
        libvirt.VIR_ERR_ACCESS_DENIED: "not permitted: run this as root, or in the group libvirt",
    }.get(error.get_error_code())
    return str(error) if advice is None else f"{advice} ({error})"
