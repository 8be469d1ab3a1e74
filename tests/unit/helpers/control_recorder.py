"""A stand-in for the daemon, for tests of the control API, and a server in front of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from vscaf.control.messages import ConfigChange, DomainStatus, LastDecision, Recording, Status
from vscaf.control.server import ControlServer
from vscaf.errors import UsageError, VscafError
from vscaf.events import EventLog
from vscaf.lab.polling import HANG_S


class Recorder:
    """A stand-in for a daemon with two domains. It notes each call. `groups`: those of the file that reload() reads."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.waiting = False
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.groups: tuple[str | None, str | None] = (None, None)
        self.policies: list[tuple[str, dict[str, Any]]] = [("max-speedup", {})]

    def status(self) -> dict[str, Any]:
        name, options = self.policies[-1]
        shown = Status(
            configured_at="2026-01-01T00:00:00.000Z",
            policy=name,
            policy_options=options,
            policy_previous=self.policies[-2][0] if len(self.policies) > 1 else None,
            weights_count=False,
            pool="0-3",
            reserve="",
            managing=True,
            unknown=False,
            transitions=7,
            transition_s=0.1,
            exploring=[],
            exploration_cost=0.0,
            exploration_lost_s=0.0,
            optimum_speedup=3.5,
            lost_speedup=None,
            violations=[],
            domains=[DomainStatus(name="a", state="cooperating", partition="0-1", allocation=2)],
        )
        builtins: dict[str, Any] = msgspec.to_builtins(shown)
        return builtins

    def last_decision(self) -> LastDecision:
        return LastDecision(lines=None, changes={})

    async def recording(self) -> Recording:
        since = "2026-01-01T00:00:00.000Z" if ("record", True) in self.requests else None
        return Recording(since=since, failed="", directory="/d", files=0, bytes=0, most_bytes=100_000_000)

    async def record(self, on: bool) -> Recording:
        self.requests.append(("record", on))
        return await self.recording()

    async def set_policy(self, name: str, options: Mapping[str, object]) -> None:
        self.waiting = True
        await self.go_on.wait()
        if name == "best":
            raise UsageError("no policy is named 'best':\nchoose another")
        self.policies.append((name, dict(options)))

    async def rollback_policy(self) -> str:
        if len(self.policies) == 1:
            raise UsageError("there is no policy before max-speedup")
        self.policies.pop()
        return self.policies[-1][0]

    async def reload(self, allow: Callable[[str | None, str | None], None]) -> list[ConfigChange]:
        allow(*self.groups)
        self.requests.append(("reload",))
        return [
            ConfigChange(key="pool", before="0-3", after="0-5"),
            ConfigChange(key="rest", before="keep", after=None),
        ]

    async def release(self, domain: str | None) -> list[str]:
        self.requests.append(("release", domain))
        return ["a", "b"] if domain is None else [domain]

    async def manage(self, domain: str | None) -> list[str]:
        self.requests.append(("manage", domain))
        return []

    async def off(self) -> None:
        self.requests.append(("off",))
        if "b" in {one[-1] for one in self.requests}:
            raise VscafError("domain b could not be put back: see the log")


def mode_of(path: Path) -> int:
    """The permission bits of *path*."""
    return path.stat().st_mode & 0o777


def group_of(path: Path) -> int:
    """The group of *path*."""
    return path.stat().st_gid


@asynccontextmanager
async def serving(path: Path, **groups: str | None) -> AsyncIterator[tuple[ControlServer, Recorder, EventLog]]:
    target, events = Recorder(), EventLog(capacity=100)
    server = ControlServer(path, target, events, metrics=lambda: b"vscaf_up 1\n", **groups)  # type: ignore[arg-type]
    await server.start()
    try:
        yield server, target, events
    finally:
        async with asyncio.timeout(HANG_S):
            await server.stop()


def on_server(
    directory: Path, work: Callable[[Path, Recorder, EventLog], Awaitable[None]], **groups: str | None
) -> None:
    async def main() -> None:
        async with serving(directory / "s", **groups) as (_, target, events), asyncio.timeout(HANG_S):
            await work(directory / "s", target, events)

    asyncio.run(main())


async def raw(path: Path, method: str, what: str, body: bytes = b"") -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
        session.request(method, f"http://vscaf{what}", data=body) as response,
    ):
        text = await response.read()
        return response.status, msgspec.json.decode(text) if response.content_type == "application/json" else text
