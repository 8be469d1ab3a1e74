"""A real `vscaf daemon` in a process of its own."""

from __future__ import annotations

import http
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from vscaf.lab.errors import LabError
from vscaf.lab.polling import HANG_S, POLL_S, until
from vscaf.lab.private_libvirt import accepts
from vscaf.lab.processes import end_child

ANSWER_S = HANG_S
END_PATIENCE_S = 10.0  # for a daemon that did not get ready


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("vscaf", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(str(self._path))


class Site(Protocol):
    """A libvirt and the directories for a daemon on it. PrivateLibvirt is one."""

    @property
    def uri(self) -> str:
        """The libvirt URI."""

    @property
    def directory(self) -> Path:
        """An existing directory with a short path, for configuration, state and control socket."""

    @property
    def logs(self) -> Path:
        """An existing directory for the log."""


class DaemonProcess:
    """Context manager: the daemon on the site's libvirt, ended by SIGTERM.

    `domains`: their tables in the configuration ({"a": {"minimum": 1}}). `settings`: further top-level keys. `name`:
    daemons of a site that run at the same time have different ones; daemons of the same name share a state directory.
    """

    def __init__(
        self,
        site: Site,
        pool: str,
        domains: Mapping[str, Mapping[str, Any]],
        *,
        policy: str = "max-speedup",
        options: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        name: str = "daemon",
    ) -> None:
        self.directory = site.directory / name
        self.log = site.logs / f"vscaf-{name}.log"
        self.control_socket = self.directory / "control.sock"
        self._process: subprocess.Popen[bytes] | None = None
        top = {
            "uri": site.uri,
            "pool": pool,
            "state_directory": str(self.directory / "state"),
            "control_socket": str(self.control_socket),
            **(settings or {}),
        }
        self.journal = Path(top["state_directory"]) / "journal.json"
        lines = [f"{key} = {_toml(value)}" for key, value in top.items()]
        lines += ["[policy]", f"name = {_toml(policy)}", f"options = {_toml(dict(options or {}))}"]
        for domain, table in domains.items():
            lines += [f"[domains.{_toml(domain)}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
        self._config = "\n".join(lines) + "\n"

    @property
    def pid(self) -> int:
        """The daemon's pid. LabError if it does not run."""
        if self._process is None:
            raise LabError("the daemon does not run: start it first")
        return self._process.pid

    def start(self, deadline_s: float = HANG_S) -> None:
        """Starts it; returns when it accepts requests. Raises LabError if it does not; then it may still run."""
        self.directory.mkdir(exist_ok=True)
        config = self.directory / "vscaf.toml"
        config.write_text(self._config, encoding="utf-8")
        self.control_socket.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "vscaf", "daemon", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end_s = time.monotonic() + deadline_s
        while not accepts(self.control_socket):
            if self._process.poll() is not None or time.monotonic() > end_s:
                log_text = self.log.read_text(errors="replace")[-1000:]
                raise LabError(f"the daemon did not start (status {self._process.poll()}); it said: {log_text}")
            time.sleep(POLL_S)

    def status(self) -> dict[str, Any]:
        """The output of `vscaf status --json`, without the second of CPU time that starting the command takes."""
        state: dict[str, Any] = json.loads(self._ask("status"))
        return state

    def events(self) -> list[dict[str, Any]]:
        """The output of `vscaf events --json`, as in `status`."""
        return [json.loads(line) for line in self._ask("events").splitlines()]

    def _ask(self, resource: str) -> bytes:
        connection = _UnixConnection(self.control_socket)
        try:
            connection.request("GET", f"/v1/{resource}")
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise LabError(f"{resource} of the daemon at {self.control_socket}: {error}: see {self.log}") from error
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise LabError(f"{resource} of the daemon at {self.control_socket}: {answer.status} {body!r}")
        return body

    def domain(self, name: str) -> dict[str, Any]:
        """One domain's part of the status."""
        return next(one for one in self.status()["domains"] if one["name"] == name)

    def wait(self, condition: Callable[[dict[str, dict[str, Any]]], bool], hang_s: float = HANG_S) -> None:
        """Waits until *condition* is true for the domains' status, by name. TimeoutError shows the last one."""

        def domains() -> dict[str, dict[str, Any]]:
            return {one["name"]: one for one in self.status()["domains"]}

        until(lambda: condition(domains()), lambda: f"the last status: {json.dumps(domains())}", hang_s)

    def stop(self, deadline_s: float = HANG_S) -> int:
        """Sends SIGTERM; returns the exit status: 1 if something could not be put back.

        Raises LabError if it does not end in time; then it was killed.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise LabError(
                f"the daemon did not end within {deadline_s:g} s and was killed, so the domains may not be as before: "
                f"see {self.log}"
            ) from None
        self._process = None
        return status

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def __enter__(self) -> DaemonProcess:
        try:
            self.start()
        except BaseException:
            if self._process is not None:
                end_child(self._process, END_PATIENCE_S)
                self._process = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()


def _toml(value: object) -> str:
    """A value as TOML writes it: JSON for scalars and lists, inline tables for mappings."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return json.dumps(value)
