"""What operators and others do to a daemon and its domains, on libvirt's test driver."""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import libvirt
import msgspec
import pytest
from vscaf.config import DomainConfig, PolicyConfig
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.domains.rules import DomainRules, rules_for
from vscaf.errors import HypervisorError, UsageError, VscafError
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.journal import Journal, lock_hypervisor
from vscaf.lab.polling import HANG_S
from vscaf.recovery.offline_restore import restore_from_journal
from vscaf.values import MetadataRules

from .faults import Faults, reported_in
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

TWO = {"a": (2, 2), "b": (2, 2)}


def separated(daemon: Daemon) -> bool:
    return set(partitions(daemon).values()) == {"0", "2"}


def domain_of(daemon: Daemon, name: str):  # type: ignore[no-untyped-def]
    return next(one for one in daemon.managed.values() if one.name == name)


def pin_by_hand(faults: Faults, name: str, vcpu: int, *cpus: int) -> None:
    """Pins like `virsh vcpupin`, without the daemon."""
    connection = faults.real
    width = connection.getCPUMap()[0]
    connection.lookupByName(name).pinVcpu(vcpu, tuple(cpu in cpus for cpu in range(width)))


async def becomes(host: LibvirtHost, name: str, pins: list[frozenset[int]]) -> None:
    async with asyncio.timeout(HANG_S):
        while await pins_of(host, name) != pins:  # noqa: ASYNC110  (libvirt has no event of a pin)
            await asyncio.sleep(0.01)


def test_a_release_gives_back_one_and_manage_takes_it_again(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with running(config, host) as daemon:
            operations = Operations(daemon)
            await until(lambda: separated(daemon))
            assert await operations.release("b") == ["b"]
            assert await pins_of(host, "b") == [ALL] * 2
            assert domain_of(daemon, "b").state == "released"
            await until(lambda: domain_of(daemon, "a").held == {0, 2})  # the pCPU of b is free
            assert await operations.release("b") == []
            assert await operations.manage("b") == ["b"]
            await until(lambda: separated(daemon))
            with pytest.raises(UsageError, match="nobody"):
                await operations.release("nobody")
            assert await operations.release(None) == ["a", "b"]
            assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work)


def test_who_was_released_stays_so_when_the_daemon_is_restarted(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with running(config, host) as daemon:
            await until(lambda: separated(daemon))
            await Operations(daemon).release("b")
        async with running(config, host) as daemon:
            await until(lambda: daemon.transitions > 0)
            assert domain_of(daemon, "b").state == "released"
            assert await pins_of(host, "b") == [ALL] * 2
            await Operations(daemon).manage(None)
            await until(lambda: separated(daemon))

    on_host(uri, loop_runner, work)


def test_off_leaves_everything_as_found(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: separated(daemon))
            await Operations(daemon).off()
            assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2
            assert not (tmp_path / "state" / "journal.json").exists()

    on_host(uri, loop_runner, work)


def no_space(*_arguments: object, **_options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@contextlib.contextmanager
def restoring_on(host: LibvirtHost) -> Iterator[pytest.MonkeyPatch]:
    """The test driver's domains live in one connection, so the code that restores from a journal gets *host*."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("vscaf.recovery.offline_restore.LibvirtHost", lambda *_: host)
        patched.setattr("vscaf.recovery.offline_restore.host_boot_id", lambda: "boot")
        patched.setattr(host, "close", lambda: asyncio.sleep(0))
        yield patched


def test_release_without_a_daemon_restores_from_the_journal(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        assert await pins_of(host, "a") != [ALL] * 2
        with restoring_on(host):
            with pytest.raises(UsageError, match="no settings of it to put back"):
                await restore_from_journal(config, "nobody")
            assert await restore_from_journal(config, "a") == ["a"]
            assert await pins_of(host, "a") == [ALL] * 2 != await pins_of(host, "b")
            assert await restore_from_journal(config, None) == ["b"]
            assert await restore_from_journal(config, None) == []
        assert await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work)


def test_without_a_description_nothing_is_called_put_back(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """Without it, vCPUs would stay plugged and the guest would not be told, and nobody would know."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        left = await pins_of(host, "a")
        host._descriptions.keep(())  # the command is a process of its own, and knows none yet
        faults.inject("XMLDesc", "a", error=libvirt.VIR_ERR_INTERNAL_ERROR)
        with restoring_on(host):
            with pytest.raises(VscafError, match="domain a: its description could not be read"):
                await restore_from_journal(config, None)
            assert (await pins_of(host, "a"), await pins_of(host, "b")) == (left, [ALL] * 2)
            while not all(one.described for one in await host.observe()):  # noqa: ASYNC110  (nothing tells when it is known)
                await asyncio.sleep(0.01)
            assert await restore_from_journal(config, None) == ["a"]
            assert await pins_of(host, "a") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


def test_a_disk_that_is_full_while_restoring_is_said(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        with restoring_on(host) as patched:
            with patched.context() as full:
                full.setattr("vscaf.journal.os.fsync", no_space)
                with pytest.raises(VscafError, match=r"journal .*: No space left on device: it still names"):
                    await restore_from_journal(config, "a")
            assert await pins_of(host, "a") == [ALL] * 2
            assert await restore_from_journal(config, "a") == ["a"], "restoring once more must work"

    on_host(uri, loop_runner, work)


def test_what_has_ended_is_not_called_put_back(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        faults.real.lookupByName("a").destroy()
        with restoring_on(host):
            assert await restore_from_journal(config, None) == ["b"]
        journal = Journal(tmp_path / "state", "boot")
        assert not journal.entries and {one.name for one in journal.departed.values()} == {"a"}
        journal.close()

    on_host(uri, loop_runner, work, faults)


def test_foreign_pins_are_put_right(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: separated(daemon))
            own = domain_of(daemon, "a").held
            pin_by_hand(faults, "a", 1, 0, 1, 2, 3)
            await becomes(host, "a", [own] * 2)
            assert any(event.kind == "foreign" and "vCPU 1" in event.why for event in daemon.events.since(0))
            assert separated(daemon)

    on_host(uri, loop_runner, work, faults)


def test_foreign_pins_are_respected_where_the_configuration_says_so(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, foreign_changes="respect")
        async with running(config, host) as daemon:
            await until(lambda: separated(daemon))
            pin_by_hand(faults, "a", 1, 3)
            await until(lambda: domain_of(daemon, "a").state == "unmanaged")
            assert "vCPU 1" in domain_of(daemon, "a").unmanaged_why
            assert (await pins_of(host, "a"))[1] == {3}
            await until(lambda: domain_of(daemon, "b").held == {0, 2})
        assert (await pins_of(host, "a"))[1] == {3}

    on_host(uri, loop_runner, work, faults)


def test_what_is_respected_stays_so_where_it_is_given_back_later(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """libvirt refuses at first, the daemon is killed, and the next daemon puts back the rest."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, foreign_changes="respect")
        journal = Journal(tmp_path / "state", "boot")
        killed = Daemon(config, host, await host.host_cpus(), journal)
        task = asyncio.create_task(killed.run())
        await until(lambda: separated(killed))
        faults.inject("pinEmulator", "a", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        pin_by_hand(faults, "a", 1, 3)
        await until(lambda: domain_of(killed, "a").state == "unmanaged")
        assert domain_of(killed, "a").found is not None, "the emulator's pin is still to be put back"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        journal.close()
        faults.clear()
        async with running(config, host) as daemon:
            await until(lambda: "a" not in {entry.name for entry in daemon.journal.entries.values()})
            assert domain_of(daemon, "a").state == "unmanaged"
            assert (await pins_of(host, "a"))[1] == {3}
        assert (await pins_of(host, "a"))[1] == {3}

    on_host(uri, loop_runner, work, faults)


def test_a_pool_with_no_pcpu_online_keeps_everything_as_it_is(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    def without_the_pool(real: tuple[int, list[bool], int]) -> tuple[int, list[bool], int]:
        count, online, _number = real
        left = [on and cpu not in {0, 2} for cpu, on in enumerate(online)]
        return count, left, sum(left)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, a=DomainConfig(), b=DomainConfig(rest="share"))
        async with running(config, host) as daemon:
            await until(lambda: separated(daemon))
            faults.real.lookupByName("b").suspend()
            await until(lambda: domain_of(daemon, "b").state == "resting")  # its rest area is the pool
            meant = {one.name: one.goal.partition for one in daemon.managed.values()}
            faults.inject("getCPUMap", times=None, result=without_the_pool)
            await until(lambda: daemon.pool.gone)
            looked = faults.called["getCPUMap"]
            await until(lambda: faults.called["getCPUMap"] > looked)  # the daemon still looks
            assert any("no pCPU of the pool" in one.why for one in daemon.events.since(0) if one.kind == "refused")
            assert {one.name: one.goal.partition for one in daemon.managed.values()} == meant
            faults.clear()
            await until(lambda: not daemon.pool.gone)
            await until(lambda: {one.name: one.held for one in daemon.managed.values()} == meant)

    on_host(uri, loop_runner, work, faults)


@pytest.mark.parametrize("comes", [False, True])
@pytest.mark.parametrize("within_a_read", [False, True])
def test_a_pcpu_that_goes_offline_or_comes_is_no_change_by_somebody(
    within_a_read: bool, comes: bool, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """libvirt reports the pCPUs that are online as the pin of a thread that has none."""
    faults = Faults()
    uri = write_node(tmp_path, 4, {"a": (2, 2)})
    online = [True, False, not comes, False]
    switches: list[bool] = []  # of CPU 2, to be made between the pins and the pCPUs of the next read

    def reported(pin: tuple[bool, ...]) -> tuple[bool, ...]:
        return tuple(online) if all(pin[:4]) else pin  # this driver reports all pCPUs for a thread that has none

    def emulator(pin: tuple[bool, ...]) -> tuple[bool, ...]:
        pin = reported(pin)
        if switches:
            online[2] = switches.pop()
        return pin

    faults.inject("getCPUMap", times=None, result=lambda _map: (4, list(online), sum(online)))
    faults.inject("vcpuPinInfo", times=None, result=lambda pins: [reported(pin) for pin in pins])
    faults.inject("emulatorPinInfo", times=None, result=emulator)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, foreign_changes="respect", a=DomainConfig(rest="share"))
        config = msgspec.structs.replace(config, pool="0" if comes else "0,2")  # what is online, so nothing is pinned
        faults.real.lookupByName("a").suspend()
        async with running(config, host) as daemon:
            await until(lambda: daemon.managed and domain_of(daemon, "a").state == "resting")
            assert not faults.called["pinEmulator"], "the test is about threads without a pin"
            daemon._cpus_at_s = float("inf")  # its pins are read before the pool is renewed
            if within_a_read:
                switches.append(comes)
                await until(lambda: not switches)
            else:
                online[2] = comes
            read = faults.called["vcpuPinInfo"]
            await until(lambda: faults.called["vcpuPinInfo"] > read + 2 or daemon.events.counts["foreign"])
            assert domain_of(daemon, "a").state == "resting" and not daemon.events.counts["foreign"]

    on_host(uri, loop_runner, work, faults)


def test_vcpus_plugged_by_hand_are_kept_inside_and_stay(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, {"a": (1, 4), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: separated(daemon))
            faults.real.lookupByName("a").setVcpusFlags(3, libvirt.VIR_DOMAIN_AFFECT_LIVE)
            await until(lambda: domain_of(daemon, "a").transition.vcpus == 3)
            (own,) = [goal.partition for one in daemon.managed.values() if one.name == "a" and (goal := one.goal)]
            await becomes(host, "a", [own] * 3)
            await until(lambda: separated(daemon))
        (a,) = [one for one in await host.observe() if one.name == "a"]
        assert a.vcpus == 3  # they stay, because vscaf did not plug them

    on_host(uri, loop_runner, work, faults)


def test_what_is_given_back_is_written_down_as_soon_as_it_can_be(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also under a policy that leaves everything alone, because an entry that stays would be put back once more."""
    uri = write_node(tmp_path, 4, TWO)
    file = tmp_path / "state" / "journal.json"

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: separated(daemon))
            with monkeypatch.context() as full:
                full.setattr("vscaf.journal.os.fsync", no_space)
                full.setattr("vscaf.journal.Path.unlink", no_space)
                await Operations(daemon).set_policy("unmanaged", {})
                await until(lambda: all(one.given_back for one in daemon.managed.values()))
                await until(lambda: daemon.events.counts["refused"] > 0)
                assert {entry.name for entry in daemon.journal.entries.values()} == {"a", "b"}
            await until(lambda: not file.exists())

    on_host(uri, loop_runner, work)


def test_a_policy_is_set_live_and_rolled_back(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            operations = Operations(daemon)
            await until(lambda: separated(daemon))
            with pytest.raises(UsageError, match="no policy was set"):
                await operations.rollback_policy()
            for name, options in (("best", {}), ("static", {}), ("equipartition", {"colour": 1})):
                with pytest.raises(UsageError):
                    await operations.set_policy(name, options)
            assert daemon.policy_name == "equipartition" and separated(daemon)
            await operations.set_policy("unmanaged", {})
            await until(lambda: partitions(daemon) == {"a": None, "b": None})
            await becomes(host, "a", [ALL] * 2)
            assert await operations.rollback_policy() == "equipartition"
            await until(lambda: separated(daemon))

    on_host(uri, loop_runner, work)


def test_a_policy_that_raises_changes_nothing(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with running(configured(uri, tmp_path), host) as daemon:
            await until(lambda: separated(daemon))

            def broken(pool: object, options: object) -> dict[str, int]:
                raise ZeroDivisionError("what a policy may do")

            monkeypatch.setattr("vscaf.policy.loading.load_policy", lambda name: broken)
            with pytest.raises(UsageError, match="ZeroDivisionError"):
                await Operations(daemon).set_policy("broken", {})
            daemon.use_policy(PolicyConfig(name="broken"), broken)
            await until(lambda: any("ZeroDivisionError" in event.why for event in daemon.events.since(0)))
            assert separated(daemon)

    on_host(uri, loop_runner, work)


def test_a_domain_that_cannot_be_read_stops_nobody_else(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """The third domain's pins cannot be read. The others get their shares without it, and it is managed once they can
    be read."""
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2), "c": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        real = LibvirtHost.settings

        async def unreadable(self: LibvirtHost, key):  # type: ignore[no-untyped-def]
            (name,) = [one.name for one in await self.observe() if one.key == key]
            if name == "c":
                raise HypervisorError("made up")
            return await real(self, key)

        monkey = pytest.MonkeyPatch()
        config = configured(uri, tmp_path, a=DomainConfig(), b=DomainConfig(), c=DomainConfig())
        with monkey.context() as patched:
            patched.setattr(LibvirtHost, "settings", unreadable)
            async with running(config, host) as daemon:
                await until(lambda: {partitions(daemon)[name] for name in "ab"} == {"0", "2"})
                patched.setattr(LibvirtHost, "settings", real)
                await until(
                    lambda: len(set(partitions(daemon).values())) == 2 and None not in partitions(daemon).values()
                )

    on_host(uri, loop_runner, work)


async def depart(daemon: Daemon, end: Callable[[], object]) -> list[int]:
    """Ends b's run by *end*. Returns where it was allowed to compute, by the journal's entry of the ended run."""
    await until(lambda: separated(daemon))
    end()
    await until(lambda: bool(daemon.journal.departed))
    (departed,) = daemon.journal.departed.values()
    assert departed.name == "b"
    return list(departed.reach)


def test_what_was_found_stands_for_a_domain_that_was_saved_and_is_back(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """libvirt restores it with the pins that it had when it was saved."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with running(config, host) as daemon:
            saved = str(tmp_path / "saved")
            reach = await depart(daemon, lambda: faults.real.lookupByName("b").save(saved))
            faults.real.restore(saved)
            # This is read at once, before the daemon can run and pin it again.
            pins = faults.real.lookupByName("b").vcpuPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE)
            assert [[cpu for cpu, there in enumerate(mask) if there] for mask in pins] == [reach] * 2
            daemon.wake()
            await until(lambda: separated(daemon))
        assert await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


def test_what_somebody_sets_where_vscaf_had_pinned_an_earlier_run_is_theirs(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with running(config, host) as daemon:
            domain = faults.real.lookupByName("b")
            reach = await depart(daemon, domain.destroy)
            domain.create()
            for vcpu in range(2):
                pin_by_hand(faults, "b", vcpu, *reach)
            daemon.wake()
            await until(lambda: separated(daemon))
        assert await pins_of(host, "b") == [frozenset(reach)] * 2

    on_host(uri, loop_runner, work, faults)


@pytest.mark.parametrize("restored", [False, True])
def test_a_run_that_is_being_started_is_judged_when_it_has_started(
    restored: bool, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """Before that, libvirt does not report whether it was booted. Its definition pins it where vscaf had pinned b."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with running(config, host) as daemon:
            domain = faults.real.lookupByName("b")
            reach = await depart(daemon, domain.destroy)
            starting = reported_in(faults, "b", libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP)
            domain.create()
            for vcpu in range(2):
                pin_by_hand(faults, "b", vcpu, *reach)
            seen = starting.hits
            await until(lambda: starting.hits > seen + 10)
            b = domain_of(daemon, "b")
            assert b.found is None and b.state == "unmanaged" and not b.adopting
            with pytest.raises(HypervisorError, match="domain b: is being started"):
                await b.adopt(None, None, daemon.pool)
            if restored:
                reported_in(faults, "b", libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_RESTORED)
            starting.times = 0
            await until(lambda: separated(daemon))
        assert await pins_of(host, "b") == [ALL if restored else frozenset(reach)] * 2

    on_host(uri, loop_runner, work, faults)


def test_rules_are_the_domains_own_before_the_configurations(tmp_path: Path) -> None:
    config = configured(
        "test:///none", tmp_path, a=DomainConfig(minimum=2, maximum=4, weight=3.0), b=DomainConfig(managed=False)
    )
    assert rules_for(config, "c", None) is None
    assert rules_for(config, "c", MetadataRules()) == DomainRules()
    assert rules_for(config, "b", MetadataRules(minimum=1)) is None
    own = rules_for(config, "a", MetadataRules(maximum=3, rest="keep"))
    assert own == DomainRules(minimum=2, maximum=3, weight=3.0, rest="keep")
    low = rules_for(config, "a", MetadataRules(maximum=1))
    assert low is not None and (low.minimum, low.maximum) == (2, 2)


@pytest.mark.parametrize(
    ("own", "bounds"),
    [
        (MetadataRules(maximum=9), (2, 4)),
        (MetadataRules(minimum=9), (4, 4)),
        (MetadataRules(minimum=6, maximum=9), (4, 4)),
        (MetadataRules(maximum=3), (2, 3)),
    ],
)
def test_metadata_do_not_raise_a_domain_above_the_configured_maximum(
    tmp_path: Path, own: MetadataRules, bounds: tuple[int, int]
) -> None:
    config = configured("test:///none", tmp_path, a=DomainConfig(minimum=2, maximum=4), b=DomainConfig())
    rules = rules_for(config, "a", own)
    assert rules is not None and (rules.minimum, rules.maximum) == bounds
    free = rules_for(config, "b", own)
    assert free is not None and free.maximum == own.maximum, (
        "without a configured maximum the metadata's maximum counts"
    )


def test_a_release_that_cannot_be_written_down_is_none(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next start of the domain or of the daemon would silently undo the release."""
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with running(config, host) as daemon:
            operations = Operations(daemon)
            await until(lambda: separated(daemon))
            for _ in range(2):
                with monkeypatch.context() as full:
                    full.setattr("vscaf.journal.os.fsync", no_space)
                    with pytest.raises(VscafError, match=r"domain b: is not released: journal .*No space left"):
                        await operations.release("b")
            refused = [
                event for event in daemon.events.since(0) if str(event.kind) == "refused" and event.domain == "b"
            ]
            assert len(refused) == 2 and all("not released" in event.why for event in refused)
            assert not daemon.events.counts["released"] and not daemon.journal.left_alone
            await until(lambda: separated(daemon))
            assert domain_of(daemon, "b").state == "contained"
            assert await operations.release("b") == ["b"], "not released although the disk has room again"
            with monkeypatch.context() as full:
                full.setattr("vscaf.journal.os.fsync", no_space)
                full.setattr("vscaf.journal.Path.unlink", no_space)
                with pytest.raises(VscafError, match=r"domain b: is still left alone: journal"):
                    await operations.manage("b")
            assert domain_of(daemon, "b").state == "released" and not daemon.events.counts["managed"]
            assert await operations.manage("b") == ["b"]

    on_host(uri, loop_runner, work)


def test_what_cannot_be_written_down_is_respected_and_says_for_how_long(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, foreign_changes="respect")
        async with running(config, host) as daemon:
            await until(lambda: separated(daemon))
            await until(
                lambda: not any(one.transition is None or one.transition.moving for one in daemon.managed.values())
            )
            with monkeypatch.context() as full:
                full.setattr("vscaf.journal.os.fsync", no_space)
                pin_by_hand(faults, "b", 0, 0, 2)
                domain_of(daemon, "b").audit_due = True
                daemon.wake()
                await until(lambda: daemon.events.counts["unmanaged"] > 0)
                (unmanaged,) = [event for event in daemon.events.since(0) if str(event.kind) == "unmanaged"]
                assert "until the daemon ends" in unmanaged.why and "No space left" in unmanaged.why
                assert "until the daemon ends" in domain_of(daemon, "b").left_alone
                assert not any("until `vscaf manage`" in event.why for event in daemon.events.since(0))

    on_host(uri, loop_runner, work, faults)


def test_off_without_a_daemon_knows_who_was_restored_with_pins_of_vscafs(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """The run in the journal has ended. Domain a was saved and came back with the pins that vscaf had set."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        had = {name: await pins_of(host, name) for name in "ab"}
        assert ALL not in had["a"] + had["b"]
        connection = faults.real
        for name, comes_back in (("a", True), ("b", False)):
            connection.lookupByName(name).save(str(tmp_path / name))
            if comes_back:
                connection.restore(str(tmp_path / name))
                assert await pins_of(host, name) == had[name]
            else:
                connection.lookupByName(name).create()
                assert await pins_of(host, name) == [ALL] * 2
        with restoring_on(host):
            # The first time the entries are of runs, the second time of runs that have ended.
            pin_by_hand(faults, "a", 1, 3)  # so that its pins do not identify it
            assert await restore_from_journal(config, None) == []
            assert len(await pins_of(host, "a")) == 2
            for vcpu in range(2):
                pin_by_hand(faults, "a", vcpu, *had["a"][vcpu])
            assert await restore_from_journal(config, "b") == []
            assert await restore_from_journal(config, "a") == ["a"]
            assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2
            assert await restore_from_journal(config, None) == [], "it was put back already"

    on_host(uri, loop_runner, work, faults)


def test_nothing_is_restored_while_a_daemon_of_another_state_directory_has_these_domains(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vscaf.journal.LOCKS", tmp_path / "locks")
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        await separated_by_a_daemon_that_is_killed(config, host)
        lock = lock_hypervisor(uri)
        with restoring_on(host):
            with pytest.raises(UsageError, match=r"libvirt at test:.*another vscaf daemon"):
                await restore_from_journal(config, None)
            lock.close()
            assert await restore_from_journal(config, None) == ["a", "b"]

    on_host(uri, loop_runner, work)
