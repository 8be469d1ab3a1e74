"""What was found of each domain before vscaf changed it, kept on disk so that it can be put back after any crash.

The file is replaced as a whole and synced before the first change that it covers. Only what concerns the present boot
of the host counts: after a reboot no run of a domain is left that could be put back.
"""

import fcntl
import os
from pathlib import Path
from typing import IO

import msgspec

from vscaf.errors import UsageError, VscafError
from vscaf.hypervisor.values import DomainKey, DomainSettings

JOURNAL_VERSION = 1


class JournalError(VscafError):
    """The journal is there but cannot be used."""


class FoundSettings(msgspec.Struct, frozen=True, kw_only=True):
    """DomainSettings as it is written: sorted lists for sets."""

    vcpus: int
    vcpu_pins: list[list[int]]
    emulator_pin: list[int]
    cpu_shares: int | None

    @classmethod
    def of(cls, settings: DomainSettings) -> "FoundSettings":
        """The written form of *settings*."""
        return cls(
            vcpus=settings.vcpus,
            vcpu_pins=[sorted(settings.vcpu_pins[vcpu]) for vcpu in sorted(settings.vcpu_pins)],
            emulator_pin=sorted(settings.emulator_pin),
            cpu_shares=settings.cpu_shares,
        )

    def settings(self) -> DomainSettings:
        """The settings that were written."""
        return DomainSettings(
            vcpus=self.vcpus,
            vcpu_pins={vcpu: frozenset(cpus) for vcpu, cpus in enumerate(self.vcpu_pins)},
            emulator_pin=frozenset(self.emulator_pin),
            cpu_shares=self.cpu_shares,
        )


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One domain: what was found, and what vscaf last meant it to have (an empty partition: resting)."""

    name: str
    uuid: str
    run_id: int
    found: FoundSettings
    partition: list[int]
    sequence: int

    @property
    def key(self) -> DomainKey:
        return DomainKey(self.uuid, self.run_id)


class JournalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    version: int
    boot_id: str
    domains: list[JournalEntry]


class Journal:
    """The journal in *directory*. Opening takes a lock, so that two daemons never work on one journal."""

    def __init__(self, directory: Path, boot_id: str) -> None:
        self.path = directory / "journal.json"
        self.entries: dict[DomainKey, JournalEntry] = {}
        self._boot_id = boot_id
        self._lock: IO[str] | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = (directory / "lock").open("w")
        except OSError as error:
            raise UsageError(
                f"state directory {directory}: {error.strerror}: give another as state_directory"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise UsageError(
                f"state directory {directory}: another vscaf daemon uses it: stop that one first"
            ) from error
        self._read()

    def close(self) -> None:
        """Gives the lock back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _read(self) -> None:
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=JournalFile)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            raise JournalError(f"journal {self.path}: {error}: move it away if no domain is pinned by vscaf") from error
        if content.version != JOURNAL_VERSION:
            raise JournalError(
                f"journal {self.path}: version {content.version}, not {JOURNAL_VERSION}: "
                "let the vscaf that wrote it put its domains back first"
            )
        if content.boot_id == self._boot_id:
            self.entries = {entry.key: entry for entry in content.domains}

    def write(self, entries: dict[DomainKey, JournalEntry]) -> None:
        """Makes *entries* the journal, durably, unless they are it already. OSError when the disk refuses."""
        if entries == self.entries:
            return
        if not entries:
            self.path.unlink(missing_ok=True)
        else:
            content = JournalFile(version=JOURNAL_VERSION, boot_id=self._boot_id, domains=list(entries.values()))
            scratch = self.path.with_suffix(".new")
            with scratch.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self.entries = dict(entries)


def host_boot_id() -> str:
    """The kernel's name for this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
