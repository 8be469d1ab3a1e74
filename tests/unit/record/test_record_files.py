"""The files of recordings: bounded, rotated, and read up to where a crash cut them off."""

import asyncio
import errno
import gzip
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools import CURVES, pools
from vscaf.config import PolicyConfig
from vscaf.core.decide.decision import DecideMemory, decide
from vscaf.core.decide.explore import ExploreMemory
from vscaf.daemon import operations
from vscaf.errors import UsageError
from vscaf.events import EventLog
from vscaf.record import files as files_module
from vscaf.record.files import FILES, Cut, RecordFiles, read_lines, recorded_files
from vscaf.record.lines import BadLine, Decided, Decoder, Encoder, Result, State, result_of
from vscaf.record.recorder import Recorder
from vscaf_policies import PoolState, SpeedupPoint
from vscaf_policies.max_speedup_fitted import max_speedup_fitted

STATE = State("2026-01-01T00:00:00.000Z", DecideMemory(), ExploreMemory())


def decided(time_s: float, **allocations: int) -> Decided:
    return Decided("t", PoolState(4, 1, time_s, ()), PolicyConfig(), 0.01, 0.5, Result(allocations))


def noise(count: int) -> bytes:
    return os.urandom(count // 2).hex().encode() + b"\n"


def test_all_files_together_are_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    files = RecordFiles(tmp_path / "record", 80_000)
    names: list[str] = []
    for _ in range(100):
        files.write(noise(4_000), new=files.full)
        present = [path.name for path in recorded_files(tmp_path / "record")]
        names += [name for name in present if name not in names]
        assert present == names[-len(present) :], "an old file was kept, or a new one removed"
        assert sum(path.stat().st_size for path in recorded_files(tmp_path / "record")) <= 80_000
    files.close()
    assert len(names) > FILES
    assert {path.stat().st_mode & 0o777 for path in recorded_files(tmp_path / "record")} == {0o600}


@pytest.mark.parametrize("before", ["stat", "unlink"])
def test_files_that_somebody_else_removes_meanwhile_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    files, listed = RecordFiles(tmp_path, 8_000), files_module.recorded_files
    for _ in range(3):
        files.write(noise(4_000), new=True)
    removed: list[Path] = []

    def list_and_remove(directory: Path) -> list[Path]:
        found = listed(directory)
        removed.append(found[0])
        if before == "stat":
            found[0].unlink()
        return found

    def remove_first(path: Path, missing_ok: bool = False) -> None:
        unlink(path)
        unlink(path, missing_ok)

    unlink = Path.unlink
    with monkeypatch.context() as busy:
        busy.setattr(files_module, "recorded_files", list_and_remove)
        if before == "unlink":
            busy.setattr(Path, "unlink", remove_first)
        files.write(noise(8_000), new=True)
    files.close()
    assert removed and removed[0] not in listed(tmp_path) and listed(tmp_path)


def written(path: Path, *lines: State | Decided) -> Path:
    files, encoder = RecordFiles(path, 10**6), Encoder()
    for line in lines:
        files.write(encoder.line(line), new=False)
    files.close()
    return recorded_files(path)[0]


def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    lines = [STATE, *(decided(float(second), a=second) for second in range(1, 20))]
    path = written(tmp_path / "whole", *lines)
    assert list(read_lines(path)) == lines
    text, seen = path.read_bytes(), set()
    for end in range(20, len(text)):
        (tmp_path / "cut").write_bytes(text[:end])
        *read, last = read_lines(tmp_path / "cut")
        assert isinstance(last, Cut) and f"cut off after {len(read)} lines" in last.message
        assert read == lines[: len(read)]
        seen.add(len(read))
    assert len(seen) > 15, "a cut near the end loses the beginning"


def test_what_was_written_survives_a_crash(tmp_path: Path) -> None:
    """Without close(), as after kill -9."""
    files, encoder = RecordFiles(tmp_path, 10**6), Encoder()
    for line in (STATE, decided(1.0, a=1), decided(2.0, a=2)):
        files.write(encoder.line(line), new=False)
    *read, last = read_lines(recorded_files(tmp_path)[0])
    assert read == [STATE, decided(1.0, a=1), decided(2.0, a=2)] and isinstance(last, Cut)
    files.close()


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(UsageError, match="vscaf record"):
        list(read_lines(tmp_path / "text"))
    with gzip.open(tmp_path / "json", "wt") as file:
        file.write('{"type": "state"}\n')
    with pytest.raises(UsageError, match="line 1"):
        list(read_lines(tmp_path / "json"))
    with pytest.raises(UsageError, match="No such file"):
        list(read_lines(tmp_path / "nothing"))


@pytest.mark.parametrize("text", [b"[]", b"1", b"{}", b'{"type":"x"}', b'{"type":"decision"}', b"[" * 100_000, b"\xff"])
def test_lines_that_are_none(text: bytes) -> None:
    with pytest.raises(BadLine):
        Decoder().value(text)


def test_another_version_is_refused() -> None:
    with pytest.raises(BadLine, match="version"):
        Decoder().value(Encoder().line(STATE).replace(b'"version":1', b'"version":2'))


def measured_anew(points: tuple[SpeedupPoint, ...]) -> tuple[SpeedupPoint, ...]:
    """Equal points in another object."""
    return (*points[:1], *points[1:])


def same(one: object, other: object) -> bool:
    """As text, because nan is not equal to itself. The order of names says nothing."""
    texts = [repr(msgspec.to_builtins(value, order="deterministic")) for value in (one, other)]
    return type(one) is type(other) and texts[0] == texts[1]


@given(
    pools,
    st.lists(
        st.lists(st.sampled_from(CURVES) | st.sampled_from(CURVES).map(measured_anew), min_size=6, max_size=6),
        min_size=1,
        max_size=4,
    ),
)
def test_every_line_comes_back_as_it_was(pool: PoolState, curves: list[list[object]]) -> None:
    """Also what is only the same object: equal points that were measured anew are other points."""
    encoder, decoder = Encoder(), Decoder()
    memory = decide(pool, max_speedup_fitted, {}).memory
    state = State("now", memory, ExploreMemory(varied={"a": 1}, base={"a": 2}))
    assert same(decoder.value(encoder.line(state)), state)
    before, read_before = {}, {}
    for points in curves:
        domains = tuple(
            one.knowing(one.scaf_weight, one.newcomer, known)  # type: ignore[arg-type]
            for one, known in zip(pool.domains, points, strict=False)
        )
        now = PoolState(pool.cpus, pool.chunk, pool.time_s, domains)
        decision = decide(now, max_speedup_fitted, {}, memory)
        line = Decided("t", now, PolicyConfig(), 0.01, 0.5, result_of(decision, frozenset(), False))
        read = decoder.value(encoder.line(line))
        assert isinstance(read, Decided) and same(read, line)
        for one, again in zip(now.domains, read.pool.domains, strict=True):
            if one.name in before and one.points:
                assert (again.points is read_before[one.name]) == (one.points is before[one.name])
        before = {one.name: one.points for one in now.domains}
        read_before = {one.name: one.points for one in read.pool.domains}


def test_a_recording_is_stopped_and_started_at_once(tmp_path: Path) -> None:
    """Each has a file of its own, which begins with a state."""

    async def work() -> None:
        recorder = Recorder(tmp_path, 10**6, EventLog())
        for number in range(3):
            recorder.start()
            memory = DecideMemory()
            for second in range(4):
                if recorder.needs_state(memory):
                    recorder.begin(memory, ExploreMemory())
                recorder.decided(decided(float(second), a=number), memory)
            recorder.stop()
        await recorder.close()

    asyncio.run(work())
    files = recorded_files(tmp_path)
    assert len(files) == 3
    for number, path in enumerate(files):
        state, *lines = read_lines(path)
        assert isinstance(state, State) and lines == [decided(float(second), a=number) for second in range(4)]


def test_once_a_recording_has_stopped_its_file_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = RecordFiles.write

    def slow_write(files: RecordFiles, text: bytes, *, new: bool) -> None:
        time.sleep(0.1)
        write(files, text, new=new)

    async def work() -> None:
        recorder = Recorder(tmp_path, 10**6, EventLog())
        daemon: Any = SimpleNamespace(decisions=SimpleNamespace(recorder=recorder))
        recorder.start()
        recorder.begin(memory := DecideMemory(), ExploreMemory())
        recorder.decided(decided(1.0, a=1), memory)
        stopping = asyncio.create_task(operations.Operations(daemon).record(False))
        given_up = asyncio.create_task(operations.Operations(daemon).record(False))
        await asyncio.sleep(0)
        given_up.cancel()  # its client has gone
        stopped = await stopping
        state, line = read_lines(recorded_files(tmp_path)[0])
        assert isinstance(state, State) and line == decided(1.0, a=1)
        assert (stopped.since, stopped.files) == (None, 1)

    monkeypatch.setattr(RecordFiles, "write", slow_write)
    asyncio.run(work())


def test_a_recording_that_is_removed_meanwhile_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1.jsonl.gz").write_bytes(b"123")
    monkeypatch.setattr(
        operations, "recorded_files", lambda directory: [directory / "0.jsonl.gz", directory / "1.jsonl.gz"]
    )
    daemon: Any = SimpleNamespace(decisions=SimpleNamespace(recorder=Recorder(tmp_path, 10**6, EventLog())))
    found = asyncio.run(operations.Operations(daemon).recording())
    assert (found.files, found.bytes) == (1, 3)


def test_a_disk_that_refuses_ends_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def work() -> None:
        events = EventLog()
        recorder = Recorder(tmp_path, 10**6, events)
        recorder.start()
        monkeypatch.setattr(files_module.gzip.GzipFile, "write", full)
        recorder.begin(DecideMemory(), ExploreMemory())
        while recorder.since is not None:  # noqa: ASYNC110  (a thread ends it)
            await asyncio.sleep(0.001)
        assert "No space left" in recorder.failed
        assert [event.after for event in events.since(0)] == ["on", "off"]
        assert "No space left" in events.since(0)[-1].why
        monkeypatch.undo()
        recorder.start()
        assert recorder.failed == ""
        recorder.begin(DecideMemory(), ExploreMemory())
        await recorder.close()

    asyncio.run(work())
    assert [list(read_lines(path)) for path in recorded_files(tmp_path)][-1] == [
        State(recording, DecideMemory(), ExploreMemory())
        for recording in [next(iter(read_lines(recorded_files(tmp_path)[-1]))).recording]  # type: ignore[union-attr]
    ]
