"""Metrics in Prometheus's text format, computed from the daemon's status at each scrape, and the server for them."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from vscaf.config import parse_address
from vscaf.control.limits import Admission, ConnectionLimiter
from vscaf.control.metric_families import StatusCollector
from vscaf.errors import UsageError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KEPT_S = 1.0  # scrapes within this time get the same text, so that scraping cannot keep the daemon busy
CONNECTIONS = 32
SCRAPE_S = 10.0


class MetricsText:
    """The text of a scrape, at most `KEPT_S` old."""

    def __init__(
        self,
        status: Callable[[], Mapping[str, Any]],
        events: Callable[[], Mapping[str, int]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(StatusCollector(status, events))
        ProcessCollector(namespace="vscaf_daemon", registry=self._registry)
        self._now_s = now_s
        self._made_at_s = float("-inf")
        self._text = b""

    def __call__(self) -> bytes:
        if self._now_s() - self._made_at_s >= KEPT_S:
            self._text = generate_latest(self._registry)
            self._made_at_s = self._now_s()
        return self._text


class MetricsServer:
    """Serves GET /metrics on a TCP *address*. The constructor binds it, with UsageError if that fails."""

    def __init__(self, address: str) -> None:
        host, port = parse_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"metrics_address {address}: {error.strerror}: give an address of this host and a free port"
            ) from error
        self._server: asyncio.Server | None = None
        self._connections: Counter[Hashable] = Counter()
        self._web: web.Server | None = None

    async def start(self, text: Callable[[], bytes]) -> None:
        """Begins to answer requests."""

        async def answer(request: web.BaseRequest) -> web.Response:
            if (request.method, request.path) != ("GET", "/metrics"):
                return web.Response(status=404, text="only GET /metrics is served\n")
            response = web.Response(body=text(), headers={"Content-Type": CONTENT_TYPE})
            response.force_close()
            return response

        self._web = web.Server(answer, access_log=None, auto_decompress=False)
        self._server = await asyncio.get_running_loop().create_server(self._connected, sock=self._socket)

    async def stop(self) -> None:
        """Ends the server and closes the socket."""
        if self._server is not None:
            self._server.close()
        if self._web is not None:
            await self._web.shutdown(1.0)
        self._socket.close()

    def _connected(self) -> asyncio.Protocol:
        assert self._web is not None
        return ConnectionLimiter(self._web(), lambda _: Admission("all", CONNECTIONS, SCRAPE_S), self._connections)
