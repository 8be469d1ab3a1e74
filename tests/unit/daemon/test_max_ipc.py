"""The policy max-ipc needs the instructions per cycle of every computing domain. Until then it is refused, in words."""

import asyncio

import pytest
from daemon_world import in_world
from vscaf.daemon.operations import Operations
from vscaf.errors import UsageError

EQUAL, BY_IPC = {"a": 6, "b": 6}, {"a": 4, "b": 8}


def allocations(world):
    return {name: len(world.held(name)) for name in ("a", "b")}


async def settles(world, expected):
    await asyncio.sleep(1.0)
    assert await world.until(lambda: allocations(world) == expected) >= 0, allocations(world)


def test_setting_it_is_refused_and_names_the_domains_that_report_none():
    async def work(world):
        operations = Operations(world.daemon)
        await asyncio.sleep(0.5)
        world.computes("a", ipc=0.35)
        world.computes("b")
        await settles(world, EQUAL)
        with pytest.raises(UsageError, match=r"max-ipc: .* known of b: start .*VSCAF_METRIC=ipc.* PMU and PAPI"):
            await operations.set_policy("max-ipc", {})
        assert world.daemon.policy_name == "max-speedup"
        world.computes("b", ipc=0.85)
        await asyncio.sleep(1.5)  # it counts after a window of vCPU time
        await operations.set_policy("max-ipc", {})
        await settles(world, BY_IPC)

    world = in_world(work, "a", "b", cpus=14)
    assert not world.events("refused")


def test_as_the_configured_policy_it_says_that_it_is_not_in_force_and_comes_into_force():
    async def work(world):
        await asyncio.sleep(0.5)
        assert not world.events("refused"), "nothing computes yet"
        world.computes("a", ipc=0.35)
        world.computes("b")
        await settles(world, EQUAL)
        (event,) = world.events("refused")
        assert event.domain is None and "known of b:" in event.why and event.why.endswith("equal shares until it works")
        world.computes("b", ipc=0.85)
        await settles(world, BY_IPC)
        world.computes("a")  # another program, which is not measured yet
        await settles(world, EQUAL)
        assert "known of a:" in world.events("refused")[1].why
        world.computes("a", ipc=0.35)
        await settles(world, BY_IPC)

    world = in_world(work, "a", "b", cpus=14, policy="max-ipc")
    assert len(world.events("refused")) == 2 and not world.events("fault")
