"""Sends requests to a daemon over its control socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from vscaf.control.messages import Failure
from vscaf.errors import UsageError, VscafError

Answer = TypeVar("Answer")


class NoDaemon(VscafError):
    """No daemon listens on the control socket."""


async def get(path: Path, resource: str, timeout_s: float = 5.0) -> Any:
    """The answer of the daemon at *path* to GET *resource*. VscafError, in one line, if there is none."""
    return await _decoded_answer(path, "GET", resource, None, timeout_s)


async def get_as(path: Path, resource: str, kind: type[Answer], timeout_s: float = 5.0) -> Answer:
    """As get, decoded as *kind*, which is faster. VscafError also if the answer is not of this kind."""
    async with _request(path, "GET", resource, None, timeout_s) as response:
        return msgspec.json.decode(await response.read(), type=kind)


async def post(path: Path, resource: str, body: Any = None, timeout_s: float = 120.0) -> Any:
    """The answer to POST *resource* with *body*. UsageError if the daemon refuses: then nothing was changed."""
    return await _decoded_answer(path, "POST", resource, msgspec.json.encode({} if body is None else body), timeout_s)


async def get_status(path: Path, timeout_s: float = 5.0) -> Any:
    """The status of the daemon at *path*. VscafError, in one line, if there is no answer."""
    return await get(path, "/v1/status", timeout_s)


async def follow(path: Path, since: int) -> AsyncIterator[dict[str, Any]]:
    """Events after number *since*, and then each new one, until the daemon ends. VscafError if the daemon dies."""
    async with _request(path, "GET", f"/v1/events?follow=1&since={since}", None, None) as response:
        async for line in response.content:
            yield msgspec.json.decode(line)


async def _decoded_answer(path: Path, method: str, resource: str, body: bytes | None, timeout_s: float) -> Any:
    async with _request(path, method, resource, body, timeout_s) as response:
        text = await response.read()
        if response.content_type == "application/json":
            return msgspec.json.decode(text)
        if response.content_type == "application/x-ndjson":
            return [msgspec.json.decode(line) for line in text.splitlines()]
        return text.decode()


@asynccontextmanager
async def _request(
    path: Path, method: str, resource: str, body: bytes | None, timeout_s: float | None
) -> AsyncIterator[aiohttp.ClientResponse]:
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(path)), timeout=aiohttp.ClientTimeout(total=timeout_s)
            ) as session,
            session.request(method, f"http://vscaf{resource}", data=body) as response,
        ):
            if response.status != 200:
                raise _refused(path, response.status, await response.read())
            yield response
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError) as error:
        reason = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        if isinstance(reason, TimeoutError):
            raise VscafError(
                f"control socket {path}: no answer in {timeout_s or 0:g} s: see the daemon's log; "
                "if the daemon hangs, kill -9 it; `vscaf off` then puts everything back from its journal"
            ) from error
        message = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        if isinstance(reason, FileNotFoundError | ConnectionRefusedError):
            raise NoDaemon(f"control socket {path}: {message}: is `vscaf daemon` running?") from error
        if isinstance(reason, PermissionError):
            raise VscafError(f"control socket {path}: {message}: be root, or in control_read_group") from error
        raise VscafError(f"control socket {path}: {message}: see the daemon's log") from error


def _refused(path: Path, status: int, text: bytes) -> VscafError:
    try:
        message = msgspec.json.decode(text, type=Failure).error
    except msgspec.MsgspecError:
        message = f"control socket {path}: status {status} without a message: see the daemon's log"
    return UsageError(message) if status == 400 else VscafError(message)
