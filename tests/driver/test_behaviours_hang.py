"""Behaviour 30 and similar ones: a domain, a call or libvirtd itself hangs, and no other domain waits for it."""

import asyncio
import threading
from pathlib import Path

import libvirt
import pytest
from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable
from vscaf.hypervisor.libvirt import host as libvirt_host
from vscaf.hypervisor.libvirt.calls import Call
from vscaf.values import RunState

from .faults import BROKEN_PIPE
from .hosts import TIMEOUT_S, Rig, with_host

TWO = {"a": (2, 2), "b": (2, 2)}
SHORT_S = 1.0


def test_a_listing_that_hangs_is_replaced_by_one_that_asks_no_qemu(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        await rig.host.observe()
        hung = rig.faults.inject("getAllDomainStats", hang=True)
        assert [one.name for one in await rig.host.observe()] == ["a", "b"]
        assert hung.hits == 1
        for _look in range(20):  # while it hangs, no look waits for it again
            before = rig.faults.called["getAllDomainStats"]
            assert [one.name for one in await rig.host.observe()] == ["a", "b"]
            assert rig.faults.called["getAllDomainStats"] == before + 1
        hung.release()
        await rig.until(lambda: _asked_again(rig))

    async def _asked_again(rig: Rig) -> bool:
        kinds: list[int] = []
        rig.faults.inject("getAllDomainStats", arguments=lambda kind, flags: (kinds.append(kind) or kind, flags))
        await rig.host.observe()
        return bool(kinds[0] & libvirt.VIR_DOMAIN_STATS_VCPU)

    with_host(tmp_path, loop_runner, TWO, work)


def test_listings_that_all_hang_are_unknown_and_bounded(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        rig.faults.inject("getAllDomainStats", times=None, hang=True)
        before = rig.faults.called["getAllDomainStats"]
        for _look in range(6):
            with pytest.raises(HypervisorUnreachable, match="answer"):
                await rig.host.observe()
        assert rig.faults.called["getAllDomainStats"] - before <= 4
        rig.faults.clear()
        await rig.until(lambda: _answers(rig))

    async def _answers(rig: Rig) -> bool:
        try:
            return len(await rig.host.observe()) == 2
        except HypervisorUnreachable:
            return False

    with_host(tmp_path, loop_runner, TWO, work, timeout_s=SHORT_S)


def test_a_hung_domain_fails_at_once_and_holds_up_nobody(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        a, b = await rig.host.observe()
        hung = rig.faults.inject("pinVcpu", "b", hang=True)
        with pytest.raises(HypervisorUnreachable, match=r"domain b: still waiting.*pin vCPUs"):
            await rig.host.pin_vcpus(b.key, {0: frozenset({2})})
        for _again in range(10):
            before = rig.faults.called.total()
            with pytest.raises(HypervisorUnreachable, match="domain b: still waiting"):
                await rig.host.settings(b.key)
            assert rig.faults.called.total() == before  # libvirt was not called
        assert len(await rig.host.observe()) == 2
        await rig.host.pin_vcpus(a.key, {0: frozenset({0})})
        # The call comes back. Its caller did not see what it did, so a change is reported, and new calls are possible.
        assert rig.tuned == []
        hung.release()
        await rig.until(lambda: _true(rig.tuned == [b.key]))
        assert (await rig.host.settings(b.key)).vcpu_pins[0] == frozenset({2})

    with_host(tmp_path, loop_runner, TWO, work, timeout_s=SHORT_S)


async def _true(value: bool) -> bool:
    return value


def test_a_call_that_was_given_up_does_not_act_later(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """It hung before it acted. The pCPUs of its pins may belong to another domain by now."""

    async def work(rig: Rig) -> None:
        _a, b = await rig.host.observe()
        found = (await rig.host.settings(b.key)).vcpu_pins
        hung = rig.faults.inject("controlInfo", "b", hang=True)
        with pytest.raises(HypervisorUnreachable):
            await rig.host.pin_vcpus(b.key, {0: frozenset({2}), 1: frozenset({2})})
        hung.release()
        await rig.until(lambda: _true(rig.tuned == [b.key]))
        assert (await rig.host.settings(b.key)).vcpu_pins == found

    with_host(tmp_path, loop_runner, TWO, work, timeout_s=SHORT_S)


def test_what_was_meant_for_a_run_that_has_ended_does_not_meet_the_next_one(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """The domain ends and is started again in the middle of a call that is still waited for."""

    async def work(rig: Rig) -> None:
        _a, b = await rig.host.observe()
        found = (await rig.host.settings(b.key)).vcpu_pins
        hung = rig.faults.inject("pinVcpu", "b", hang=True)
        pinning = asyncio.create_task(rig.host.pin_vcpus(b.key, dict.fromkeys(range(2), frozenset({2}))))
        await rig.until(lambda: _true(hung.hits == 1))
        domain = rig.faults.real.lookupByName("b")
        domain.destroy()
        domain.create()
        hung.release()
        with pytest.raises(DomainGone, match="domain b"):
            await pinning
        assert (await rig.host.settings((await rig.seen("b")).key)).vcpu_pins == found

    with_host(tmp_path, loop_runner, TWO, work)


def test_twenty_hung_domains_do_not_stop_the_others(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    names = [f"h{number:02}" for number in range(20)]

    async def work(rig: Rig) -> None:
        seen = {one.name: one for one in await rig.host.observe()}
        for name in names:
            rig.faults.inject("pinVcpu", name, hang=True)
        failed = await asyncio.gather(
            *(rig.host.pin_vcpus(seen[name].key, {0: frozenset({0})}) for name in names), return_exceptions=True
        )
        assert {type(one) for one in failed} == {HypervisorUnreachable}
        assert len(await rig.host.observe()) == 21
        await rig.host.pin_vcpus(seen["well"].key, {0: frozenset({4})})
        assert (await rig.host.settings(seen["well"].key)).vcpu_pins[0] == frozenset({4})

    with_host(tmp_path, loop_runner, dict.fromkeys([*names, "well"], (1, 1)), work, timeout_s=SHORT_S)


def test_a_domain_busy_with_a_job_is_refused_before_it_is_changed(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """libvirt would make the change wait 30 s for the save, the migration or the hung QEMU."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        for state in (libvirt.VIR_DOMAIN_CONTROL_JOB, libvirt.VIR_DOMAIN_CONTROL_OCCUPIED):
            rig.faults.inject("controlInfo", "a", result=lambda _idle, state=state: [state, 0, 3000])
            before = rig.faults.called["pinVcpu"]
            with pytest.raises(HypervisorUnreachable, match=r"domain a: still waiting.*3\.0 s"):
                await rig.host.pin_vcpus(a.key, {0: frozenset({0})})
            assert rig.faults.called["pinVcpu"] == before
        rig.faults.inject("controlInfo", "a", result=lambda _idle: [libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 3])
        await rig.host.pin_vcpus(a.key, {0: frozenset({0})})
        await rig.host.settings(a.key)
        # The error code of a lock that libvirt could not get in time means the same.
        rig.faults.inject("pinVcpu", "a", error=libvirt.VIR_ERR_OPERATION_TIMEOUT)
        with pytest.raises(HypervisorUnreachable, match="domain a: another job of libvirt holds it"):
            await rig.host.pin_vcpus(a.key, {0: frozenset({0})})

    with_host(tmp_path, loop_runner, TWO, work)


def test_a_domain_that_is_saved_dumped_or_migrated_is_refused_before_it_is_changed(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """controlInfo does not show these jobs. A change would wait for them."""

    def job(operation: int, **other: int) -> dict[str, int]:
        return {"type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED, "operation": operation, **other}

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()

        async def pinned() -> None:
            await rig.host.pin_vcpus(a.key, {0: frozenset({0})})

        for operation in (
            libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE,
            libvirt.VIR_DOMAIN_JOB_OPERATION_DUMP,
            libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT,
        ):
            rig.faults.inject("jobStats", "a", result=lambda _none, it=operation: job(it, time_elapsed=200))
            before = rig.faults.called["pinVcpu"]
            with pytest.raises(HypervisorUnreachable, match=r"domain a: still waiting.*0\.2 s"):
                await pinned()
            assert rig.faults.called["pinVcpu"] == before
            await rig.host.settings(a.key)
        rig.faults.inject("jobStats", "a", result=lambda _none: {"type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED})
        with pytest.raises(HypervisorUnreachable, match="domain a: still waiting"):  # an old libvirt names no operation
            await pinned()
        # A backup allows changes. A job without statistics is short. A driver may know no jobs.
        backup = job(libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP)
        rig.faults.inject("jobStats", "a", result=lambda _none: backup)
        await pinned()
        for code in (libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_ERR_NO_SUPPORT):
            rig.faults.inject("jobStats", "a", error=code)
            await pinned()
        # While a short job holds the domain, the question would wait too.
        asked = rig.faults.called["jobStats"]
        rig.faults.inject("controlInfo", "a", result=lambda _idle: [libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 3])
        await pinned()
        assert rig.faults.called["jobStats"] == asked

    with_host(tmp_path, loop_runner, TWO, work)


@pytest.mark.parametrize("trouble", [{"hang": True}, {"error": libvirt.VIR_ERR_INTERNAL_ERROR}])
def test_a_domain_whose_description_cannot_be_read_is_shown_all_the_same(
    tmp_path: Path, loop_runner: asyncio.Runner, trouble: dict[str, object]
) -> None:
    async def work(rig: Rig) -> None:
        rig.faults.inject("XMLDesc", "b", times=None, **trouble)  # type: ignore[arg-type]
        a, b = await rig.host.observe()
        assert (a.accelerated, a.rules_error) == (True, None)
        assert (b.state, b.vcpus, b.vcpus_maximum) == (RunState.RUNNING, 2, 2)
        assert not b.accelerated  # so that no vCPU is unplugged, which might never end
        assert b.rules_error is not None and a.described and not b.described
        changes = rig.changes
        rig.faults.clear()
        await rig.until(lambda: _described(rig))
        assert rig.changes >= changes

    async def _described(rig: Rig) -> bool:
        return (await rig.seen("b")).accelerated

    with_host(tmp_path, loop_runner, TWO, work)


def test_a_failed_or_partial_listing_is_an_error_never_a_shorter_list(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    async def work(rig: Rig) -> None:
        for code, kind in (
            (libvirt.VIR_ERR_INTERNAL_ERROR, HypervisorError),
            (libvirt.VIR_ERR_SYSTEM_ERROR, HypervisorError),
            (libvirt.VIR_ERR_RPC, HypervisorUnreachable),
            (BROKEN_PIPE, HypervisorUnreachable),
        ):
            rig.faults.inject("getAllDomainStats", error=code)
            with pytest.raises(HypervisorError) as failed:
                await rig.host.observe()
            assert type(failed.value) is kind
        rig.faults.inject("listDomainsID", error=libvirt.VIR_ERR_INTERNAL_ERROR)
        with pytest.raises(HypervisorError):
            await rig.host.observe()
        partial = rig.faults.inject("getAllDomainStats", times=None, result=lambda rows: rows[:1])
        with pytest.raises(HypervisorError, match="lacks 1 active"):
            await rig.host.observe()
        assert partial.hits == 2  # it looked again, because a domain might have started in between
        rig.faults.clear()
        rig.faults.inject("getAllDomainStats", result=lambda rows: rows[:1])
        assert len(await rig.host.observe()) == 2
        empty = rig.faults.inject("getAllDomainStats", times=None, result=lambda _rows: [])
        with pytest.raises(HypervisorError):
            await rig.host.observe()
        assert empty.hits == 2

    with_host(tmp_path, loop_runner, TWO, work)


def test_a_dead_connection_is_opened_anew(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """Behaviour 11: libvirtd restarts. Pins and counts stay, and descriptions are read again."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        await rig.host.pin_vcpus(a.key, {0: frozenset({4})})
        rig.faults.alive = False
        rig.faults.inject("open", times=2, error=libvirt.VIR_ERR_NO_CONNECT)
        for _try in range(2):
            with pytest.raises(HypervisorUnreachable, match="check that libvirtd runs"):
                await rig.host.observe()
        read = rig.faults.called["XMLDesc"]
        registered = rig.faults.called["domainEventRegisterAny"]
        again, _b = await rig.host.observe()
        assert again.key == a.key
        assert (await rig.host.settings(a.key)).vcpu_pins[0] == frozenset({4})
        assert rig.faults.called["domainEventRegisterAny"] > registered
        await rig.until(lambda: _read_more(rig, read + 2))

    async def _read_more(rig: Rig, count: int) -> bool:
        await rig.host.observe()
        return rig.faults.called["XMLDesc"] > count

    with_host(tmp_path, loop_runner, TWO, work)


def test_an_answer_that_is_lost_is_an_error_and_the_pin_is_in_force(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        rig.faults.inject("pinVcpu", "a", acts=True, error=libvirt.VIR_ERR_RPC)
        with pytest.raises(HypervisorUnreachable):
            await rig.host.pin_vcpus(a.key, {0: frozenset({2})})
        assert (await rig.host.settings(a.key)).vcpu_pins[0] == frozenset({2})

    with_host(tmp_path, loop_runner, TWO, work)


def test_calls_to_one_domain_never_overlap(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        a, b = await rig.host.observe()
        rig.faults.inject("pinVcpu", "a", late_s=0.2)
        first = asyncio.create_task(rig.host.pin_vcpus(a.key, {0: frozenset({2})}))
        await asyncio.sleep(0)
        second = asyncio.create_task(rig.host.pin_vcpus(a.key, {0: frozenset({4})}))
        await asyncio.gather(first, second)
        assert (await rig.host.settings(a.key)).vcpu_pins[0] == frozenset({4})
        # If a task is cancelled during its call, the domain stays blocked until the call comes back.
        hung = rig.faults.inject("pinVcpu", "b", hang=True)
        cancelled = asyncio.create_task(rig.host.pin_vcpus(b.key, {0: frozenset({2})}))
        await rig.until(lambda: _true(hung.hits == 1))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(HypervisorUnreachable, match="still waiting"):
            await rig.host.settings(b.key)

    with_host(tmp_path, loop_runner, TWO, work)


def test_gone_between_listing_and_use(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """Behaviour 14: a name, an id or a uuid belongs to no domain, or to another run."""

    async def work(rig: Rig) -> None:
        a, b = await rig.host.observe()
        domain = rig.faults.real.lookupByName("a")
        domain.destroy()
        for use in (rig.host.settings(a.key), rig.host.pin_vcpus(a.key, {0: frozenset({0})})):
            with pytest.raises(DomainGone, match="domain a"):
                await use
        assert await rig.host.defined("a")
        domain.create()  # another run is another domain
        with pytest.raises(DomainGone, match="this run"):
            await rig.host.pin_vcpus(a.key, {0: frozenset({0})})
        domain.destroy()
        domain.undefine()
        with pytest.raises(DomainGone):
            await rig.host.settings(a.key)
        assert not await rig.host.defined("a")
        # The domain ends in the middle of a change.
        rig.faults.inject("pinVcpu", "b", error=libvirt.VIR_ERR_NO_DOMAIN)
        with pytest.raises(DomainGone):
            await rig.host.pin_vcpus(b.key, {0: frozenset({0})})
        rig.faults.inject("pinVcpu", "b", error=libvirt.VIR_ERR_OPERATION_INVALID)
        with pytest.raises(HypervisorError) as refused:  # the same code does not mean the end of a domain that runs
            await rig.host.pin_vcpus(b.key, {0: frozenset({0})})
        assert not isinstance(refused.value, DomainGone)
        assert [one.name for one in await rig.host.observe()] == ["b"]

    with_host(tmp_path, loop_runner, TWO, work)


def test_a_listing_that_was_given_up_is_no_answer(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirtd stops completely and then answers again. The first listing ends while the second is waited for."""
    begun: list[Call] = []

    def call(what: str) -> Call:
        begun.append(Call(what))
        return begun[-1]

    monkeypatch.setattr(libvirt_host, "Call", call)
    monkeypatch.setattr(libvirt_host, "LISTING_PATIENCE_S", TIMEOUT_S)

    async def work(rig: Rig) -> None:
        await rig.host.observe()
        begun.clear()
        first = rig.faults.inject("getAllDomainStats", hang=True)
        second = rig.faults.inject("getAllDomainStats", hang=True)
        looking = asyncio.create_task(rig.host.observe())
        await rig.until(lambda: _true(len(begun) == 2 and begun[0].given_up and second.hits == 1))
        (ended,) = rig.host._under_way(ask_qemu=True)
        first.release()
        await rig.until(lambda: _true(ended.done()))
        assert isinstance(ended.exception(), HypervisorError), "a late listing must not count as an answer"
        second.release()
        try:
            assert [one.name for one in await looking] == ["a", "b"]
        except HypervisorUnreachable:
            assert begun[1].given_up, "it came back too late too: this machine was too slow"

    with_host(tmp_path, loop_runner, TWO, work)


def test_where_there_can_be_no_more_threads_what_domains_do_is_unknown(
    tmp_path: Path, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_more)
            with pytest.raises(HypervisorUnreachable, match="no thread to list the domains in"):
                await rig.host.observe()
            with pytest.raises(HypervisorUnreachable, match="no thread to read its settings in"):
                await rig.host.settings(a.key)
        assert len(await rig.host.observe()) == 2
        await rig.host.settings(a.key)

    with_host(tmp_path, loop_runner, TWO, work)
