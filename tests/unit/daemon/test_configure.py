"""A running daemon uses another configuration at once and gives nothing else back. It runs on the simulated host."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from daemon_world import Trouble, World, in_world
from vscaf.config import DomainConfig
from vscaf.daemon.status import status
from vscaf.errors import HypervisorError
from vscaf.values import State

LATE_MS = 20_000


def reconfigured(world: World, **keys: Any) -> None:
    """The daemon uses its configuration with these keys. If they concern the pool, it also gets the host's pCPUs."""
    config = msgspec.structs.replace(world.daemon.config, **keys)
    cpus = world.host.cpus if keys.keys() & {"pool", "reserve", "smt"} else None
    world.daemon.configure(config, cpus)


@dataclass
class Pinned:
    """Counts the changes of each domain's pins, and checks at each that no two domains are on one pCPU."""

    world: World
    names: str
    count: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.before = {name: self.world.pins(name) for name in self.names}
        self.world.on_pins = self.look

    def look(self) -> None:
        for name in self.names:
            if (pins := self.world.pins(name)) != self.before[name]:
                self.count[name] += 1
                self.before[name] = pins
        managed = [name for name in self.names if self.world.keys[name] in self.world.daemon.managed]
        reach = [self.world.reach(name) for name in managed if self.world.held(name)]
        assert sum(map(len, reach)) == len(frozenset().union(*reach)), "two domains are on one pCPU"


async def computing(world: World, names: str, size: int) -> Pinned:
    """The domains *names* have *size* pCPUs each, and their guests cooperate."""
    await asyncio.sleep(0.5)
    for name in names:
        world.computes(name)

    def arrived() -> bool:
        return all(len(world.held(name)) == size and world.domain(name).state == "cooperating" for name in names)

    assert await world.until(arrived) >= 0, [world.held(name) for name in names]
    await asyncio.sleep(1.0)
    return Pinned(world, names)


def test_a_bound_changes_one_domain_and_no_pin_of_the_others() -> None:
    async def work(world: World) -> None:
        pinned = await computing(world, "abc", 4)
        reconfigured(world, domains={**world.daemon.config.domains, "a": DomainConfig(maximum=2, weight=3.0)})
        assert world.domain("a").maximum == 2, "the new bound is not in force at once"
        assert await world.until(lambda: len(world.held("a")) == 2) >= 0
        await asyncio.sleep(1.0)
        assert set(pinned.count) == {"a"}
        assert world.agents["a"].received[-1].limit == 2, "its guest is told the new limit"
        (rules,) = world.events("rules")
        assert (rules.domain, rules.before, rules.after) == (
            "a",
            "minimum=1 maximum=4 weight=1.0 priority=0",
            "minimum=1 maximum=2 weight=3.0 priority=0",
        )

    in_world(work, "a", "b", "c", cpus=14, policy="equipartition", rules={n: DomainConfig(maximum=4) for n in "abc"})


def test_who_is_no_longer_named_is_given_back_and_the_others_stay() -> None:
    async def work(world: World) -> None:
        pinned = await computing(world, "abc", 4)
        domains = dict(world.daemon.config.domains)
        reconfigured(world, domains={"a": domains["a"], "b": DomainConfig(managed=False)})
        assert await world.until(lambda: {one.name for one in world.daemon.managed.values()} == {"a"}) >= 0
        assert world.pins("b") == world.found["b"] and world.pins("c") == world.found["c"]
        assert {one.domain for one in world.events("given-back")} == {"b", "c"}
        assert len(world.daemon.journal.entries) == 1
        await asyncio.sleep(1.0)
        assert "a" not in pinned.count
        reconfigured(world, domains=domains)
        back = lambda: len(world.daemon.managed) == 3 and all(len(world.held(one)) == 4 for one in "abc")  # noqa: E731
        assert await world.until(back) >= 0
        assert "a" not in pinned.count

    in_world(work, "a", "b", "c", cpus=14, policy="equipartition", rules={n: DomainConfig(maximum=4) for n in "abc"})


def test_what_changes_nothing_makes_no_call() -> None:
    async def work(world: World) -> None:
        pinned = await computing(world, "ab", 4)
        decided = world.daemon.transitions
        reconfigured(world, foreign_changes="respect", newcomer_ms=100, period_ms=100, pool="2-5,6-9")
        await asyncio.sleep(2.0)
        assert not pinned.count and world.daemon.transitions == decided
        assert world.daemon.config.period_ms == 100

    in_world(work, "a", "b", cpus=10, policy="equipartition")


@pytest.mark.parametrize("pool", ["2-5", "2-13", "6-9", "10-13", "2-3,8-9"])
def test_partitions_follow_the_pool_and_stay_apart(pool: str) -> None:
    """The pool is 2-9 before. A domain that has pCPUs of both pools keeps those."""

    async def work(world: World) -> None:
        pinned = await computing(world, "ab", 4)
        before = {name: world.held(name) for name in "ab"}
        reconfigured(world, pool=pool, reserve="0-1")
        cpus = world.daemon.pool_cpus
        share = min(8, len(cpus) // 2)

        def arrived() -> bool:
            return all(len(world.held(one)) == share and world.held(one) <= cpus for one in "ab")

        assert await world.until(arrived) >= 0, [world.held(one) for one in "ab"]
        assert not world.daemon.violations
        for name in "ab":
            assert len(world.held(name) & before[name]) == min(share, len(before[name] & cpus))
        assert pinned.count, "nothing was pinned"

    in_world(work, "a", "b", cpus=14, policy="equipartition", prepare=lambda world: reconfigured(world, pool="2-9"))


def test_who_rests_moves_with_the_reserve() -> None:
    async def work(world: World) -> None:
        await computing(world, "a", 8)
        assert await world.until(lambda: world.domain("b").state == State.RESTING) >= 0
        assert world.reach("b") == {0, 1}
        reconfigured(world, pool="2-9", reserve="1,10")
        assert await world.until(lambda: world.reach("b") == {1, 10}) >= 0
        reconfigured(world, rest="share")
        assert await world.until(lambda: world.reach("b") == set(range(2, 10))) >= 0
        reconfigured(world, rest="keep")
        assert await world.until(lambda: len(world.held("b")) > 0) >= 0

    in_world(work, "a", "b", cpus=12, policy="equipartition", prepare=lambda world: reconfigured(world, pool="2-9"))


def test_a_shorter_deadline_is_in_force_at_once() -> None:
    """A guest does not release its CPUs. The daemon would wait for it for 20 s."""

    async def work(world: World) -> None:
        await computing(world, "a", 8)
        world.agents["a"].acknowledges = False
        world.computes("b")
        assert await world.until(lambda: world.domain("a").state == State.SHRINKING) >= 0
        await asyncio.sleep(1.0)
        assert world.domain("a").state == State.SHRINKING
        reconfigured(world, deadline_ms=100)
        assert await world.until(lambda: len(world.held("b")) == 4, 4) >= 0

    in_world(work, "a", "b", cpus=10, policy="equipartition", deadline_ms=LATE_MS)


def test_the_status_shows_the_configuration_in_use() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(0.5)
        assert status(world.daemon)["configured_at"] <= world.events("appeared")[0].time
        reconfigured(world, domains={"a": DomainConfig(), "z": DomainConfig()})
        shown = status(world.daemon)
        assert shown["configured_at"] >= world.events("appeared")[0].time
        assert [one["name"] for one in shown["domains"]] == ["a", "z"]

    in_world(work, "a")


def test_exploring_ends_when_it_may_cost_nothing() -> None:
    async def work(world: World) -> None:
        await computing(world, "ab", 8)
        memory = world.daemon.decider._memory
        reconfigured(world, exploration_percent=2.0)
        assert world.daemon.decider._memory is memory and world.daemon.decider._settings.steady == 0.02
        reconfigured(world, exploration_percent=0.0)
        assert world.daemon.decider._settings is None and world.daemon.decider._memory is not memory

    in_world(work, "a", "b", policy="max-speedup-fitted")


def test_a_vcpu_that_was_unused_for_the_new_time_is_unplugged() -> None:
    """The daemon would wait for ten minutes, and nothing else makes it take steps."""

    async def work(world: World) -> None:
        await computing(world, "a", 8)
        world.computes("b")
        assert await world.until(lambda: len(world.held("a")) == len(world.held("b")) == 4) >= 0
        await asyncio.sleep(20.0)
        assert world.domain("a").seen.vcpus == 8
        reconfigured(world, unplug_after_s=10)
        assert await world.until(lambda: world.domain("a").seen.vcpus == 4, 4) >= 0

    in_world(work, "a", "b", cpus=10, policy="equipartition", vcpus=2)


def test_a_pcpu_of_the_reserve_is_handed_out_only_when_who_rests_there_has_left() -> None:
    async def work(world: World) -> None:
        await computing(world, "a", 6)
        assert world.reach("b") == {0, 1}
        world.host.trouble[world.keys["b"]] = Trouble({"pin_vcpus"}, HypervisorError("made up"))
        reconfigured(world, pool="1-7", reserve="0")
        for _ in range(10):
            await asyncio.sleep(0.1)
            assert 1 in world.reach("b") and 1 not in world.reach("a")
        assert world.held("b") == {1}
        world.host.trouble.clear()
        assert await world.until(lambda: world.reach("b") == {0} and 1 in world.held("a"), 80) >= 0
        assert not world.held("b") and world.domain("b").state == State.RESTING

    def few_cpus(world: World) -> None:
        reconfigured(world, pool="2-7")

    in_world(work, "a", "b", cpus=8, policy="equipartition", prepare=few_cpus, deadline_ms=LATE_MS)
