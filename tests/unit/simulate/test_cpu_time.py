"""CPU time is the same however the changes come: worked out change by change, late, or from nothing."""

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vscaf.simulate.engine.cpu_time import CpuTime
from vscaf.simulate.engine.host import Latencies, SimulatedHost, cpu_time_groups
from vscaf.simulate.engine.machine import host_cpus
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.simulate.scenarios.scenario import Host
from vscaf.values import DomainKey, RunState

CPUS = host_cpus(Host(pcpus=6))
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
    st.tuples(st.just("online"), st.just(0), st.frozensets(st.integers(0, 5), min_size=3)),
)


async def play(host: SimulatedHost, steps: list[tuple[str, int, object]], looks: bool) -> list[dict[int, float]]:
    """The seconds that each vCPU has used at the end. looks: rates are read and checked after each step."""
    keys = [host.start(f"d{number}", 1, VCPUS) for number in range(DOMAINS)]
    for kind, number, what in steps:
        key = keys[number]
        if kind == "pin" and what:
            assert isinstance(what, dict)
            await host.pin_vcpus(key, {vcpu: cpus for vcpu, cpus in what.items() if cpus & host.cpus.online})
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
        elif kind == "online":
            assert isinstance(what, frozenset)
            host.set_online(what)
        if looks:
            host.settle()
            check_rates(host)
    seen = await host.observe()
    used_s = sum(sum(domain.vcpu_time_s.values()) for domain in host.domains.values())
    assert used_s <= len(CPUS.online) * asyncio.get_running_loop().time() + 1e-6
    return [dict(one.vcpu_time_s) for one in seen]


def check_rates(host: SimulatedHost) -> None:
    """The rates are those that follow from the present state alone."""
    fresh = CpuTime(host.cpus.online)
    for key in host.domains:
        fresh.add(key, 0.0)
    fresh.change({key: cpu_time_groups(domain) for key, domain in host.domains.items()}, 0.0)
    for key in host.domains:
        assert host.rates(key) == pytest.approx(fresh.rates(key), abs=1e-9)


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
@example([("vcpus", 0, 2), ("compute", 0, {0: 1.0}), ("vcpus", 0, 1), ("wait", 0, 5.0), ("compute", 0, {})])
def test_cpu_time_is_the_same_whoever_looks_and_when(steps: list[tuple[str, int, object]]) -> None:
    latencies = Latencies(call_s=0.001, plug_s=0.05, unplug_s=0.4)

    async def played(tells: bool, looks: bool) -> list[dict[int, float]]:
        loop = asyncio.get_running_loop()
        told: list[DomainKey] = []
        host = SimulatedHost(CPUS, on_rates=told.append if tells else None, clock=loop.time, latencies=latencies)
        return await play(host, steps, looks)

    at_once = run_virtual(played(tells=True, looks=True))
    for tells, looks in ((False, True), (True, False), (False, False)):
        later = run_virtual(played(tells, looks))
        assert len(later) == len(at_once)
        for one, other in zip(later, at_once, strict=True):
            assert one == pytest.approx(other, abs=1e-9)
