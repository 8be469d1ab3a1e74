"""What was found of each domain before vscaf changed it, kept on disk so that it can be put back after any crash.

The file is replaced as a whole and synced before the first change that it covers. Only what concerns the present boot
of the host can be put back: after a reboot no run of a domain is left. What was found of runs that have ended is kept
for a while all the same: libvirt saves a domain with the pins that it has, so a domain that is restored, by hand or
after a reboot, comes back with pins that vscaf gave it.
"""

import fcntl
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import msgspec

from vscaf.errors import UsageError, VscafError
from vscaf.hypervisor.values import DomainKey, DomainSettings

log = logging.getLogger(__name__)

JOURNAL_VERSION = 3
READABLE_VERSIONS = (1, 2, 3)  # earlier ones lacked what has a default below
DEPARTED_MOST = 256


class JournalError(VscafError):
    """The journal is there but cannot be used."""


def _lists(pins: Mapping[int, frozenset[int]]) -> dict[int, list[int]]:
    lists = {cpus: sorted(cpus) for cpus in set(pins.values())}  # many have the same: each is sorted once
    return {number: lists[pins[number]] for number in sorted(pins)}


def _sets(pins: Mapping[int, list[int]]) -> dict[int, frozenset[int]]:
    return {number: frozenset(cpus) for number, cpus in pins.items()}


class FoundSettings(msgspec.Struct, frozen=True, kw_only=True):
    """DomainSettings as it is written: sorted lists for sets. Version 1 listed the pins of the vCPUs from 0 on."""

    vcpus: int
    vcpu_pins: dict[int, list[int]] | list[list[int]]
    emulator_pin: list[int]
    cpu_shares: int | None
    iothread_pins: dict[int, list[int]] = {}
    unplugged_pins: dict[int, list[int]] = {}

    @classmethod
    def of(cls, settings: DomainSettings) -> "FoundSettings":
        """The written form of *settings*."""
        return cls(
            vcpus=settings.vcpus,
            vcpu_pins=_lists(settings.vcpu_pins),
            emulator_pin=sorted(settings.emulator_pin),
            cpu_shares=settings.cpu_shares,
            iothread_pins=_lists(settings.iothread_pins),
            unplugged_pins=_lists(settings.unplugged_pins),
        )

    def settings(self) -> DomainSettings:
        """The settings that were written."""
        pins = self.vcpu_pins
        return DomainSettings(
            vcpus=self.vcpus,
            vcpu_pins=_sets(dict(enumerate(pins)) if isinstance(pins, list) else pins),
            emulator_pin=frozenset(self.emulator_pin),
            cpu_shares=self.cpu_shares,
            iothread_pins=_sets(self.iothread_pins),
            unplugged_pins=_sets(self.unplugged_pins),
        )


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a domain: what was found, and what vscaf last meant it to have (an empty partition: resting).

    `reach`: where it was meant to let the vCPUs run: the partition, the area that it rests on, or, where it is not to
    run, that of the pins that vscaf has given it (none: empty). `suspended`: vscaf has suspended it, or was about to,
    and nothing is known of its having been resumed.
    """

    name: str
    uuid: str
    run_id: int
    found: FoundSettings
    partition: list[int]
    reach: list[int] = []
    suspended: bool = False

    @property
    def key(self) -> DomainKey:
        return DomainKey(self.uuid, self.run_id)


class LeftAlone(msgspec.Struct, frozen=True, kw_only=True):
    """A domain that is not managed until somebody says so, and why. `spared`: what is not to be put back of it."""

    uuid: str
    state: str
    why: str
    spared: list[str] = []


class JournalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    version: int
    boot_id: str
    domains: list[JournalEntry]
    departed: list[JournalEntry] = []
    left_alone: list[LeftAlone] = []


class Journal:
    """The journal in *directory*. Opening takes a lock, so that two daemons never work on one journal.

    `entries`: the runs that vscaf has changed. `departed`: by domain, the last run that ended while it was changed.
    `left_alone`: by domain, those that are not to be managed.
    """

    def __init__(self, directory: Path, boot_id: str) -> None:
        self.path = directory / "journal.json"
        self.entries: dict[DomainKey, JournalEntry] = {}
        self.departed: dict[str, JournalEntry] = {}
        self.left_alone: dict[str, LeftAlone] = {}
        self._written: bytes | None = None
        self._boot_id = boot_id
        self._lock: IO[str] | None = None
        self._open(directory)

    def _open(self, directory: Path) -> None:
        """Takes the lock, and reads what is there."""
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
        if content.version not in READABLE_VERSIONS:
            raise JournalError(
                f"journal {self.path}: version {content.version}, not {JOURNAL_VERSION}: "
                "let the vscaf that wrote it put its domains back first"
            )
        self.departed = {entry.uuid: entry for entry in content.departed}
        self.left_alone = {one.uuid: one for one in content.left_alone}
        if content.boot_id == self._boot_id:
            self.entries = {entry.key: entry for entry in content.domains}
        elif content.domains:
            log.info(
                "journal %s: of an earlier boot of this host: nothing is left to be put back of %s",
                self.path,
                ", ".join(sorted(entry.name for entry in content.domains)),
            )
            self._depart(content.domains)

    def write(self, entries: Mapping[DomainKey, JournalEntry], ended: Iterable[JournalEntry] = ()) -> None:
        """Makes *entries* the journal, durably, unless it says so already; *ended* are runs that ended while changed.

        OSError when the disk refuses: what is in memory is then as before.
        """
        departed = dict(self.departed)
        self._depart(ended)
        for entry in entries.values():
            self.departed.pop(entry.uuid, None)
        try:
            self._replace(entries)
        except OSError:
            self.departed = departed
            raise
        self.entries = dict(entries)

    def leave_alone(self, one: LeftAlone | None, uuid: str) -> None:
        """Writes down that a domain is not to be managed, or (None) that it may be. OSError as write()."""
        before = dict(self.left_alone)
        self.left_alone.pop(uuid, None)
        if one is not None:
            self.left_alone[uuid] = one
        try:
            self._replace(self.entries)
        except OSError:
            self.left_alone = before
            raise

    def _depart(self, ended: Iterable[JournalEntry]) -> None:
        for entry in ended:
            self.departed.pop(entry.uuid, None)
            self.departed[entry.uuid] = entry
        for uuid in list(self.departed)[: max(0, len(self.departed) - DEPARTED_MOST)]:
            del self.departed[uuid]

    def _replace(self, entries: Mapping[DomainKey, JournalEntry]) -> None:
        content = b""
        if entries or self.departed or self.left_alone:
            file_content = JournalFile(
                version=JOURNAL_VERSION,
                boot_id=self._boot_id,
                domains=list(entries.values()),
                departed=list(self.departed.values()),
                left_alone=list(self.left_alone.values()),
            )
            content = msgspec.json.format(msgspec.json.encode(file_content)) + b"\n"
        if content == self._written:
            return
        self._written = None  # until it is known to be there: the disk may refuse in the middle
        if not content:
            self.path.unlink(missing_ok=True)
        else:
            scratch = self.path.with_suffix(".new")
            with scratch.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._written = content


def host_boot_id() -> str:
    """The kernel's name for this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
