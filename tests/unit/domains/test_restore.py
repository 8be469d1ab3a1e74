"""What vscaf puts back of a domain, also for vCPUs that it does not have now."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from vscaf.domains.restore import put_pins_back, unplug_again
from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import DomainKey, DomainSettings, HostCpus

NUMBERS = frozenset(range(4))
CPUS = HostCpus(NUMBERS, tuple(frozenset({cpu}) for cpu in NUMBERS), dict.fromkeys(NUMBERS, 0))
POOL = frozenset({2, 3})


async def plugged_and_unplugged(host: SimulatedHost) -> tuple[DomainKey, DomainSettings]:
    """A domain of two vCPUs that had four for a while, and its settings before that."""
    key = host.start("a", 2, 4)
    await host.pin_vcpus(key, {3: frozenset({1})})
    found = await host.settings(key)
    await host.plug(key, 4, POOL)
    await host.pin_vcpus(key, dict.fromkeys(range(4), POOL))
    await host.unplug(key, 2)
    return key, found


def test_vcpus_that_were_unplugged_have_their_pins_back() -> None:
    """Otherwise they compute on pCPUs of the pool after the next plug."""

    async def work() -> None:
        host = SimulatedHost(CPUS)
        key, found = await plugged_and_unplugged(host)
        assert (await host.settings(key)).unplugged_pins == {2: POOL, 3: POOL}
        await put_pins_back(host, key, found, frozenset())
        assert await host.settings(key) == found

    asyncio.run(work())


def test_an_absent_vcpu_without_a_pin_of_its_own_may_run_where_it_could() -> None:
    """libvirt lists pins of an absent vCPU only if somebody has pinned it."""

    async def work() -> None:
        host = SimulatedHost(CPUS)
        key, found = await plugged_and_unplugged(host)
        found = replace(found, vcpu_pins={0: frozenset({0}), 1: frozenset({1})}, unplugged_pins={3: frozenset({1})})
        await put_pins_back(host, key, found, frozenset())
        now = await host.settings(key)
        assert now.vcpu_pins == found.vcpu_pins
        assert now.unplugged_pins == {2: NUMBERS, 3: frozenset({1})}

    asyncio.run(work())


@pytest.mark.parametrize("error", [HypervisorError("refused"), DomainGone("gone"), HypervisorUnreachable("no answer")])
def test_a_driver_that_pins_no_absent_vcpu_keeps_nothing_else_from_being_put_back(error: HypervisorError) -> None:
    class Host(SimulatedHost):
        async def pin_vcpus(self, key: DomainKey, pins: Mapping[int, frozenset[int]]) -> None:
            if self.refuses and not pins.keys() <= {0, 1}:
                raise error
            await super().pin_vcpus(key, pins)

        refuses = False

    async def work() -> None:
        host = Host(CPUS)
        key, found = await plugged_and_unplugged(host)
        host.refuses = True
        await host.pin_emulator(key, POOL)
        if type(error) is HypervisorError:
            await put_pins_back(host, key, found, frozenset())
        else:  # the error is raised: vscaf tries again later, or the domain is gone
            with pytest.raises(type(error)):
                await put_pins_back(host, key, found, frozenset())
        now = await host.settings(key)
        assert (now.vcpu_pins, now.emulator_pin) == (found.vcpu_pins, found.emulator_pin)

    asyncio.run(work())


@pytest.mark.parametrize("error", [HypervisorError("refused"), HypervisorUnreachable("no answer")])
def test_an_unplug_without_an_answer_is_not_done(error: HypervisorError) -> None:
    async def work() -> None:
        host = SimulatedHost(CPUS)
        key = host.start("a", 2, 4)
        await host.plug(key, 4)
        (seen,) = await host.observe()

        def fault(call: str, _key: DomainKey | None) -> None:
            if call == "unplug":
                raise error

        host.fault = fault
        if type(error) is HypervisorError:
            await unplug_again(host, seen, 4, 2)
        else:
            with pytest.raises(HypervisorUnreachable):
                await unplug_again(host, seen, 4, 2)

    asyncio.run(work())
