"""Behaviours 12 and 21 to 27: pins of every kind, and CPUs of the host that go offline."""

import asyncio
import random
from pathlib import Path
from typing import Any

import libvirt
import pytest
from vscaf.errors import HypervisorError, HypervisorUnreachable, NotSupported

from .faults import BROKEN_PIPE
from .hosts import ONLINE, Rig, with_host

TWO = {"a": (2, 4), "b": (2, 2)}
EVERYWHERE = frozenset(range(8))


def test_behaviour_21_pins_that_name_no_cpu_or_a_wrong_one_are_refused(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """Empty, negative and out of range pins: vscaf refuses them, because libvirt's drivers accept some of them. None is
    set in part."""

    async def work(rig: Rig) -> None:
        a, b = await rig.host.observe()
        found = {one.key: await rig.host.settings(one.key) for one in (a, b)}
        for cpus in (frozenset[int](), frozenset({0, 99}), frozenset({-1}), frozenset({-1, 0}), frozenset({8})):
            with pytest.raises(ValueError, match="no such pin"):
                await rig.host.pin_vcpus(a.key, {0: frozenset({0}), 1: cpus})
            with pytest.raises(ValueError, match="no such pin"):
                await rig.host.pin_emulator(a.key, cpus)
            with pytest.raises(ValueError, match="no such pin"):
                await rig.host.pin_iothreads(a.key, {1: cpus})
        for vcpu in (-1, 2, 4, 1_000_000):
            with pytest.raises((HypervisorError, OverflowError)):
                await rig.host.pin_vcpus(a.key, {vcpu: frozenset({0})})
        with pytest.raises(HypervisorError, match="domain a"):
            await rig.host.pin_iothreads(a.key, {7: frozenset({0})})
        assert {one.key: await rig.host.settings(one.key) for one in (a, b)} == found
        # Two domains at once: each gets its own pins.
        await asyncio.gather(
            rig.host.pin_vcpus(a.key, {0: frozenset({0}), 1: frozenset({0, 2})}),
            rig.host.pin_vcpus(b.key, {0: frozenset({4}), 1: frozenset({2, 4})}),
        )
        assert (await rig.host.settings(a.key)).vcpu_pins == {0: frozenset({0}), 1: frozenset({0, 2})}
        assert (await rig.host.settings(b.key)).vcpu_pins == {0: frozenset({4}), 1: frozenset({2, 4})}

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_12_pins_before_and_after_plug_and_unplug(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """The settings contain only the pins of plugged vCPUs, whatever was pinned in between."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        await rig.host.pin_vcpus(a.key, {0: frozenset({0}), 1: frozenset({2})})
        assert (await rig.host.plug(a.key, 3, frozenset({4}))).vcpus == 3
        pins = {0: frozenset({0}), 1: frozenset({2}), 2: frozenset({4})}
        assert (await rig.host.settings(a.key)).vcpu_pins == pins
        await rig.host.pin_vcpus(a.key, {2: frozenset({2, 4})})
        assert (await rig.host.settings(a.key)).vcpu_pins == {**pins, 2: frozenset({2, 4})}
        assert (await rig.host.unplug(a.key, 2)).vcpus == 2
        assert (await rig.host.settings(a.key)).vcpu_pins == {0: frozenset({0}), 1: frozenset({2})}
        with pytest.raises(HypervisorError):  # this driver does not pin absent vCPUs
            await rig.host.pin_vcpus(a.key, {2: frozenset({0})})

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_22_new_vcpus_are_pinned_before_they_come_where_the_driver_can(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """This test checks the order of the calls. A test with a guest shows that QEMU's driver then has the pin in
    force."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        order: list[Any] = []
        rig.faults.inject("pinVcpu", "a", times=None, arguments=lambda *given: (order.append(given), given)[1])
        rig.faults.inject("setVcpusFlags", "a", arguments=lambda *given: (order.append("plug"), given)[1])
        await rig.host.plug(a.key, 4, frozenset({2}))
        mask = tuple(cpu == 2 for cpu in range(8))
        # This driver refuses the pins of absent vCPUs, so they are pinned again at once.
        assert order == [(2, mask), (3, mask), "plug", (2, mask), (3, mask)]
        assert (await rig.host.settings(a.key)).vcpu_pins[3] == frozenset({2})

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_22_pins_of_absent_vcpus_are_told_apart(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        tune = "<cputune><vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='3' cpuset='2,4'/></cputune><os>"
        rig.faults.inject("XMLDesc", "a", result=lambda xml: xml.replace("<os>", tune, 1))
        settings = await rig.host.settings(a.key)
        assert set(settings.vcpu_pins) == {0, 1}
        assert settings.unplugged_pins == {3: frozenset({2, 4})}

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_23_a_pcpu_that_goes_offline(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """The next look shows the host without it, a pin to it alone is refused, and a found pin with it is put back."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        cpus = await rig.host.host_cpus()
        assert cpus.online == ONLINE
        read = rig.faults.called["getCapabilities"]
        for _look in range(10):
            assert await rig.host.host_cpus() == cpus
        assert (
            rig.faults.called["getCapabilities"] == read
        )  # not read again: so the look is cheap enough for every few seconds

        def offline(real: tuple[int, list[bool], int]) -> tuple[int, list[bool], int]:
            count, online, number = real
            return count, [on and cpu != 4 for cpu, on in enumerate(online)], number - 1

        rig.faults.inject("getCPUMap", times=None, result=offline)
        now = await rig.host.host_cpus()
        assert now.online == ONLINE - {4}
        assert frozenset().union(*now.cores) == ONLINE - {4}
        for pin in (
            rig.host.pin_vcpus(a.key, {0: frozenset({0}), 1: frozenset({4})}),
            rig.host.pin_emulator(a.key, frozenset({4})),
        ):
            with pytest.raises(HypervisorError, match=r"domain a: none of the CPUs \[4\] is online"):
                await pin
        assert (await rig.host.settings(a.key)).vcpu_pins[0] == EVERYWHERE
        # The kernel refuses a set that contains it. Then the online CPUs of the set are in force.
        rig.faults.inject("pinVcpu", "a", error=libvirt.VIR_ERR_SYSTEM_ERROR)
        await rig.host.pin_vcpus(a.key, {1: frozenset({2, 4})})
        assert (await rig.host.settings(a.key)).vcpu_pins[1] == frozenset({2})
        # A connection that breaks has the same code, and no other pin is tried.
        rig.faults.inject("pinVcpu", "a", error=BROKEN_PIPE)
        with pytest.raises(HypervisorUnreachable):
            await rig.host.pin_vcpus(a.key, {1: frozenset({0, 4})})
        assert (await rig.host.settings(a.key)).vcpu_pins[1] == frozenset({2})
        rig.faults.inject("pinVcpu", "a", error=libvirt.VIR_ERR_SYSTEM_ERROR)
        with pytest.raises(HypervisorError):  # with CPUs that are all online a refusal is an error
            await rig.host.pin_vcpus(a.key, {1: frozenset({0, 2})})
        rig.faults.clear()
        assert (await rig.host.host_cpus()).online == ONLINE

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_24_pins_outside_the_cpuset_are_an_error_and_the_connection_lives(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """The kernel's refusal because of a cgroup's cpuset comes as a system error. This is no lost connection."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        found = await rig.host.settings(a.key)
        for method, use in (
            ("pinVcpu", lambda: rig.host.pin_vcpus(a.key, {0: frozenset({0})})),
            ("pinEmulator", lambda: rig.host.pin_emulator(a.key, frozenset({0}))),
        ):
            rig.faults.inject(method, "a", error=libvirt.VIR_ERR_SYSTEM_ERROR, message="cpuset.cpus: Invalid argument")
            with pytest.raises(HypervisorError, match=r"cpuset\.cpus") as refused:
                await use()
            assert type(refused.value) is HypervisorError
        assert await rig.host.settings(a.key) == found

    with_host(tmp_path, loop_runner, TWO, work)


def test_one_vcpu_that_cannot_be_pinned_leaves_no_other_where_it_was(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """After an unplug that never ended, libvirt may keep a vCPU whose thread is dead."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        rig.faults.inject("pinVcpu", "a", error=libvirt.VIR_ERR_SYSTEM_ERROR, message="No such process")
        with pytest.raises(HypervisorError, match="No such process"):
            await rig.host.pin_vcpus(a.key, {0: frozenset({0}), 1: frozenset({2})})
        assert (await rig.host.settings(a.key)).vcpu_pins == {0: EVERYWHERE, 1: frozenset({2})}
        for code in (libvirt.VIR_ERR_RPC, BROKEN_PIPE):
            before = rig.faults.called["pinVcpu"]
            rig.faults.inject("pinVcpu", "a", error=code)
            with pytest.raises(HypervisorUnreachable):
                await rig.host.pin_vcpus(a.key, {0: frozenset({0}), 1: frozenset({0})})
            assert rig.faults.called["pinVcpu"] == before + 1  # libvirt cannot be reached, so no further pin is tried

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_25_emulator_and_iothread_pins(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        await rig.host.pin_emulator(a.key, frozenset({0, 4}))
        assert (await rig.host.settings(a.key)).emulator_pin == frozenset({0, 4})
        # Without a cpuset controller libvirt answers "invalid" for a running domain, or "not supported".
        for code in (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_UNSUPPORTED):
            rig.faults.inject("pinEmulator", "a", error=code, message="cpuset controller is not mounted")
            with pytest.raises(HypervisorError, match="domain a: cpuset controller is not mounted"):
                await rig.host.pin_emulator(a.key, frozenset({0}))
        # Without a CPU controller there is no weight to set, and None is found.
        rig.faults.inject("schedulerParametersFlags", "a", times=2, error=libvirt.VIR_ERR_OPERATION_INVALID)
        assert (await rig.host.settings(a.key)).cpu_shares is None
        rig.faults.inject("setSchedulerParametersFlags", "a", error=libvirt.VIR_ERR_OPERATION_INVALID)
        with pytest.raises(NotSupported):
            await rig.host.set_cpu_shares(a.key, 512)

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_11_a_weight_that_libvirt_does_not_know_yet_is_unknown(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """A libvirtd that was just started refuses to read the weight until it has found the domain's cgroup again."""

    async def work(rig: Rig) -> None:
        a, _b = await rig.host.observe()
        rig.faults.inject("schedulerParametersFlags", "a", error=libvirt.VIR_ERR_OPERATION_INVALID)
        rig.faults.inject("controlInfo", "a", result=lambda _idle: [libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 3])
        with pytest.raises(HypervisorError, match="domain a"):
            await rig.host.settings(a.key)
        # It may have found the cgroup since: the second answer counts.
        rig.faults.inject("schedulerParametersFlags", "a", error=libvirt.VIR_ERR_OPERATION_INVALID)
        rig.faults.inject("schedulerParametersFlags", "a", error=libvirt.VIR_ERR_INTERNAL_ERROR, message="asked again")
        with pytest.raises(HypervisorError, match="domain a: asked again"):
            await rig.host.settings(a.key)

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_25_pins_of_io_threads_are_read_without_asking_qemu(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    async def work(rig: Rig) -> None:
        threads = (
            "<iothreads>2</iothreads><iothreadids><iothread id='3'/><iothread id='5'/></iothreadids>"
            "<cputune><iothreadpin iothread='5' cpuset='2-4'/></cputune><os>"
        )
        rig.faults.inject("XMLDesc", "a", times=None, result=lambda xml: xml.replace("<os>", threads, 1))
        a, b = await rig.host.observe()
        assert (a.iothreads, b.iothreads) == (2, 0)
        assert (await rig.host.settings(a.key)).iothread_pins == {3: EVERYWHERE, 5: frozenset({2, 3, 4})}
        assert (await rig.host.settings(b.key)).iothread_pins == {}

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_26_repinned_at_random_while_domains_pause_plug_and_go(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """For each vCPU of each domain the pin that was set last is in force, whatever happened in between."""
    seed = 26
    chance = random.Random(seed)

    async def work(rig: Rig) -> None:
        a, b = await rig.host.observe()
        meant = {one.key: dict((await rig.host.settings(one.key)).vcpu_pins) for one in (a, b)}
        for _step in range(300):
            one = chance.choice((a, b))
            domain = rig.faults.real.lookupByName(one.name)
            match chance.randrange(4):
                case 0:
                    domain.suspend() if domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING else domain.resume()
                case 1 if one is a:
                    count = chance.randint(2, 4)
                    for vcpu in [vcpu for vcpu in meant[a.key] if vcpu >= count]:
                        del meant[a.key][vcpu]
                    await (rig.host.plug if count > len(meant[a.key]) else rig.host.unplug)(a.key, count)
                    for vcpu in range(len(meant[a.key]), count):
                        await rig.host.pin_vcpus(a.key, {vcpu: frozenset({4})})
                        meant[a.key][vcpu] = frozenset({4})
                case _:
                    pins = {
                        vcpu: frozenset(chance.sample(sorted(ONLINE), chance.randint(1, 3)))
                        for vcpu in meant[one.key]
                        if chance.random() < 0.5
                    }
                    await rig.host.pin_vcpus(one.key, pins)
                    meant[one.key].update(pins)
        assert {one.key: (await rig.host.settings(one.key)).vcpu_pins for one in (a, b)} == meant, f"seed {seed}"

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_27_home_nodes_are_those_of_the_memory(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """If the memory of a domain is bound to nodes, these are its home nodes for placement, also after a new binding."""

    async def work(rig: Rig) -> None:
        numa = (
            "<numatune><memory mode='strict' nodeset='1'/><memnode cellid='0' mode='preferred' nodeset='3'/></numatune>"
        )
        rig.faults.inject("XMLDesc", "a", times=None, result=lambda xml: xml.replace("<os>", f"{numa}<os>", 1))
        a, b = await rig.host.observe()
        assert (a.home_nodes, b.home_nodes) == (frozenset({1, 3}), frozenset())
        rig.faults.clear()
        rig.faults.real.lookupByName("a").suspend()  # any event of the domain
        await rig.until(lambda: _homeless(rig))

    async def _homeless(rig: Rig) -> bool:
        return (await rig.seen("a")).home_nodes == frozenset()

    with_host(tmp_path, loop_runner, TWO, work)
