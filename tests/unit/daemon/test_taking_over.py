"""A daemon takes over from one that was killed. The journal counts until a domain can be read."""

import asyncio
import errno
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from vscaf.config import Config, DomainConfig
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.pool import HostPool
from vscaf.domains.rules import DomainRules
from vscaf.errors import HypervisorUnreachable, VscafError
from vscaf.journal import FoundSettings, Journal, JournalEntry, read_journal
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import DomainKey, DomainSeen, HostCpus, MetadataRules, RunState

NUMBERS = frozenset(range(10))
CPUS = HostCpus(NUMBERS, tuple(frozenset({cpu}) for cpu in NUMBERS), dict.fromkeys(NUMBERS, 0))
POOL = frozenset(range(2, 10))


class Host(SimulatedHost):
    """A host. `unreadable`: the domains whose settings cannot be read. `stuck`: those that cannot be pinned."""

    def __init__(self) -> None:
        self.unreadable: set[DomainKey] = set()
        self.stuck: set[DomainKey] = set()
        super().__init__(CPUS)
        self.fault = self._fail

    def _fail(self, call: str, key: DomainKey | None) -> None:
        if call == "settings" and key in self.unreadable:
            raise HypervisorUnreachable("libvirt does not answer for this domain")
        if call == "pin_vcpus" and key in self.stuck:
            raise HypervisorUnreachable("libvirt does not pin this domain")

    def reach(self, key: DomainKey) -> frozenset[int]:
        one = self.domains[key]
        return frozenset[int]().union(*(one.pins[vcpu] for vcpu in range(one.vcpus)))

    def busy(self, name: str) -> DomainKey:
        key = self.start(name, 8)
        self.compute(key, dict.fromkeys(range(8), 1.0))
        return key


def configured(*, metadata: bool = True, **domains: DomainConfig) -> Config:
    return Config(
        pool="2-9",
        reserve="0-1",
        domains=domains,
        metadata=metadata,
        newcomer_ms=100,
        period_ms=20,
        deadline_ms=50,
    )


@asynccontextmanager
async def running(
    host: Host,
    directory: Path,
    *,
    killed: bool = False,
    hand_over: bool = False,
    metadata: bool = True,
    **domains: DomainConfig,
) -> AsyncIterator[Daemon]:
    journal = Journal(directory, "boot")
    daemon = Daemon(configured(metadata=metadata, **domains), host, CPUS, journal, links=lambda seen, on_news: None)
    host.on_change, host.on_tuned = daemon.wake, daemon.tuned
    task = asyncio.create_task(daemon.run())
    try:
        yield daemon
    finally:
        if killed:
            task.cancel()
        else:
            daemon.stop(hand_over=hand_over)
        await asyncio.gather(task, return_exceptions=killed)
        await daemon.close()
        journal.close()


def written(directory: Path, name: str) -> JournalEntry:
    """What the journal on the disk has of the domain."""
    content = read_journal(directory / "journal.json")
    assert content is not None
    (entry,) = [one for one in content.domains if one.name == name]
    return entry


async def looks(daemon: Daemon, count: int = 20) -> AsyncIterator[None]:
    """Yields after each of the next looks."""
    for _ in range(count):
        seen = daemon._look_ended_s
        daemon.wake()
        await until(lambda at=seen: daemon._look_ended_s > at)  # type: ignore[misc]
        yield


async def until(condition: Callable[[], bool], deadline_s: float = 60.0) -> None:
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, "not true in time"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("by_an_earlier_vscaf", [False, True])
def test_a_domain_that_cannot_be_read_keeps_what_the_journal_says(by_an_earlier_vscaf: bool, tmp_path: Path) -> None:
    """by_an_earlier_vscaf: the journal has partitions and no claims."""

    async def work() -> None:
        host = Host()
        a, b = host.busy("a"), host.busy("b")
        two = {"a": DomainConfig(), "b": DomainConfig()}
        async with running(host, tmp_path, killed=True, **two):
            await until(lambda: len(host.reach(a)) == len(host.reach(b)) == 4)
        had = host.reach(a)
        if by_an_earlier_vscaf:
            path = tmp_path / "journal.json"
            content = json.loads(path.read_text(encoding="utf-8"))
            for one in content["domains"]:
                del one["claim"]
            path.write_text(json.dumps(content), encoding="utf-8")
        host.unreadable.add(a)
        async with running(host, tmp_path, **two) as daemon:
            await until(lambda: daemon.decision is not None)
            async for _ in looks(daemon):
                assert not host.reach(b) & had and not daemon.violations
            one = daemon.managed[a]
            assert (one.held, one.state, one.found) == (had, "unknown", None)
            assert any(event.domain == "a" and str(event.kind) == "refused" for event in daemon.events.since(0))
            (entry,) = [entry for entry in daemon.journal.entries.values() if entry.name == "a"]
            assert set(entry.partition) == had
            host.unreadable.clear()
            await until(lambda: one.found is not None and one.state == "contained" and one.held == had)
        assert host.reach(a) == host.reach(b) == NUMBERS and not daemon.journal.entries

    asyncio.run(work())


@pytest.mark.parametrize("rests", [False, True])
def test_a_domain_that_cannot_be_read_keeps_what_it_had_not_left_yet(rests: bool, tmp_path: Path) -> None:
    """Its daemon was killed while it should shrink, or rest, and could not be pinned."""

    async def work() -> None:
        host = Host()
        a, b = host.busy("a"), host.start("b", 8)
        two = {"a": DomainConfig(), "b": DomainConfig()}
        async with running(host, tmp_path, killed=True, **two):
            await until(lambda: host.reach(a) == POOL and not host.reach(b) & POOL)
            host.stuck.add(a)
            host.compute(a, {} if rests else dict.fromkeys(range(8), 1.0))
            host.compute(b, {} if rests else dict.fromkeys(range(8), 1.0))
            await until(lambda: len(written(tmp_path, "a").partition) == (0 if rests else 4))
            assert host.reach(a) == POOL and not host.reach(b) & POOL
        host.stuck.clear()
        host.unreadable.add(a)
        host.compute(b, dict.fromkeys(range(8), 1.0))
        async with running(host, tmp_path, **two) as daemon:
            await until(lambda: daemon.decision is not None and daemon.decision.allocations.get("b", 0) > 0)
            async for _ in looks(daemon):
                assert not host.reach(b) & POOL
            host.unreadable.clear()
            await until(lambda: len(host.reach(b)) >= 4 and not host.reach(a) & host.reach(b))

    asyncio.run(work())


@pytest.mark.parametrize("full", [False, True])
def test_where_a_domain_is_let_is_on_the_disk_before(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """full: the disk takes nothing more, which keeps no domain from growing."""
    replace_file, slow, writable = Journal._replace, [False], threading.Event()

    def replace_slowly(self: Journal, entries: Mapping[DomainKey, JournalEntry]) -> None:
        if slow[0]:
            writable.wait()
            if full:
                raise OSError(errno.ENOSPC, "no space left")
        replace_file(self, entries)

    async def work() -> None:
        host = Host()
        a, b = host.busy("a"), host.busy("b")
        two = {"a": DomainConfig(), "b": DomainConfig()}
        async with running(host, tmp_path, **two) as daemon:
            await until(lambda: len(host.reach(a)) == len(host.reach(b)) == 4)
            await until(lambda: set(written(tmp_path, "a").claim) == host.reach(a))
            slow[0] = True
            try:
                host.compute(b, {})
                await until(lambda: daemon.managed[a].goal is not None and daemon.managed[a].goal.partition == POOL)
                await until(lambda: not host.reach(b) & POOL)
                async for _ in looks(daemon):
                    assert host.reach(a) <= set(written(tmp_path, "a").claim)
            finally:
                writable.set()
            await until(lambda: host.reach(a) == POOL)
            assert full or set(written(tmp_path, "a").claim) == POOL
            slow[0] = False

    monkeypatch.setattr(Journal, "_replace", replace_slowly)
    asyncio.run(work())


def test_a_daemon_that_hands_over_leaves_the_partition_to_the_next(tmp_path: Path) -> None:
    async def work() -> None:
        host = Host()
        a, b = host.busy("a"), host.busy("b")
        two = {"a": DomainConfig(), "b": DomainConfig()}
        async with running(host, tmp_path, hand_over=True, **two):
            await until(lambda: len(host.reach(a)) == len(host.reach(b)) == 4)
            had = host.reach(a), host.reach(b)
        assert (host.reach(a), host.reach(b)) == had and not had[0] & had[1]
        async with running(host, tmp_path, **two) as daemon:
            await until(lambda: [one.state for one in daemon.managed.values()] == ["contained", "contained"])
            assert (host.reach(a), host.reach(b)) == had
        assert host.reach(a) == host.reach(b) == NUMBERS and not daemon.journal.entries

    asyncio.run(work())


def test_a_stop_after_a_hand_over_was_asked_for_puts_everything_back(tmp_path: Path) -> None:
    async def work() -> None:
        host = Host()
        a = host.busy("a")
        async with running(host, tmp_path, a=DomainConfig()) as daemon:
            await until(lambda: host.reach(a) <= POOL)
            daemon.stop(hand_over=True)
        assert host.reach(a) == NUMBERS

    asyncio.run(work())


def test_who_cannot_be_read_is_not_said_to_be_given_back(tmp_path: Path) -> None:
    async def work() -> None:
        host = Host()
        a = host.busy("a")
        async with running(host, tmp_path, killed=True, a=DomainConfig()):
            await until(lambda: host.reach(a) <= POOL)
        host.unreadable.add(a)
        async with running(host, tmp_path, a=DomainConfig()) as daemon:
            await until(lambda: a in daemon.managed)
            with pytest.raises(VscafError, match="domain a: could not be put back"):
                await Operations(daemon).release("a")
            host.unreadable.clear()
            await until(lambda: host.reach(a) == NUMBERS)
        async with running(host, tmp_path, killed=True, a=DomainConfig()) as daemon:
            await until(lambda: daemon.decision is not None)
            await Operations(daemon).manage("a")
            await until(lambda: host.reach(a) <= POOL)
        async with running(host, tmp_path, a=DomainConfig()) as daemon:
            await until(lambda: a in daemon.managed)
            assert await Operations(daemon).release("a") == ["a"], "a domain that was not read is released too"
            assert host.reach(a) == NUMBERS

    asyncio.run(work())


def test_what_cannot_be_read_and_is_not_in_the_journal_is_said(tmp_path: Path) -> None:
    async def work() -> None:
        host = Host()
        host.unreadable.add(host.busy("a"))
        b = host.busy("b")
        async with running(host, tmp_path, a=DomainConfig(), b=DomainConfig()) as daemon:
            await until(lambda: host.reach(b) <= POOL)
            (event,) = [one for one in daemon.events.since(0) if one.domain == "a" and str(one.kind) == "refused"]
            assert (
                "until its settings can be read it may compute on pCPUs of others" in event.why
                and "does not answer" in event.why
            )
            assert {one.name: one.state for one in daemon.managed.values()}["a"] == "unknown"
            host.unreadable.clear()
            await until(lambda: all(one.state == "contained" for one in daemon.managed.values()))

    asyncio.run(work())


OLD = FoundSettings(vcpus=2, vcpu_pins={0: [1], 1: [1]}, emulator_pin=[1], cpu_shares=7)


def adopted(
    pins: frozenset[int],
    *,
    booted: bool = True,
    started_ns: int = 0,
    entry_started_ns: int = 0,
    state: RunState = RunState.RUNNING,
) -> ManagedDomain:
    """An adopted run with *pins*, whose key is in the journal."""

    async def work() -> ManagedDomain:
        host = SimulatedHost(CPUS)
        key = host.start("a", 8)
        await host.pin_vcpus(key, dict.fromkeys(range(8), pins))
        (seen,) = await host.observe()
        seen = replace(seen, booted=booted, started_ns=started_ns, state=state)
        entry = JournalEntry(
            name="a",
            uuid=key.uuid,
            run_id=key.run_id,
            found=OLD,
            partition=[2, 3],
            reach=[2, 3],
            started_ns=entry_started_ns,
        )
        one = ManagedDomain(seen, DomainRules(), host, None)
        await one.adopt(entry, None, HostPool(configured(a=DomainConfig()), CPUS))
        return one

    return asyncio.run(work())


def taken_for_the_same(one: ManagedDomain) -> bool:
    assert one.found is not None
    return one.found == OLD.settings()


@pytest.mark.parametrize(
    ("pins", "same"),
    [
        ({2, 3}, True),
        ({2}, True),
        ({6, 7}, True),  # on its way from another partition
        (POOL, True),  # at rest
        ({0, 1}, True),
        ({1}, True),  # as it was found: vscaf had not changed it yet
        (NUMBERS, False),
    ],
)
def test_a_run_of_the_same_key_whose_pins_vscaf_never_gave_is_another(pins: set[int], same: bool) -> None:
    """When libvirt starts, it counts on from the largest number in use, so it may give a number twice."""
    assert taken_for_the_same(adopted(frozenset(pins))) == same
    assert taken_for_the_same(adopted(frozenset(pins), booted=False)), "not known to have booted: nobody can tell"


@pytest.mark.parametrize("pins", [NUMBERS, POOL, frozenset({2, 3})])
def test_a_run_of_the_same_key_that_began_at_another_time_is_another(pins: frozenset[int]) -> None:
    assert not taken_for_the_same(adopted(pins, started_ns=2, entry_started_ns=1))
    assert taken_for_the_same(adopted(pins, started_ns=1, entry_started_ns=1))
    if pins != NUMBERS:
        assert taken_for_the_same(adopted(pins, started_ns=1)), "an earlier vscaf wrote no start time"


def test_who_was_saved_and_has_its_number_again_is_known_by_its_pins() -> None:
    pins = frozenset({2, 3})
    assert taken_for_the_same(adopted(pins, booted=False, started_ns=2, entry_started_ns=1))
    assert not taken_for_the_same(adopted(NUMBERS, booted=False, started_ns=2, entry_started_ns=1))


def test_who_came_back_with_pins_of_vscaf_is_waited_for() -> None:
    """It computes where it is pinned, so no other domain is let in there if one call on it fails."""
    pins, everywhere = frozenset({2, 3}), NUMBERS
    for was, placed in ((pins, True), (everywhere, False)):
        transition = adopted(was, booted=False, started_ns=2, entry_started_ns=1).transition
        assert transition is not None and transition.placed is placed


class Counted(Host):
    """A host that knows when its domains began."""

    def __init__(self) -> None:
        self.began = {"a": 1}
        super().__init__()

    async def observe(self) -> tuple[DomainSeen, ...]:
        return tuple(replace(one, started_ns=self.began[one.name], booted=True) for one in await super().observe())


def test_a_new_run_of_the_same_key_is_not_touched_before_what_was_found_of_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has settings under its key, but they were found of the earlier run."""

    def refuse(*_given: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    async def work() -> None:
        host = Counted()
        a = host.busy("a")
        async with running(host, tmp_path, killed=True, a=DomainConfig()):
            await until(lambda: host.reach(a) <= POOL)
        host.began["a"] = 2
        host.domains[a].pins = dict.fromkeys(range(8), NUMBERS)
        monkeypatch.setattr(Journal, "_replace", refuse)
        async with running(host, tmp_path, a=DomainConfig()) as daemon:
            await until(lambda: daemon.events.counts["refused"] > 0)
            async for _ in looks(daemon):
                assert host.reach(a) == NUMBERS
            monkeypatch.undo()
            await until(lambda: host.reach(a) <= POOL)
        assert host.reach(a) == NUMBERS

    asyncio.run(work())


def test_a_new_run_of_the_same_key_is_a_new_domain_for_a_daemon_that_lives(tmp_path: Path) -> None:
    async def work() -> None:
        host = Counted()
        a = host.busy("a")
        await host.pin_vcpus(a, {0: frozenset({9})})
        async with running(host, tmp_path, a=DomainConfig()) as daemon:
            await until(lambda: host.reach(a) <= POOL and daemon.managed[a].state == "contained")
            assert [entry.started_ns for entry in daemon.journal.entries.values()] == [1]
            host.began["a"] = 2
            host.domains[a].pins = dict.fromkeys(range(8), NUMBERS)
            await until(lambda: daemon.managed[a].seen.started_ns == 2 and daemon.managed[a].state == "contained")
            assert daemon.events.counts["gone"] == 1 and daemon.events.counts["appeared"] == 2
            await until(lambda: [entry.started_ns for entry in daemon.journal.entries.values()] == [2])
        assert set(host.domains[a].pins.values()) == {NUMBERS}, "the earlier run's settings were put back"

    asyncio.run(work())


def given_back(daemon: Daemon) -> bool:
    return daemon.events.counts["given-back"] > 0


class Marked(Host):
    """A host whose domains are marked by their metadata. `undescribed`: the domains whose description is unknown;
    `wrong`: those whose metadata are wrong, and never were good."""

    def __init__(self) -> None:
        self.undescribed: set[DomainKey] = set()
        self.wrong: set[DomainKey] = set()
        super().__init__()

    def busy(self, name: str) -> DomainKey:
        key = super().busy(name)
        self.domains[key].rules = MetadataRules()
        return key

    def _as_known(self, seen: DomainSeen) -> DomainSeen:
        if seen.key in self.undescribed:
            return replace(seen, accelerated=False, rules=None, rules_error="unknown", described=False)
        return replace(seen, rules=None, rules_error="bad") if seen.key in self.wrong else seen

    async def observe(self) -> tuple[DomainSeen, ...]:
        return tuple(self._as_known(one) for one in await super().observe())


def test_a_marked_domain_that_cannot_be_described_keeps_what_the_journal_says(tmp_path: Path) -> None:
    """It is unknown whether it is still marked, which is not the same as not marked."""

    async def work() -> None:
        host = Marked()
        a, b = host.busy("a"), host.busy("b")
        async with running(host, tmp_path, killed=True):
            await until(lambda: len(host.reach(a)) == len(host.reach(b)) == 4)
        had = host.reach(a)
        host.undescribed.add(a)
        async with running(host, tmp_path) as daemon:
            await until(lambda: daemon.decision is not None)
            async for _ in looks(daemon):
                assert not host.reach(b) & had and host.reach(a) == had and not daemon.violations
            one = daemon.managed[a]
            assert (one.held, one.state, one.found, given_back(daemon)) == (had, "unknown", None, False)
            host.undescribed.clear()
            await until(lambda: one.state == "contained" and one.found is not None)
            assert one.held == had and one.transition is not None and one.transition.treatment.unplug
            assert not given_back(daemon)
            host.domains[a].rules = None  # the mark is removed
            await until(lambda: a not in daemon.managed and host.reach(a) == NUMBERS)
            assert given_back(daemon)
        assert host.reach(b) == NUMBERS and not daemon.journal.entries

    asyncio.run(work())


def test_a_domain_whose_metadata_are_wrong_when_the_daemon_starts_again_stays_managed(tmp_path: Path) -> None:
    async def work() -> None:
        host = Marked()
        a, b = host.busy("a"), host.busy("b")
        async with running(host, tmp_path, killed=True):
            await until(lambda: len(host.reach(a)) == len(host.reach(b)) == 4)
        host.wrong |= {a, host.busy("c")}
        async with running(host, tmp_path) as daemon:
            await until(lambda: a in daemon.managed and daemon.managed[a].state == "contained")
            async for _ in looks(daemon):
                assert host.reach(a) <= POOL and not host.reach(a) & host.reach(b) and not given_back(daemon)
            assert sorted(one.name for one in daemon.managed.values()) == ["a", "b"], "c was never good: not managed"

    asyncio.run(work())


@pytest.mark.parametrize("managed", [False, None])
def test_no_metadata_are_needed_to_give_a_domain_back_that_the_configuration_excludes(
    tmp_path: Path, managed: bool | None
) -> None:
    async def work() -> None:
        host = Marked()
        a = host.busy("a")
        async with running(host, tmp_path, killed=True):
            await until(lambda: host.reach(a) <= POOL)
        host.wrong.add(a)
        excluded = {"a": DomainConfig(managed=False)} if managed is False else {}
        async with running(host, tmp_path, metadata=managed is False, **excluded):
            await until(lambda: host.reach(a) == NUMBERS)

    asyncio.run(work())
