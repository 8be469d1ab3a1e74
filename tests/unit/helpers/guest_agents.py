"""Guest agents on this machine, without a guest: the real qemu-ga, and a stand-in where it is not installed."""

import base64
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vscaf.lab.polling import HANG_S, until
from vscaf.lab.processes import end_child

QEMU_GA = shutil.which("qemu-ga", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def real_agent(directory: Path) -> Iterator[Callable[[str], str]]:
    """A function that asks a real qemu-ga, which listens at a UNIX socket instead of a virtio-serial port."""
    assert QEMU_GA is not None
    path = directory / "ga.sock"
    with (directory / "ga.log").open("wb") as log:
        process = subprocess.Popen(
            [QEMU_GA, "-m", "unix-listen", "-p", path, "-t", directory, "-f", directory / "ga.pid"],
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: path.exists() or process.poll() is not None)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(HANG_S)
            client.connect(str(path))
            file = client.makefile("rwb")

            def ask(text: str) -> str:
                file.write(text.encode() + b"\n")
                file.flush()
                return file.readline().decode()

            yield ask
    finally:
        end_child(process, 5.0)


class StandIn:
    """Does what the protocol says, with processes and files of this machine."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._files: dict[int, Any] = {}

    def __call__(self, text: str) -> str:
        request = json.loads(text)
        name = request["execute"].removeprefix("guest-").replace("-", "_")
        return json.dumps({"return": getattr(self, f"_{name}")(**_names(request.get("arguments", {})))})

    def _ping(self) -> dict[str, Any]:
        return {}

    def _exec(self, path: str, arg: list[str], capture_output: bool = False) -> dict[str, Any]:
        process = subprocess.Popen(
            [path, *arg],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture_output else subprocess.DEVNULL,
            stderr=subprocess.PIPE if capture_output else subprocess.DEVNULL,
        )
        self._processes[process.pid] = process
        return {"pid": process.pid}

    def _exec_status(self, pid: int) -> dict[str, Any]:
        process = self._processes[pid]
        if process.poll() is None:
            return {"exited": False}
        out, err = process.communicate()
        code = process.returncode
        end: dict[str, Any] = {"exited": True, **({"exitcode": code} if code >= 0 else {"signal": -code})}
        data = {"out-data": out, "err-data": err}
        return end | {name: base64.b64encode(text).decode() for name, text in data.items() if text}

    def _file_open(self, path: str, mode: str) -> int:
        file = Path(path).open(f"{mode}b")  # noqa: SIM115  (guest-file-close closes it)
        self._files[file.fileno()] = file
        return file.fileno()

    def _file_write(self, handle: int, buf_b64: str) -> dict[str, Any]:
        return {"count": self._files[handle].write(base64.b64decode(buf_b64)), "eof": False}

    def _file_close(self, handle: int) -> dict[str, Any]:
        self._files.pop(handle).close()
        return {}


def _names(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in arguments.items()}
