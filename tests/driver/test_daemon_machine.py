"""Random histories of the real daemon on libvirt's test driver: its laws hold after every step, and all is put back.

With VSCAF_EXPLORE=N there are N other histories.
"""

import asyncio
import os
import tempfile
from pathlib import Path

import libvirt
import pytest
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.errors import VscafError
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.journal import Journal
from vscaf.lab.polling import HANG_S

from .faults import Faults
from .machine import live
from .node import write_node
from .test_daemon import (
    ALL,
    configured,
    on_host,
    partitions,
    pins_of,
    running,
    separated_by_a_daemon_that_is_killed,
    until,
)

EXPLORE = os.environ.get("VSCAF_EXPLORE")
HISTORIES = int(EXPLORE or 100)
AT_ONCE = 20  # most of a history is waiting
EVENTS = 25


@pytest.mark.parametrize("part", range(4))
def test_laws_hold_in_random_histories(part: int, loop_runner: asyncio.Runner) -> None:
    first = int.from_bytes(os.urandom(4)) if EXPLORE else 0

    async def one(seed: int, turn: asyncio.Semaphore) -> int:
        async with turn:
            with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:  # short: sockets are in it
                return (await live(seed, Path(directory), EVENTS)).checks

    async def work() -> None:
        turn = asyncio.Semaphore(AT_ONCE)
        seeds = range(first + part, first + HISTORIES, 4)
        outcomes = await asyncio.gather(*(one(seed, turn) for seed in seeds), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            raise failures[0]
        checks = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert sum(checks) > 20 * len(checks), "too few checks were made"

    loop_runner.run(work())


def test_reading_that_takes_longer_than_a_period_holds_up_nothing(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        faults.inject("vcpuPinInfo", times=None, late_s=0.1)  # the period is 0.02
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
            assert {tuple(await pins_of(host, name)) for name in "ab"} == {
                (frozenset({0}), frozenset({0})),
                (frozenset({2}), frozenset({2})),
            }

    on_host(uri, loop_runner, work, faults)


@pytest.mark.parametrize("killed", [False, True])
def test_who_cannot_be_given_back_when_released_is_tried_again(
    killed: bool, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """By the same daemon, or by the next one if that was killed."""
    faults = Faults()
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        journal = Journal(Path(config.state_directory), "boot")
        first = Daemon(config, host, await host.host_cpus(), journal)
        task = asyncio.create_task(first.run())
        await until(lambda: set(partitions(first).values()) == {"0", "2"})
        faults.inject("pinVcpu", "b", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        with pytest.raises(VscafError, match="b: could not be put back"):
            await Operations(first).release("b")
        assert await pins_of(host, "b") != [ALL] * 2
        if not killed:
            faults.clear()
            await becomes_as_found(host)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await first.close()
        journal.close()
        faults.clear()
        async with running(config, host) as second:
            await becomes_as_found(host)
            await until(lambda: {one.name: one.state for one in second.managed.values()}.get("b") == "released")
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


def test_stopped_before_it_has_seen_anything_it_keeps_what_an_earlier_one_found(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        faults.inject("getAllDomainStats", times=None, error=libvirt.VIR_ERR_INTERNAL_ERROR)
        journal = Journal(Path(config.state_directory), "boot")
        blind = Daemon(config, host, await host.host_cpus(), journal)
        task = asyncio.create_task(blind.run())
        await until(lambda: blind.unknown_since_s is not None)
        blind.stop()
        assert not await task
        assert blind.not_put_back == ["a", "b"]
        assert {entry.name for entry in journal.entries.values()} == {"a", "b"}
        await blind.close()
        journal.close()
        faults.clear()
        # The next daemon is stopped before its first look, so it looks when it stops.
        journal = Journal(Path(config.state_directory), "boot")
        hasty = Daemon(config, host, await host.host_cpus(), journal)
        task = asyncio.create_task(hasty.run())
        hasty.stop()
        assert await task
        await hasty.close()
        journal.close()
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


def test_what_ended_before_it_could_be_read_needs_nothing_put_back(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        faults.inject("vcpuPinInfo", "b", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        journal = Journal(Path(config.state_directory), "boot")
        second = Daemon(config, host, await host.host_cpus(), journal)
        task = asyncio.create_task(second.run())
        await until(lambda: len(second.managed) == 2)
        faults.real.lookupByName("b").destroy()
        second.stop()
        assert await task, second.not_put_back
        assert not journal.entries
        await second.close()
        journal.close()
        assert await pins_of(host, "a") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


async def becomes_as_found(host: LibvirtHost) -> None:
    async with asyncio.timeout(HANG_S):
        while await pins_of(host, "b") != [ALL] * 2:  # noqa: ASYNC110  (libvirt has no event of a pin)
            await asyncio.sleep(0.01)
