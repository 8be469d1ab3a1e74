"""The fault layer knows every libvirt method that vscaf calls, and LibvirtHost makes each of these calls."""

import ast
import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import libvirt
import pytest
import vscaf.doctor
import vscaf.hypervisor
import vscaf.prepare
from vscaf.errors import HypervisorError

from .faults import CONNECTION_METHODS, DOMAIN_METHODS, Faults
from .hosts import Rig, with_host
from .node import write_node

LIBVIRT_METHODS = {name for kind in (libvirt.virConnect, libvirt.virDomain) for name in vars(kind) if name[0] != "_"}
# Methods of vscaf or Python that have the same name as a method of libvirt.
OTHERS = {"lock", "metadata"}
# Used by vscaf without the layer's counters, because it only returns a domain's connection and calls nothing.
NO_CALLS = {"connect"}


def called_by(package: ModuleType) -> set[str]:
    """The methods of libvirt's connections and domains whose names the code of a package uses."""
    assert package.__file__ is not None
    names: set[str] = set()
    for path in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in LIBVIRT_METHODS:
                names.add(node.attr)
    return names - OTHERS


def test_the_layer_knows_what_vscaf_calls_and_no_more() -> None:
    packages = (vscaf.hypervisor, vscaf.doctor, vscaf.prepare)
    assert set().union(*map(called_by, packages)) == CONNECTION_METHODS | DOMAIN_METHODS


def test_every_call_is_made_over_the_layer(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    used: set[str] = set()

    async def work(rig: Rig) -> None:
        await rig.host.host_cpus()
        await rig.host.defined("a")
        (a,) = await rig.host.observe()
        rig.faults.inject("getAllDomainStats", hang=True)
        await rig.host.observe()  # with the listing that asks no QEMU
        everywhere = (await rig.host.settings(a.key)).vcpu_pins[0]
        await rig.host.pin_vcpus(a.key, {0: everywhere})
        await rig.host.pin_emulator(a.key, everywhere)
        for refused in (rig.host.pin_iothreads(a.key, {1: everywhere}), rig.host.set_cpu_shares(a.key, 512)):
            with pytest.raises(HypervisorError):  # this driver has neither
                await refused
        rig.faults.inject("pinVcpu", "a", error=libvirt.VIR_ERR_OPERATION_INVALID)
        with pytest.raises(HypervisorError):
            await rig.host.pin_vcpus(a.key, {0: everywhere})
        rig.faults.inject("schedulerParametersFlags", "a", times=2, error=libvirt.VIR_ERR_OPERATION_INVALID)
        await rig.host.settings(a.key)  # asks whether the domain is active, and for a job
        await rig.host.plug(a.key, 2)
        await rig.host.unplug(a.key, 1)
        assert await rig.host.suspend(a.key) and await rig.host.resume(a.key)
        rig.faults.clear()
        await rig.host.close()
        used.update(name for name, count in rig.faults.called.items() if count)

    with_host(tmp_path, loop_runner, {"a": (1, 2)}, work)
    assert called_by(vscaf.hypervisor) - used - NO_CALLS == set()


def test_faults_befall_whom_they_are_meant_for(tmp_path: Path) -> None:
    """By domain, by count, acting or not. Methods that the layer does not know are refused."""
    faults = Faults()
    connection = faults.open(write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)}))
    a, b = connection.lookupByName("a"), connection.lookupByName("b")
    fault = faults.inject("pinVcpu", "a", skip=1, times=2, error=libvirt.VIR_ERR_RPC)
    outcomes = []
    for _try in range(4):
        b.pinVcpu(0, (True,))
        try:
            outcomes.append(a.pinVcpu(0, (True,)))
        except libvirt.libvirtError as error:
            outcomes.append(error.get_error_code())
    assert outcomes == [0, libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_RPC, 0]
    assert fault.hits == 2
    for acts, mask in ((False, (True,) * 4), (True, (True, False, False, False))):
        a.pinVcpu(0, (True,) * 4)
        faults.inject("pinVcpu", acts=acts, error=libvirt.VIR_ERR_RPC)
        with pytest.raises(libvirt.libvirtError):
            a.pinVcpu(0, (True, False, False, False))
        assert a.vcpuPinInfo(0)[0][:4] == mask
    with pytest.raises(AttributeError, match=r"does not know virDomain\.reset"):
        a.reset()
    with pytest.raises(AttributeError, match=r"does not know virConnect\.getInfo"):
        connection.getInfo()
    with pytest.raises(ValueError, match="no method"):
        faults.inject("pinvcpu")


def test_what_hangs_on_a_domain_that_ends_is_not_made_on_its_next_run(tmp_path: Path) -> None:
    faults = Faults()
    connection = faults.open(write_node(tmp_path, 4, {"a": (1, 1)}))
    before = connection.lookupByName("a")
    hung = faults.inject("pinVcpu", "a", hang=True)
    with ThreadPoolExecutor() as threads:
        late = threads.submit(before.pinVcpu, 0, (True, False, False, False))
        faults.real.lookupByName("a").destroy()
        faults.real.lookupByName("a").create()
        hung.release()
        with pytest.raises(libvirt.libvirtError, match="not running"):
            late.result()
    assert connection.lookupByName("a").vcpuPinInfo(0)[0][:4] == (True,) * 4
