"""Behaviours 3, 4, 6, 13, 15, 16 and 17: the number of vCPUs, whatever libvirt answers."""

import asyncio
from pathlib import Path

import libvirt
import pytest
from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable, NotSupported
from vscaf.values import Plugged, PlugOutcome, RunState

from .faults import BROKEN_PIPE, Code
from .hosts import Rig, with_host

ONE = {"a": (2, 4)}


def test_behaviour_6_more_than_the_maximum_is_refused_and_changes_nothing(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        found = await rig.host.settings(a.key)
        for vcpus in (5, 10**6):
            with pytest.raises(NotSupported, match=r"domain a: .* more than its maximum of 4"):
                await rig.host.plug(a.key, vcpus)
        assert rig.faults.called["setVcpusFlags"] == 0
        assert await rig.host.settings(a.key) == found
        assert (await rig.seen("a")).vcpus == 2

    with_host(tmp_path, loop_runner, ONE, work)


@pytest.mark.parametrize("state", ["running", "paused", "shut off"])
def test_behaviour_13_counts_on_domains_in_every_state(tmp_path: Path, loop_runner: asyncio.Runner, state: str) -> None:
    """vscaf asks only for the live count, so there are no combinations of flags. A count of 0 is refused."""

    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        domain = rig.faults.real.lookupByName("a")
        if state == "paused":
            domain.suspend()
            assert (await rig.seen("a")).state is RunState.PAUSED
        if state == "shut off":
            domain.destroy()
            assert await rig.host.observe() == ()
            for use in (rig.host.plug(a.key, 3), rig.host.unplug(a.key, 1), rig.host.settings(a.key)):
                with pytest.raises(DomainGone):
                    await use
            return
        with pytest.raises(ValueError, match="keeps at least one vCPU, not 0"):
            await rig.host.unplug(a.key, 0)
        assert await rig.host.plug(a.key, 2) == await rig.host.plug(
            a.key, 1
        )  # the count is already right: nothing to do
        assert rig.faults.called["setVcpusFlags"] == 0
        assert (await rig.host.plug(a.key, 4)).outcome is PlugOutcome.DONE
        assert (await rig.seen("a")).vcpus == 4
        assert (await rig.host.unplug(a.key, 1)).outcome is PlugOutcome.DONE
        assert (await rig.seen("a")).vcpus == 1
        assert domain.vcpusFlags(libvirt.VIR_DOMAIN_AFFECT_CONFIG) == 2  # the persistent definition stays

    with_host(tmp_path, loop_runner, ONE, work)


def test_behaviour_3_and_4_an_unplug_is_believed_when_it_is_read_again(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """Each row: what libvirt does and answers, and the outcome. vscaf uses the code and the count, never the text."""

    def nothing(_count: int, flags: int) -> tuple[int, int]:
        return 4, flags

    def half(_count: int, flags: int) -> tuple[int, int]:
        return 3, flags

    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        rows = [
            (nothing, None, PlugOutcome.LATE, 4),  # the guest may give the vCPUs back later
            (nothing, libvirt.VIR_ERR_OPERATION_TIMEOUT, PlugOutcome.LATE, 4),
            (half, libvirt.VIR_ERR_OPERATION_TIMEOUT, PlugOutcome.LATE, 3),
            (nothing, libvirt.VIR_ERR_OPERATION_FAILED, PlugOutcome.REFUSED, 4),
            (nothing, libvirt.VIR_ERR_INTERNAL_ERROR, PlugOutcome.REFUSED, 4),
            (half, libvirt.VIR_ERR_OPERATION_FAILED, PlugOutcome.PARTIAL, 3),
            (half, libvirt.VIR_ERR_CONFIG_UNSUPPORTED, PlugOutcome.PARTIAL, 3),
            (None, libvirt.VIR_ERR_OPERATION_TIMEOUT, PlugOutcome.DONE, 2),  # it is done, but the answer is lost
            (None, None, PlugOutcome.DONE, 2),
        ]
        for arguments, code, outcome, vcpus in rows:
            await rig.host.plug(a.key, 4)
            rig.faults.inject("setVcpusFlags", "a", acts=True, arguments=arguments, error=code)
            ended = await rig.host.unplug(a.key, 2)
            assert (ended.outcome, ended.vcpus) == (outcome, vcpus), (code, ended)
            assert (await rig.seen("a")).vcpus == vcpus

    with_host(tmp_path, loop_runner, ONE, work)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (libvirt.VIR_ERR_INVALID_ARG, HypervisorError),  # present at boot, or followed by a vCPU that is
        (libvirt.VIR_ERR_OPERATION_UNSUPPORTED, NotSupported),  # vCPU 0, a guest without ACPI
        (libvirt.VIR_ERR_CONFIG_UNSUPPORTED, NotSupported),  # a topology that does not divide
        (libvirt.VIR_ERR_NO_SUPPORT, NotSupported),
        (libvirt.VIR_ERR_RPC, HypervisorUnreachable),
        (BROKEN_PIPE, HypervisorUnreachable),
        (libvirt.VIR_ERR_NO_DOMAIN, DomainGone),
        (libvirt.VIR_ERR_ACCESS_DENIED, NotSupported),
    ],
)
def test_behaviour_15_and_17_what_can_never_be_plugged_or_unplugged(
    tmp_path: Path, loop_runner: asyncio.Runner, code: Code, kind: type[HypervisorError]
) -> None:
    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        for use in (rig.host.plug, rig.host.unplug):
            rig.faults.inject("setVcpusFlags", "a", error=code)
            with pytest.raises(HypervisorError) as refused:
                await use(a.key, 3 if use == rig.host.plug else 1)
            assert type(refused.value) is kind
            assert str(refused.value).startswith("domain a: ")
            assert (await rig.seen("a")).vcpus == 2

    with_host(tmp_path, loop_runner, ONE, work)


def test_a_plug_that_stops_half_way_says_how_far_it_came(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        rig.faults.inject(
            "setVcpusFlags", "a", acts=True, arguments=lambda _count, flags: (3, flags), error=libvirt.VIR_ERR_NO_MEMORY
        )
        ended = await rig.host.plug(a.key, 4, frozenset({2}))
        assert (ended.outcome, ended.vcpus) == (PlugOutcome.PARTIAL, 3)
        assert (await rig.host.settings(a.key)).vcpu_pins[2] == frozenset({2})

    with_host(tmp_path, loop_runner, ONE, work)


def test_behaviour_16_vcpus_enabled_one_by_one(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """vCPUs 0 and 3 of 4 are enabled. These numbers are pinned and reported, and other vCPUs are plugged around
    them."""

    async def work(rig: Rig) -> None:
        each = "".join(
            f"<vcpu id='{number}' enabled='{'yes' if number in (0, 3) else 'no'}' hotpluggable='yes'/>"
            for number in range(4)
        )
        (a,) = await rig.host.observe()
        rig.faults.inject(
            "XMLDesc", "a", times=None, result=lambda xml: xml.replace("<os>", f"<vcpus>{each}</vcpus><os>")
        )
        rig.faults.inject("vcpus", "a", result=lambda real: ([(0, 1, 5, 0), (3, 1, 7, 0)], real[1]))
        assert set((await rig.host.settings(a.key)).vcpu_pins) == {0, 3}
        rig.faults.inject(
            "getAllDomainStats",
            result=lambda rows: [
                (domain, {**fields, "vcpu.current": 2, "vcpu.maximum": 4, "vcpu.0.time": 10**9, "vcpu.3.time": 0})
                for domain, fields in rows
            ],
        )
        (sparse,) = await rig.host.observe()
        assert sparse.plugged == frozenset({0, 3})
        assert sparse.vcpu_time_s == {0: 1.0, 3: 0.0}
        order: list[int] = []
        rig.faults.inject("pinVcpu", "a", times=None, arguments=lambda *given: (order.append(given[0]), given)[1])
        await rig.host.plug(a.key, 3, frozenset({2}))
        assert order[0] == 1  # the first absent vCPU, which libvirt plugs

    with_host(tmp_path, loop_runner, ONE, work)


def test_behaviour_16_times_that_cannot_be_read_are_missing_not_zero(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """After an unplug that never ended, libvirt may list a vCPU whose thread is dead."""

    async def work(rig: Rig) -> None:
        rig.faults.inject(
            "getAllDomainStats",
            result=lambda rows: [(domain, {**fields, "vcpu.current": 2, "vcpu.maximum": 4}) for domain, fields in rows],
        )
        (a,) = await rig.host.observe()
        assert (a.vcpus, a.plugged, a.vcpu_time_s) == (2, frozenset({0, 1}), {})

    with_host(tmp_path, loop_runner, ONE, work)


def test_a_count_that_somebody_changed_is_told_at_the_next_look(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """libvirt has no event of a plug."""

    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        await rig.host.observe()
        assert rig.tuned == []
        rig.faults.real.lookupByName("a").setVcpusFlags(3, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        assert (await rig.seen("a")).vcpus == 3
        assert rig.tuned == [a.key]

    with_host(tmp_path, loop_runner, ONE, work)


def test_nothing_is_unplugged_without_kvm(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        rig.faults.inject("XMLDesc", times=None, result=lambda xml: xml.replace("type='test'", "type='qemu'"))
        (a,) = await rig.host.observe()
        assert not a.accelerated
        with pytest.raises(NotSupported, match="domain a: vCPUs cannot be unplugged: without KVM"):
            await rig.host.unplug(a.key, 1)
        assert rig.faults.called["setVcpusFlags"] == 0
        assert (await rig.host.plug(a.key, 3)).vcpus == 3

    with_host(tmp_path, loop_runner, ONE, work)


def test_plugs_that_hang_leave_libvirtd_its_threads(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """Each plug blocks a thread of libvirtd as long as its QEMU hangs, so only few may be under way."""
    names = [f"h{number}" for number in range(6)]

    async def work(rig: Rig) -> None:
        seen = await rig.host.observe()
        hung = rig.faults.inject("setVcpusFlags", times=None, hang=True)
        plugs = [asyncio.create_task(rig.host.plug(one.key, 2)) for one in seen]
        while sum(one.done() for one in plugs) < 2:
            await asyncio.wait([one for one in plugs if not one.done()], return_when=asyncio.FIRST_COMPLETED)
        assert all(isinstance(one.exception(), HypervisorUnreachable) for one in plugs if one.done())
        await rig.until(lambda: _true(hung.hits == 4))
        rig.faults.clear()
        ended = await asyncio.gather(*plugs, return_exceptions=True)
        assert sum(isinstance(one, Plugged) for one in ended) == 4
        for one in seen:
            assert (await rig.host.plug(one.key, 2)).vcpus == 2

    async def _true(value: bool) -> bool:
        return value

    with_host(tmp_path, loop_runner, dict.fromkeys(names, (1, 2)), work)
