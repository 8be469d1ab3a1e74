"""The ring of events: what it keeps, what it drops, and what clients that follow it get."""

import asyncio
import json
import logging
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.events import Event, EventLog, Kind
from vscaf.lab.polling import HANG_S


def noon() -> datetime:
    return datetime(2026, 11, 22, 12, 0, 0, 250_000, UTC)


def test_an_event_as_json_and_as_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    events = EventLog(now=noon)
    with caplog.at_level(logging.INFO, logger="vscaf.events"):
        event = events.record(Kind.ALLOCATION, "a", before="0-3", after="0-1", why="b computes now", gain=0.25)
    assert json.loads(msgspec.json.encode(event)) == {
        "number": 1,
        "time": "2026-11-22T12:00:00.250Z",
        "kind": "allocation",
        "domain": "a",
        "from": "0-3",
        "to": "0-1",
        "why": "b computes now",
        "fields": {"gain": 0.25},
    }
    line = 'event=allocation number=1 domain=a from=0-3 to=0-1 gain=0.25 why="b computes now"'
    assert [record.getMessage() for record in caplog.records] == [line]
    assert events.counts == {"allocation": 1}


@pytest.mark.parametrize(("kind", "level"), [("unknown", "WARNING"), (Kind.FOREIGN, "WARNING"), ("allocation", "INFO")])
def test_what_somebody_should_look_at_is_a_warning(kind: str, level: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="vscaf.events"):
        EventLog().record(kind, None)
    assert [record.levelname for record in caplog.records] == [level]


def test_what_is_no_scalar_is_text_and_what_json_cannot_say_is_null() -> None:
    event = EventLog().record(
        "state",
        None,
        before=frozenset({3, 1}),
        after=[0, 2],
        nan=float("nan"),
        yes=True,
        thing=Kind.GONE,
        half="\ud800",
    )
    assert (event.before, event.after) == ("1,3", "0,2")
    assert event.fields == {"nan": None, "yes": True, "thing": "gone", "half": "?"}
    msgspec.json.encode(event)


def test_a_guest_can_neither_grow_the_log_nor_write_a_line_of_it() -> None:
    events = EventLog(capacity=10)
    for _ in range(30):
        event = events.record(
            "x" * 9000, "a\nevent=fake", why="w" * 100_000, **{f"Key {n}\n": "v" * 9000 for n in range(100)}
        )
    assert len(events.since(0)) == 11  # the ten that are kept, and one that says that others are lost
    assert len(msgspec.json.encode(event)) < 16_000
    assert "\n" not in event.line() and '"a\\nevent=fake"' in event.line()
    for number in range(500):
        events.record(f"kind{number}", None)
    assert len(events.counts) <= 65 and sum(events.counts.values()) == 530


@given(st.integers(1, 8), st.integers(0, 30), st.integers(-3, 40))
def test_since_is_complete_or_says_what_is_lost(capacity: int, recorded: int, number: int) -> None:
    events = EventLog(capacity)
    for _ in range(recorded):
        events.record("state", None)
    got = events.since(number)
    from_number = number if 0 <= number <= recorded else 0
    lost = [event for event in got if event.kind == Kind.LOST]
    kept = [event.number for event in got if event.kind != Kind.LOST]
    assert kept == list(range(max(from_number, recorded - capacity) + 1, recorded + 1))
    assert sum(int(event.fields["count"] or 0) for event in lost) + len(kept) == recorded - from_number
    assert all(event is got[0] for event in lost)


def test_followers_get_what_was_and_what_comes_until_the_end() -> None:
    async def work() -> None:
        events = EventLog()
        events.record("started", None)

        async def read() -> list[Event]:
            return [event async for event in events.follow(0)]

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for count in range(5):
            await asyncio.sleep(0)
            events.record("state", "a", after=count)
        events.close()
        for reader in readers:
            async with asyncio.timeout(HANG_S):
                got = await reader
            assert [event.number for event in got] == [1, 2, 3, 4, 5, 6]

    asyncio.run(work())


def test_a_follower_that_does_not_read_holds_nothing_and_is_told_what_it_missed() -> None:
    async def work() -> None:
        events = EventLog(capacity=4)
        events.record("started", None)
        follower = events.follow(0)
        assert (await anext(follower)).number == 1
        for _ in range(100):
            events.record("state", None)
        missed = await anext(follower)
        assert (missed.kind, missed.number, missed.fields["count"]) == (Kind.LOST, 97, 96)
        assert [(await anext(follower)).number for _ in range(4)] == [98, 99, 100, 101]

    asyncio.run(work())


def test_a_number_of_an_earlier_daemon_starts_over() -> None:
    async def work() -> None:
        events = EventLog()
        events.record("started", None)
        assert [event.number for event in events.since(812)] == [1]
        assert (await anext(events.follow(812))).number == 1

    asyncio.run(work())
