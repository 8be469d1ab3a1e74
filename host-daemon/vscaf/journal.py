"""The settings of each domain before vscaf changed it, kept on disk so that they can be put back after any crash.

The whole file is replaced and synced before the first change that it covers. Only entries of the present boot of the
host can be put back: after a reboot no run of a domain is left. Entries of ended runs are still kept for a while.
The reason: libvirt saves a domain together with its pins, so a domain that is restored, by hand or after a reboot,
comes back with the pins that vscaf gave it.
"""

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import msgspec

from vscaf.errors import UsageError, VscafError
from vscaf.values import DomainKey, DomainSeen, DomainSettings, State

log = logging.getLogger(__name__)

JOURNAL_VERSION = 3
READABLE_VERSIONS = (1, 2, 3)  # earlier versions lack the fields that have a default below
DEPARTED_MOST = 256
DAEMON, BENCH = "daemon", "bench-"
LOCK_PATIENCE_S, LOCK_GAP_S = 20.0, 0.05  # waits for a process that puts something back and then ends
BENCH_PATIENCE_S = 0.5  # a bench does not end soon
LOCKS = Path("/run/vscaf")


class JournalError(VscafError):
    """The journal exists but cannot be used."""


def _lists(pins: Mapping[int, frozenset[int]]) -> dict[int, list[int]]:
    lists = {cpus: sorted(cpus) for cpus in set(pins.values())}  # many pins are equal: each set is sorted once
    return {number: lists[pins[number]] for number in sorted(pins)}


def _sets(pins: Mapping[int, list[int]]) -> dict[int, frozenset[int]]:
    return {number: frozenset(cpus) for number, cpus in pins.items()}


class FoundSettings(msgspec.Struct, frozen=True, kw_only=True):
    """DomainSettings in its written form: sorted lists instead of sets. Version 1 listed vCPU pins from vCPU 0 on."""

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
    """One run of a domain: the settings that were found, and its last intended partition (empty: resting).

    `reach`: where vscaf intended to let the vCPUs run: the partition, or the area that the domain rests on. If the
    domain should not run: the pCPUs of the pins that vscaf gave it, empty if it gave none. `suspended`: vscaf has
    suspended the domain, or was about to, and does not know that it was resumed. `started_ns`: see DomainSeen.
    `claim`: where its vCPUs may still compute while it is on its way to the partition, and the partition itself. An
    earlier vscaf ignores it, and writes none.
    """

    name: str
    uuid: str
    run_id: int
    found: FoundSettings
    partition: list[int]
    reach: list[int] = []
    suspended: bool = False
    started_ns: int = 0
    claim: list[int] = []

    @property
    def key(self) -> DomainKey:
        return DomainKey(self.uuid, self.run_id)

    def is_of(self, seen: DomainSeen) -> bool | None:
        """Whether this entry is about the run *seen*. None: the keys are equal, but a start time is not known."""
        if self.key != seen.key:
            return False
        return self.started_ns == seen.started_ns if self.started_ns and seen.started_ns else None


class LeftAlone(msgspec.Struct, frozen=True, kw_only=True):
    """A domain that is not managed until an operator asks for it, and why. `spared`: parts that are not put back."""

    uuid: str
    state: str
    why: str
    spared: list[str] = []

    @property
    def domain_state(self) -> State:
        """State.RELEASED or State.UNMANAGED."""
        return State.RELEASED if self.state == State.RELEASED else State.UNMANAGED


class JournalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    version: int
    boot_id: str
    domains: list[JournalEntry]
    departed: list[JournalEntry] = []
    left_alone: list[LeftAlone] = []


class _Version(msgspec.Struct):
    """The field that every version of the file has. Other fields are ignored: a later version may have more."""

    version: int


class Lock:
    """The file *path*, locked until close() or the end of this process. `holder` is written into it.

    Waits for a holder that is not a daemon, because it ends by itself. UsageError if a daemon holds the lock, or if
    another process holds it for longer than patience_s. The message begins with *subject*.

    Only its owner can open the file: a process that can open it can lock it, and so prevent every daemon from
    starting. close() removes the file, so a lock counts only while the locked file is still the one at *path*.
    """

    def __init__(self, path: Path, holder: str, subject: str, patience_s: float = LOCK_PATIENCE_S) -> None:
        self._path = path
        end_s = time.monotonic() + patience_s
        self._file = self._opened()
        while not self._taken():
            self._file.seek(0)
            lock_holder = self._file.read()  # empty: the holder has not written it yet
            removed = not self._is_there()
            self._file.close()
            if not removed:
                if lock_holder == DAEMON or time.monotonic() > end_s:
                    raise UsageError(f"{subject}: another vscaf {lock_holder or DAEMON} uses it: stop that one first")
                time.sleep(LOCK_GAP_S)
            self._file = self._opened()
        self._file.truncate(0)
        self._file.write(holder)
        self._file.flush()

    def _opened(self) -> IO[str]:
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(descriptor, "a+", encoding="utf-8")

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            self._file.close()
            raise
        return self._is_there()

    def _is_there(self) -> bool:
        """Whether the open file is still the one at the path."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Releases the lock. Harmless when called twice."""
        if not self._file.closed:
            with contextlib.suppress(OSError):  # a file that stays is harmless once it is not locked
                self._path.unlink(missing_ok=True)
            self._file.close()


def lock_hypervisor(uri: str, holder: str = DAEMON) -> Lock:
    """Keeps every other vscaf, whatever its state directory, off the domains of libvirt at *uri*. UsageError as Lock.

    A daemon is also refused while a bench uses these domains, unless that bench started it. The lock is named after the
    text of the URI: two spellings for the same libvirt are not recognized.
    """
    lock = _locked(uri, "", holder, LOCK_PATIENCE_S)
    try:
        if holder == DAEMON and not _started_by_bench(uri):
            _locked(uri, BENCH, holder, BENCH_PATIENCE_S).close()
    except UsageError:
        lock.close()
        raise
    return lock


def lock_bench(uri: str) -> Lock:
    """Keeps every other bench, and every daemon that this process does not start, off the domains of libvirt at *uri*.

    A daemon that runs already is not noticed: try `lock_hypervisor` while this lock is held. UsageError as Lock.
    """
    return _locked(uri, BENCH, _bench(os.getpid()), BENCH_PATIENCE_S)


def _bench(pid: int) -> str:
    return f"bench (pid {pid})"


def _started_by_bench(uri: str) -> bool:
    try:
        return _lock_path(uri, BENCH).read_text(encoding="utf-8") == _bench(os.getppid())
    except OSError:
        return False


def _lock_path(uri: str, kind: str) -> Path:
    user = os.geteuid()
    own = os.environ.get("XDG_RUNTIME_DIR") or f"{tempfile.gettempdir()}/vscaf-{user}"
    directory = LOCKS if user == 0 else Path(own)
    return directory / f"vscaf-{kind}{hashlib.sha256(uri.encode()).hexdigest()[:16]}.lock"


def _locked(uri: str, kind: str, holder: str, patience_s: float) -> Lock:
    path = _lock_path(uri, kind)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        return Lock(path, holder, f"libvirt at {uri}", patience_s)
    except OSError as error:
        raise UsageError(f"lock of libvirt at {uri} in {path.parent}: {error.strerror}: make it writable") from error


class Journal:
    """The journal in *directory*. Opening takes a lock, so that two daemons never work on one journal.

    `entries`: the runs that vscaf has changed. `departed`: by domain, the last run that ended while it was changed.
    `left_alone`: by domain, those that must not be managed. holder: see Lock.
    """

    def __init__(self, directory: Path, boot_id: str, holder: str = DAEMON) -> None:
        self.path = directory / "journal.json"
        self.entries: dict[DomainKey, JournalEntry] = {}
        self.departed: dict[str, JournalEntry] = {}
        self.left_alone: dict[str, LeftAlone] = {}
        self._written: bytes | None = None
        self._boot_id = boot_id
        self._writing = threading.Lock()
        self._lock: Lock | None = None
        self._open(directory, holder)

    def _open(self, directory: Path, holder: str) -> None:
        """Takes the lock and reads the file."""
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = Lock(directory / "lock", holder, f"state directory {directory}")
        except OSError as error:
            raise UsageError(
                f"state directory {directory}: {error.strerror}: give another as state_directory"
            ) from error
        try:
            self._read()
        except JournalError:
            self.close()
            raise

    def close(self) -> None:
        """Releases the lock after a write that another thread has begun. Later writes are refused."""
        with self._writing:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def _read(self) -> None:
        content = read_journal(self.path)
        if content is None:
            return
        self.departed = {entry.uuid: entry for entry in content.departed}
        self.left_alone = {one.uuid: one for one in content.left_alone}
        if content.boot_id == self._boot_id:
            self.entries = {entry.key: entry for entry in content.domains}
        elif content.domains:
            log.info(
                "journal %s: it is from an earlier boot of this host: nothing has to be put back for %s",
                self.path,
                ", ".join(sorted(entry.name for entry in content.domains)),
            )
            self._depart(content.domains)

    def write(self, entries: Mapping[DomainKey, JournalEntry], ended: Iterable[JournalEntry] = ()) -> None:
        """Writes *entries* to disk, unless they are there already. *ended*: runs that ended while they were changed.

        OSError when the disk refuses, or after close(). The entries in memory are then as before.
        """
        with self._writing:
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

    def leave_alone(self, entry: LeftAlone | None, uuid: str) -> None:
        """Writes to disk that a domain must not be managed, or (None) that it may be. OSError as write()."""
        with self._writing:
            before = dict(self.left_alone)
            self.left_alone.pop(uuid, None)
            if entry is not None:
                self.left_alone[uuid] = entry
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
        if self._lock is None:
            raise OSError(errno.EBADF, "it was closed")
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
        self._written = None  # unknown until the write has succeeded: the disk may refuse halfway
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


def read_journal(path: Path) -> JournalFile | None:
    """The content of the file, read without its lock. None: there is no file. JournalError if it cannot be used."""
    try:
        content = path.read_bytes()
        version = msgspec.json.decode(content, type=_Version).version
        if version in READABLE_VERSIONS:
            return msgspec.json.decode(content, type=JournalFile)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise JournalError(f"journal {path}: {error}: move it away if no domain is pinned by vscaf") from error
    raise JournalError(
        f"journal {path}: version {version}, not {JOURNAL_VERSION}: "
        "first let the vscaf version that wrote it put its domains back"
    )


def host_boot_id() -> str:
    """The kernel's identifier for this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
