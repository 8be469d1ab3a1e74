"""Which changes of a domain's number of vCPUs count as vscaf's own, and which as somebody else's."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from test_taking_over import Host, running, until
from vscaf.config import DomainConfig
from vscaf.daemon.loop import Daemon
from vscaf.values import DomainKey, DomainSeen, DomainSettings, Plugged, PlugOutcome

FOUR = {"a": DomainConfig(minimum=4)}


class Plugging(Host):
    """A host whose plugs a test can limit, stop and watch. `refused_from`: QEMU refuses more vCPUs than this.

    `late`: plugs wait for it. `listings_late`: listings that were read while a plug was under way are returned only
    then. `on_settings`: called once when settings were read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused_from = 8
        self.late = asyncio.Event()
        self.late.set()
        self.listings_late = asyncio.Event()
        self.listings_late.set()
        self.plugging = self.listing = False
        self.on_settings: Callable[[], None] = lambda: None

    async def plug(self, key: DomainKey, vcpus: int, cpus: frozenset[int] | None = None) -> Plugged:
        self.plugging = True
        await self.late.wait()
        done = await super().plug(key, min(vcpus, self.refused_from), cpus)
        self.plugging = False
        return done if done.vcpus >= vcpus else Plugged(PlugOutcome.PARTIAL, done.vcpus, "no memory")

    async def observe(self) -> tuple[DomainSeen, ...]:
        seen = await super().observe()
        if self.plugging:
            self.listing = True
            await self.listings_late.wait()
        return seen

    async def settings(self, key: DomainKey) -> DomainSettings:
        settings = await super().settings(key)
        self.on_settings()
        return settings

    def busy_with(self, vcpus: int) -> DomainKey:
        key = self.start("a", vcpus, 8)
        self.compute(key, dict.fromkeys(range(8), 1.0))
        return key


def changes(daemon: Daemon) -> list[tuple[int, int, str]]:
    """The changes of the number of vCPUs: before, after, why."""
    events = [one for one in daemon.events.since(0) if one.kind == "vcpus"]
    return [(int(str(one.before)), int(str(one.after)), one.why) for one in events]


def settled(daemon: Daemon, key: DomainKey, vcpus: int) -> bool:
    one = daemon.managed.get(key)
    return one is not None and one.state == "contained" and one.transition is not None and one.seen.vcpus == vcpus


def idle(daemon: Daemon, key: DomainKey) -> bool:
    """Whether vscaf has tried to plug what is missing."""
    one = daemon.managed[key].transition
    assert one is not None
    return one.affinity is not None and not one.moving and (one.vcpus >= 4 or one.vcpus_refused == 4)


def test_a_plug_that_brought_some_is_vscafs(tmp_path: Path) -> None:
    async def work() -> None:
        host = Plugging()
        host.refused_from = 3
        a = host.busy_with(2)
        async with running(host, tmp_path, **FOUR) as daemon:
            await until(lambda: settled(daemon, a, 3))
            assert changes(daemon) == [(2, 3, "as vscaf asked")]
            assert host.domains[a].vcpus == 3
        assert host.domains[a].vcpus == 2

    asyncio.run(work())


def test_a_listing_from_before_a_plug_is_out_of_date(tmp_path: Path) -> None:
    async def work() -> None:
        host = Plugging()
        host.late.clear()
        host.listings_late.clear()
        a = host.busy_with(2)
        async with running(host, tmp_path, **FOUR) as daemon:
            await until(lambda: host.listing)
            host.late.set()
            await until(lambda: bool(changes(daemon)))
            host.listings_late.set()
            await until(lambda: settled(daemon, a, 4))
            assert changes(daemon) == [(2, 4, "as vscaf asked")]
        assert host.domains[a].vcpus == 2

    asyncio.run(work())


def test_a_plug_that_completes_when_the_next_daemon_has_begun_is_vscafs(tmp_path: Path) -> None:
    async def work() -> None:
        host = Plugging()
        host.late.clear()
        a = host.busy_with(2)
        async with running(host, tmp_path, killed=True, **FOUR):
            await until(lambda: host.plugging)
        host.plugging = False

        def completes() -> None:
            host.domains[a].vcpus = 3  # and one more is still to come

        host.on_settings = completes
        async with running(host, tmp_path, **FOUR) as daemon:
            await until(lambda: bool(changes(daemon)))
            host.on_settings = lambda: None
            host.late.set()
            await until(lambda: settled(daemon, a, 4))
            assert {why for _before, _after, why in changes(daemon)} == {"as vscaf asked"}
        assert host.domains[a].vcpus == 2

    asyncio.run(work())


@pytest.mark.parametrize("count", [3, 5, 1])
def test_what_somebody_else_plugs_or_unplugs_is_theirs(count: int, tmp_path: Path) -> None:
    async def work() -> None:
        host = Plugging()
        a = host.busy_with(2)
        async with running(host, tmp_path, **FOUR) as daemon:
            await until(lambda: settled(daemon, a, 4))
            host.refused_from = 0
            for now in (count, 4, 3):
                host.domains[a].vcpus = now
                await until(lambda now=now: changes(daemon)[-1][1] == now and idle(daemon, a))  # type: ignore[misc]
            assert changes(daemon) == [
                (2, 4, "as vscaf asked"),
                (4, count, "somebody else changed it"),
                (count, 4, "somebody else changed it"),
                (4, 3, "somebody else changed it"),
            ]

    asyncio.run(work())


def test_an_unplug_that_goes_on_one_by_one_is_vscafs(tmp_path: Path) -> None:
    async def work() -> None:
        host = Plugging()
        a = host.busy_with(2)
        async with running(host, tmp_path, **FOUR) as daemon:
            await until(lambda: settled(daemon, a, 4))
            host.refused_from = 0
            daemon.managed[a].vcpus_asked = 2  # as after an unplug that was late
            host.domains[a].vcpus = 3
            await until(lambda: changes(daemon)[-1][1] == 3)
            assert changes(daemon)[-1] == (4, 3, "as vscaf asked")

    asyncio.run(work())
