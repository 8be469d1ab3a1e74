"""Domains that are released, managed again or changed by others while a call on them is under way."""

import asyncio
from pathlib import Path

import libvirt
import pytest
from vscaf.config import PolicyConfig
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.errors import VscafError
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf_policies import load_policy
from vscaf_policies.gang import gang

from .faults import Fault, Faults
from .node import write_node
from .test_daemon import ALL, configured, on_host, partitions, pins_of, running, until
from .test_gang import FOREVER_S, ganging, kinds, raw, runs
from .test_operations import domain_of

TWO = {"a": (2, 2), "b": (2, 2)}


async def given_back_again(daemon: Daemon, faults: Faults, method: str) -> Fault:
    """b was released and could not be given back. This is tried again, and that hangs in *method*."""
    await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
    await until(lambda: not any(one.transition is None or one.transition.moving for one in daemon.managed.values()))
    refused = faults.inject("pinVcpu", "b", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
    with pytest.raises(VscafError, match="b: could not be put back"):
        await Operations(daemon).release("b")
    hung = faults.inject(method, "b", hang=True)
    refused.times = 0
    await until(lambda: hung.hits == 1)
    return hung


def test_who_is_managed_again_while_it_is_given_back_is_read_afterwards(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """Settings read before are outdated: giving it back has changed them, and this is no foreign change."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            hung = await given_back_again(daemon, faults, "vcpuPinInfo")
            b = domain_of(daemon, "b")
            await Operations(daemon).manage("b")
            await until(lambda: b.adopting)
            # The pins of its vCPUs are put back, and then the next call fails.
            failing = faults.inject("pinEmulator", "b", error=libvirt.VIR_ERR_OPERATION_FAILED)
            hung.release()
            await until(lambda: failing.hits == 1)
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"} and b.state == "contained")
            await until(lambda: b.transition is not None and not b.transition.moving)
            assert "foreign" not in kinds(daemon, "b")
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


def test_what_somebody_pins_while_it_is_given_back_is_what_is_found_when_it_is_managed_again(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            hung = await given_back_again(daemon, faults, "pinEmulator")
            await Operations(daemon).manage("b")
            raw(faults, "b").pinVcpu(0, (True, False, False, False))
            hung.release()
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
        assert await pins_of(host, "b") == [frozenset({0}), ALL]

    on_host(uri, loop_runner, work, faults)


def test_whom_others_pause_before_vscaf_does_is_left_to_them_when_it_is_released(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """Also if it is released before vscaf knows that others have paused it."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host, load_policy("equipartition")) as daemon:
            await until(lambda: all(one.held and not one.transition.moving for one in daemon.managed.values()))  # type: ignore[union-attr]
            hung = {name: faults.inject("state", name, hang=True) for name in "ab"}
            daemon.use_policy(PolicyConfig(name="gang", options={"slice_s": FOREVER_S}), gang)
            await until(lambda: any(fault.hits for fault in hung.values()))
            (name,) = [name for name, fault in hung.items() if fault.hits]
            raw(faults, name).suspend()
            releasing = asyncio.create_task(Operations(daemon).release(name))
            await until(lambda: bool(domain_of(daemon, name).left_alone))
            faults.clear()
            assert await releasing == [name]
            assert not runs(faults, name)
        assert not runs(faults, name)

    on_host(uri, loop_runner, work, faults)


def test_what_was_found_of_one_that_ends_while_it_is_given_back_is_kept(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """It may have been saved. Then it comes back with the pins that vscaf set."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
            await until(
                lambda: not any(one.transition is None or one.transition.moving for one in daemon.managed.values())
            )
            b = domain_of(daemon, "b")

            def ends(*arguments: object) -> tuple[object, ...]:
                raw(faults, "b").destroy()
                return arguments

            faults.inject("pinVcpu", "b", arguments=ends)
            assert await Operations(daemon).release("b") == ["b"]
            await until(lambda: [one.name for one in daemon.managed.values()] == ["a"])
            await until(lambda: b.seen.key not in daemon.journal.entries)
            assert daemon.journal.departed[b.seen.key.uuid].key == b.seen.key

    on_host(uri, loop_runner, work, faults)
