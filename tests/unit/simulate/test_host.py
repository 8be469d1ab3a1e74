"""The simulated host for many domains gives each domain what SimulatedHost gives. The machine model sets its speed."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vscaf.simulate.engine.host import CrowdedHost
from vscaf.simulate.engine.machine import Computing, SpeedModel, host_cpus
from vscaf.simulate.engine.plain_host import Latencies, SimulatedHost
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.simulate.scenarios.curves import formula_curve
from vscaf.simulate.scenarios.scenario import Host, Perfect
from vscaf.values import DomainKey, RunState

MACHINE = Host(pcpus=6)
CPUS = host_cpus(MACHINE)
DOMAINS, VCPUS = 4, 3

pin_sets = st.frozensets(st.integers(0, 5), min_size=1, max_size=6)
changes = st.one_of(
    st.tuples(st.just("pin"), st.integers(0, DOMAINS - 1), st.dictionaries(st.integers(0, VCPUS - 1), pin_sets)),
    st.tuples(
        st.just("compute"),
        st.integers(0, DOMAINS - 1),
        st.dictionaries(st.integers(0, VCPUS - 1), st.floats(0.0, 1.0)),
    ),
    st.tuples(st.just("shares"), st.integers(0, DOMAINS - 1), st.sampled_from([256, 1024, 4096])),
    st.tuples(st.just("state"), st.integers(0, DOMAINS - 1), st.sampled_from([RunState.RUNNING, RunState.PAUSED])),
    st.tuples(st.just("vcpus"), st.integers(0, DOMAINS - 1), st.integers(1, VCPUS)),
    st.tuples(st.just("wait"), st.just(0), st.floats(0.0, 5.0)),
    st.tuples(st.just("restart"), st.integers(0, DOMAINS - 1), st.none()),
)


async def play(host: SimulatedHost, steps: list[tuple[str, int, object]], after: Callable[[], None]) -> list[object]:
    """All that the host says of its domains after each step."""
    keys = [host.start(f"d{number}", 1, VCPUS) for number in range(DOMAINS)]
    said: list[object] = []
    for kind, number, what in steps:
        key = keys[number]
        if kind == "pin" and what:
            assert isinstance(what, dict)
            await host.pin_vcpus(key, what)
        elif kind == "compute":
            assert isinstance(what, dict)
            host.compute(key, what)
        elif kind == "shares":
            assert isinstance(what, int)
            await host.set_cpu_shares(key, what)
        elif kind == "state":
            assert isinstance(what, RunState)
            host.set_state(key, what)
        elif kind == "vcpus":
            assert isinstance(what, int)
            more = what > host.domains[key].vcpus
            await (host.plug if more else host.unplug)(key, what)
        elif kind == "wait":
            assert isinstance(what, float)
            await asyncio.sleep(what)
        elif kind == "restart":
            host.end(key)
            keys[number] = host.start(f"d{number}", 1, VCPUS)
        after()
        rates = host.rates()
        said.append([{vcpu: rate for vcpu, rate in sorted(rates[key].items()) if rate > 1e-9} for key in keys])
    said.append([dict(one.vcpu_time_s) for one in await host.observe()])
    return said


@settings(max_examples=150)
@given(st.lists(changes, max_size=25))
@example(
    [
        *[("pin", number, {0: frozenset({0})}) for number in (0, 1)],
        *[("compute", number, {0: 1.0}) for number in (0, 1)],
        ("shares", 0, 4096),
    ]
)
@example([("vcpus", 0, 2), ("compute", 0, {1: 1.0}), ("vcpus", 0, 1), ("wait", 0, 1.0)])
def test_everybody_gets_what_the_simulated_host_gives(steps: list[tuple[str, int, object]]) -> None:
    latencies = Latencies(call_s=0.001, plug_s=0.05, unplug_s=0.4)

    async def plain() -> list[object]:
        loop = asyncio.get_running_loop()
        host = SimulatedHost(CPUS, clock=loop.time, sleep=asyncio.sleep, latencies=latencies)
        return await play(host, steps, host._count)  # it has no timer: _count unplugs the vCPUs that are due

    async def crowded() -> list[object]:
        host = CrowdedHost(CPUS, lambda key: None, latencies)
        said = await play(host, steps, host.settle)
        used_s = sum(sum(domain.vcpu_time_s.values()) for domain in host.domains.values())
        assert used_s <= len(CPUS.online) * asyncio.get_running_loop().time() + 1e-6
        return said

    for one, other in zip(run_virtual(plain()), run_virtual(crowded()), strict=True):
        assert isinstance(one, list) and isinstance(other, list)
        for mine, theirs in zip(one, other, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-9)


def test_what_leaves_late_leaves_at_its_time_though_nobody_looks() -> None:
    async def main() -> None:
        host = CrowdedHost(CPUS, lambda key: None, Latencies(unplug_s=2.0))
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
        host = CrowdedHost(CPUS, lambda key: None, Latencies(unplug_s=unplug_s))
        key = host.start("a", 1, 2)
        await host.plug(key, 2)
        await host.unplug(key, 1)
        await asyncio.sleep(between_s)
        await asyncio.sleep(unplug_s)
        assert host.domains[key].vcpus == 1

    run_virtual(main())


def test_who_is_concerned_by_a_change_is_told_and_nobody_else() -> None:
    told: list[DomainKey] = []

    async def main() -> None:
        host = CrowdedHost(CPUS, told.append, Latencies())
        a, b, c = (host.start(name, 1) for name in "abc")
        for key, cpus in ((a, {0}), (b, {0, 1}), (c, {2})):
            await host.pin_vcpus(key, {0: frozenset(cpus)})
            host.compute(key, {0: 1.0})
        await asyncio.sleep(1.0)
        assert host.neighbours(a) == {b} and not host.neighbours(c)
        told.clear()
        host.compute(a, {0: 0.5})
        await asyncio.sleep(0.0)
        assert set(told) == {a, b}
        told.clear()
        host.end(b)
        await asyncio.sleep(0.0)
        assert set(told) == {a}

    run_virtual(main())


def test_the_load_of_a_place_is_what_all_there_use_now() -> None:
    async def main() -> None:
        host = CrowdedHost(CPUS, lambda key: None, Latencies())
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


def speed(machine: Host, threads: int, got: float, pins: list[set[int]], load: float = 0.0, **keys: object) -> float:
    """The speed of a team whose vCPUs each get the part *got* of a CPU."""
    options = {"loss": 2.4, "fine": True} | keys
    home = options.pop("home", None)
    computing = Computing(formula_curve(Perfect()), threads, **options)  # type: ignore[arg-type]
    wanted = dict.fromkeys(range(len(pins)), 1.0)
    return SpeedModel(machine, host_cpus(machine)).speed(
        computing,
        wanted,
        dict.fromkeys(wanted, got),
        {vcpu: frozenset(cpus) for vcpu, cpus in enumerate(pins)},
        load,
        home,  # type: ignore[arg-type]
    )


def test_speed_is_what_facts_say() -> None:
    plain = Host(pcpus=8)
    assert speed(plain, 4, 1.0, [{0}, {1}, {2}, {3}]) == pytest.approx(4.0)
    assert speed(plain, 4, 0.5, [{0, 1}] * 4) == pytest.approx(4 / 2 / 2.4)  # half a CPU each
    assert speed(plain, 4, 0.5, [{0, 1}] * 4, loss=1.0) == pytest.approx(2.0)
    assert speed(plain, 4, 1.0, [{0}, {1}]) == pytest.approx(4 / 2 / 2.4)  # two threads on each vCPU
    assert speed(plain, 4, 0.0, [{0}] * 4) == 0.0


def test_threads_of_one_core_share_it() -> None:
    smt = Host(pcpus=8, threads_per_core=2, smt_yield=0.6)
    assert speed(smt, 2, 1.0, [{0}, {1}]) == pytest.approx(1.2)
    assert speed(smt, 2, 1.0, [{0}, {2}]) == pytest.approx(2.0)
    assert speed(smt, 2, 1.0, [{0, 1, 2, 3}] * 2, load=2.0) == pytest.approx(2.0)
    assert speed(smt, 2, 1.0, [{0, 1, 2, 3}] * 2, load=4.0) == pytest.approx(1.2)
    assert speed(smt, 1, 1.0, [{0, 1, 2, 3}], load=1.0) == pytest.approx(1.0)
    assert speed(smt, 2, 0.5, [{0}, {0}]) == pytest.approx(2 / 2 / 2.4)  # the core's other thread is not busy


def test_memory_that_is_far_costs() -> None:
    numa = Host(pcpus=8, nodes=2, remote_penalty=0.25)
    assert speed(numa, 2, 1.0, [{0}, {1}]) == pytest.approx(2.0)
    assert speed(numa, 2, 1.0, [{3}, {4}]) == pytest.approx(1.5)
    assert speed(numa, 2, 1.0, [{0}, {1}], home=1) == pytest.approx(1.5)


def test_the_machine_is_as_the_scenario_says() -> None:
    cpus = host_cpus(Host(pcpus=12, reserve=2, threads_per_core=2, nodes=3))
    assert cpus.online == frozenset(range(14))
    assert [sorted(core) for core in cpus.cores[:2]] == [[0, 1], [2, 3]] and len(cpus.cores) == 8
    assert [cpus.node_of[cpu] for cpu in range(12)] == [0] * 4 + [1] * 4 + [2] * 4
    assert cpus.distances[0, 0] == 10 and cpus.distances[0, 2] > 10
    assert [len(cache & frozenset(range(12))) for cache in cpus.caches] == [4, 4, 4]
