"""A host on which nothing is in doubt is looked at less often, and nothing is noticed later than before."""

import asyncio

import pytest
from daemon_world import VCPUS, World, in_world
from vscaf.daemon.quiet import LATE_REPORT_S, QUIET_PERIODS
from vscaf.values import RunState

PERIOD_S = 0.25
MEASURED_S = 20.0


async def settle(world: World) -> None:
    """Domain a computes, b rests, and nothing is under way."""
    await world.until(lambda: len(world.agents) == 2)
    world.computes("a", 4)
    assert await world.until(lambda: world.daemon.quiet and len(world.held("a")) == 4) >= 0, world.domain("a").state


async def looks(world: World, seconds: float = MEASURED_S) -> float:
    """Looks per period in the next *seconds*."""
    before = world.host.looks
    await asyncio.sleep(seconds)
    return (world.host.looks - before) * PERIOD_S / seconds


def test_a_quiet_host_is_looked_at_once_in_some_periods() -> None:
    async def work(world: World) -> None:
        await settle(world)
        assert await looks(world) <= 1.1 / QUIET_PERIODS

    in_world(work, "a", "b")


def test_a_report_is_acted_on_at_once() -> None:
    async def work(world: World) -> None:
        await settle(world)
        world.computes("b", VCPUS)
        await asyncio.sleep(0.05)
        assert world.domain("b").inferred.demand == VCPUS and world.held("b")

    in_world(work, "a", "b")


def doubt_silence(world: World) -> None:
    world.agents["b"].silent_s = 2 * LATE_REPORT_S


def doubt_use(world: World) -> None:
    world.host.compute(world.keys["b"], {0: 0.9})


def doubt_no_use(world: World) -> None:
    world.host.compute(world.keys["a"], {})


@pytest.mark.parametrize("doubt", [doubt_silence, doubt_use, doubt_no_use])
def test_a_host_in_doubt_is_looked_at_in_each_period(doubt) -> None:
    async def work(world: World) -> None:
        await settle(world)
        doubt(world)
        await asyncio.sleep(2 * QUIET_PERIODS * PERIOD_S)
        assert await looks(world, 1.5) >= 0.8

    in_world(work, "a", "b")


def test_somebody_elses_change_of_pins_is_noticed_within_a_period() -> None:
    async def work(world: World) -> None:
        await settle(world)
        await asyncio.sleep(QUIET_PERIODS * PERIOD_S / 2)
        await world.host.pin_vcpus(world.keys["a"], {0: frozenset({9})})
        assert await world.until(lambda: bool(world.events("foreign", "a")), looks=2) >= 0

    in_world(work, "a", "b")


def test_a_domain_that_stops_is_noticed_at_once() -> None:
    async def work(world: World) -> None:
        await settle(world)
        world.host.set_state(world.keys["a"], RunState.PAUSED)
        await asyncio.sleep(0.05)
        assert not world.domain("a").inferred.demand
        world.host.set_state(world.keys["a"], RunState.RUNNING)

    in_world(work, "a", "b")
