"""The journal: survives a crash, belongs to one daemon and one boot."""

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest
from vscaf.errors import UsageError
from vscaf.hypervisor.values import DomainSettings
from vscaf.journal import FoundSettings, Journal, JournalEntry, JournalError, LeftAlone

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
    assert later.departed == {"u": ENTRY}, "it may have been saved, and be restored with pins that vscaf gave it"
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
    assert read.key == ENTRY.key and read.found.settings() == FOUND and read.partition == [1] and read.reach == []
    journal.close()


def test_one_daemon_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "boot")
    with pytest.raises(UsageError, match="another vscaf daemon"):
        Journal(tmp_path, "boot")
    journal.close()
    Journal(tmp_path, "boot").close()


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
        if stat.S_ISDIR(os.fstat(number).st_mode):  # the file is in its place by then
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
