"""The agent link over a real UNIX socket, against guests that behave and guests that do not."""

import asyncio
import errno
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vscaf import clock
from vscaf.agentlink import hub as hubs
from vscaf.agentlink import link as links
from vscaf.agentlink import messages
from vscaf.agentlink.hub import AgentHub
from vscaf.agentlink.link import CONNECTED, STALE, AgentLink
from vscaf.lab.polling import soon as until

MIB = 1024 * 1024
HELLO = {
    "v": 1,
    "type": "hello",
    "agent": "stand-in",
    "boot_id": "x",
    "cpus": {"possible": 2, "present": 2, "online": [0, 1]},
    "capabilities": [],
}
REPORT = {"v": 1, "type": "report", "sequence": 0, "online": [0, 1], "demand": 2, "busy": 1.5, "processes": []}
Guest = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def send(writer: asyncio.StreamWriter, *items: Any) -> None:
    for item in items:
        writer.write(item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n")


@asynccontextmanager
async def linked(path: Path, guest: Guest, hub: AgentHub | None = None) -> AsyncIterator[AgentLink]:
    server = await asyncio.start_unix_server(guest, path)
    link = AgentLink("a", path, lambda: None, hub)
    link.start()
    try:
        yield link
    finally:
        await link.stop()
        server.close()


def links_turn_bound(flooding: int) -> float:
    """The most work in one turn: its own limit, plus the one read and one line by which the last link may exceed it."""
    one = hubs.WORK_A_LINK + links.READ_BYTES / links.BYTES_OF_WORK + 1
    return min(flooding * one, hubs.WORK_A_TURN + one)


def most_bytes(seconds: float) -> float:
    """The most bytes that a flood can send in this time: the burst, the rate since then, and what the sockets hold."""
    return (links.WORK_AT_ONCE + seconds * links.WORK_PER_SECOND) * links.BYTES_OF_WORK + MIB


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    assert await reader.readline() == b"\n"  # ends a partial line that an earlier daemon may have left
    while line := await reader.readline():
        message = messages.decode_from_host(line)
        if isinstance(message, messages.HostHello):
            send(writer, HELLO, REPORT)
        elif isinstance(message, messages.Allocate):
            online = list(range(message.cpus))
            send(
                writer, {"v": 1, "type": "ack", "sequence": message.sequence, "online": online, "sections_ended": True}
            )


def allocate(sequence: int, cpus: int) -> messages.Allocate:
    return messages.Allocate(sequence=sequence, cpus=cpus, limit=2, competition=False, deadline_ms=100)


class Broken(socket.socket):
    """A socket that connects, and then cannot send."""

    def send(self, *_given: object) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_channel_that_breaks_at_the_first_send_leaves_no_timer_after_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_unix_server(answering, tmp_path / "s")
        timers, call_later = list[asyncio.TimerHandle](), loop.call_later

        def noted(delay_s: float, work: Callable[[], None]) -> asyncio.TimerHandle:
            timers.append(call_later(delay_s, work))
            return timers[-1]

        monkeypatch.setattr(loop, "call_later", noted)
        monkeypatch.setattr(links, "socket", SimpleNamespace(**{**vars(socket), "socket": Broken}))
        link = AgentLink("a", tmp_path / "s", lambda: None)
        link.start()
        assert link.condition == "not reachable: Broken pipe" and [one.cancelled() for one in timers] == [False]
        await link.stop()
        assert [one.cancelled() for one in timers] == [True]
        server.close()

    asyncio.run(work())


def test_hello_report_allocate_ack(tmp_path: Path) -> None:
    async def work() -> None:
        async with linked(tmp_path / "s", answering) as link:
            await until(lambda: link.report is not None)
            assert link.connected and link.online == (0, 1)
            assert link.agent_version == HELLO["agent"]
            assert link.send(allocate(1, 1))
            await until(lambda: link.acknowledged == 1)
            assert link.online == (0,)

    asyncio.run(work())


def test_a_quiet_agent_owes_a_report_only_after_an_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    greeted: list[messages.HostHello] = []
    writers: list[asyncio.StreamWriter] = []

    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readline()
        while line := await reader.readline():
            message = messages.decode_from_host(line)
            if isinstance(message, messages.HostHello):
                greeted.append(message)
                send(writer, HELLO, {**REPORT, "quiet": True})

    async def work() -> None:
        async with linked(tmp_path / "s", quiet) as link:
            await until(lambda: link.report is not None)
            assert greeted[0].capabilities == ["quiet", "sparse"]
            later_s = clock.now_s() + 3600.0
            monkeypatch.setattr(clock, "now_s", lambda: later_s)
            assert link.quiet and link.age_s() == 0.0 and link.condition == CONNECTED
            assert link.send(allocate(1, 1))
            assert not link.quiet and link.age_s() == 0.0 and link.condition == CONNECTED, "it gets time to answer"
            monkeypatch.setattr(clock, "now_s", lambda: later_s + 10.0)
            assert link.send(allocate(1, 1))
            assert link.age_s() == 10.0 and link.condition == STALE, "to be told again is no excuse"
            send(writers[0], {**REPORT, "sequence": 1, "demand": 0})
            await until(lambda: link.acknowledged == 1)
            assert not link.quiet and link.condition == CONNECTED
            send(writers[0], {**REPORT, "sequence": 1, "demand": 0, "quiet": True})
            await until(lambda: link.quiet)
            send(writers[0], HELLO)
            await until(lambda: link.generation == 2)
            assert not link.quiet, "another agent may be there now"

    asyncio.run(work())


def test_garbage_is_counted_and_ignored(tmp_path: Path) -> None:
    async def garbling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        send(writer, b"cut off from before\n", HELLO, b"garbage\n", b"\xff" * 200_000 + b"\n", {"v": 1}, REPORT)
        await reader.read()

    async def work() -> None:
        async with linked(tmp_path / "s", garbling) as link:
            await until(lambda: link.report is not None)
            # The first line may be the end of a line sent before the channel was opened. So it does not count as bad.
            assert link.bad_lines == 3

    asyncio.run(work())


def test_other_version_is_answered_with_words(tmp_path: Path) -> None:
    answers: list[messages.FromHost] = []

    async def newer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        send(writer, {**HELLO, "v": 2})
        await reader.readline()
        while line := await reader.readline():
            answers.append(messages.decode_from_host(line))

    async def work() -> None:
        async with linked(tmp_path / "s", newer) as link:
            await until(lambda: any(isinstance(one, messages.WireError) for one in answers))
            assert not link.connected

    asyncio.run(work())
    assert any(isinstance(one, messages.WireError) and "version 1, not 2" in one.message for one in answers)


def test_flood_neither_grows_nor_blocks(tmp_path: Path) -> None:
    sent, line = 0, json.dumps(REPORT).encode() + b"\n"

    async def flooding(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        send(writer, HELLO)
        while not writer.is_closing():
            writer.write(line * 100)
            sent += 100
            await writer.drain()

    async def work() -> None:
        begun_s, hub = clock.now_s(), AgentHub()
        async with linked(tmp_path / "s", flooding, hub) as link:
            await until(lambda: link.report is not None)
            turns = []
            while len(turns) < 50:
                turns.append(hub.turns)
                await asyncio.sleep(0)
            # Other tasks of the loop run between any two turns of the hub, and each turn is bounded.
            assert all(after - before <= 1 for before, after in pairwise(turns))
            assert hub.most_work <= links_turn_bound(1)
            await until(lambda: link.throttled >= 2)
            assert sent * len(line) <= most_bytes(clock.now_s() - begun_s)  # the rest waits in the guest

    asyncio.run(work())


def test_guest_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    connections = 0

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        send(writer, HELLO)
        await asyncio.sleep(60)

    async def work() -> None:
        async with linked(tmp_path / "s", deaf) as link:
            await until(lambda: link.connected)
            for sequence in range(20_000):
                if not link.send(allocate(sequence, 1)):
                    break
            else:
                raise AssertionError("took everything")
            await until(lambda: connections == 2)

    asyncio.run(work())


def test_comes_back_when_the_guest_does(tmp_path: Path) -> None:
    generations: list[int] = []
    seen = asyncio.Event()

    async def leaving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        send(writer, HELLO, REPORT)
        generations.append(len(generations))
        if len(generations) == 1:
            await seen.wait()
            writer.close()
        else:
            await reader.read()

    async def work() -> None:
        async with linked(tmp_path / "s", leaving) as link:
            await until(lambda: link.connected)
            seen.set()
            await until(lambda: not link.connected)
            assert link.report is None and link.online is None
            await until(lambda: link.connected and link.generation == 2)

    asyncio.run(work())
