"""The journal survives a crash, and belongs to one daemon and one boot."""

import asyncio
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from vscaf.domains.deduplicated_warnings import DeduplicatedWarnings
from vscaf.domains.journal_writer import JournalWriter
from vscaf.errors import UsageError
from vscaf.events import EventLog
from vscaf.journal import (
    FoundSettings,
    Journal,
    JournalEntry,
    JournalError,
    LeftAlone,
    Lock,
    lock_bench,
    lock_hypervisor,
)
from vscaf.values import DomainSettings

FOUND = DomainSettings(2, {0: frozenset({0, 1}), 1: frozenset({1})}, frozenset({0, 1}), 1024)
ENTRY = JournalEntry(name="a", uuid="u", run_id=3, found=FoundSettings.of(FOUND), partition=[1], reach=[1])


def test_reads_back_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "boot")
    journal.write({ENTRY.key: ENTRY})
    journal.close()
    again = Journal(tmp_path, "boot")
    assert again.entries == {ENTRY.key: ENTRY}
    assert again.entries[ENTRY.key].found.settings() == FOUND
    again.write({})
    assert not again.path.exists()
    again.close()


def test_another_boot_is_another_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "boot")
    journal.write({ENTRY.key: ENTRY})
    journal.close()
    later = Journal(tmp_path, "boot after")
    assert later.entries == {}
    assert later.departed == {"u": ENTRY}, "it may be saved, and restored with pins that vscaf set"
    later.close()


def test_a_run_that_ended_is_kept_until_its_domain_is_changed_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "boot")
    journal.write({ENTRY.key: ENTRY})
    journal.write({}, [ENTRY])
    journal.close()
    again = Journal(tmp_path, "boot")
    assert again.entries == {} and again.departed == {"u": ENTRY}
    later = msgspec.structs.replace(ENTRY, run_id=4)
    again.write({later.key: later})
    assert again.departed == {}
    again.close()


def test_who_is_left_alone_stays_so_over_daemons_and_boots(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "boot")
    alone = LeftAlone(uuid="u", state="released", why="by request")
    journal.leave_alone(alone, "u")
    journal.close()
    for boot in ("boot", "boot after"):
        again = Journal(tmp_path, boot)
        assert again.left_alone == {"u": alone}
        again.close()
    last = Journal(tmp_path, "boot after")
    last.leave_alone(None, "u")
    assert not last.path.exists()
    last.close()


def test_version_1_is_read(tmp_path: Path) -> None:
    found = {"vcpus": 2, "vcpu_pins": [[0, 1], [1]], "emulator_pin": [0, 1], "cpu_shares": 1024}
    entry = {"name": "a", "uuid": "u", "run_id": 3, "found": found, "partition": [1]}
    content = {"version": 1, "boot_id": "boot", "domains": [entry]}
    (tmp_path / "journal.json").write_text(json.dumps(content), encoding="utf-8")
    journal = Journal(tmp_path, "boot")
    (read,) = journal.entries.values()
    assert read.key == ENTRY.key and read.found.settings() == FOUND and read.partition == [1]
    assert read.reach == [] and read.claim == []
    journal.close()


def test_a_field_that_a_later_vscaf_adds_to_an_entry_is_ignored(tmp_path: Path) -> None:
    """So an earlier vscaf reads the journal of a later one. `claim` was added like this."""
    entry = msgspec.to_builtins(ENTRY)
    content = {"version": 3, "boot_id": "boot", "domains": [entry | {"added later": [1]}]}
    (tmp_path / "journal.json").write_text(json.dumps(content, default=str), encoding="utf-8")
    journal = Journal(tmp_path, "boot")
    assert journal.entries == {ENTRY.key: ENTRY}
    journal.close()


def test_one_daemon_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "boot")
    with pytest.raises(UsageError, match="another vscaf daemon"):
        Journal(tmp_path, "boot")
    journal.close()
    Journal(tmp_path, "boot").close()


def test_nobody_else_can_open_a_lock_and_so_take_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        lock = Lock(tmp_path / "lock", "daemon", "the place")
    finally:
        os.umask(before)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    lock.close()


def test_a_lock_leaves_no_file_and_is_held_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for the lock has the removed file open, and must not take that file for the lock."""
    monkeypatch.setattr("vscaf.journal.LOCK_GAP_S", 0.0)
    holders, most = [0], [0]

    def hold() -> None:
        for _ in range(50):
            lock = Lock(tmp_path / "lock", "release", "the place")
            holders[0] += 1
            most[0] = max(most[0], holders[0])
            os.sched_yield()
            holders[0] -= 1
            lock.close()
            lock.close()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(hold) for _ in range(4)]:
            done.result()
    assert (most, holders) == ([1], [0]) and not (tmp_path / "lock").exists()


def test_beside_a_bench_only_its_own_daemon_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vscaf.journal.LOCKS", tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    bench = lock_bench("test:///one")
    for lock in (lock_bench, lock_hypervisor):
        with pytest.raises(UsageError, match=rf"test:///one: another vscaf bench \(pid {os.getpid()}\) uses it"):
            lock("test:///one")
    lock_hypervisor("test:///one", "release").close()  # neither it nor a guard starts to manage domains
    lock_hypervisor("test:///two").close()
    with monkeypatch.context() as child:
        child.setattr(os, "getppid", os.getpid)
        lock_hypervisor("test:///one").close()
    bench.close()
    lock_hypervisor("test:///one").close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", '{"version":1}', '{"version":4,"boot_id":"boot","domains":[]}'])
def test_a_bad_journal_is_never_taken_for_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "journal.json").write_text(content, encoding="utf-8")
    with pytest.raises(JournalError, match=r"journal\.json"):
        Journal(tmp_path, "boot")


def test_a_crash_while_writing_leaves_the_old_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "boot")
    journal.write({ENTRY.key: ENTRY})
    (tmp_path / "journal.new").write_text("half of a jour", encoding="utf-8")
    journal.close()
    again = Journal(tmp_path, "boot")
    assert again.entries == {ENTRY.key: ENTRY}
    again.close()


@pytest.mark.parametrize("version", [1, 2])
def test_before_version_3_nobody_was_suspended(tmp_path: Path, version: int) -> None:
    found = {"vcpus": 2, "vcpu_pins": [[0, 1], [1]], "emulator_pin": [0, 1], "cpu_shares": 1024}
    entry = {"name": "a", "uuid": "u", "run_id": 3, "found": found, "partition": [], "reach": [4]}
    content = {"version": version, "boot_id": "boot", "domains": [entry]}
    (tmp_path / "journal.json").write_text(json.dumps(content), encoding="utf-8")
    journal = Journal(tmp_path, "boot")
    (read,) = journal.entries.values()
    assert not read.suspended
    suspended = msgspec.structs.replace(read, suspended=True)
    journal.write({read.key: suspended})
    journal.close()
    again = Journal(tmp_path, "boot")
    assert again.entries == {read.key: suspended}
    assert json.loads(again.path.read_text(encoding="utf-8"))["version"] == 3
    again.close()


def test_what_may_be_on_the_disk_after_a_failure_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, "boot")
    journal.write({ENTRY.key: ENTRY})
    suspended = msgspec.structs.replace(ENTRY, suspended=True)

    def refuse(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):  # at this point the file has already been renamed
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("vscaf.journal.os.fsync", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            journal.write({ENTRY.key: suspended})
    assert journal.entries == {ENTRY.key: ENTRY}
    journal.write({ENTRY.key: ENTRY})
    journal.close()
    again = Journal(tmp_path, "boot")
    assert again.entries == {ENTRY.key: ENTRY}
    again.close()


@pytest.mark.parametrize(
    "content",
    [
        b'{"version":3,"boot_id":"\xff\xfe","domains":[]}',
        b'{"version":3,"boot_id":"boot","domains":[{"x":' + b"[" * 100_000,
        b"\0" * 100,
    ],
)
def test_whatever_the_file_holds_is_said_in_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal.json").write_bytes(content)
    with pytest.raises(JournalError, match="move it away"):
        Journal(tmp_path, "boot")


def test_a_later_version_is_known_as_such_whatever_else_it_has(tmp_path: Path) -> None:
    """The message must not advise to move it away: that would lose what was found."""
    content = {"version": 4, "boot_id": "boot", "domains": [], "new": 1}
    (tmp_path / "journal.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(JournalError, match="let the vscaf version that wrote it"):
        Journal(tmp_path, "boot")


def test_the_lock_is_kept_until_a_write_on_another_thread_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, "boot")
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow(number: int) -> None:
        begun.set()
        assert go_on.wait(60)
        fsync(number)

    def write() -> None:
        journal.write({ENTRY.key: ENTRY})
        order.append("written")

    def close() -> None:
        journal.close()
        order.append("closed")

    monkeypatch.setattr("vscaf.journal.os.fsync", slow)
    writer = threading.Thread(target=write)
    writer.start()
    assert begun.wait(60)
    closer = threading.Thread(target=close)
    closer.start()
    closer.join(0.2)  # a close that does not wait would end in this time
    go_on.set()
    for thread in (writer, closer):
        thread.join(60)
    assert order == ["written", "closed"]
    with pytest.raises(OSError, match="closed"):
        journal.write({})
    again = Journal(tmp_path, "boot")
    assert again.entries == {ENTRY.key: ENTRY}
    again.close()


def test_who_is_cancelled_while_writing_keeps_its_turn_until_the_thread_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two threads write at once, and the older content may win."""
    begun, go_on = threading.Event(), threading.Event()
    fsync = os.fsync
    under_way = most = 0

    def slow(number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        begun.set()
        assert go_on.wait(60)
        fsync(number)
        under_way -= 1

    async def work() -> None:
        journal = Journal(tmp_path, "boot")
        writer = JournalWriter(journal, DeduplicatedWarnings(EventLog()))
        first = asyncio.create_task(writer.write_left_alone("u", LeftAlone(uuid="u", state="released", why="")))
        assert await asyncio.to_thread(begun.wait, 60)
        first.cancel()
        second = asyncio.create_task(writer.write_left_alone("u", None))
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not first.done() and not second.done() and most == 1
        go_on.set()
        assert await second == ""
        assert first.cancelled() and not journal.path.exists()
        journal.close()

    monkeypatch.setattr("vscaf.journal.os.fsync", slow)
    asyncio.run(work())
