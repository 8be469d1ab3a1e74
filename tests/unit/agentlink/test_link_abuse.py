"""Guests that flood, send slowly, lie or send garbage cost the daemon bounded work. Work is counted, not time."""

import asyncio
import contextlib
import json
import math
import os
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_link import HELLO, MIB, REPORT, allocate, links_turn_bound, most_bytes
from vscaf import clock
from vscaf.agentlink import hub as hubs
from vscaf.agentlink import link as links
from vscaf.agentlink import messages
from vscaf.agentlink.hub import AgentHub
from vscaf.agentlink.link import CONNECTED, NO_ANSWER, NO_CHANNEL, NOT_READING, STALE, AgentLink, condition_of
from vscaf.lab.polling import HANG_S
from vscaf.lab.polling import soon as until


def line(saying: dict[str, Any]) -> bytes:
    return json.dumps(saying).encode() + b"\n"


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A channel as QEMU has it: a connection is accepted, whether or not an agent in the guest uses the channel."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(4)
    server.settimeout(HANG_S)
    try:
        yield server
    finally:
        server.close()
        path.unlink(missing_ok=True)


class News:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


async def spoken(path: Path, *lines: bytes, hub: AgentHub | None = None) -> tuple[AgentLink, socket.socket, News]:
    """A link, the guest's end of it, which has sent hello and *lines*, and the link's news."""
    news = News()
    with listening(path) as server:
        link = AgentLink("a", path, news, hub)
        link.start()
        guest = server.accept()[0]
    guest.setblocking(False)
    guest.sendall(line(HELLO) + b"".join(lines))
    await until(lambda: link.connected)
    return link, guest, news


def flood(guest: socket.socket, data: bytes, stop: threading.Event, total: int | None = None) -> int:
    """Sends *data* again and again, until *stop* or *total* bytes. Returns the number of bytes that went out."""
    guest.settimeout(0.1)
    sent = 0
    while not stop.is_set() and (total is None or sent < total):
        try:
            sent += guest.send(data)
        except TimeoutError:
            continue
        except OSError:
            break
    return sent


FLOODS = [
    line(REPORT) * 500,
    b"\n" * 65536,
    b"x\n" * 32768,
    b"x" * 65536,
    (json.dumps({**REPORT, "unknown": ["y" * 100] * 500}).encode() + b"\n") * 4,
    line(HELLO) * 500,
    line({**HELLO, "v": 2}) * 500,
    (b'{"v":1,"type":"report","a":' + b"[" * 5000 + b"\n") * 20,
    line({"v": 1, "type": "error", "message": "no\nmessage"}) * 500,
    line({"v": 1, "type": "ack", "sequence": 2**63 - 1, "online": [0], "sections_ended": True}) * 500,
]


@pytest.mark.parametrize("data", FLOODS, ids=range(len(FLOODS)))
def test_a_flood_takes_bounded_work_and_waits_in_the_guest(tmp_path: Path, data: bytes) -> None:
    async def work() -> None:
        begun_s, hub = clock.now_s(), AgentHub()
        link, guest, _ = await spoken(tmp_path / "s", hub=hub)
        stop = threading.Event()
        sending = asyncio.get_running_loop().run_in_executor(None, flood, guest, data, stop)
        try:
            await until(lambda: link.throttled >= 2)
        finally:
            stop.set()
        sent = await sending
        assert sent <= most_bytes(clock.now_s() - begun_s)
        assert hub.most_work <= links_turn_bound(1)
        assert link.paused or link.throttled
        await link.stop()
        guest.close()

    asyncio.run(work())


def test_twenty_floods_leave_the_twenty_first_guest_and_the_loop_alone(tmp_path: Path) -> None:
    async def work() -> None:
        hub = AgentHub()
        loop = asyncio.get_running_loop()
        crowd = [await spoken(tmp_path / f"s{number}", hub=hub) for number in range(20)]
        honest, guest, _ = await spoken(tmp_path / "honest", line(REPORT), hub=hub)
        await until(lambda: honest.report is not None)
        stop = threading.Event()
        sending = [
            threading.Thread(target=flood, args=(one, FLOODS[number % len(FLOODS)], stop))
            for number, (_, one, _) in enumerate(crowd)
        ]
        for thread in sending:
            thread.start()
        try:
            await until(lambda: sum(link.throttled for link, _, _ in crowd) >= 20)
            # A report of the honest guest in the middle of the floods is read within two turns, however long they take.
            for demand in (1, 2, 1, 2):
                before = hub.turns
                guest.sendall(line({**REPORT, "demand": demand}))
                await until(lambda demand=demand: honest.report.demand == demand)
                assert hub.turns <= before + 3
            # Other tasks of the loop run between any two turns of the hub.
            turns = []
            for _ in range(20):
                turns.append(hub.turns)
                await asyncio.sleep(0)
            assert all(after - before <= 1 for before, after in pairwise(turns))
            assert hub.most_work <= links_turn_bound(21)
        finally:
            stop.set()
            for thread in sending:
                await loop.run_in_executor(None, thread.join)
            for link, one, _ in [*crowd, (honest, guest, None)]:
                await link.stop()
                one.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("data", "total"),
    [
        (b"x" * 65536, 100 * MIB),
        (json.dumps({**REPORT, "unknown": "y" * 60_000}).encode() + b"\n", 100 * MIB),
        (line(REPORT) * 100, 4 * MIB),
        (b"\n" * 65536, MIB // 4),
    ],
    ids=["no line", "long lines", "reports", "empty lines"],
)
def test_a_hundred_megabytes_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, total: int
) -> None:
    # So that all bytes are read before the test times out.
    monkeypatch.setattr(links, "WORK_PER_SECOND", 1e9)
    monkeypatch.setattr(hubs, "HOLD_OFF_MOST_S", 0.0)
    monkeypatch.setattr(hubs, "WORK_A_LINK", 1000.0)

    async def work() -> None:
        link, guest, _ = await spoken(tmp_path / "s")
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, flood, guest, data, stop, MIB // 8) > 0
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        sent = await loop.run_in_executor(None, flood, guest, data, stop, total)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sent >= total
        assert peak - before < MIB
        await link.stop()
        guest.close()

    asyncio.run(work())


def test_slow_loris_is_no_bad_line_and_no_work(tmp_path: Path) -> None:
    async def work() -> None:
        hub = AgentHub()
        link, guest, _ = await spoken(tmp_path / "s", hub=hub)
        for byte in line({**REPORT, "demand": 1}):
            guest.sendall(bytes([byte]))
            await asyncio.sleep(0.001)
        await until(lambda: link.report is not None)
        assert link.report is not None and link.report.demand == 1
        assert link.bad_lines == 0
        await link.stop()
        guest.close()

    asyncio.run(work())


def test_lines_up_to_the_limit_are_read_and_the_next_longer_ones_are_not(tmp_path: Path) -> None:
    def padded(length: int) -> bytes:
        bare = json.dumps({**REPORT, "demand": 1, "padding": ""}).encode()
        return bare.replace(b'"padding": ""', b'"padding": "' + b"p" * (length - len(bare)) + b'"')

    async def work() -> None:
        link, guest, _ = await spoken(tmp_path / "s")
        guest.setblocking(True)
        guest.sendall(padded(messages.LINE_LIMIT_BYTES - 1) + b"\n")
        await until(lambda: link.report is not None)
        assert link.bad_lines == 0
        guest.sendall(padded(messages.LINE_LIMIT_BYTES) + b"\n" + line(REPORT))
        await until(lambda: link.report is not None and link.report.demand == 2)
        assert link.bad_lines == 1
        await link.stop()
        guest.close()

    asyncio.run(work())


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=300) | st.sampled_from([line(REPORT), line(HELLO), b'{"v":1', b"\n"]), max_size=12))
def test_any_bytes_leave_a_link_that_still_works(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    async def work() -> None:
        link, guest, _ = await spoken(tmp_path_factory.mktemp("garbage") / "s")
        for piece in pieces:
            guest.sendall(piece)
        guest.sendall(b"\n" + line({**REPORT, "demand": 1, "busy": 0.125}))
        await until(lambda: link.report is not None and link.report.busy == 0.125)
        assert link.connected
        await link.stop()
        guest.close()

    asyncio.run(work())


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1", b"1e300", b"9" * 400])
@pytest.mark.parametrize("field", ["busy", "speedup", "standard_error"])
def test_figures_that_are_none_are_refused(field: str, number: bytes) -> None:
    point = {"p": 2, "speedup": 1.5, "standard_error": 0.1, "samples": 3}
    process = {"pid": 1, "name": "x", "team": 1, "malleable": "full", "running": True, "points": [point]}
    good = json.dumps({**REPORT, "processes": [process]}).encode()
    assert isinstance(messages.decode_from_guest(good), messages.Report)
    bad = good.replace(json.dumps({field: {**REPORT, **point}[field]}).encode()[1:-1], f'"{field}": '.encode() + number)
    assert bad != good
    with pytest.raises(messages.BadLine):
        messages.decode_from_guest(bad)


def test_news_of_a_guest_that_flaps_is_limited_and_its_last_word_is_there(tmp_path: Path) -> None:
    async def work() -> None:
        begun_s = clock.now_s()
        link, guest, news = await spoken(tmp_path / "s")
        await until(lambda: news.count == 1)
        flaps = b"".join(line({**REPORT, "demand": number % 2}) for number in range(150))
        guest.sendall(flaps + line({**REPORT, "demand": 7}))
        await until(lambda: link.report is not None and link.report.demand == 7)
        allowed = links.NEWS_AT_ONCE + (clock.now_s() - begun_s) * links.NEWS_PER_SECOND
        assert links.NEWS_AT_ONCE / 2 < news.count <= allowed + 1  # + 1: the hello
        await link.stop()
        guest.close()

    asyncio.run(work())


def test_a_report_that_says_the_same_again_is_not_decoded_and_no_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = 0

    def counting(data: bytes) -> messages.FromGuest:
        nonlocal decoded
        decoded += 1
        return original(data)

    original = messages.decode_from_guest
    monkeypatch.setattr(messages, "decode_from_guest", counting)

    async def work() -> None:
        link, guest, news = await spoken(tmp_path / "s", line(REPORT))
        await until(lambda: link.report is not None)
        first_s, heard = link.report_at_s, news.count
        for _ in range(3):
            guest.sendall(line(REPORT))
            await until(lambda first_s=first_s: link.report_at_s > first_s)
            first_s = link.report_at_s
        assert decoded == 2  # hello and the first
        assert news.count == heard
        await link.stop()
        guest.close()

    asyncio.run(work())


def test_of_reports_with_the_same_demand_only_the_newest_is_decoded_and_only_when_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []

    def counting(data: bytes) -> messages.FromGuest:
        decoded.append(data)
        return original(data)

    original = messages.decode_from_guest
    monkeypatch.setattr(messages, "decode_from_guest", counting)

    def report(**other: object) -> bytes:
        return json.dumps({**REPORT, **other}, separators=(",", ":")).encode() + b"\n"

    async def work() -> None:
        link, guest, news = await spoken(tmp_path / "s", report())
        await until(lambda: link.demand is not None)

        async def says(data: bytes) -> None:
            before_s = link.report_at_s
            guest.sendall(data)
            await until(lambda: link.report_at_s > before_s)

        heard = news.count
        for tenths in range(1, 4):
            await says(report(busy=tenths / 10))
        assert (len(decoded), news.count) == (2, heard)  # hello and the first
        assert link.report is not None and link.report.busy == 0.3
        assert link.report.busy == 0.3 and len(decoded) == 3
        await says(report(busy="much"))
        assert link.bad_lines == 0 and link.demand == REPORT["demand"]
        assert link.report.busy == 0.3 and link.bad_lines == 1  # it is ignored
        await says(report(demand=REPORT["demand"] + 1))
        assert link.demand == link.report.demand == REPORT["demand"] + 1 and news.count == heard + 1
        await says(report(demand=REPORT["demand"] + 1, online=[0]))
        assert link.online == (0,)
        assert link.send(allocate(5, 1))
        await says(report(demand=REPORT["demand"] + 1, online=[0], sequence=5))
        assert link.acknowledged == 5
        await link.stop()
        guest.close()

    asyncio.run(work())


CLAIMS = st.one_of(st.integers(0, 6), st.sampled_from([2**63 - 1, 2**31, 1_790_000_000_000]))


@settings(max_examples=30)
@example([("send", 3), ("ack", 3), ("hello", 0), ("ack", 3), ("report", 3)])
@given(st.lists(st.tuples(st.sampled_from(["send", "ack", "report", "hello"]), CLAIMS), max_size=20))
def test_only_numbers_sent_since_the_hello_are_acknowledged(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    async def work() -> None:
        link, guest, _ = await spoken(tmp_path_factory.mktemp("claims") / "s")
        sent: set[int] = set()
        for busy, (what, number) in enumerate(steps, 1):
            before = link.acknowledged
            if what == "send":
                assert link.send(allocate(number, 1))
                sent.add(number)
                continue
            ack = {"v": 1, "type": "ack", "sequence": number, "online": [0], "sections_ended": True}
            said = {"ack": ack, "report": {**REPORT, "sequence": number}, "hello": HELLO}[what]
            mark = {**REPORT, "sequence": number, "busy": busy / 1000} if what == "report" else {"v": 1, "mark": busy}
            bad = link.bad_lines
            guest.sendall(line(said) + line(mark))
            await until(
                lambda bad=bad, busy=busy: (
                    link.bad_lines > bad or (link.report is not None and link.report.busy == busy / 1000)
                )
            )
            if what == "hello":
                sent.clear()
                assert link.acknowledged is None
            elif number in sent:
                assert link.acknowledged == number
            else:
                assert link.acknowledged == (before if what == "ack" else None)
        await link.stop()
        guest.close()

    asyncio.run(work())


def test_the_newest_acknowledgement_is_news_even_of_a_guest_that_floods(tmp_path: Path) -> None:
    async def work() -> None:
        link, guest, news = await spoken(tmp_path / "s")
        guest.sendall(b"".join(line({**REPORT, "demand": number % 2}) for number in range(100)))
        await until(lambda: news.count >= links.NEWS_AT_ONCE)
        link.send(allocate(5, 1))
        ack = line({"v": 1, "type": "ack", "sequence": 5, "online": [0], "sections_ended": True})
        before = news.count
        guest.sendall(ack)
        await until(lambda: link.acknowledged == 5)
        assert news.count > before
        await link.stop()
        guest.close()

    asyncio.run(work())


def test_what_a_guest_says_does_not_forge_lines_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    forged = "x\nWARNING domain b: gone"

    async def work() -> None:
        error = line({"v": 1, "type": "error", "message": forged})
        link, guest, _ = await spoken(tmp_path / "s", line({**HELLO, "agent": forged}), error * 50, line(REPORT))
        await until(lambda: link.report is not None)
        await link.stop()
        guest.close()

    asyncio.run(work())
    assert any("its agent reports an error" in record.getMessage() for record in caplog.records)
    assert all("\n" not in record.getMessage() for record in caplog.records)
    assert (
        sum("its agent reports an error" in record.getMessage() for record in caplog.records) <= links.NOTICES_AT_ONCE
    )


def test_conditions_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "STALE_REPORT_S", math.inf)
    monkeypatch.setattr(links, "RECONNECT_MOST_S", 0.1)
    path = tmp_path / "s"

    async def work() -> None:
        assert condition_of(None) == NO_CHANNEL
        link = AgentLink("a", path, lambda: None)
        link.start()
        assert link.condition == "not reachable: No such file or directory"
        with listening(path) as server:  # the channel is there, without an agent
            await until(lambda: link.condition == NO_ANSWER)
            guest = server.accept()[0]
        guest.sendall(line(HELLO) + line(REPORT))
        await until(lambda: link.condition == CONNECTED)
        report_at_s = link.report_at_s
        await until(lambda: clock.now_s() > report_at_s)
        monkeypatch.setattr(links, "STALE_REPORT_S", (clock.now_s() - report_at_s) / 2)
        assert link.condition == STALE
        monkeypatch.setattr(links, "STALE_REPORT_S", math.inf)
        guest.sendall(line(REPORT))
        await until(lambda: link.report_at_s > report_at_s)
        assert link.condition == CONNECTED
        guest.close()  # unplugged
        await until(lambda: link.condition.startswith("not reachable: "))
        await until(lambda: link.condition == "not reachable: No such file or directory")
        assert condition_of(link) == link.condition and not link.connected
        path.touch()  # something else is at the path
        await until(lambda: link.condition == "not reachable: Connection refused")
        path.unlink()
        with listening(path) as server:  # plugged again
            await until(lambda: link.condition == NO_ANSWER)
            server.accept()[0].close()
        await link.stop()
        link = AgentLink("a", tmp_path / ("long" * 40), lambda: None)
        link.start()
        assert link.condition == "not reachable: AF_UNIX path too long"
        await link.stop()

    asyncio.run(work())


def test_a_channel_that_may_not_be_opened_is_said_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may open everything")
    with listening(tmp_path / "s"):
        (tmp_path / "s").chmod(0)

        async def work() -> None:
            link = AgentLink("a", tmp_path / "s", lambda: None)
            link.start()
            assert link.condition == "not reachable: Permission denied"
            await link.stop()

        asyncio.run(work())


def test_a_guest_that_reads_nothing_is_called_deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "UNREAD_S", 0.05)

    async def work() -> None:
        link, guest, _ = await spoken(tmp_path / "s", line(REPORT))
        while not link._unsent:
            assert link.send(allocate(1, 1))
        await until(lambda: link.condition == NOT_READING)
        assert link.connected
        guest.setblocking(True)
        got = bytearray()
        while link._unsent or not got.endswith(b"\n"):  # it reads again: nothing is missing or sent twice
            got += await asyncio.get_running_loop().run_in_executor(None, guest.recv, 65536)
            await asyncio.sleep(0.001)
        *orders, rest = bytes(got).split(b"\n")[2:]
        assert rest == b"" and len(orders) > 100
        assert all(messages.decode_from_host(one) == allocate(1, 1) for one in orders)
        assert link.condition != NOT_READING
        await link.stop()
        guest.close()

    asyncio.run(work())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_when_the_last_link_ends(tmp_path: Path) -> None:
    async def work() -> None:
        open_before = descriptors()
        link, guest, _ = await spoken(tmp_path / "s", line(REPORT) * 300)
        await until(lambda: link.paused)
        await link.stop()
        await link.stop()
        guest.close()
        assert descriptors() == open_before
        timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        assert [one for one in timers if not one.cancelled()] == []

    asyncio.run(work(), debug=True)


def test_news_may_end_links_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    async def work() -> None:
        hub = AgentHub()
        first, one, _ = await spoken(tmp_path / "s1", hub=hub)
        second, two, _ = await spoken(tmp_path / "s2", hub=hub)

        def end() -> None:
            first._close()
            second._close()

        first._on_news = second._on_news = end
        one.sendall(line(REPORT) * 2)
        two.sendall(line(REPORT) * 2)
        await until(lambda: not first.connected and not second.connected)
        for _ in range(20):  # callbacks that the loop has already scheduled run to their end
            await asyncio.sleep(0)
        third, three, _ = await spoken(tmp_path / "s3", line(REPORT), hub=hub)
        await until(lambda: third.report is not None)
        for link, guest in ((first, one), (second, two), (third, three)):
            await link.stop()
            guest.close()

    asyncio.run(work())


@pytest.mark.parametrize("fails", ["serve", "flush", "hung_up", "broken too"])
def test_a_link_that_fails_is_lost_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """In a turn that the loop began, and in one that a timer began: after that nothing else would begin the next."""

    def fail(*given: object) -> object:
        raise OverflowError("nobody has thought of this")

    async def work() -> None:
        hub = AgentHub()
        crowd = [await spoken(tmp_path / f"s{number}", line(REPORT), hub=hub) for number in range(3)]
        broken, guest, _ = crowd[1]
        for round_number in range(1, 5):
            for _, other, _ in crowd:
                with contextlib.suppress(OSError):  # the broken link's socket may be closed
                    other.sendall(line({**REPORT, "busy": round_number / 8}))
            if round_number == 2:
                monkeypatch.setattr(broken, fails if fails in ("flush", "hung_up") else "serve", fail)
                if fails == "broken too":
                    monkeypatch.setattr(broken, "broken", fail)
                if fails == "flush":
                    broken._unsent = b"x"
                    broken._watch()
                elif fails == "hung_up":
                    broken._pause(60.0)
                    guest.close()
            sound = (crowd[0][0], crowd[2][0])
            await until(lambda r=round_number, s=sound: all(link.report.busy == r / 8 for link in s))
        if fails == "broken too":
            broken._socket.close()
            broken._socket = None
        else:
            await until(lambda: isinstance(broken.fault, OverflowError) and not broken.connected)
        for link, other, _ in crowd:
            await link.stop()
            other.close()

    asyncio.run(work())


@pytest.mark.parametrize("many", [1, 2, 40])
def test_messages_of_many_guests_share_turns(tmp_path: Path, many: int) -> None:
    async def work() -> None:
        hub = AgentHub()
        crowd = [await spoken(tmp_path / f"s{number}", line(REPORT), hub=hub) for number in range(many)]
        await until(lambda: all(link.report is not None for link, _, _ in crowd))
        before = hub.turns
        for round_number in range(1, 6):
            for _, guest, _ in crowd:
                guest.sendall(line({**REPORT, "busy": round_number / 8}))
            await until(lambda r=round_number: all(link.report.busy == r / 8 for link, _, _ in crowd))
        assert hub.turns - before <= 5 * 3 + 5
        for link, guest, _ in crowd:
            await link.stop()
            guest.close()

    asyncio.run(work())


def test_a_report_as_agents_write_it_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = Path(__file__).parents[3] / "guest-agent" / "wire" / "golden" / "guest.jsonl"
    reports = [one for one in golden.read_bytes().splitlines() if b'"report"' in one and b"tomorrow" not in one]
    looked: list[bytes] = []
    monkeypatch.setattr(messages, "_check_skipped", looked.append)
    for one in reports:
        messages.decode_from_guest(one)
    assert len(looked) < len(reports) / 2  # only reports that spell out a default are looked at twice
    assert not any(b'"ipc":0.85' in one or b'"steal_governor"' in one for one in looked)


@pytest.mark.parametrize(
    "bad",
    [
        b'{"v":1,"type":"report","sequence":0,"sequence":0,"online":[0],"demand":0,"busy":0,"processes":[]}',
        b'{"v":1,"type":"report","sequence":0,"online":[0],"demand":0,"busy":0,"processes":[],"x":{"a":1,"a":2}}',
        b'{"v":1,"type":"report","sequence":0,"online":[0],"demand":0,"busy":0,"processes":[{"pid":1,"pid":1,'
        b'"name":"a","team":1,"malleable":"full","running":true,"points":[]}]}',
        b'{"v":1,"type":"report","sequence":0,"online":[0],"demand":0,"busy":0,"processes":[{"pid":1,"pid" :1,'
        b'"name":"a:\\u003a","team":1,"malleable":"full","running":true,"points":[]}]}',
        b'{"type":"report","sequence":0,"online":[0],"demand":0,"busy":0,"processes":[]}',
        b'{"type":"report","sequence":0,"online":[0],"demand":0,"busy":0,"processes":[],"x":1}',
    ],
)
def test_names_twice_and_no_version_are_refused_at_any_depth(bad: bytes) -> None:
    with pytest.raises(messages.BadLine):
        messages.decode_from_guest(bad)


@pytest.mark.parametrize("name", ["a:b", "\\u003a", 'a":"b', "a\\\\u003Ab", "ü:", "\\\\\\u003A:"])
def test_colons_in_strings_are_no_names(name: str) -> None:
    escaped = name.replace('"', '\\"')
    good = (
        '{"v":1,"type":"report","sequence":0,"online":[0],"demand":0,"busy":0,"processes":[{"pid":1,'
        f'"name":"{escaped}","team":1,"malleable":"full","running":true,"points":[],"new:":"{escaped}"}}]}}'
    ).encode()
    report = messages.decode_from_guest(good)
    assert isinstance(report, messages.Report) and report.processes[0].name == json.loads(f'"{escaped}"')
