"""A change of pins by somebody else is noticed although libvirt did not answer when they were first read."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from test_taking_over import POOL, Host, running, until
from vscaf.config import DomainConfig


@pytest.mark.parametrize("foreign_changes", ["mend", "respect"])
def test_a_change_that_could_not_be_read_at_once_is_noticed(foreign_changes: str, tmp_path: Path) -> None:
    theirs = frozenset({0})

    async def work() -> None:
        host = Host()
        a = host.busy("a")
        async with running(host, tmp_path, a=DomainConfig()) as daemon:
            daemon.inventory.config = msgspec.structs.replace(daemon.config, foreign_changes=foreign_changes)
            await until(lambda: host.reach(a) <= POOL and daemon.managed[a].state == "contained")
            host.unreadable.add(a)
            await host.pin_vcpus(a, {0: theirs})
            await until(lambda: daemon.events.counts["refused"] > 0)
            host.unreadable.clear()
            await until(lambda: daemon.events.counts["foreign"] == 1)
            if foreign_changes == "mend":
                await until(lambda: host.reach(a) <= POOL)
            else:
                await until(lambda: daemon.managed[a].state == "unmanaged" and daemon.managed[a].given_back)
                assert host.domains[a].pins[0] == theirs

    asyncio.run(work())
