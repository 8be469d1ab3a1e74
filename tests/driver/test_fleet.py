"""Two hundred domains of every kind come and go on one small host with fewer pCPUs than domains."""

import asyncio
from pathlib import Path

import libvirt
from vscaf.config import DomainConfig
from vscaf.daemon.loop import Daemon
from vscaf.daemon.status import status
from vscaf.hypervisor.libvirt.host import LibvirtHost

from .faults import Faults
from .node import write_node
from .test_daemon import ALL, configured, on_host, running, until

DOMAINS = 200


def test_two_hundred_domains(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """Some have one vCPU or more than the pool has pCPUs, are paused, gone or unreadable. None hinders another."""
    faults = Faults()
    vcpus = {f"d{number:03}": (1 + number % 8, 8) for number in range(DOMAINS)}
    uri = write_node(tmp_path, 4, vcpus)

    async def work(host: LibvirtHost) -> None:
        found = {name: await pins(host, name) for name in ("d000", "d007", "d100")}
        domains = {name: DomainConfig(weight=5.0 if name == "d000" else 1.0) for name in vcpus}
        config = configured(uri, tmp_path, **domains)
        for number in range(0, DOMAINS, 10):
            faults.real.lookupByName(f"d{number + 1:03}").suspend()
        faults.inject("vcpuPinInfo", "d033", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        async with running(config, host) as daemon:
            await until(lambda: settled(daemon))
            state = {one["name"]: one for one in status(daemon)["domains"]}
            assert len(state) == DOMAINS
            assert status(daemon)["violations"] == []
            # The domain with the largest weight has its own pCPU. All others that compute share the last one.
            own = state["d000"]["partition"]
            assert own in {"0", "2"}
            others = {one["partition"] for name, one in state.items() if one["allocation"] and name != "d000"}
            assert others == {"0", "2"} - {own}
            assert {state[f"d{number + 1:03}"]["allocation"] for number in range(0, DOMAINS, 10)} == {0}  # paused
            assert state["d033"]["partition"] is None  # its pins are unknown, so vscaf changes nothing of it
            for name in vcpus:
                if name not in {"d000", "d001"}:
                    faults.real.lookupByName(name).destroy()
            await until(lambda: len(daemon.managed) == 2)
            faults.real.lookupByName("d001").resume()
            await until(lambda: {one.held for one in daemon.managed.values()} == {frozenset({0}), frozenset({2})})
        assert await pins(host, "d000") == found["d000"]
        assert await pins(host, "d001") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


def settled(daemon: Daemon) -> bool:
    """Whether all domains that can be managed have reached their goals."""
    transitions = [one.transition for one in daemon.managed.values() if one.transition is not None]
    return (
        len(daemon.managed) == DOMAINS
        and len(transitions) == DOMAINS - 1
        and all(
            one.goal is not None and one.goal.partition == one.held for one in daemon.managed.values() if one.transition
        )
        and not any(one.moving for one in transitions)
    )


async def pins(host: LibvirtHost, name: str) -> list[frozenset[int]]:
    (key,) = [one.key for one in await host.observe() if one.name == name]
    settings = await host.settings(key)
    return [settings.vcpu_pins[vcpu] for vcpu in sorted(settings.vcpu_pins)]
