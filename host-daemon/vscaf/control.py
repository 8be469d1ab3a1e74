"""The control socket: HTTP over a UNIX socket that root alone can open."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from vscaf.errors import UsageError, VscafError


class ControlServer:
    """Serves GET /v1/status at *path* from when start() returns until stop()."""

    def __init__(self, path: Path, status: Callable[[], Mapping[str, Any]]) -> None:
        self.path = path
        self._status = status
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """UsageError where the socket cannot be made. What an earlier daemon left there is replaced."""
        application = web.Application()
        application.router.add_get("/v1/status", self._answer)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        before = os.umask(0o177)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            self.path.unlink(missing_ok=True)
            await web.UnixSite(self._runner, self.path).start()
        except OSError as error:
            words = error.strerror or str(error)
            raise UsageError(f"control socket {self.path}: {words}: give another path as control_socket") from error
        finally:
            os.umask(before)

    async def stop(self) -> None:
        """Ends the server and removes the socket."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self.path.unlink(missing_ok=True)

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.json_response(self._status(), dumps=lambda value: json.dumps(value, allow_nan=False))


async def ask_status(path: Path, timeout_s: float = 5.0) -> Any:
    """The status of the daemon at *path*. VscafError, in one line, where none answers."""
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(path)), timeout=aiohttp.ClientTimeout(total=timeout_s)
            ) as session,
            session.get("http://vscaf/v1/status") as response,
        ):
            response.raise_for_status()
            return await response.json()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        words = getattr(error, "strerror", None) or str(error) or "no answer"
        raise VscafError(f"control socket {path}: {words}: is `vscaf daemon` running, and are you root?") from error
