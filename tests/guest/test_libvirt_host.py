"""LibvirtHost on a real libvirtd with real QEMUs, for what the test driver cannot show."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import libvirt
import pytest
from vscaf.errors import HypervisorError, HypervisorUnreachable, NotSupported, UsageError
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.hypervisor.libvirt.metadata import NAMESPACE
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.polling import HANG_S
from vscaf.values import DomainKey, DomainSeen, MetadataRules, RunState
from vscaf_lab.host_rig import HostRig

from .conftest import IMAGE, POOL, unique

pytestmark = pytest.mark.guest

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
FIRST, LAST = frozenset({POOL[0]}), frozenset({POOL[1]})
TIMEOUT_S = 5.0
STEADY, HANGING, HUNG, AGAIN = (unique(name) for name in ("steady", "hanging", "hung", "again"))


@pytest.fixture(scope="module")
def guests(shared_lab: PrivateLibvirt) -> Iterator[dict[str, Guest]]:
    """Three domains that only have to exist. What runs in them does not matter, except in one that the tests ask."""
    made = {
        name: Guest(shared_lab, name, IMAGE, vcpus=1, max_vcpus=4, memory_mib=256) for name in (STEADY, HANGING, HUNG)
    }
    try:
        for guest in made.values():
            guest.launch()
        made[STEADY].wait_ready()
        yield made
    finally:
        for guest in made.values():
            guest.stop()


@dataclass
class Rig(HostRig):
    """The host, and the changes that it has reported."""

    host: LibvirtHost
    changes: int = 0
    tuned: list[DomainKey] = field(default_factory=list)


def with_host(lab: PrivateLibvirt, work: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        def changed() -> None:
            rig.changes += 1

        tuned: list[DomainKey] = []
        rig = Rig(LibvirtHost(lab.uri, TIMEOUT_S, changed, tuned.append), tuned=tuned)
        await rig.host.open()
        try:
            await work(rig)
        finally:
            await rig.host.close()

    asyncio.run(run())


def test_two_runs_that_libvirt_gives_the_same_number_have_two_starts(shared_lab: PrivateLibvirt) -> None:
    """When libvirtd starts, it counts on from the largest number in use."""

    def seen() -> DomainSeen:
        found: list[DomainSeen] = []

        async def work(rig: Rig) -> None:
            found.append(await rig.seen(AGAIN))

        with_host(shared_lab, work)
        return found[0]

    shared_lab.restart_libvirtd()  # from now on it counts from the largest number in use
    guest = Guest(shared_lab, AGAIN, IMAGE, vcpus=1, memory_mib=256)
    try:
        guest.launch()
        first = seen()
        assert first.started_ns > 0
        shared_lab.restart_libvirtd()
        guest.reconnect()
        assert (seen().key, seen().started_ns) == (first.key, first.started_ns), "another run although it never ended"
        guest.stop()
        shared_lab.restart_libvirtd()
        guest = Guest(shared_lab, AGAIN, IMAGE, vcpus=1, memory_mib=256)
        guest.launch()
        second = seen()
        assert second.key.run_id == first.key.run_id
        assert second.started_ns > first.started_ns
    finally:
        guest.stop()


def test_behaviour_22_a_plugged_vcpu_is_pinned_from_its_first_moment(
    shared_lab: PrivateLibvirt, guests: dict[str, Guest]
) -> None:
    """libvirt keeps the pin of an absent vCPU, and sets it before it answers the plug. The guest uses the vCPU
    later."""
    guest = guests[STEADY]

    async def work(rig: Rig) -> None:
        seen = await rig.seen(STEADY)
        await rig.answered(rig.host.pin_emulator, seen.key, LAST)
        await rig.answered(rig.host.pin_vcpus, seen.key, {0: FIRST})
        await rig.answered(rig.host.pin_vcpus, seen.key, {1: LAST, 3: FIRST})
        settings = await rig.answered(rig.host.settings, seen.key)
        assert (settings.vcpu_pins, settings.unplugged_pins) == ({0: FIRST}, {1: LAST, 3: FIRST})
        wandered: list[frozenset[int]] = []
        plug = asyncio.create_task(rig.answered(rig.host.plug, seen.key, 3, LAST))
        while not plug.done():
            for number, thread in guest.vcpu_threads.items():
                try:
                    allowed = frozenset(os.sched_getaffinity(thread))
                except ProcessLookupError:
                    continue
                if number and allowed != LAST:
                    wandered.append(allowed)
            await asyncio.sleep(0)
        assert (await plug).vcpus == 3
        assert wandered == []
        assert {os.sched_getaffinity(thread).pop() for one, thread in guest.vcpu_threads.items() if one} == set(LAST)
        settings = await rig.answered(rig.host.settings, seen.key)
        assert settings.vcpu_pins == {0: FIRST, 1: LAST, 2: LAST}
        seen = await rig.seen(STEADY)
        assert (seen.vcpus, seen.plugged, set(seen.vcpu_time_s)) == (3, frozenset({0, 1, 2}), {0, 1, 2})
        assert rig.tuned[-1] == seen.key

    with_host(shared_lab, work)


def test_behaviour_16_a_vcpu_enabled_alone(shared_lab: PrivateLibvirt, guests: dict[str, Guest]) -> None:
    """vCPU 3 is there without 1 and 2. Its number is reported and pinned, and a plug fills the gap with pinned
    vCPUs."""

    async def work(rig: Rig) -> None:
        guests[HUNG].domain.setVcpu("3", 1, LIVE)
        seen = await rig.seen(HUNG)
        assert (seen.vcpus, seen.plugged) == (2, frozenset({0, 3}))
        await rig.answered(rig.host.pin_vcpus, seen.key, {0: FIRST, 3: LAST})
        assert (await rig.answered(rig.host.settings, seen.key)).vcpu_pins == {0: FIRST, 3: LAST}
        assert (await rig.answered(rig.host.plug, seen.key, 3, LAST)).vcpus == 3
        settings = await rig.answered(rig.host.settings, seen.key)
        assert len(settings.vcpu_pins) == 3
        assert settings.vcpu_pins[0] == FIRST
        assert {pin for vcpu, pin in settings.vcpu_pins.items() if vcpu} == {LAST}

    with_host(shared_lab, work)


def test_behaviour_30_qemus_that_are_stopped_hold_up_nobody(
    shared_lab: PrivateLibvirt, guests: dict[str, Guest]
) -> None:
    """Two QEMUs get SIGSTOP. Listings and calls on the third go on. Calls on the two fail, and later work again."""
    stopped = [guests[name].qemu_pid for name in (HANGING, HUNG)]

    async def work(rig: Rig) -> None:
        seen = {one.name: one for one in await rig.host.observe()}
        assert {seen[name].state for name in guests} == {RunState.RUNNING}
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        for number in range(8):
            looked = {one.name: one for one in await rig.host.observe()}
            assert {looked[name].state for name in guests} == {RunState.RUNNING}
            assert looked[STEADY].vcpu_time_s.keys() == looked[STEADY].plugged
            where = (FIRST, LAST)[number % 2]
            await rig.answered(rig.host.pin_vcpus, seen[STEADY].key, {0: where})
            assert (await rig.answered(rig.host.settings, seen[STEADY].key)).vcpu_pins[0] == where
        # A plug waits for its QEMU and is given up after 30 s. Until it comes back, no other call is made. If the
        # listing waits for the same QEMU, for less than a second, the plug waits for that job, which libvirt ends after
        # 30 s, too: then the next call is refused because of the job.
        with pytest.raises(HypervisorUnreachable, match=r"still waiting|another job of libvirt holds it"):
            await asyncio.wait_for(rig.host.plug(seen[HANGING].key, 2), HANG_S)
        with pytest.raises(HypervisorUnreachable, match="still waiting"):
            await rig.host.pin_vcpus(seen[HANGING].key, {0: FIRST})
        await rig.answered(rig.host.pin_vcpus, seen[STEADY].key, {0: FIRST})
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

        async def answers() -> bool:
            try:
                await rig.host.pin_vcpus(seen[HANGING].key, {0: LAST})
                await rig.host.pin_vcpus(seen[HUNG].key, {0: LAST})
            except HypervisorUnreachable:
                return False
            return True

        await rig.until(answers)
        for name in (HANGING, HUNG):
            assert (await rig.answered(rig.host.settings, seen[name].key)).vcpu_pins[0] == LAST

    try:
        with_host(shared_lab, work)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_behaviour_7_a_read_only_socket(shared_lab: PrivateLibvirt, guests: dict[str, Guest]) -> None:
    async def work() -> None:
        host = LibvirtHost(shared_lab.uri.replace("libvirt-sock", "libvirt-sock-ro"), TIMEOUT_S)
        try:
            with pytest.raises(UsageError, match="does not let vscaf write"):
                await host.open()
        finally:
            await host.close()

    before = guests[STEADY].domain.XMLDesc()
    asyncio.run(work())
    assert guests[STEADY].domain.XMLDesc() == before


def test_what_anybody_changes_is_told_at_once(shared_lab: PrivateLibvirt, guests: dict[str, Guest]) -> None:
    """Behaviours 28 and 32: changes of pins, weight, vCPUs, metadata, and of the agent's channel."""
    domain = guests[HANGING].domain
    channel = (
        f"<channel type='unix'><source mode='bind' path='{guests[HANGING].agent_socket}'/>"
        "<target type='virtio' name='org.vscaf.agent.0'/></channel>"
    )

    async def work(rig: Rig) -> None:
        seen = await rig.seen(HANGING)
        assert seen.agent_socket == str(guests[HANGING].agent_socket)
        everywhere = tuple(cpu in POOL for cpu in range(max(POOL) + 1))
        for change in (
            lambda: domain.pinVcpu(0, everywhere),
            lambda: domain.pinEmulator(everywhere, LIVE),
            lambda: domain.setSchedulerParametersFlags({"cpu_shares": 700}, LIVE),
        ):
            rig.tuned.clear()
            change()
            await rig.until(lambda: _equal(seen.key in rig.tuned))
        rig.tuned.clear()
        domain.setVcpusFlags(seen.vcpus + 1, LIVE)  # libvirt has no event of it: the next look shows it

        async def counted() -> bool:
            return (await rig.seen(HANGING)).vcpus == seen.vcpus + 1

        await rig.until(counted)
        assert seen.key in rig.tuned
        domain.setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT, '<partition min="1" priority="7"/>', "vscaf", NAMESPACE, LIVE
        )

        async def ruled() -> bool:
            return (await rig.seen(HANGING)).rules == MetadataRules(minimum=1, priority=7)

        await rig.until(ruled)
        domain.detachDeviceFlags(channel, LIVE)

        async def without() -> bool:
            return (await rig.seen(HANGING)).agent_socket is None

        await rig.until(without)
        domain.attachDeviceFlags(channel, LIVE)

        async def back() -> bool:
            return (await rig.seen(HANGING)).agent_socket == seen.agent_socket

        await rig.until(back)

    with_host(shared_lab, work)


async def _equal(value: bool) -> bool:
    return value


def test_behaviours_25_and_35_io_threads_and_weight(shared_lab: PrivateLibvirt) -> None:
    """I/O threads are pinned one by one, a weight leaves quota and period alone, and an unplug under TCG is refused."""
    name = unique("threads")
    guest = Guest(shared_lab, name, IMAGE, vcpus=2, max_vcpus=2, memory_mib=256)
    xml = guest.xml.replace("<devices>", "<iothreads>2</iothreads><devices>", 1)
    domain = shared_lab.connection.createXML(xml, 0)

    async def work(rig: Rig) -> None:
        seen = await rig.seen(name)
        assert seen.iothreads == 2
        found = await rig.answered(rig.host.settings, seen.key)
        before = domain.schedulerParametersFlags(LIVE)
        await rig.answered(rig.host.pin_iothreads, seen.key, {2: LAST})
        await rig.answered(rig.host.set_cpu_shares, seen.key, 512)
        now = await rig.answered(rig.host.settings, seen.key)
        assert now.iothread_pins == {1: found.iothread_pins[1], 2: LAST}
        assert now.cpu_shares == 512
        assert domain.schedulerParametersFlags(LIVE) == {**before, "cpu_shares": 512}
        with pytest.raises(HypervisorError, match=f"domain {name}"):
            await rig.answered(rig.host.pin_iothreads, seen.key, {9: LAST})
        with pytest.raises(NotSupported, match="more than its maximum"):
            await rig.answered(rig.host.plug, seen.key, 3)
        if not seen.accelerated:
            with pytest.raises(NotSupported, match="without KVM"):
                await rig.answered(rig.host.unplug, seen.key, 1)
        await rig.answered(rig.host.pin_iothreads, seen.key, found.iothread_pins)
        await rig.answered(rig.host.set_cpu_shares, seen.key, found.cpu_shares or 0)
        assert await rig.answered(rig.host.settings, seen.key) == found

    try:
        with_host(shared_lab, work)
    finally:
        domain.destroy()


def test_behaviour_11_libvirtd_restarts(shared_lab: PrivateLibvirt, guests: dict[str, Guest]) -> None:
    """libvirtd is killed and started. Meanwhile all is unknown, then runs, pins and counts are the same, and events
    come again."""

    async def work(rig: Rig) -> None:
        seen = await rig.seen(STEADY)
        await rig.answered(rig.host.pin_vcpus, seen.key, {0: LAST})
        found = await rig.answered(rig.host.settings, seen.key)
        shared_lab.kill_libvirtd()
        try:
            with pytest.raises(HypervisorUnreachable):
                await rig.host.observe()
            with pytest.raises(HypervisorUnreachable):
                await rig.host.pin_vcpus(seen.key, {0: FIRST})
        finally:  # other tests need it
            await asyncio.get_running_loop().run_in_executor(None, shared_lab.start_libvirtd)

        async def known() -> bool:
            try:
                assert (await rig.seen(STEADY)).key == seen.key
                assert await rig.host.settings(seen.key) == found
            except HypervisorError:
                return False
            return True

        await rig.until(known)
        rig.tuned.clear()
        guests[STEADY].domain.pinVcpu(0, tuple(cpu in FIRST for cpu in range(max(POOL) + 1)))
        await rig.until(lambda: _equal(seen.key in rig.tuned))

    with_host(shared_lab, work)
