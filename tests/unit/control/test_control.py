"""The control API over a real UNIX socket: what it answers, what it refuses, and clients that follow events."""

import asyncio
import gzip
import json
import socket
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import msgspec
import pytest
from control_recorder import Recorder, on_server, raw, serving
from hypothesis import given
from hypothesis import strategies as st
from vscaf.control import server as server_module
from vscaf.control.client import follow, get, get_status, post
from vscaf.control.messages import BODY_LIMIT_BYTES, ENDPOINTS, Status
from vscaf.control.schema import schema, schema_text
from vscaf.errors import UsageError, VscafError
from vscaf.events import EventLog, Kind
from vscaf.lab.polling import HANG_S
from vscaf.lab.polling import soon as until

SCHEMA_FILE = Path(__file__).parents[3] / "host-daemon/schema/control.json"


def test_what_may_be_asked(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        assert await get_status(path) == target.status()
        assert msgspec.convert(await get_status(path), Status).domains[0].name == "a"
        assert (await get(path, "/v1/policies"))["current"] == {"name": "max-speedup", "options": {}}
        assert "equipartition" in (await get(path, "/v1/policies"))["installed"]
        assert await get(path, "/v1/schema") == json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
        assert await get(path, "/v1/decision") == {"lines": None, "changes": {}}
        assert (await get(path, "/v1/record"))["since"] is None
        assert await get(path, "/metrics") == "vscaf_up 1\n"
        events.record(Kind.STARTED, None)
        events.record("state", "a", before="growing", after="cooperating", why="it acknowledged")
        (event,) = await get(path, "/v1/events?since=1")
        assert (event["number"], event["from"], event["to"]) == (2, "growing", "cooperating")

    on_server(directory, work)


def test_what_may_be_told(directory: Path) -> None:
    async def work(path: Path, target: Recorder, _: EventLog) -> None:
        chosen = {"name": "static", "options": {"allocations": {"a": 2}}}
        assert await post(path, "/v1/policy", chosen) == chosen
        assert (await get(path, "/v1/policies"))["previous"] == "max-speedup"
        assert await post(path, "/v1/policy/rollback") == {"name": "max-speedup"}
        changes = [{"key": "pool", "from": "0-3", "to": "0-5"}, {"key": "rest", "from": "keep", "to": None}]
        assert await post(path, "/v1/reload") == {"changes": changes}
        assert await post(path, "/v1/release", {"domain": None}) == {"domains": ["a", "b"]}
        assert await post(path, "/v1/release", {"domain": "a"}) == {"domains": ["a"]}
        assert await post(path, "/v1/manage", {"domain": "a"}) == {"domains": []}
        assert (await post(path, "/v1/record", {"on": True}))["since"] is not None
        assert await post(path, "/v1/off") == {}
        released = [("release", None), ("release", "a")]
        assert target.requests == [("reload",), *released, ("manage", "a"), ("record", True), ("off",)]

    on_server(directory, work)


def test_the_status_is_made_once_for_all_who_ask_at_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(server_module.clock, "now_s", lambda: now_s[0])

    async def work(path: Path, target: Recorder, _: EventLog) -> None:
        made = 0
        status = target.status

        def counted() -> dict[str, Any]:
            nonlocal made
            made += 1
            return status()

        target.status = counted  # type: ignore[method-assign]
        for _ in range(20):
            await get_status(path)
        assert made == 1
        now_s[0] += server_module.STATUS_KEPT_S
        await get_status(path)
        assert made == 2
        await post(path, "/v1/policy", {"name": "equipartition"})
        assert (await get_status(path))["policy"] == "equipartition", "a change is not seen at once"

    on_server(directory, work)


def test_every_answer_is_what_the_schema_says(directory: Path) -> None:
    async def work(path: Path, _: Recorder, events: EventLog) -> None:
        events.record(Kind.ALLOCATION, "a", before="0", after="0-1", why="it computes", gain=0.5)
        await post(path, "/v1/policy", {"name": "equipartition"})
        bodies = {"/v1/policy": {"name": "static", "options": {}}, "/v1/release": {"domain": None}}
        bodies["/v1/manage"] = bodies["/v1/release"]
        bodies["/v1/record"] = {"on": True}
        described = schema()
        for endpoint in described["endpoints"]:
            body = bodies.get(endpoint["path"], {})
            if endpoint["method"] == "POST":
                jsonschema.validate(body, {**endpoint["body"], "$defs": described["$defs"]})
                answers = [await post(path, endpoint["path"], body)]
            else:
                answer = await get(path, endpoint["path"])
                answers = answer if endpoint["format"] == "JSON lines" else [answer]
            assert answers
            for answer in answers if endpoint["answer"] else []:
                jsonschema.validate(answer, {**endpoint["answer"], "$defs": described["$defs"]})

    on_server(directory, work)


def test_the_schema_in_the_repository_is_what_the_code_makes() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), (
        "make it again: python -c 'from vscaf.control.schema import schema_text; print(schema_text(), end=str())'"
    )
    assert [(one["method"], one["path"]) for one in schema()["endpoints"]] == [(e.method, e.path) for e in ENDPOINTS]


BAD = {
    "no such thing": ("GET", "/v1/nothing", b"", 404, ["/v1/nothing", "/v1/schema"]),
    "not this way": ("GET", "/v1/off", b"", 405, ["/v1/off", "/v1/schema"]),
    "no JSON": ("POST", "/v1/release", b"{", 400, ["/v1/release", "body"]),
    "not even text": ("POST", "/v1/release", b'{"domain": "\xff"}', 400, ["body"]),
    "a field too many": ("POST", "/v1/release", b'{"domain": "a", "force": true}', 400, ["force"]),
    "a field too few": ("POST", "/v1/release", b"", 400, ["domain"]),
    "a number for a name": ("POST", "/v1/policy", b'{"name": 1}', 400, ["name", "str"]),
    "no options": ("POST", "/v1/policy", b'{"name": "x", "options": []}', 400, ["options"]),
    "deep": ("POST", "/v1/policy", b'{"name": "x", "options": ' + b"[" * 30000, 400, ["body"]),
    "words where none go": ("POST", "/v1/off", b'{"now": true}', 400, ["now"]),
    "large": ("POST", "/v1/release", b" " * (BODY_LIMIT_BYTES + 1), 413, ["/v1/release"]),
    "a query": ("POST", "/v1/off?force=1", b"", 400, ["force", "no query"]),
    "another query": ("GET", "/v1/status?since=1", b"", 400, ["since", "no query"]),
    "since what": ("GET", "/v1/events?since=-1", b"", 400, ["since=-1", "0 or more"]),
    "since twice": ("GET", "/v1/events?since=1&since=2", b"", 400, ["twice"]),
    "since when": ("GET", "/v1/events?since=" + "9" * 4000, b"", 400, ["since"]),
    "follow what": ("GET", "/v1/events?follow=yes", b"", 400, ["follow=yes", "0 or 1"]),
    "a policy that is refused": ("POST", "/v1/policy", b'{"name": "best"}', 400, ["best", "choose another"]),
    "nothing before": ("POST", "/v1/policy/rollback", b"", 400, ["no policy before"]),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_in_one_line_of_words(case: str, directory: Path) -> None:
    method, what, body, status, expected = BAD[case]

    async def work(path: Path, target: Recorder, _: EventLog) -> None:
        got, answer = await raw(path, method, what, body)
        assert got == status, answer
        assert set(answer) == {"error"} and "\n" not in answer["error"]
        for word in expected:
            assert word in answer["error"]
        assert target.requests == [] and len(target.policies) == 1
        assert (await raw(path, "GET", "/v1/status"))[0] == 200

    on_server(directory, work)


def test_a_body_is_not_unfolded(directory: Path) -> None:
    """A compressed body is not decompressed. A megabyte in a thousand bytes is a bad body of a thousand bytes."""

    async def work(path: Path, _: Recorder, __: EventLog) -> None:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
            session.post(
                "http://vscaf/v1/release",
                data=gzip.compress(b'{"domain": "a"}' + b" " * 1_000_000),
                headers={"Content-Encoding": "gzip"},
            ) as response,
        ):
            assert response.status == 400
            assert "body" in (await response.json())["error"]

    on_server(directory, work)


@given(st.binary(max_size=200))
def test_no_body_gets_past_the_types(body: bytes) -> None:
    """Whatever is sent, it is decoded as the type or refused; nothing else is raised."""
    try:
        decoded = msgspec.json.decode(body, type=server_module.DomainRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    assert decoded.domain is None or 1 <= len(decoded.domain) <= 1024


def test_what_could_not_be_done_is_told_from_what_is_refused(directory: Path) -> None:
    async def work(path: Path, _: Recorder, __: EventLog) -> None:
        await post(path, "/v1/release", {"domain": "b"})
        assert (await raw(path, "POST", "/v1/off"))[0] == 503
        with pytest.raises(VscafError, match="could not be put back") as failed:
            await post(path, "/v1/off")
        assert not isinstance(failed.value, UsageError)
        with pytest.raises(UsageError, match="choose another"):
            await post(path, "/v1/policy", {"name": "best"})

    on_server(directory, work)


def test_off_waits_for_no_other_change_and_changes_wait_for_each_other(directory: Path) -> None:
    async def work(path: Path, target: Recorder, _: EventLog) -> None:
        target.go_on.clear()
        first = asyncio.create_task(post(path, "/v1/policy", {"name": "static"}))
        await until(lambda: target.waiting)
        second = asyncio.create_task(post(path, "/v1/release", {"domain": "a"}))
        await post(path, "/v1/off")
        assert target.requests == [("off",)] and not second.done()
        target.go_on.set()
        await asyncio.gather(first, second)
        assert target.requests == [("off",), ("release", "a")]

    on_server(directory, work)


def test_a_change_goes_on_when_who_asked_for_it_is_gone(directory: Path) -> None:
    async def main() -> None:
        async with serving(directory / "s") as (server, target, _):
            target.go_on.clear()
            asked = asyncio.create_task(post(directory / "s", "/v1/policy", {"name": "static"}))
            await until(lambda: target.waiting)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            await until(lambda: not server._connections, "the server to have noticed")
            target.go_on.set()
            await until(lambda: target.policies[-1][0] == "static")

    asyncio.run(main())


def test_a_follower_gets_each_event_as_it_comes_and_the_end(directory: Path) -> None:
    async def main() -> None:
        got: list[int] = []

        async def read() -> None:
            async for event in follow(directory / "s", 0):
                got.append(event["number"])

        async with serving(directory / "s") as (_, __, events), asyncio.timeout(HANG_S):
            events.record(Kind.STARTED, None)
            reader = asyncio.create_task(read())
            for number in range(1, 6):
                await until(lambda number=number: len(got) >= number)  # type: ignore[misc]
                events.record("state", "a")
        async with asyncio.timeout(HANG_S):
            await reader
        assert got == [1, 2, 3, 4, 5, 6]

    asyncio.run(main())


@pytest.mark.slow
def test_a_follower_that_never_reads_is_waited_for_at_no_cost(directory: Path) -> None:
    """When its socket is full, the server sends it no more, serves others, and can still end."""

    async def main() -> None:
        async with serving(directory / "s") as (_, __, events):
            deaf = socket.socket(socket.AF_UNIX)
            deaf.connect(str(directory / "s"))
            deaf.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: vscaf\r\n\r\n")
            for _round in range(50):
                for _ in range(100):
                    events.record("state", "a", why="w" * 400)
                await asyncio.sleep(0)
            assert (await get_status(directory / "s"))["policy"] == "max-speedup"
            assert len(events._ring) == 100
        deaf.close()

    asyncio.run(main())


def test_a_follower_that_goes_leaves_nothing(directory: Path) -> None:
    async def main() -> None:
        async with serving(directory / "s") as (server, _, __), asyncio.timeout(HANG_S):
            before = len(asyncio.all_tasks())
            for _round in range(100):  # more connections than one user may have at once
                with socket.socket(socket.AF_UNIX) as one:
                    one.connect(str(directory / "s"))
                    one.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: vscaf\r\n\r\n")
                    one.setblocking(False)
                    await asyncio.get_running_loop().sock_recv(one, 1)
            await until(lambda: not server._connections and len(asyncio.all_tasks()) <= before)

    asyncio.run(main())
