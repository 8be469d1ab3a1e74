"""What a daemon that has just started waits for before it decides."""

import asyncio

from daemon_world import VCPUS, Agent, World, in_world
from vscaf.daemon.loop import FIRST_REPORT_WAIT_S
from vscaf.values import DomainSeen


def test_after_a_slow_first_listing_who_computes_does_not_rest() -> None:
    """The first decision waits until the host has seen use. It counts the time from when the domains are known."""

    def prepare(world: World) -> None:
        observe, agent = world.host.observe, Agent(lambda: None)
        agent.report = None
        world.agents["a"] = agent
        world.host.compute(world.keys["a"], dict.fromkeys(range(VCPUS), 1.0))

        async def observe_slowly_at_first() -> tuple[DomainSeen, ...]:
            if not world.host.looks:
                await asyncio.sleep(FIRST_REPORT_WAIT_S)
            return await observe()

        world.host.observe = observe_slowly_at_first  # type: ignore[method-assign]

    async def work(world: World) -> None:
        assert await world.until(lambda: len(world.events("allocation")) > 0) >= 0
        await asyncio.sleep(2.0)
        assert [event.after for event in world.events("allocation")] == ["2-9"]

    in_world(work, "a", prepare=prepare)
