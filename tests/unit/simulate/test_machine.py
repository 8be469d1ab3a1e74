"""What a machine makes of CPU time: threads that wait for each other, cores that are shared, memory that is far."""

import pytest
from vscaf.simulate.engine.machine import Computing, SpeedModel, host_cpus
from vscaf.simulate.scenarios.curves import formula_curve
from vscaf.simulate.scenarios.scenario import Host, Perfect


def speed(
    machine: Host, threads: int, granted: float, pins: list[set[int]], load: float = 0.0, **keys: object
) -> float:
    """Of a team whose vCPUs each get so much of a CPU."""
    options = {"loss": 2.4, "fine": True} | keys
    home = options.pop("home", None)
    computing = Computing(formula_curve(Perfect()), threads, **options)  # type: ignore[arg-type]
    wanted = dict.fromkeys(range(len(pins)), 1.0)
    return SpeedModel(machine, host_cpus(machine)).speed(
        computing,
        wanted,
        dict.fromkeys(wanted, granted),
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
    # Threads that use half a CPU each: two of them on each vCPU have all that they want.
    assert speed(plain, 4, 1.0, [{0}, {1}], busy=0.5) == pytest.approx(4.0)
    assert speed(plain, 4, 0.5, [{0, 1}, {0, 1}], busy=0.5) == pytest.approx(4 / 2 / 2.4)


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
