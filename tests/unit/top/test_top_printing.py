"""`vscaf top` to a pipe, with a real control server."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from control_recorder import Recorder, on_server, serving
from top_states import HOST, domain, state, status
from vscaf.cli.main import main
from vscaf.control.messages import Status
from vscaf.errors import VscafError
from vscaf.events import EventLog
from vscaf.lab.polling import soon
from vscaf.top import feed
from vscaf.top.columns import Order
from vscaf.top.domains import State
from vscaf.top.plain import decision, newest, table
from vscaf.top.printing import print_once, print_tables
from vscaf_bench.operator_status import states

GOLDEN = Path(__file__).parent / "golden"


def with_domains(work: Callable[[Path, Recorder, EventLog], Awaitable[None]], directory: Path) -> None:
    async def go(path: Path, target: Recorder, events: EventLog) -> None:
        target.status = status  # type: ignore[method-assign]
        await work(path, target, events)

    on_server(directory, go)


def test_a_table_is_as_the_golden_file_says() -> None:
    assert table(state(), Order(), HOST) == (GOLDEN / "table.txt").read_text(encoding="utf-8").splitlines()


def test_the_heading_says_what_is_wrong() -> None:
    heading = table(state(unknown=True, managing=False, exploring=["cfd"], violations=["x\ny"]), Order(), HOST)[0]
    assert "libvirt does not answer" in heading and "observes only" in heading and "exploring cfd" in heading
    assert "x\N{REPLACEMENT CHARACTER}y" in heading
    assert "pCPUs held" in table(state([]), Order(), HOST)[0]


def test_once(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        lines: list[str] = []
        await print_once(path, Order("CPUs"), HOST, lines.append)
        assert lines == table(state(), Order("CPUs"), HOST)

    with_domains(work, directory)


def test_decisions_are_printed_between_tables_and_old_ones_are_not(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        moments = iter([datetime(2020, 1, 1, tzinfo=UTC)])
        events._now = lambda: next(moments, datetime.now(UTC))
        events.record("allocation", "cfd", before="1", after="2")
        lines: list[str] = []
        printing = asyncio.create_task(
            print_tables(path, Order(), HOST, interval_s=0.01, write=lines.append, complain=lines.append)
        )
        await soon(lambda: lines.count("") > 1)
        events.record("allocation", "cfd", before="2-7", after="2-5", why="fair")
        await soon(lambda: any("fair" in line for line in lines))
        printing.cancel()
        decisions = [line for line in lines if "allocation" in line]
        assert len(decisions) == 1 and decisions[0].endswith("allocation cfd 2-7 -> 2-5: fair")

    with_domains(work, directory)


def test_a_daemon_that_is_away_is_reported_once_and_awaited(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    ask = feed.state

    async def counted(path: Path) -> State:
        asked.append(path)
        return await ask(path)

    async def work() -> None:
        monkeypatch.setattr(feed, "state", counted)
        path, lines, complaints = directory / "s", list[str](), list[str]()
        printing = asyncio.create_task(
            print_tables(path, Order(), HOST, interval_s=0.01, write=lines.append, complain=complaints.append)
        )
        await soon(lambda: len(asked) > 3)
        assert len(complaints) == 1 and "is `vscaf daemon` running?" in complaints[0] and lines == []
        async with serving(path):
            await soon(lambda: lines)
        await soon(lambda: len(complaints) == 2)
        printing.cancel()

    asyncio.run(work())


def test_events_of_the_next_daemon_follow_those_of_the_first(directory: Path) -> None:
    """Both number theirs from 1, and the second has more."""

    async def work() -> None:
        path, got = directory / "s", list[str]()

        async def listen() -> None:
            async for event in feed.events(path, reconnect_s=0.01):
                got.append(event["why"])

        listening = asyncio.create_task(listen())
        for whys in (["a", "b"], ["c", "d", "e"]):
            async with serving(path) as (_, __, events):
                for why in whys:
                    events.record("policy", None, why=why)
                await soon(lambda whys=whys: whys[-1] in got)
        listening.cancel()
        assert got == ["a", "b", "c", "d", "e"]

    asyncio.run(work())


def test_events_are_not_repeated_after_a_broken_connection(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        got: list[str] = []

        async def listen() -> None:
            async for event in feed.events(path, reconnect_s=0.01):
                got.append(event["why"])

        for why in ("a", "b"):
            events.record("policy", None, why=why)
        events.close()  # from now on each connection ends after the newest event
        listening = asyncio.create_task(listen())
        await soon(lambda: "b" in got)
        events.record("policy", None, why="c")
        await soon(lambda: "c" in got)
        listening.cancel()
        assert got == ["a", "b", "c"]

    on_server(directory, work)


def test_an_answer_of_another_version_is_an_error(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        target.status = lambda: {"policy": 7}  # type: ignore[method-assign]
        with pytest.raises(VscafError):
            await feed.state(path)

    on_server(directory, work)


def test_a_decision_in_one_line() -> None:
    event = {
        "number": 4,
        "time": "2026-01-01T12:34:56.789Z",
        "kind": "allocation",
        "domain": "a\x07",
        "from": "",
        "to": "2",
    }
    assert (
        decision({**event, "why": "because", "fields": {}})
        == "12:34:56 allocation a\N{REPLACEMENT CHARACTER} - -> 2: because"
    )


def test_the_newest_decisions_fit() -> None:
    events = [
        {
            "time": f"2026-01-01T12:34:0{n}.000Z",
            "kind": "policy",
            "domain": None,
            "from": "a",
            "to": "b",
            "why": "it is so",
        }
        for n in range(3)
    ]
    assert newest(events, 30, 3) == ["12:34:02 policy a -> b: it is", "         so"], "no tail of a cut event"
    assert newest(events, 30, 1) == ["12:34:02 policy a -> b: it is"]
    assert newest(events, 80, 2) == ["12:34:01 policy a -> b: it is so", "12:34:02 policy a -> b: it is so"]


def test_a_daemon_of_the_benchmark_can_be_shown() -> None:
    for one in states(200):
        shown = msgspec.convert(one, Status)
        assert len(table(msgspec.json.decode(msgspec.json.encode(shown), type=State), Order("steal"), HOST)) == 202


def test_the_command_prints_one_table(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        done = await asyncio.to_thread(
            CliRunner().invoke, main, ["top", "--once", "--socket", str(path), "--filter", "cfd"]
        )
        assert done.exit_code == 0, done.output
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["policy", "domain", "cfd"]

    with_domains(work, directory)


def test_the_status_as_json(directory: Path) -> None:
    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        arguments = ["top", "--once", "--json", "--socket", str(path)]
        done = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert json.loads(done.stdout) == status() and done.stdout.count("\n") == 1

    with_domains(work, directory)


@pytest.mark.parametrize("option", [["--sort", "steal"], ["--reverse"], ["--filter", "cfd"]], ids=" ".join)
def test_json_takes_no_order_and_no_filter(tmp_path: Path, option: list[str]) -> None:
    done = CliRunner().invoke(main, ["top", "--json", "--socket", f"{tmp_path}/s", *option])
    assert (done.exit_code, done.stdout) == (2, "") and "leave out --sort" in done.stderr


async def says(stream: asyncio.StreamReader, text: str) -> None:
    """Reads lines until one contains *text*."""
    while text not in (line := (await stream.readline()).decode()):
        assert line, f"it has ended and did not say: {text}"


def test_the_status_as_json_waits_for_a_daemon(directory: Path) -> None:
    async def work() -> None:
        arguments = ["top", "--json", "--interval", "0.25", "--socket", f"{directory}/s"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vscaf", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None and process.stderr is not None
        try:
            await says(process.stderr, "is `vscaf daemon` running")
            async with serving(directory / "s"):
                lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
            assert [line["policy"] for line in lines] == ["max-speedup"] * 2
            await says(process.stderr, "is `vscaf daemon` running")
        finally:
            process.kill()
            await process.wait()

    asyncio.run(work())


def test_the_command_without_a_daemon(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["top", "--once", "--socket", f"{tmp_path}/s"])
    assert (done.exit_code, done.stdout) == (1, "") and "is `vscaf daemon` running" in done.stderr


def test_every_domain_is_in_the_table() -> None:
    many = [domain(f"d{number}", str(number)) for number in range(1000)]
    assert len(table(state(many), Order("busy"), HOST)) == 2 + len(many)
