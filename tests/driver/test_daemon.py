"""The daemon on libvirt's test driver: a real connection, whose calls a test can make fail."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import libvirt
import pytest
from msgspec.structs import replace
from rich.console import Console
from vscaf.cli.status_table import table
from vscaf.config import Config, DomainConfig, PolicyConfig
from vscaf.control.client import get_status
from vscaf.control.server import ControlServer
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.daemon.status import status
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.hypervisor.libvirt.metadata import NAMESPACE
from vscaf.hypervisor.libvirt.plugging import SLOTS
from vscaf.journal import Journal
from vscaf.lab.polling import HANG_S
from vscaf.lab.polling import soon as until

from .faults import Faults
from .node import write_node

ALL = frozenset({0, 1, 2, 3})  # the pins of the driver's domains when they start on a node of four CPUs


def configured(
    uri: str, tmp_path: Path, policy: str = "equipartition", foreign_changes: str = "mend", **domains: DomainConfig
) -> Config:
    return Config(
        foreign_changes=foreign_changes,  # type: ignore[arg-type]
        uri=uri,
        pool="0,2",
        state_directory=str(tmp_path / "state"),
        control_socket=str(tmp_path / "control.sock"),
        period_ms=20,
        deadline_ms=50,
        domains=domains or {"a": DomainConfig(), "b": DomainConfig()},
        policy=PolicyConfig(name=policy),
    )


@asynccontextmanager
async def running(config: Config, host: LibvirtHost, boot_id: str = "boot") -> AsyncIterator[Daemon]:
    journal = Journal(Path(config.state_directory), boot_id)
    daemon = Daemon(config, host, await host.host_cpus(), journal)
    task = asyncio.create_task(daemon.run())
    try:
        yield daemon
    finally:
        daemon.stop()
        await task
        await daemon.close()
        journal.close()


def partitions(daemon: Daemon) -> dict[str, str]:
    return {one["name"]: one.get("partition") for one in status(daemon)["domains"]}


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


def on_host(
    uri: str, runner: asyncio.Runner, work: Callable[[LibvirtHost], Awaitable[None]], faults: Faults | None = None
) -> None:
    async def with_host() -> None:
        host = LibvirtHost(uri, 5.0, opener=(faults or Faults()).open)
        await host.open()
        try:
            await work(host)
        finally:
            await host.close()

    runner.run(with_host())


async def separated_by_a_daemon_that_is_killed(config: Config, host: LibvirtHost) -> None:
    """Leaves two partitions and a journal, and puts nothing back."""
    journal = Journal(Path(config.state_directory), "boot")
    killed = Daemon(config, host, await host.host_cpus(), journal)
    task = asyncio.create_task(killed.run())
    await until(lambda: set(partitions(killed).values()) == {"0", "2"})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    journal.close()


async def pins_of(host: LibvirtHost, name: str) -> list[frozenset[int]]:
    (seen,) = [one for one in await host.observe() if one.name == name]
    settings = await host.settings(seen.key)
    return [settings.vcpu_pins[vcpu] for vcpu in sorted(settings.vcpu_pins)]


def test_two_busy_domains_get_partitions_and_everything_back(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        a, _b = await host.observe()
        await host.pin_vcpus(a.key, {1: frozenset({0, 2})})  # a setting to put back
        found = {name: await pins_of(host, name) for name in "ab"}
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
            pins = {name: await pins_of(host, name) for name in "ab"}
            # They have no agent, so each is contained: all its vCPUs float over its partition.
            assert sorted(pins.values()) == [[frozenset({0})] * 2, [frozenset({2})] * 2]
            assert (tmp_path / "state" / "journal.json").exists()
        assert {name: await pins_of(host, name) for name in "ab"} == found
        assert not (tmp_path / "state" / "journal.json").exists()

    on_host(uri, loop_runner, work)


def test_unmanaged_changes_nothing(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        found = {name: await pins_of(host, name) for name in "ab"}
        async with running(configured(uri, tmp_path, "unmanaged"), host) as daemon:
            await until(lambda: daemon.decision is not None)
            assert {name: await pins_of(host, name) for name in "ab"} == found
            assert status(daemon)["managing"] is False
            assert not (tmp_path / "state" / "journal.json").exists()

    on_host(uri, loop_runner, work)


def test_before_the_first_listing_nothing_is_known(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2)})
    faults = Faults()

    def states(daemon: Daemon) -> dict[str, str]:
        return {one["name"]: one["state"] for one in status(daemon)["domains"]}

    async def work(host: LibvirtHost) -> None:
        faults.inject("getAllDomainStats", times=None, error=libvirt.VIR_ERR_INTERNAL_ERROR)
        config = configured(uri, tmp_path, a=DomainConfig(), off=DomainConfig())
        async with running(config, host) as daemon:
            assert states(daemon) == {"a": "unknown", "off": "unknown"}
            await until(lambda: status(daemon)["unknown"])
            (a, off) = status(daemon)["domains"]
            assert (a["state"], off["state"], a["uuid"]) == ("unknown", "unknown", None)
            assert "libvirt has not listed its domains" in a["why"]
            faults.clear()
            await until(lambda: states(daemon) == {"a": "contained", "off": "not running"})

    on_host(uri, loop_runner, work, faults)


def test_failed_listing_is_unknown_not_empty(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})
    faults = Faults()

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
            before = partitions(daemon)
            faults.inject("getAllDomainStats", times=None, error=libvirt.VIR_ERR_INTERNAL_ERROR)
            await until(lambda: status(daemon)["unknown"])
            assert partitions(daemon) == before
            assert len(daemon.managed) == 2
            faults.clear()
            await until(lambda: not status(daemon)["unknown"])
            assert partitions(daemon) == before

    on_host(uri, loop_runner, work, faults)


def test_refused_pin_keeps_the_others_away(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """If a domain should leave a pCPU and cannot be pinned, no other domain is let onto that pCPU."""
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})
    faults = Faults()

    async def work(host: LibvirtHost) -> None:
        refused = faults.inject("pinVcpu", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: refused.hits >= 3)
            assert {domain.held for domain in daemon.managed.values()} == {ALL}
            faults.clear()
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})

    on_host(uri, loop_runner, work, faults)


def test_a_domain_that_goes_leaves_its_share(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})
    faults = Faults()

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
            faults.real.lookupByName("b").destroy()
            await until(lambda: partitions(daemon) == {"a": "0,2", "b": None})

    on_host(uri, loop_runner, work, faults)


def test_takes_over_what_a_killed_daemon_left(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """The first daemon restores nothing. The new one keeps the partitions, and puts back what the *first* one found."""
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        found = {name: await pins_of(host, name) for name in "ab"}
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        left = {name: await pins_of(host, name) for name in "ab"}
        async with running(config, host) as daemon:
            await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
            assert {name: await pins_of(host, name) for name in "ab"} == left
        assert {name: await pins_of(host, name) for name in "ab"} == found

    on_host(uri, loop_runner, work)


@pytest.mark.parametrize("times", [None, 1])
def test_a_marked_domain_whose_description_cannot_be_read_again_keeps_its_partition(
    tmp_path: Path, loop_runner: asyncio.Runner, times: int | None
) -> None:
    """A daemon takes over. libvirt does not give it the description of a, or not at once."""
    faults = Faults()
    mark = f"<metadata><vscaf:partition xmlns:vscaf='{NAMESPACE}'/></metadata>"
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)}, mark)
    config = replace(configured(uri, tmp_path), domains={})
    left = dict[str, list[frozenset[int]]]()

    async def leave(host: LibvirtHost) -> None:
        await separated_by_a_daemon_that_is_killed(config, host)
        left.update({name: await pins_of(host, name) for name in "ab"})

    async def take_over(host: LibvirtHost) -> None:
        trouble = faults.inject("XMLDesc", "a", times=times, error=libvirt.VIR_ERR_INTERNAL_ERROR)
        async with running(config, host) as daemon:
            await until(lambda: daemon.decision is not None and bool(trouble.hits))
            for _ in range(20):
                looked = daemon._look_ended_s
                daemon.wake()
                await until(lambda at=looked: daemon._look_ended_s > at)
                assert await pins_of(host, "b") == left["b"]
            a = next(one for one in daemon.managed.values() if one.name == "a")
            assert times == 1 or (a.state, a.held) == ("unknown", left["a"][0])
            faults.clear()
            await until(lambda: a.state == "contained" and set(partitions(daemon).values()) == {"0", "2"})
            assert {name: await pins_of(host, name) for name in "ab"} == left
            assert not daemon.events.counts["given-back"]
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, leave, faults)
    on_host(uri, loop_runner, take_over, faults)


def test_gives_back_what_is_no_longer_configured(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        found = await pins_of(host, "b")
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        async with running(configured(uri, tmp_path, a=DomainConfig()), host) as daemon:
            await until(lambda: partitions(daemon) == {"a": "0,2"})
            assert await pins_of(host, "b") == found

    on_host(uri, loop_runner, work)


def test_vcpus_are_plugged_when_the_allocation_needs_them(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """`static` gives a domain more pCPUs than it has vCPUs. vCPUs are plugged, and at the end the found count is
    back."""
    uri = write_node(tmp_path, 4, {"a": (1, 2)})

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, a=DomainConfig(minimum=2))
        async with running(config, host):
            async with asyncio.timeout(HANG_S):
                while (await host.observe())[0].vcpus != 2:  # noqa: ASYNC110  (libvirt has no event of it)
                    await asyncio.sleep(0.01)
        (a,) = await host.observe()
        assert a.vcpus == 1

    on_host(uri, loop_runner, work)


@pytest.mark.parametrize("why", ["others", "no answer"])
def test_a_plug_or_unplug_that_cannot_be_made_now_is_made_later(
    why: str, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """Only some may be under way at once, and libvirt may not answer."""
    uri = write_node(tmp_path, 4, {"a": (1, 2)})
    faults = Faults()

    async def work(host: LibvirtHost) -> None:
        @asynccontextmanager
        async def trouble() -> AsyncIterator[None]:
            if why == "others":
                with contextlib.ExitStack() as others:
                    for _ in range(SLOTS):
                        others.enter_context(host._slots)
                    yield
            else:
                faults.inject("setVcpusFlags", times=None, error=libvirt.VIR_ERR_RPC)
                yield
                faults.clear()

        async def refused() -> None:
            count = daemon.events.counts["refused"]
            await until(lambda: daemon.events.counts["refused"] > count)

        def count() -> int:
            return int(faults.real.lookupByName("a").vcpusFlags(libvirt.VIR_DOMAIN_AFFECT_LIVE))

        async with running(configured(uri, tmp_path, a=DomainConfig(minimum=2)), host) as daemon:
            async with trouble():
                await refused()
                assert count() == 1
            await until(lambda: plugged(daemon, 2))
            assert count() == 2
            async with trouble():
                daemon.stop()
                await refused()
                assert count() == 2
            await daemon.ended.wait()
            assert count() == 1 and not daemon.not_put_back

    on_host(uri, loop_runner, work, faults)


def plugged(daemon: Daemon, vcpus: int) -> bool:
    """Whether the daemon knows that the domains have *vcpus* vCPUs, and no call for them is under way."""
    known = [one.transition for one in daemon.managed.values() if one.transition is not None]
    return bool(known) and all(one.vcpus == vcpus and not one.moving for one in known)


def test_pins_that_the_driver_would_swallow_are_refused(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        (a,) = await host.observe()
        for cpus in (frozenset[int](), frozenset({0, 99})):
            with pytest.raises(ValueError, match="no such pin"):
                await host.pin_vcpus(a.key, {0: cpus})

    on_host(uri, loop_runner, work)


def test_more_domains_than_pcpus_share_the_last_one(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2), "c": (2, 2)})
    faults = Faults()

    async def work(host: LibvirtHost) -> None:
        found = {name: await pins_of(host, name) for name in "abc"}
        config = configured(uri, tmp_path, a=DomainConfig(weight=2.0), b=DomainConfig(), c=DomainConfig())
        async with running(config, host) as daemon:
            await until(lambda: len(partitions(daemon)) == 3 and set(partitions(daemon).values()) == {"0", "2"})
            where = partitions(daemon)
            assert where["b"] == where["c"] != where["a"]
            assert status(daemon)["violations"] == []
            faults.real.lookupByName("c").destroy()
            await until(lambda: {partitions(daemon)[name] for name in "ab"} == {"0", "2"})
        assert {name: await pins_of(host, name) for name in "ab"} == {name: found[name] for name in "ab"}

    on_host(uri, loop_runner, work, faults)


def test_status_is_read_over_the_control_socket_and_as_a_table(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with running(config, host) as daemon:
            control = ControlServer(Path(config.control_socket), Operations(daemon), daemon.events)
            await control.start()
            try:
                assert mode_of(config.control_socket) == 0o600
                await until(lambda: set(partitions(daemon).values()) == {"0", "2"})
                state = await get_status(Path(config.control_socket))
            finally:
                await control.stop()
        assert state["policy"] == "equipartition"
        assert [one["state"] for one in state["domains"]] == ["contained", "contained"]
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(table(state))
        shown = console.export_text()
        assert "policy equipartition, pool 0,2" in shown
        assert "contained" in shown and "no channel" in shown

    on_host(uri, loop_runner, work)
