"""The simulated host: its CPU times add up, its levers work, and it refuses what a real host refuses."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable, NotSupported
from vscaf.simulate.engine.host import Latencies, SimulatedHost
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.values import DomainKey, HostCpus, PlugOutcome, RunState


def host_of(cpus: int) -> HostCpus:
    numbers = frozenset(range(cpus))
    return HostCpus(numbers, tuple(frozenset({cpu}) for cpu in range(cpus)), dict.fromkeys(range(cpus), 0))


class World:
    """A host of four pCPUs and its clock. Time passes by sleeping."""

    def __init__(self, **options: Any) -> None:
        self.now_s = 0.0
        self.host = SimulatedHost(host_of(4), clock=lambda: self.now_s, sleep=self.sleep, **options)

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def used(self, key: DomainKey, seconds: float) -> dict[int, float]:
        """The CPUs that each vCPU uses during the next *seconds*."""
        before = self.times(key)
        self.now_s += seconds
        after = self.times(key)
        return {vcpu: (after[vcpu] - before.get(vcpu, 0.0)) / seconds for vcpu in after}

    def times(self, key: DomainKey) -> dict[int, float]:
        seen = run(self.host.observe)
        return dict(next(one for one in seen if one.key == key).vcpu_time_s)

    def pin(self, key: DomainKey, **pins: set[int]) -> None:
        run(lambda: self.host.pin_vcpus(key, {int(name[1:]): frozenset(cpus) for name, cpus in pins.items()}))


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def call() -> Any:
        return await work()

    return asyncio.run(call())


def test_alone_a_domain_uses_what_it_wants() -> None:
    world = World()
    key = world.host.start("a", 2)
    world.host.compute(key, {0: 1.0, 1: 0.25})
    assert world.used(key, 8.0) == {0: pytest.approx(1.0), 1: pytest.approx(0.25)}
    world.host.set_state(key, RunState.PAUSED)
    assert world.used(key, 8.0) == {0: 0.0, 1: 0.0}


def test_two_domains_share_a_pcpu_by_weight() -> None:
    world = World()
    a, b = world.host.start("a", 1), world.host.start("b", 1)
    for key in (a, b):
        world.host.compute(key, {0: 1.0})
        world.pin(key, v0={2})
    assert world.used(a, 1.0) == {0: pytest.approx(0.5)}
    run(lambda: world.host.set_cpu_shares(a, 3072))
    assert world.used(a, 1.0) == {0: pytest.approx(0.75)}
    world.pin(b, v0={3})
    assert world.used(a, 1.0) == {0: pytest.approx(1.0)}


def test_vcpus_that_float_find_the_free_pcpus() -> None:
    world = World()
    key = world.host.start("a", 2)
    world.host.compute(key, {0: 1.0, 1: 1.0})
    world.pin(key, v0={0}, v1={0, 1})
    assert sum(world.used(key, 1.0).values()) > 1.9
    world.pin(key, v0={0}, v1={0})
    assert sum(world.used(key, 1.0).values()) == pytest.approx(1.0)


PINS = st.frozensets(st.integers(0, 3), min_size=1)
DOMAINS = st.lists(st.tuples(st.lists(st.tuples(PINS, st.floats(0, 1)), min_size=1, max_size=4), st.integers(2, 4096)))


@pytest.mark.slow
@given(DOMAINS)
def test_nobody_gets_more_than_it_wants_and_nothing_is_used_twice(
    domains: list[tuple[list[tuple[frozenset[int], float]], int]],
) -> None:
    world = World()
    everyone = {}
    for number, (vcpus, shares) in enumerate(domains):
        key = world.host.start(f"d{number}", len(vcpus))
        world.host.compute(key, {vcpu: wanted for vcpu, (_, wanted) in enumerate(vcpus)})
        run(lambda key=key, vcpus=vcpus: world.host.pin_vcpus(key, {n: pins for n, (pins, _) in enumerate(vcpus)}))
        run(lambda key=key, shares=shares: world.host.set_cpu_shares(key, shares))
        everyone[key] = vcpus
    world.host.settle()
    rates = {key: world.host.rates(key) for key in everyone}
    for key, vcpus in everyone.items():
        for vcpu, (_, wanted) in enumerate(vcpus):
            assert -1e-9 <= rates[key].get(vcpu, 0.0) <= wanted + 1e-9
    for area in (frozenset({0}), frozenset({1, 2}), frozenset(range(4))):
        within = sum(
            rates[key].get(vcpu, 0.0)
            for key, vcpus in everyone.items()
            for vcpu, (pins, _) in enumerate(vcpus)
            if pins <= area
        )
        assert within <= len(area) + 1e-6
    before = {key: world.times(key) for key in everyone}
    world.now_s += 3.0
    for key in everyone:
        after = world.times(key)
        for vcpu, time_s in after.items():
            assert time_s == pytest.approx(before[key].get(vcpu, 0.0) + 3.0 * rates[key].get(vcpu, 0.0))


def test_plug_takes_its_time_and_uses_the_pins_it_is_given() -> None:
    world = World(latencies=Latencies(plug_s=0.05))
    key = world.host.start("a", 1, 3)
    world.host.compute(key, {0: 1.0, 1: 1.0})
    plugged = run(lambda: world.host.plug(key, 2, frozenset({3})))
    assert (plugged.outcome, plugged.vcpus, world.now_s) == (PlugOutcome.DONE, 2, 0.05)
    settings = run(lambda: world.host.settings(key))
    assert settings.vcpus == 2 and settings.vcpu_pins[1] == {3} and set(settings.unplugged_pins) == {2}
    assert world.used(key, 1.0)[1] == pytest.approx(1.0)
    with pytest.raises(NotSupported):
        run(lambda: world.host.plug(key, 4))


def test_unplug_is_late_partial_refused_or_never_ends() -> None:
    world = World(latencies=Latencies(unplug_s=2.0))
    key = world.host.start("a", 1, 4)
    run(lambda: world.host.plug(key, 3))
    assert run(lambda: world.host.unplug(key, 1)).outcome is PlugOutcome.LATE
    world.host.compute(key, {2: 1.0})
    assert world.used(key, 4.0) == {0: 0.0}
    assert world.host.domains[key].vcpu_time_s[2] == pytest.approx(2.0)  # until it was unplugged
    world.host.latencies = Latencies()
    run(lambda: world.host.plug(key, 3))
    assert run(lambda: world.host.unplug(key, 0)).outcome is PlugOutcome.PARTIAL  # the vCPU that it started with stays
    run(lambda: world.host.plug(key, 3))
    world.host.latencies = Latencies(unplug_s=math.inf)
    assert run(lambda: world.host.unplug(key, 1)).outcome is PlugOutcome.LATE
    assert len(world.used(key, 1e6)) == 3
    world.host.refusing.add(key)
    assert run(lambda: world.host.unplug(key, 1)).outcome is PlugOutcome.REFUSED
    tcg = world.host.start("tcg", 2, accelerated=False)
    with pytest.raises(NotSupported):
        run(lambda: world.host.unplug(tcg, 1))


def test_refuses_what_a_host_refuses() -> None:
    world = World()
    key = world.host.start("a", 1)
    for cpus in (set(), {4}):
        with pytest.raises(ValueError, match="no such pin"):
            world.pin(key, v0=cpus)
    with pytest.raises(HypervisorError):
        world.pin(key, v1={0})
    world.pin(key, v0={2})
    world.host.set_online(frozenset({0, 1}))
    with pytest.raises(HypervisorError):
        world.pin(key, v0={2})
    world.host.end(key)
    for call in (world.host.settings, lambda key: world.host.pin_emulator(key, frozenset({0}))):
        with pytest.raises(DomainGone):
            run(lambda call=call: call(key))
    assert run(world.host.observe) == () and run(lambda: world.host.defined("a"))
    again = world.host.start("a", 1)
    assert again.uuid == key.uuid and again != key


def test_a_pcpu_that_goes_offline_is_no_longer_used() -> None:
    world = World()
    key = world.host.start("a", 2)
    world.host.compute(key, {0: 1.0, 1: 1.0})
    world.host.set_online(frozenset({1}))
    assert sum(world.used(key, 1.0).values()) == pytest.approx(1.0)
    assert run(world.host.host_cpus).cores == (frozenset({1}),)


def test_faults_come_before_anything_happens_and_changes_are_told() -> None:
    changes: list[str] = []
    tuned: list[DomainKey] = []
    world = World(on_change=lambda: changes.append("change"), on_tuned=tuned.append)
    key = world.host.start("a", 1)

    def fault(call: str, _key: DomainKey | None) -> None:
        if call in {"pin_vcpus", "observe"}:
            raise HypervisorUnreachable("made up")

    world.pin(key, v0={0})
    world.host.fault = fault
    for call in (world.host.observe, lambda: world.host.pin_vcpus(key, {0: frozenset({1})})):
        with pytest.raises(HypervisorUnreachable):
            run(call)
    assert world.host.domains[key].pins[0] == {0}
    assert changes == ["change"] and tuned == [key]


def test_a_suspended_domain_uses_nothing_and_is_resumed() -> None:
    world = World()
    a, b = world.host.start("a", 1), world.host.start("b", 1)
    for key in (a, b):
        world.host.compute(key, {0: 1.0})
        world.pin(key, v0={2})
    assert run(lambda: world.host.suspend(a))
    assert not run(lambda: world.host.suspend(a)), "it was paused already"
    assert world.used(a, 1.0) == {0: 0.0} and world.used(b, 1.0) == {0: pytest.approx(1.0)}
    world.pin(a, v0={3})  # its pins can be set while it is suspended
    assert run(lambda: world.host.resume(a)) and run(lambda: world.host.resume(a)), "it runs already"
    assert world.used(a, 1.0) == {0: pytest.approx(1.0)}
    world.host.set_state(a, RunState.CRASHED)
    assert not run(lambda: world.host.resume(a))
    world.host.end(a)
    for call in (world.host.suspend, world.host.resume):
        with pytest.raises(DomainGone):
            run(lambda call=call: call(a))  # type: ignore[misc]


def virtual_host(unplug_s: float = 0.0, on_rates: Callable[[DomainKey], None] = lambda key: None) -> SimulatedHost:
    """A host of four pCPUs in virtual time, which says at once whose CPU time changes."""
    clock = asyncio.get_running_loop().time
    return SimulatedHost(host_of(4), on_rates=on_rates, clock=clock, latencies=Latencies(unplug_s=unplug_s))


def test_what_leaves_late_leaves_at_its_time_though_nobody_looks() -> None:
    async def main() -> None:
        host = virtual_host(2.0)
        key = host.start("a", 1, 2)
        await host.plug(key, 2)
        host.compute(key, {0: 1.0, 1: 1.0})
        await host.unplug(key, 1)
        await asyncio.sleep(10.0)
        assert (await host.observe())[0].vcpus == 1
        assert host.domains[key].vcpu_time_s == {0: pytest.approx(10.0), 1: pytest.approx(2.0)}

    run_virtual(main())


def test_a_timer_that_goes_off_early_by_rounding_is_no_hindrance() -> None:
    between_s, unplug_s = 3.1, 7.2
    assert between_s + (unplug_s - between_s) < unplug_s

    async def main() -> None:
        host = virtual_host(unplug_s)
        key = host.start("a", 1, 2)
        await host.plug(key, 2)
        await host.unplug(key, 1)
        await asyncio.sleep(between_s)
        await asyncio.sleep(unplug_s)
        assert host.domains[key].vcpus == 1

    run_virtual(main())


def test_who_is_concerned_by_a_change_is_told_and_nobody_else() -> None:
    changed: list[DomainKey] = []

    async def main() -> None:
        host = virtual_host(on_rates=changed.append)
        a, b, c = (host.start(name, 1) for name in "abc")
        for key, cpus in ((a, {0}), (b, {0, 1}), (c, {2})):
            await host.pin_vcpus(key, {0: frozenset(cpus)})
            host.compute(key, {0: 1.0})
        await asyncio.sleep(1.0)
        assert host.neighbours(a) == {b} and not host.neighbours(c)
        changed.clear()
        host.compute(a, {0: 0.5})
        await asyncio.sleep(0.0)
        assert set(changed) == {a, b}
        changed.clear()
        host.end(b)
        await asyncio.sleep(0.0)
        assert set(changed) == {a}

    run_virtual(main())


def test_the_load_of_a_place_is_what_all_there_use_now() -> None:
    async def main() -> None:
        host = virtual_host()
        a, b, c = (host.start(name, 1) for name in "abc")
        for key, cpus in ((a, {0, 1}), (b, {0, 1}), (c, {2})):
            await host.pin_vcpus(key, {0: frozenset(cpus)})
        loads = []
        for key, wanted in ((a, 1.0), (c, 1.0), (b, 0.5), (a, 0.25)):
            host.compute(key, {0: wanted})
            host.settle()
            loads.append(host.load_cpus(a))
        assert loads == pytest.approx([1.0, 1.0, 1.5, 0.75])

    run_virtual(main())
