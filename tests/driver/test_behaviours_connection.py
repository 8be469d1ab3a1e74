"""Behaviours 7, 20, 32, 33 and 34: what a connection may do, its events, and many things at once."""

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import libvirt
import pytest
from vscaf.errors import HypervisorUnreachable, UsageError
from vscaf.hypervisor.libvirt.calls import Call, start
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.hypervisor.libvirt.metadata import NAMESPACE
from vscaf.values import MetadataRules, RunState

from .faults import Faults
from .hosts import Rig, with_host
from .node import write_node

TWO = {"a": (2, 4), "b": (2, 2)}
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
SAVE = {"type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE}
WRITES = ("pinEmulator", "pinIOThread", "setVcpusFlags", "setSchedulerParametersFlags")


@pytest.mark.parametrize(
    ("method", "code", "message"),
    [
        ("domainXMLToNative", libvirt.VIR_ERR_OPERATION_DENIED, "does not let vscaf write"),
        ("domainXMLToNative", libvirt.VIR_ERR_ACCESS_DENIED, "does not let vscaf write"),
        ("pinVcpu", libvirt.VIR_ERR_OPERATION_DENIED, "does not let vscaf pin vCPUs"),
        ("pinVcpu", libvirt.VIR_ERR_ACCESS_DENIED, "does not let vscaf pin vCPUs"),
        ("pinVcpu", libvirt.VIR_ERR_NO_SUPPORT, "does not let vscaf pin vCPUs"),
        ("getCPUMap", libvirt.VIR_ERR_NO_SUPPORT, "does not let vscaf show the host's CPUs"),
        ("getAllDomainStats", libvirt.VIR_ERR_NO_SUPPORT, "does not let vscaf show the host's CPUs"),
        ("getAllDomainStats", libvirt.VIR_ERR_ACCESS_DENIED, "does not let vscaf show the host's CPUs"),
    ],
)
def test_behaviour_7_a_connection_that_cannot_serve_is_refused_at_the_start(
    tmp_path: Path, loop_runner: asyncio.Runner, method: str, code: int, message: str
) -> None:
    """If it is read-only, denied by an access rule, or its driver cannot pin, one line says what to do, and nothing is
    changed."""
    uri = write_node(tmp_path, 8, TWO)
    faults = Faults()
    faults.inject(method, times=None, error=code)

    async def work() -> None:
        host = LibvirtHost(uri, 2.0, opener=faults.open)
        try:
            with pytest.raises(UsageError) as refused:
                await host.open()
        finally:
            await host.close()
        text = str(refused.value)
        assert message in text and uri in text and "set uri to" in text and "\n" not in text
        assert not any(faults.called[write] for write in WRITES)
        assert "<vcpupin" not in faults.real.lookupByName("a").XMLDesc()

    loop_runner.run(work())


def test_behaviour_7_what_the_probe_asks_changes_nothing(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        assert rig.faults.called["pinVcpu"] == 1
        assert not any(rig.faults.called[write] for write in WRITES)
        for name in TWO:
            assert "<vcpupin" not in rig.faults.real.lookupByName(name).XMLDesc()

    with_host(tmp_path, loop_runner, TWO, work)


def test_a_domain_that_hangs_does_not_keep_the_daemon_from_starting(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    uri = write_node(tmp_path, 8, TWO)
    faults = Faults()
    busy = [libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 5]
    faults.inject("controlInfo", "a", times=None, result=lambda _idle: busy)
    faults.inject("controlInfo", "b", error=libvirt.VIR_ERR_NO_DOMAIN)  # and b ends just then

    async def work() -> None:
        host = LibvirtHost(uri, 2.0, opener=faults.open)
        await host.open()
        assert faults.called["pinVcpu"] == 0
        await host.close()

    loop_runner.run(work())


@pytest.mark.parametrize("shown", [True, False])
def test_a_domain_that_is_being_saved_does_not_keep_the_daemon_from_starting(
    shown: bool, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """A pin would wait for the save, for 30 s. shown: libvirt reports the save. Else it has only just begun."""
    uri = write_node(tmp_path, 8, TWO)
    faults = Faults()
    faults.inject("listAllDomains", result=lambda listed: sorted(listed, key=lambda one: one.name()))
    if shown:
        faults.inject("jobStats", "a", result=lambda _none: SAVE)
    pinning = faults.inject("pinVcpu", "a" if shown else None, times=None, hang=True)

    async def work() -> None:
        host = LibvirtHost(uri, 1.0, opener=faults.open)
        await host.open()
        assert faults.called["pinVcpu"] == 1 and pinning.hits == (not shown)
        await host.host_cpus()
        assert len(await host.observe()) == 2
        faults.clear()
        await host.close()

    loop_runner.run(work())


def test_libvirt_that_is_not_there_is_unreachable(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    faults = Faults()
    faults.inject("open", error=libvirt.VIR_ERR_SYSTEM_ERROR)

    async def work() -> None:
        host = LibvirtHost(write_node(tmp_path, 8, TWO), 2.0, opener=faults.open)
        with pytest.raises(HypervisorUnreachable, match="check that libvirtd runs"):
            await host.open()
        await host.close()

    loop_runner.run(work())


def test_behaviour_20_no_channel_is_told_apart_from_a_silent_one(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    channel = (
        "<channel type='unix'><source mode='bind' path='/run/a.agent'/>"
        "<target type='virtio' name='org.vscaf.agent.0'/></channel></devices>"
    )

    async def work(rig: Rig) -> None:
        rig.faults.inject("XMLDesc", "a", times=None, result=lambda xml: xml.replace("</devices>", channel))
        a, b = await rig.host.observe()
        assert (a.agent_socket, b.agent_socket) == ("/run/a.agent", None)

    with_host(tmp_path, loop_runner, TWO, work)


def test_behaviour_32_what_happens_to_a_domain_is_told(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """Start, pause, crash, end, rename and new metadata each cause a look, and that look sees the change."""

    async def work(rig: Rig) -> None:
        await rig.host.observe()
        domain = rig.faults.real.lookupByName("a")
        steps = [
            (domain.suspend, "a", RunState.PAUSED),
            (domain.resume, "a", RunState.RUNNING),
            (lambda: domain.coreDump(str(tmp_path / "core"), libvirt.VIR_DUMP_CRASH), "a", None),
            (domain.create, "a", RunState.RUNNING),
            (domain.destroy, "a", None),
            (lambda: domain.rename("c"), "c", None),
            (lambda: rig.faults.real.lookupByName("c").create(), "c", RunState.RUNNING),
        ]
        for step, name, state in steps:
            changes = rig.changes
            step()
            await rig.until(lambda changes=changes: _more(rig, changes))
            assert {one.name: one.state for one in await rig.host.observe()}.get(name) == state, (name, state)
        assert {one.name for one in await rig.host.observe()} == {"b", "c"}
        rig.faults.inject(
            "getAllDomainStats",
            result=lambda rows: [(one, {"state.state": libvirt.VIR_DOMAIN_CRASHED}) for one, _fields in rows],
        )
        assert {one.state for one in await rig.host.observe()} == {RunState.CRASHED}

    async def _more(rig: Rig, changes: int) -> bool:
        return rig.changes > changes

    with_host(tmp_path, loop_runner, TWO, work)


def test_rules_in_the_metadata_take_effect_live(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """As by `virsh metadata` they are set, changed, made invalid (the last valid ones stay, with an error) and
    removed."""

    async def work(rig: Rig) -> None:
        domain = rig.faults.real.lookupByName("a")
        assert (await rig.seen("a")).rules is None
        good, other = MetadataRules(minimum=1, maximum=3, weight=2.5, rest="keep"), MetadataRules(priority=-5)
        steps = [
            ('<partition min="1" max="3" weight="2.5" rest="keep"/>', good, False),
            ('<partition min="3" max="1"/>', good, True),
            ('<partition priority="-5"/>', other, False),
            ('<partition colour="red"/>', other, True),
            (None, None, False),
        ]
        for text, rules, wrong in steps:
            changes = rig.changes
            domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, "vscaf", NAMESPACE, LIVE)

            async def as_meant(rules: MetadataRules | None = rules, wrong: bool = wrong) -> bool:
                seen = await rig.seen("a")
                return seen.rules == rules and (seen.rules_error is not None) == wrong

            await rig.until(as_meant)
            assert rig.changes > changes
        assert (await rig.seen("b")).rules is None

    with_host(tmp_path, loop_runner, TWO, work)


def test_a_driver_that_tells_of_no_events_is_good_enough(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 8, TWO)
    faults = Faults()
    faults.inject("domainEventRegisterAny", times=None, error=libvirt.VIR_ERR_NO_SUPPORT)

    async def work() -> None:
        host = LibvirtHost(uri, 2.0, opener=faults.open)
        try:
            await host.open()
            assert len(await host.observe()) == 2
            faults.real.lookupByName("a").destroy()
            assert [one.name for one in await host.observe()] == ["b"]
        finally:
            await host.close()

    loop_runner.run(work())


def test_behaviour_33_three_domains_at_once_while_a_pcpu_goes(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """All domains are plugged, unplugged, paused and pinned at once, with more vCPUs than pCPUs. CPU 4 goes offline
    half-way."""

    async def work(rig: Rig) -> None:
        seen = await rig.host.observe()

        async def rounds(name: str, index: int) -> None:
            key = next(one.key for one in seen if one.name == name)
            domain = rig.faults.real.lookupByName(name)
            cpus = frozenset({(0, 2, 0)[index]})
            for number in range(12):
                assert (await rig.host.plug(key, 4, cpus)).vcpus == 4
                domain.suspend() if number % 2 else domain.resume()
                await rig.host.pin_emulator(key, cpus)
                await rig.host.pin_vcpus(key, dict.fromkeys(range(4), cpus))
                assert len(await rig.host.observe()) == 3
                assert (await rig.host.unplug(key, 2 + number % 2)).vcpus == 2 + number % 2
                if number == 6:
                    rig.faults.inject(
                        "getCPUMap",
                        times=None,
                        result=lambda real: (real[0], [on and cpu != 4 for cpu, on in enumerate(real[1])], real[2] - 1),
                    )

        domains = [rig.faults.real.lookupByName(name) for name in "abc"]
        for domain in domains:
            domain.suspend()
        await asyncio.gather(*(rounds(name, index) for index, name in enumerate("abc")))
        for index, one in enumerate(seen):
            settings = await rig.host.settings(one.key)
            cpus = frozenset({(0, 2, 0)[index]})
            assert set(settings.vcpu_pins.values()) == {cpus}
            assert settings.emulator_pin == cpus
            assert settings.vcpus == 3
        assert 4 not in (await rig.host.host_cpus()).online

    with_host(tmp_path, loop_runner, {"a": (2, 4), "b": (2, 4), "c": (2, 4)}, work)


def test_behaviour_34_a_snapshot_reverted_puts_counts_and_pins_back(
    tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    """After the revert nothing that was known of the domain counts. Everything is read again."""

    async def work(rig: Rig) -> None:
        a = await rig.seen("a")
        domain = rig.faults.real.lookupByName("a")
        await rig.host.pin_vcpus(a.key, {0: frozenset({0})})
        snapshot = domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
        await rig.host.plug(a.key, 4, frozenset({2}))
        await rig.host.pin_vcpus(a.key, {0: frozenset({2})})
        changes = rig.changes
        domain.revertToSnapshot(snapshot)
        await rig.until(lambda: _more(rig, changes))
        reverted = await rig.seen("a")
        assert (reverted.vcpus, reverted.vcpus_maximum) == (2, 4)
        assert set((await rig.host.settings(reverted.key)).vcpu_pins) == {0, 1}
        assert (await rig.host.settings(reverted.key)).vcpu_pins[0] == frozenset({0})
        assert (await rig.host.plug(reverted.key, 3, frozenset({4}))).vcpus == 3

    async def _more(rig: Rig, changes: int) -> bool:
        return rig.changes > changes

    with_host(tmp_path, loop_runner, TWO, work)


def test_the_code_of_an_error_survives_garbage_that_is_due(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    """Freeing a virDomain resets the libvirt error of the thread that frees it."""

    def pin_a_cpu_that_is_not_there(connection: Any) -> None:
        domain, unused = connection.lookupByName("a"), [connection.lookupByName("b")]
        unused.append(unused)
        del unused
        domain.pinVcpu(99, (True,))

    async def work() -> None:
        connection = libvirt.open(write_node(tmp_path, 8, TWO))
        for _ in range(50):
            with pytest.raises(libvirt.libvirtError) as failed:
                await start(Call("pin"), lambda _call: pin_a_cpu_that_is_not_there(connection))
            assert failed.value.get_error_code() == libvirt.VIR_ERR_INVALID_ARG

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        loop_runner.run(work())
    finally:
        gc.set_threshold(*before)


def test_garbage_is_still_collected(loop_runner: asyncio.Runner) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    async def work() -> None:
        await start(Call("do nothing"), lambda _call: None)  # from here on nothing is collected between calls
        first = weakref.ref(Cycle())
        while first() is not None:
            for _ in range(1000):
                Cycle()
            await start(Call("do nothing"), lambda _call: None)

    loop_runner.run(work())
