"""Domains that a policy suspends or queues, on libvirt's test driver: which ones run, and what resumes them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import libvirt
import pytest
from vscaf.config import Config, DomainConfig, PolicyConfig
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.daemon.status import status
from vscaf.events import Event
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.journal import Journal
from vscaf.recovery.offline_restore import restore_from_journal
from vscaf_policies import Policy, load_policy
from vscaf_policies.gang import gang
from vscaf_policies.priority import priority

from .faults import Faults, reported_in
from .node import write_node
from .stand_ins import Agent, BusyHost
from .test_daemon import ALL, configured, on_host, pins_of, until
from .test_operations import domain_of, restoring_on

TWO = {"a": (2, 2), "b": (2, 2)}
SLICE_S = 0.2
FOREVER_S = 1e9  # a slice whose end no test sees, whatever the clock says: slices are counted from the clock's zero
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE


@asynccontextmanager
async def ganging(
    config: Config, host: LibvirtHost, policy: Policy = gang, *, slice_s: float = SLICE_S, killed: bool = False
) -> AsyncIterator[Daemon]:
    """A daemon that decides by *policy*. killed: it ends as if it was killed, and puts nothing back."""
    journal = Journal(Path(config.state_directory), "boot")
    daemon = Daemon(config, host, await host.host_cpus(), journal)
    options = {"slice_s": slice_s} if policy is gang else {}
    daemon.use_policy(PolicyConfig(name=policy.__name__, options=options), policy)
    task = asyncio.create_task(daemon.run())
    try:
        yield daemon
    finally:
        if killed:
            task.cancel()
        else:
            daemon.stop()
        await asyncio.gather(task, return_exceptions=killed)
        await daemon.close()
        journal.close()


def raw(faults: Faults, name: str) -> Any:
    return faults.real.lookupByName(name)


def runs(faults: Faults, name: str) -> bool:
    return bool(raw(faults, name).state()[0] == libvirt.VIR_DOMAIN_RUNNING)


def reach(faults: Faults, name: str) -> frozenset[int]:
    masks = raw(faults, name).vcpuPinInfo(LIVE)
    return frozenset(cpu for mask in masks for cpu, there in enumerate(mask) if there)


def watch(faults: Faults) -> list[str]:
    """From now on a resumed domain may share no pCPU with another that runs. The list gets each violation."""
    broken: list[str] = []

    def look(result: Any) -> Any:
        names = [one.name() for one in faults.real.listAllDomains() if runs(faults, one.name())]
        for place, one in enumerate(names):
            for other in names[place + 1 :]:
                if reach(faults, one) & reach(faults, other):
                    broken.append(f"{one} and {other} run on a pCPU together")
        return result

    faults.inject("resume", times=None, result=look)
    return broken


def kinds(daemon: Daemon, name: str) -> list[str]:
    return [str(event.kind) for event in daemon.events.since(0) if event.domain == name]


async def suspended(daemon: Daemon, faults: Faults, name: str) -> None:
    await until(lambda: domain_of(daemon, name).state == "suspended" and not runs(faults, name))


def is_turn(event: Event) -> bool:
    return event.kind == "allocation" and event.after == "0,2"


async def the_suspended(daemon: Daemon) -> str:
    """The suspended domain. Waits until there is exactly one."""
    await until(lambda: sum(one.state == "suspended" for one in daemon.managed.values()) == 1)
    return next(one.name for one in daemon.managed.values() if one.state == "suspended")


async def in_turn(daemon: Daemon, turns: int = 2) -> None:
    """Waits until each domain has been suspended and resumed *turns* times."""
    await until(lambda: len(daemon.managed) > 1)
    before = {one.name: kinds(daemon, one.name).count("resumed") for one in daemon.managed.values()}
    await until(lambda: all(kinds(daemon, name).count("resumed") >= n + turns for name, n in before.items()))


def test_each_has_the_pool_in_turn_and_all_run_at_the_end(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host) as daemon:
            await until(lambda: any(one.state == "suspended" for one in daemon.managed.values()))
            broken = watch(faults)
            await in_turn(daemon)
            for name in "ab":
                await suspended(daemon, faults, name)
                shown = {one["name"]: one for one in status(daemon)["domains"]}
                assert shown[name]["suspended"] and shown[name]["partition"] == ""
                assert shown[name]["why"] == "suspended: others have the present slice of time"
                assert shown[name]["demand"] == 2, "its demand has changed"
            assert not broken, broken[0]
            assert not daemon.violations
        assert all(runs(faults, name) for name in "ab")
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2
        assert not (tmp_path / "state" / "journal.json").exists()

    on_host(uri, loop_runner, work, faults)


def test_the_journal_knows_before_a_domain_is_suspended(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)
    written: list[bool] = []

    async def work(host: LibvirtHost) -> None:
        def read() -> tuple[()]:
            content = json.loads((tmp_path / "state" / "journal.json").read_text(encoding="utf-8"))
            written.append({one["name"]: one["suspended"] for one in content["domains"]}["b"])
            return ()

        faults.inject("suspend", "b", times=None, arguments=read)
        async with ganging(configured(uri, tmp_path), host) as daemon:
            await in_turn(daemon)
            assert len(written) >= 2 and all(written)
            await Operations(daemon).set_policy("equipartition", {})
            await until(lambda: not any(entry.suspended for entry in daemon.journal.entries.values()))

    on_host(uri, loop_runner, work, faults)


def test_who_cannot_be_written_down_is_not_suspended(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host, load_policy("equipartition")) as daemon:
            await until(lambda: len(daemon.journal.entries) == 2)

            def full(*_arguments: object) -> None:
                raise OSError(28, "No space left on device")

            with monkeypatch.context() as patched:
                patched.setattr("vscaf.journal.os.fsync", full)
                daemon.use_policy(PolicyConfig(name="gang", options={"slice_s": SLICE_S}), gang)
                await asyncio.sleep(3 * SLICE_S)
                assert faults.called["suspend"] == 0 and all(runs(faults, name) for name in "ab")
                await until(lambda: not any(one.suspended_by_us for one in daemon.managed.values()))
            await in_turn(daemon, 1)

    on_host(uri, loop_runner, work, faults)


@pytest.mark.parametrize("acts", [False, True])
@pytest.mark.parametrize("method", ["suspend", "resume"])
def test_calls_that_fail_are_tried_again(method: str, acts: bool, tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host) as daemon:
            await in_turn(daemon, 1)
            fault = faults.inject(method, "b", times=2, error=libvirt.VIR_ERR_OPERATION_FAILED, acts=acts)
            await until(lambda: fault.hits >= (1 if acts else 2))
            faults.clear()
            broken = watch(faults)
            await in_turn(daemon)
            assert not broken, broken[0]
        assert all(runs(faults, name) for name in "ab")

    on_host(uri, loop_runner, work, faults)


def test_who_could_not_be_suspended_and_is_then_paused_by_others_stays_paused(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        def paused_by_others(_idle: object) -> list[int]:
            (name,) = fault.affected
            assert name is not None
            raw(faults, name).suspend()
            return [libvirt.VIR_DOMAIN_CONTROL_JOB, 0, 3000]

        async with ganging(configured(uri, tmp_path), host, load_policy("equipartition")) as daemon:
            await until(lambda: [one.state for one in daemon.managed.values()] == ["contained"] * 2)
            await until(lambda: {one.held for one in daemon.managed.values()} == {frozenset({0}), frozenset({2})})
            await until(lambda: not any(one.transition.moving for one in daemon.managed.values()))  # type: ignore[union-attr]
            fault = faults.inject("controlInfo", result=paused_by_others)
            daemon.use_policy(PolicyConfig(name="gang", options={"slice_s": 60.0}), gang)
            await until(lambda: bool(fault.hits))
            (name,) = fault.affected
            assert name is not None
            other = "ab".replace(name, "")
            await until(lambda: domain_of(daemon, other).held == {0, 2} and not domain_of(daemon, name).held)
            assert not runs(faults, name) and not faults.called["suspend"]
        assert not runs(faults, name), "vscaf has resumed what somebody else has paused"
        assert runs(faults, other)

    on_host(uri, loop_runner, work, faults)


def test_who_cannot_be_suspended_rests(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """The others still get its pCPUs."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        faults.inject("suspend", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        async with ganging(configured(uri, tmp_path), host, slice_s=1.0) as daemon:
            await until(lambda: len(daemon.managed) == 2)
            for name, other in ("ab", "ba"):
                await until(
                    lambda name=name, other=other: (
                        domain_of(daemon, name).held == {0, 2}  # type: ignore[misc]
                        and not domain_of(daemon, other).held
                    )
                )
            assert all(runs(faults, name) for name in "ab")
        assert all(runs(faults, name) for name in "ab")

    on_host(uri, loop_runner, work, faults)


def test_a_domain_that_ends_while_it_is_suspended(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host) as daemon:
            await in_turn(daemon, 1)
            await suspended(daemon, faults, "b")
            raw(faults, "b").destroy()
            await until(lambda: len(daemon.managed) == 1)
            await until(lambda: domain_of(daemon, "a").held == {0, 2} and runs(faults, "a"))
            await asyncio.sleep(2 * SLICE_S)
            assert runs(faults, "a") and not domain_of(daemon, "a").suspended_by_us, (
                "a domain alone must run in every slice"
            )
            raw(faults, "b").create()
            await until(lambda: len(daemon.managed) == 2)
            await in_turn(daemon, 1)
        assert all(runs(faults, name) for name in "ab")

    on_host(uri, loop_runner, work, faults)


@pytest.mark.parametrize("after", ["gang", "equipartition", "unmanaged", "release"])
def test_whoever_comes_after_a_daemon_that_was_killed_resumes_them(
    after: str, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with ganging(config, host, slice_s=FOREVER_S, killed=True) as daemon:
            await the_suspended(daemon)
            await until(lambda: any(one.held == {0, 2} for one in daemon.managed.values()))
        (frozen,) = [name for name in "ab" if not runs(faults, name)]
        if after == "release":
            with restoring_on(host):
                assert await restore_from_journal(config, frozen) == [frozen]
                assert runs(faults, frozen)
                await restore_from_journal(config, None)
        elif after == "gang":
            async with ganging(config, host) as daemon:
                await until(lambda: len(daemon.managed) == 2)
                await in_turn(daemon, 1)
        else:
            async with ganging(config, host, load_policy(after)):
                await until(lambda: runs(faults, frozen))
        assert all(runs(faults, name) for name in "ab")
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2
        assert not (tmp_path / "state" / "journal.json").exists()

    on_host(uri, loop_runner, work, faults)


def test_who_cannot_be_read_at_first_is_resumed_under_a_policy_that_manages_nothing(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with ganging(config, host, slice_s=FOREVER_S, killed=True) as daemon:
            await the_suspended(daemon)
        (frozen,) = [name for name in "ab" if not runs(faults, name)]
        faults.inject("vcpuPinInfo", frozen, times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        async with ganging(config, host, load_policy("unmanaged")) as daemon:
            await until(lambda: daemon.decision is not None)
            assert not runs(faults, frozen)
            faults.clear()
            await until(lambda: runs(faults, frozen))
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


@pytest.mark.parametrize("how", ["release", "unmanaged", "equipartition"])
def test_who_is_given_back_or_shared_otherwise_runs(how: str, tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host, slice_s=FOREVER_S) as daemon:
            frozen = await the_suspended(daemon)
            if how == "release":
                assert await Operations(daemon).release(frozen) == [frozen]
                assert runs(faults, frozen) and not domain_of(daemon, frozen).suspended_by_us
            else:
                await Operations(daemon).set_policy(how, {})
                await until(lambda: runs(faults, frozen))
                await until(lambda: not domain_of(daemon, frozen).unmanaged_why)
        assert all(runs(faults, name) for name in "ab")

    on_host(uri, loop_runner, work, faults)


def test_pins_that_cannot_be_put_back_leave_nobody_suspended(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host, slice_s=FOREVER_S) as daemon:
            await the_suspended(daemon)
            faults.inject("pinVcpu", times=None, error=libvirt.VIR_ERR_OPERATION_FAILED)
        assert daemon.not_put_back
        assert all(runs(faults, name) for name in "ab")

    on_host(uri, loop_runner, work, faults)


def test_whom_somebody_resumes_is_suspended_again(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host, slice_s=FOREVER_S) as daemon:
            frozen = await the_suspended(daemon)
            raw(faults, frozen).resume()
            await until(lambda: "foreign" in kinds(daemon, frozen))
            await suspended(daemon, faults, frozen)
            assert kinds(daemon, frozen).count("suspended") == 2
        assert all(runs(faults, name) for name in "ab")

    on_host(uri, loop_runner, work, faults)


def test_who_was_resumed_is_left_alone_where_the_configuration_says_so(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, foreign_changes="respect")
        async with ganging(config, host, slice_s=FOREVER_S) as daemon:
            frozen = await the_suspended(daemon)
            raw(faults, frozen).resume()
            await until(lambda: domain_of(daemon, frozen).state == "unmanaged")
            assert domain_of(daemon, frozen).unmanaged_why == "somebody resumed it"
            await asyncio.sleep(0.2)
            assert runs(faults, frozen) and await pins_of(host, frozen) == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


def test_whom_somebody_else_has_paused_is_not_resumed(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host) as daemon:
            await in_turn(daemon, 1)
            await until(lambda: runs(faults, "a") and not domain_of(daemon, "a").suspended_by_us)
            # It is paused just before vscaf would pause it.
            faults.inject("suspend", "a", error=libvirt.VIR_ERR_OPERATION_FAILED)  # so vscaf's suspend fails
            raw(faults, "a").suspend()
            await until(lambda: domain_of(daemon, "a").seen.paused and domain_of(daemon, "a").inferred.demand == 0)
            await until(lambda: domain_of(daemon, "b").held == {0, 2} and runs(faults, "b"))
            await asyncio.sleep(3 * SLICE_S)
            assert not runs(faults, "a") and not domain_of(daemon, "a").suspended_by_us
            assert runs(faults, "b")
        assert not runs(faults, "a") and runs(faults, "b")

    on_host(uri, loop_runner, work, faults)


def test_who_is_paused_by_others_at_the_last_moment_stays_theirs(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host, load_policy("equipartition")) as daemon:
            await until(lambda: all(one.held and not one.transition.moving for one in daemon.managed.values()))

            def others_first() -> tuple[()]:
                for name in "ab":
                    if runs(faults, name):
                        raw(faults, name).suspend()
                return ()

            fault = faults.inject("state", arguments=others_first)
            daemon.use_policy(PolicyConfig(name="gang", options={"slice_s": SLICE_S}), gang)
            await until(lambda: fault.hits == 1)
            await until(lambda: not any(one.inferred.demand or one.suspended_by_us for one in daemon.managed.values()))
            await until(lambda: not any(entry.suspended for entry in daemon.journal.entries.values()))
            assert faults.called["suspend"] == 0
        assert not any(runs(faults, name) for name in "ab")

    on_host(uri, loop_runner, work, faults)


def test_a_look_that_began_before_a_switch_says_nothing_of_it(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        async with ganging(configured(uri, tmp_path), host, slice_s=0.5) as daemon:
            await in_turn(daemon, 1)
            faults.inject("getAllDomainStats", times=None, acts=True, late_s=0.1)
            turning = asyncio.create_task(in_turn(daemon, 2))
            while not turning.done():
                assert all(one.inferred.demand for one in daemon.managed.values())
                await asyncio.sleep(0.005)
            await turning
            assert not any(event.kind == "foreign" for event in daemon.events.since(0))

    on_host(uri, loop_runner, work, faults)


def test_who_was_saved_while_it_was_suspended_runs_when_it_is_back(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)
    restored = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_FROM_SNAPSHOT]

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with ganging(config, host, slice_s=FOREVER_S, killed=True) as daemon:
            frozen = await the_suspended(daemon)
            await until(lambda: any(one.held == {0, 2} and runs(faults, one.name) for one in daemon.managed.values()))
            pins = raw(faults, frozen).vcpuPinInfo(LIVE)
            raw(faults, frozen).destroy()
            await until(lambda: len(daemon.managed) == 1 and bool(daemon.journal.departed))
        # As libvirt restores a saved domain: paused, with the pins that it had.
        raw(faults, frozen).create()
        for vcpu, mask in enumerate(pins):
            raw(faults, frozen).pinVcpu(vcpu, mask)
        raw(faults, frozen).suspend()
        listed = reported_in(faults, frozen, *restored)
        faults.inject("state", frozen, result=lambda _real: restored)
        async with ganging(config, host, load_policy("equipartition")):
            await until(lambda: runs(faults, frozen))
            listed.times = 0
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    on_host(uri, loop_runner, work, faults)


@pytest.mark.parametrize("by_the_next_daemon", [False, True])
def test_who_was_suspended_when_it_ended_and_is_started_as_paused_stays_paused(
    by_the_next_daemon: bool, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """by_the_next_daemon: the new run is first seen by another daemon."""
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path)
        async with ganging(config, host, slice_s=FOREVER_S, killed=True) as daemon:
            frozen = await the_suspended(daemon)
            raw(faults, frozen).destroy()
            await until(lambda: len(daemon.managed) == 1 and bool(daemon.journal.departed))
            if not by_the_next_daemon:
                await started_as_paused(faults, frozen)
                await left_paused(daemon, faults, frozen)
        if by_the_next_daemon:
            await started_as_paused(faults, frozen)
        async with ganging(config, host, load_policy("equipartition")) as daemon:
            await left_paused(daemon, faults, frozen)
        assert not runs(faults, frozen)
        assert await pins_of(host, "a") == await pins_of(host, "b") == [ALL] * 2

    async def started_as_paused(faults: Faults, name: str) -> None:
        raw(faults, name).create()
        raw(faults, name).suspend()  # the test driver has no start as paused; this one is reported in the same way

    async def left_paused(daemon: Daemon, faults: Faults, name: str) -> None:
        await until(lambda: len(daemon.managed) == 2 and domain_of(daemon, name).found is not None)
        assert not domain_of(daemon, name).suspended_by_us and not runs(faults, name)

    on_host(uri, loop_runner, work, faults)


def test_an_io_error_is_not_resumed(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        (a, _b) = await host.observe()
        raw(faults, "a").suspend()
        faults.inject("state", "a", result=lambda _real: [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR])
        assert not await host.resume(a.key)
        assert not runs(faults, "a")
        assert await host.resume(a.key) and runs(faults, "a")
        assert await host.resume(a.key), "it already runs"
        assert await host.suspend(a.key) and not await host.suspend(a.key)

    on_host(uri, loop_runner, work, faults)


def test_a_queued_domain_rests_and_is_admitted_when_there_is_room(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, a=DomainConfig(minimum=2), b=DomainConfig(minimum=2, priority=1))
        async with ganging(config, host, priority) as daemon:
            await until(lambda: len(daemon.managed) == 2 and domain_of(daemon, "a").state == "queued")
            await until(lambda: domain_of(daemon, "b").held == {0, 2} and not domain_of(daemon, "a").held)
            shown = {one["name"]: one for one in status(daemon)["domains"]}
            assert shown["a"]["why"] == "queued: there is no room for its minimum of 2"
            assert shown["a"]["demand"] > 0 and shown["a"]["partition"] == "" and not shown["a"]["suspended"]
            (event,) = [one for one in daemon.events.since(0) if one.kind == "queued"]
            assert event.domain == "a" and event.why == "queued: there is no room for its minimum of 2"
            assert runs(faults, "a")
            raw(faults, "b").destroy()
            await until(lambda: domain_of(daemon, "a").held == {0, 2})
            await until(lambda: domain_of(daemon, "a").state in {"contained", "cooperating"})
            assert domain_of(daemon, "a").unmanaged_why == ""

    on_host(uri, loop_runner, work, faults)


def test_a_newcomer_waits_for_a_round_at_most(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    uri = write_node(tmp_path, 4, {**TWO, "c": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        config = configured(uri, tmp_path, **{name: DomainConfig() for name in "abc"})
        raw(faults, "c").destroy()
        async with ganging(config, host, slice_s=0.5) as daemon:
            await in_turn(daemon, 1)
            faults.inject("vcpuPinInfo", "c", late_s=1.2)  # so others have their turns before it takes part
            raw(faults, "c").create()
            await until(
                lambda: len(daemon.managed) == 3 and domain_of(daemon, "c").held == {0, 2} and runs(faults, "c")
            )
            events = daemon.events.since(0)
            # It takes part once it competes: then it is suspended, or has its turn at once. It appeared before that.
            part = next(e for e in events if e.domain == "c" and (e.kind == "suspended" or is_turn(e)))
            turns = [event.domain for event in events if event.number >= part.number and is_turn(event)]
            assert max(turns[: turns.index("c")].count(name) for name in "ab") <= 1

    on_host(uri, loop_runner, work, faults)


def test_guests_that_cooperate_are_as_they_were_in_each_slice(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While suspended they are silent for longer than STALE_REPORT_S. This does not count, and no pin is moved."""
    monkeypatch.setattr("vscaf.domains.domain.STALE_REPORT_S", 0.6)
    faults = Faults()
    uri = write_node(tmp_path, 4, TWO)

    async def work() -> None:
        host = BusyHost(uri, 5.0, opener=faults.open)
        host.agents = {name: Agent(tmp_path / f"{name}.sock", 2) for name in "ab"}
        for name, agent in host.agents.items():
            agent.runs = partial(runs, faults, name)
            host.be_busy(name, 2.0)
        await host.open()
        for agent in host.agents.values():
            await agent.start()

        async def speak_while_they_run() -> None:
            while True:
                for agent in host.agents.values():
                    agent.report()
                await asyncio.sleep(0.02)

        speaking = asyncio.create_task(speak_while_they_run())
        try:
            async with ganging(configured(uri, tmp_path), host, slice_s=1.0) as daemon:
                await in_turn(daemon, 1)
                for name in "ab":
                    await until(lambda name=name: domain_of(daemon, name).state == "cooperating")  # type: ignore[misc]
                pinned = faults.called["pinVcpu"]
                assert pinned, "no vCPU was pinned"
                states: set[str] = set()
                turning = asyncio.create_task(in_turn(daemon, 2))
                while not turning.done():
                    states |= {one.state for one in daemon.managed.values()}
                    await asyncio.sleep(0.005)
                await turning
                assert faults.called["pinVcpu"] == pinned
                assert "cooperating" in states and "contained" not in states
                assert all(one["agent"] == "connected" for one in status(daemon)["domains"])
        finally:
            speaking.cancel()
            for agent in host.agents.values():
                await agent.stop()
            await host.close()

    loop_runner.run(work())
