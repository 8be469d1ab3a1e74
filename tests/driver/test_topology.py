"""The daemon on libvirt's test driver, on hosts with both numberings of siblings. Pins follow the guests'
topologies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import libvirt
import pytest
from vscaf.config import Config, DomainConfig
from vscaf.daemon.loop import Daemon
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.hypervisor.libvirt.masks import cpus_mask

from ..unit.helpers.capabilities import capabilities, cpu
from .faults import Faults
from .node import write_node
from .stand_ins import Agent, BusyHost
from .test_daemon import running, until
from .test_operations import domain_of

CORES, THREADS, NODES = 4, 2, 2
CPUS = CORES * THREADS


def core_of(number: int, neighbours: bool) -> int:
    return number // THREADS if neighbours else number % CORES


def node_of(number: int, neighbours: bool) -> int:
    return core_of(number, neighbours) * NODES // CORES


def host_xml(neighbours: bool) -> str:
    """Two nodes of two cores of two threads. Siblings are N and N + 1, or N and N + 4."""
    cells = []
    for node in range(NODES):
        cpus = []
        for number in range(CPUS):
            core = core_of(number, neighbours)
            siblings = ",".join(str(other) for other in range(CPUS) if core_of(other, neighbours) == core)
            if node_of(number, neighbours) == node:
                cpus.append(cpu(number, siblings, node, core))
        cells.append((node, cpus))
    return capabilities(cells)


@asynccontextmanager
async def managing(
    tmp_path: Path,
    neighbours: bool,
    domains: dict[str, int],
    elements: str,
    *,
    smt: str = "core-exclusive",
    maximum: int | None = None,
) -> AsyncIterator[tuple[Daemon, BusyHost, Faults]]:
    """A daemon on this host with *domains* (name -> vCPUs), whose guests cooperate and compute.

    maximum: vCPUs that may be plugged, but not by the daemon.
    """
    faults = Faults()
    uri = write_node(tmp_path, CPUS, {name: (count, maximum or count) for name, count in domains.items()}, elements)
    faults.inject("getCapabilities", times=None, result=lambda _xml: host_xml(neighbours))
    faults.inject("getCPUMap", times=None, result=lambda _map: (CPUS, [True] * CPUS, CPUS))
    host = BusyHost(uri, 5.0, opener=faults.open)
    host.agents = {name: Agent(tmp_path / f"{name}.sock", count) for name, count in domains.items()}
    for name, count in domains.items():
        host.be_busy(name, float(count))
    await host.open()
    for agent in host.agents.values():
        await agent.start()

    async def speak() -> None:
        while True:
            for agent in host.agents.values():
                agent.report()
            await asyncio.sleep(0.02)

    speaking = asyncio.create_task(speak())
    config = Config(
        uri=uri,
        pool=f"0-{CPUS - 1}",
        smt=smt,  # type: ignore[arg-type]
        state_directory=str(tmp_path / "state"),
        control_socket=str(tmp_path / "control.sock"),
        period_ms=20,
        deadline_ms=2000,
        domains={name: DomainConfig(maximum=count) for name, count in domains.items()},
    )
    try:
        async with running(config, host) as daemon:
            yield daemon, host, faults
    finally:
        speaking.cancel()
        for agent in host.agents.values():
            await agent.stop()
        await host.close()


def pins(faults: Faults, name: str) -> list[frozenset[int]]:
    """The pins that libvirt has, by vCPU."""
    masks = faults.real.lookupByName(name).vcpuPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE)
    return [frozenset(cpu for cpu, there in enumerate(mask) if there) for mask in masks]


def alone(faults: Faults, name: str, count: int) -> Callable[[], bool]:
    """Whether each of the first *count* vCPUs has one pCPU."""
    return lambda: all(len(one) == 1 for one in pins(faults, name)[:count])


def alone_each(pinned: Mapping[int, frozenset[int]]) -> bool:
    """Whether each vCPU has one pCPU."""
    return bool(pinned) and all(len(cpus) == 1 for cpus in pinned.values())


@pytest.mark.parametrize("neighbours", [True, False])
def test_cells_are_on_their_nodes_and_siblings_on_siblings(
    tmp_path: Path, loop_runner: asyncio.Runner, neighbours: bool
) -> None:
    """One domain with two vNUMA cells. The memory of the first cell is on the host's node 1."""
    elements = """
    <numatune><memnode cellid='0' mode='strict' nodeset='1'/><memnode cellid='1' mode='strict' nodeset='0'/></numatune>
    <cpu><topology sockets='2' dies='1' cores='2' threads='2'/><numa>
      <cell id='0' cpus='0-3' memory='32' unit='MiB'/><cell id='1' cpus='4-7' memory='32' unit='MiB'/>
    </numa></cpu>"""

    async def work() -> None:
        async with managing(tmp_path, neighbours, {"a": CPUS}, elements) as (daemon, _host, faults):
            await until(lambda: "a" in {one.name for one in daemon.managed.values()})
            await until(lambda: domain_of(daemon, "a").state == "cooperating" and alone(faults, "a", CPUS)())
            where = [next(iter(one)) for one in pins(faults, "a")]
            assert sorted(where) == list(range(CPUS))
            assert [node_of(one, neighbours) for one in where] == [1] * 4 + [0] * 4
            cores = [core_of(one, neighbours) for one in where]
            assert cores[0::2] == cores[1::2]

    loop_runner.run(work())


@pytest.mark.parametrize("smt", ["core-exclusive", "thread"])
@pytest.mark.parametrize("neighbours", [True, False])
def test_two_domains_with_threads_and_one_that_leaves(
    tmp_path: Path, loop_runner: asyncio.Runner, neighbours: bool, smt: str
) -> None:
    """Each has two cores and its siblings on them. After one has gone, the other is where it was."""
    elements = "<cpu><topology sockets='1' dies='1' cores='2' threads='2'/></cpu>"

    async def work() -> None:
        async with managing(tmp_path, neighbours, {"a": 4, "b": 4}, elements, smt=smt) as (daemon, _host, faults):
            await until(lambda: len(daemon.managed) == 2)
            for name in "ab":
                await until(
                    lambda name=name: domain_of(daemon, name).state == "cooperating" and alone(faults, name, 4)()
                )
            where = {name: [next(iter(one)) for one in pins(faults, name)] for name in "ab"}
            assert sorted(where["a"] + where["b"]) == list(range(CPUS))
            if smt == "core-exclusive":
                for mine in where.values():
                    cores = [core_of(one, neighbours) for one in mine]
                    assert cores[0::2] == cores[1::2] and cores[0] != cores[2]
            faults.real.lookupByName("b").destroy()
            await until(lambda: len(daemon.managed) == 1)
            await until(lambda: domain_of(daemon, "a").state == "cooperating")
            assert [next(iter(one)) for one in pins(faults, "a")] == where["a"]

    loop_runner.run(work())


def test_the_guests_cpus_are_its_vcpus_in_the_order_in_which_they_were_enabled(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """vCPUs 0 and 3 of 4 are enabled. The guest calls them 0 and 1, and each has its own pCPU."""
    each = "".join(
        f"<vcpu id='{number}' enabled='{'yes' if number in (0, 3) else 'no'}' hotpluggable='yes'/>"
        for number in range(4)
    )

    async def work() -> None:
        async with managing(tmp_path, True, {"a": 2}, f"<vcpus>{each}</vcpus>", maximum=4) as (daemon, _host, faults):

            def placed() -> dict[int, frozenset[int]]:
                return dict(parse_description(faults.real.lookupByName("a").XMLDesc()).vcpu_pins)

            def listed(_real: object) -> object:
                """The vCPUs 0 and 3. The driver itself lists as many vCPUs from 0 on as are plugged, so not vCPU 3."""
                masks = [cpus_mask(placed().get(number, frozenset(range(CPUS))), CPUS) for number in (0, 3)]
                return [(0, 1, 0, 0), (3, 1, 0, 0)], masks

            faults.inject("vcpus", "a", times=None, result=listed)
            await until(lambda: len(daemon.managed) == 1)
            await until(lambda: domain_of(daemon, "a").state == "cooperating" and alone_each(placed()))
            assert placed().keys() == {0, 3} and placed()[0] != placed()[3]

    loop_runner.run(work())
