"""The control socket's server: HTTP over a UNIX socket, with access by the peer's credentials."""

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from vscaf_policies.registry import policy_names

from vscaf import clock
from vscaf.control.limits import Admission, ConnectionLimiter
from vscaf.control.messages import (
    BODY_LIMIT_BYTES,
    ConfigChange,
    DomainRequest,
    Domains,
    Failure,
    LastDecision,
    Nothing,
    Policies,
    PolicyChoice,
    PolicyRequest,
    Recording,
    RecordRequest,
    Reloaded,
    RolledBack,
)
from vscaf.control.peers import Access, AccessPolicy, Peer, group_id, peer_of
from vscaf.control.schema import schema
from vscaf.errors import UsageError, VscafError
from vscaf.events import EventLog

log = logging.getLogger(__name__)

CONNECTIONS_OF_A_USER = 32
CONNECTIONS_OF_STRANGERS = 8
REFUSED_CONNECTION_S = 2.0  # how long a connection without any access lasts: long enough for the refusal
GRACE_S = 2.0  # for answers that are under way when the server stops
STATUS_KEPT_S = 0.25  # requests within this time get the same status, so that they cost the daemon little

Body = TypeVar("Body")


class ControlTarget(Protocol):
    """The methods of the daemon that the control API calls. A refusal is a VscafError; UsageError: nothing changed."""

    def status(self) -> dict[str, Any]:
        """A `messages.Status`, as `vscaf status --json` prints it."""

    def last_decision(self) -> LastDecision:
        """The last decision, for `vscaf explain`."""

    async def recording(self) -> Recording:
        """Whether decisions are recorded, and what the recordings take."""

    async def record(self, on: bool) -> Recording:
        """Records decisions from now on, or stops to."""

    async def set_policy(self, name: str, options: Mapping[str, object]) -> None:
        """Checks the policy, then uses it."""

    async def rollback_policy(self) -> str:
        """Goes back to the policy before, and returns its name. UsageError if there is none."""

    async def reload(self, allow: Callable[[str | None, str | None], None]) -> list[ConfigChange]:
        """Uses the configuration file as it is now. Returns what has changed. If it is refused, nothing was changed.

        allow: takes the names of the read group and the write group. It is called before anything else changes.
        """

    async def release(self, domain: str | None) -> list[str]:
        """Gives a domain (None: all) back as it was found, and leaves it alone until manage()."""

    async def manage(self, domain: str | None) -> list[str]:
        """Undoes release(), and manages domains again that were left alone because of a foreign change."""

    async def off(self) -> None:
        """Puts everything back, then ends the daemon. VscafError if something could not be put back."""


class ControlServer:
    """Serves the endpoints of `messages` at *path*, from the return of start() until stop().

    *read_group* and *write_group* are group names. Without them only root has access. *metrics* makes the text for
    GET /metrics. UsageError if a group does not exist.
    """

    def __init__(
        self,
        path: Path,
        target: ControlTarget,
        events: EventLog,
        *,
        read_group: str | None = None,
        write_group: str | None = None,
        metrics: Callable[[], bytes] = lambda: b"",
    ) -> None:
        self.path = path
        self._target = target
        self._events = events
        self._metrics = metrics
        self._rules = _access_policy(read_group, write_group)
        self._groups = {Access.READ: read_group or write_group, Access.WRITE: write_group}
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._inode: int | None = None
        self._connections: Counter[Hashable] = Counter()
        self._changing = asyncio.Lock()
        self._listing = asyncio.Lock()
        self._status_json = b""
        self._status_made_at_s = float("-inf")
        self._changes: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Starts to listen. The socket of an earlier daemon is replaced. UsageError if no socket can be made."""
        application = web.Application(client_max_size=BODY_LIMIT_BYTES, middlewares=[self._guarded])
        application.router.add_get("/v1/status", self._status, allow_head=False)
        application.router.add_get("/v1/events", self._follow, allow_head=False)
        application.router.add_get("/v1/decision", self._decision, allow_head=False)
        application.router.add_get("/v1/record", self._recording, allow_head=False)
        application.router.add_post("/v1/record", self._record)
        application.router.add_get("/v1/policies", self._policies, allow_head=False)
        application.router.add_post("/v1/policy", self._set_policy)
        application.router.add_post("/v1/policy/rollback", self._rollback)
        application.router.add_post("/v1/reload", self._reload)
        application.router.add_post("/v1/release", self._release)
        application.router.add_post("/v1/manage", self._manage)
        application.router.add_post("/v1/off", self._off)
        application.router.add_get("/v1/schema", self._schema, allow_head=False)
        application.router.add_get("/metrics", self._metrics_text, allow_head=False)
        # A follower that disconnects ends its handler. A change goes on even if its client disconnects.
        # Bodies are not decompressed: a few bytes must not become very many.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=GRACE_S,
            handler_cancellation=True,
            handle_signals=False,
            auto_decompress=False,
        )
        await self._runner.setup()
        mode, gid = self._rules.socket_mode
        try:
            listening = _listening_socket(self.path, mode, gid)
            self._inode = self.path.stat().st_ino
            self._listener = await asyncio.get_running_loop().create_unix_server(self._connected, sock=listening)
        except OSError as error:
            message = error.strerror or str(error)
            raise UsageError(f"control socket {self.path}: {message}: give another path as control_socket") from error

    def allow(self, read_group: str | None, write_group: str | None) -> None:
        """Uses these groups from the next request on, also for connections that are open. An error changes nothing.

        UsageError if a group does not exist. VscafError if the socket cannot be given to it.
        """
        rules = _access_policy(read_group, write_group)
        if rules.socket_mode != self._rules.socket_mode:
            mode, gid = rules.socket_mode
            try:
                os.chown(self.path, -1, gid)
                self.path.chmod(mode)
            except OSError as error:
                why = error.strerror or str(error)
                raise VscafError(f"control socket {self.path}: {why}: restart the daemon to change groups") from error
        self._rules = rules
        self._groups = {Access.READ: read_group or write_group, Access.WRITE: write_group}

    async def reload(self) -> list[ConfigChange]:
        """Reloads the configuration, after the changes before it. Raises what the target raises."""
        return await self._change(self._target.reload(self.allow))

    async def stop(self) -> None:
        """Ends the server after the answers that are under way, and removes the socket if it is still its own."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._events.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        with contextlib.suppress(FileNotFoundError):
            if self._inode is not None and self.path.stat().st_ino == self._inode:
                self.path.unlink()
        self._inode = None

    def _connected(self) -> asyncio.Protocol:
        assert self._runner is not None and self._runner.server is not None
        return ConnectionLimiter(self._runner.server(), self._admit, self._connections)

    def _admit(self, transport: asyncio.BaseTransport) -> Admission:
        peer = peer_of(transport.get_extra_info("socket"))
        if self._rules.of(peer) is Access.NONE:
            return Admission("strangers", CONNECTIONS_OF_STRANGERS, REFUSED_CONNECTION_S)
        return Admission(peer.uid, CONNECTIONS_OF_A_USER)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Checks the access, then calls the handler. Every refusal is a Failure."""
        if request.transport is None:
            return _failure(400, "the connection is gone")
        peer = _peer(request)
        needed = Access.READ if request.method == "GET" else Access.WRITE
        if self._rules.of(peer) < needed:
            return _failure(403, self._refusal(peer, needed))
        if needed is Access.WRITE:
            log.info("control: %s by uid %d, pid %d", request.raw_path[:200], peer.uid, peer.pid)
        try:
            return await handler(request)
        except UsageError as error:
            return _failure(400, str(error))
        except VscafError as error:
            return _failure(503, str(error))
        except web.HTTPException as error:
            return _failure(error.status, f"{request.method} {request.path}: {error.reason}: GET /v1/schema lists all")

    def _refusal(self, peer: Peer, needed: Access) -> str:
        group = self._groups[needed]
        key = "control_read_group" if needed is Access.READ else "control_write_group"
        hint = f"be root or in group {group}" if group else f"be root, or set {key} in the configuration"
        return f"uid {peer.uid} may not {needed.name.lower()} here: {hint}"

    async def _status(self, request: web.Request) -> web.Response:
        _query(request)
        now_s = clock.now_s()
        if now_s - self._status_made_at_s >= STATUS_KEPT_S:
            self._status_json, self._status_made_at_s = msgspec.json.encode(self._target.status()), now_s
        return web.Response(body=self._status_json, content_type="application/json")

    async def _decision(self, request: web.Request) -> web.Response:
        _query(request)
        return _json(self._target.last_decision())

    async def _recording(self, request: web.Request) -> web.Response:
        _query(request)
        return _json(await self._target.recording())

    async def _record(self, request: web.Request) -> web.Response:
        wanted = await _body(request, RecordRequest)
        return _json(await self._change(self._target.record(wanted.on)))

    async def _policies(self, request: web.Request) -> web.Response:
        _query(request)
        status = self._target.status()
        async with self._listing:  # at most one thread, because the journal's writes use the same threads
            installed = list(await asyncio.to_thread(policy_names))  # reads every installed package's metadata
        current = PolicyChoice(name=status["policy"], options=status["policy_options"])
        return _json(Policies(current=current, previous=status["policy_previous"], installed=installed))

    async def _set_policy(self, request: web.Request) -> web.Response:
        wanted = await _body(request, PolicyRequest)
        await self._change(self._target.set_policy(wanted.name, wanted.options))
        return _json(PolicyChoice(name=wanted.name, options=wanted.options))

    async def _rollback(self, request: web.Request) -> web.Response:
        await _body(request, Nothing)
        return _json(RolledBack(name=await self._change(self._target.rollback_policy())))

    async def _reload(self, request: web.Request) -> web.Response:
        await _body(request, Nothing)
        return _json(Reloaded(changes=await self.reload()))

    async def _release(self, request: web.Request) -> web.Response:
        wanted = await _body(request, DomainRequest)
        return _json(Domains(domains=await self._change(self._target.release(wanted.domain))))

    async def _manage(self, request: web.Request) -> web.Response:
        wanted = await _body(request, DomainRequest)
        return _json(Domains(domains=await self._change(self._target.manage(wanted.domain))))

    async def _off(self, request: web.Request) -> web.Response:
        await _body(request, Nothing)
        # The safety valve does not wait for other changes.
        await self._to_the_end(self._target.off())
        return _json(Nothing())

    async def _schema(self, request: web.Request) -> web.Response:
        _query(request)
        return _json(schema())

    async def _metrics_text(self, request: web.Request) -> web.Response:
        _query(request)
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        peer, query = _peer(request), _query(request, "since", "follow")
        since = query.get("since", "0")
        if not (since.isascii() and since.isdigit() and len(since) < 19):
            raise UsageError(f"since={since}: give the number of an event, 0 or more")
        if query.get("follow", "0") not in ("0", "1"):
            raise UsageError(f"follow={query['follow']}: give 0 or 1")
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        if query.get("follow") == "1":
            async for event in self._events.follow(int(since)):
                if self._rules.of(peer) < Access.READ:
                    break  # a reload has taken the access away
                await response.write(msgspec.json.encode(event) + b"\n")
        else:
            for event in self._events.since(int(since)):
                await response.write(msgspec.json.encode(event) + b"\n")
        await response.write_eof()
        return response

    async def _change(self, work: Awaitable[Body]) -> Body:
        """Does *work* after the changes before it. It runs to its end even if the client disconnects."""

        async def in_turn() -> Body:
            async with self._changing:
                return await work

        return await self._to_the_end(in_turn())

    async def _to_the_end(self, work: Awaitable[Body]) -> Body:
        task = asyncio.ensure_future(work)
        self._changes.add(task)
        task.add_done_callback(self._changed)
        return await asyncio.shield(task)

    def _changed(self, task: asyncio.Task[Any]) -> None:
        self._changes.discard(task)
        self._status_made_at_s = float("-inf")  # so that the next status shows the change


def _access_policy(read_group: str | None, write_group: str | None) -> AccessPolicy:
    """Who may do what. UsageError if a group does not exist."""
    read_gid, write_gid = group_id("control_read_group", read_group), group_id("control_write_group", write_group)
    return AccessPolicy(os.geteuid(), read_gid, write_gid)


def _peer(request: web.Request) -> Peer:
    assert request.transport is not None  # the connection is there
    return peer_of(request.transport.get_extra_info("socket"))


def _listening_socket(path: Path, mode: int, gid: int) -> socket.socket:
    """A socket that listens at *path*, with permissions never wider than *mode*. UsageError if *path* is in use.

    It gets its final name only once it listens, so a client that sees it can connect.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    # In the same directory and no longer, because the length of a socket's path is limited.
    unfinished = path.with_name(path.name[:-1] + ("#" if path.name.endswith("~") else "~"))
    for place in (path, unfinished):
        _remove_dead_socket(place)
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listening.bind(str(unfinished))
        try:
            os.chown(unfinished, -1, gid)
            unfinished.chmod(mode)
            listening.listen()
            unfinished.rename(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


def _remove_dead_socket(path: Path) -> None:
    """Removes the socket of an ended daemon at *path*. UsageError if anything else is there."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise UsageError(f"control socket {path}: it is not a socket: give another path as control_socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
        else:
            raise UsageError(
                f"control socket {path}: another daemon listens there: stop it, or give another as control_socket"
            )


def _query(request: web.Request, *known: str) -> dict[str, str]:
    unknown = sorted(set(request.query) - set(known))
    if unknown or len(request.query) != len(set(request.query)):
        takes = " and ".join(known) if known else "no query"
        raise UsageError(f"{request.path}: the query has {', '.join(unknown) or 'a key twice'}: it takes {takes}")
    return dict(request.query)


async def _body(request: web.Request, kind: type[Body]) -> Body:
    _query(request)
    text = await request.read()
    try:
        return msgspec.json.decode(text or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{request.path}: body: {error}: GET /v1/schema shows what it takes") from error


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _failure(status: int, message: str) -> web.Response:
    return _json(Failure(error=" ".join(message.split())), status)
