# Copyright: the vscaf developers
# SPDX-License-Identifier: Apache-2.0
"""Requests to the vscaf daemon over its control socket, with Python's standard library alone."""

from __future__ import annotations

import http.client
import json
import socket

SOCKET = "/run/vscaf/control.sock"
TIMEOUT_S = 120.0


class ControlError(Exception):
    """The daemon refused the request or gave no answer. The message says what to do."""


class NoDaemon(ControlError):
    """No daemon listens on the control socket."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("vscaf", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def request(path: str, method: str, resource: str, body: object = None) -> object:
    """The daemon's decoded answer. Raises NoDaemon or ControlError."""
    connection = _UnixConnection(path)
    try:
        connection.request(method, resource, None if body is None else json.dumps(body))
        response = connection.getresponse()
        status, text = response.status, response.read()
        answer = json.loads(text)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoDaemon(f"control socket {path}: {error.strerror}: is the vscaf daemon running?") from error
    except PermissionError as error:
        raise ControlError(
            f"control socket {path}: {error.strerror}: use become, or a user in the daemon's control_write_group"
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ControlError(f"control socket {path}: {error or type(error).__name__}: see the daemon's log") from error
    finally:
        connection.close()
    if status != http.client.OK:
        raise ControlError(str(answer.get("error", answer)) if isinstance(answer, dict) else str(answer))
    return answer
