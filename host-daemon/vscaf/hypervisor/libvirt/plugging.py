"""Plug and unplug of a running domain's vCPUs: the only calls that wait for its QEMU, and for its guest."""

import threading
from types import TracebackType
from typing import Any

import libvirt

from vscaf.errors import HypervisorUnreachable, NotSupported
from vscaf.hypervisor.libvirt.calls import Call
from vscaf.hypervisor.libvirt.connection import NOT_PERMITTED, NOT_SUPPORTED, UNREACHABLE
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.values import Plugged, PlugOutcome

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
SLOTS = 4  # libvirtd has 20 threads, and each of these calls may keep one for as long as a QEMU hangs

# What says nothing about the vCPUs: it goes to whoever called. Any other refusal is looked at by what has changed.
_ERRORS = {libvirt.VIR_ERR_NO_DOMAIN, *NOT_PERMITTED, *(UNREACHABLE - {libvirt.VIR_ERR_OPERATION_TIMEOUT})}
# What no later call will change: vCPUs that were present at boot, a machine type without hot-plug.
_NEVER = {*NOT_SUPPORTED, libvirt.VIR_ERR_INVALID_ARG}


class MonitorSlots:
    """Lets few calls at once wait for QEMUs. HypervisorUnreachable where too many of them do already."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(SLOTS)

    def __enter__(self) -> None:
        if not self._slots.acquire(blocking=False):
            raise HypervisorUnreachable(f"{SLOTS} plugs or unplugs are under way or hang: try again later")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots.release()


def plug_vcpus(domain: Any, call: Call, vcpus: int, mask: tuple[bool, ...] | None) -> Plugged:
    """Plugs until *vcpus* are there, the new ones pinned to *mask* before they come. libvirtError as libvirt says."""
    maximum = domain.vcpusFlags(LIVE | libvirt.VIR_DOMAIN_VCPU_MAXIMUM)
    if vcpus > maximum:
        raise NotSupported(f"domain {domain.name()}: {vcpus} vCPUs are more than its maximum of {maximum}")
    before = domain.vcpusFlags(LIVE)
    if vcpus <= before:
        return Plugged(PlugOutcome.DONE, before)
    present = _present(domain, before)
    coming = [number for number in range(maximum) if number not in present][: vcpus - before]
    pinned = set() if mask is None else {number for number in coming if _pin_absent(domain, call, number, mask)}
    words = ""
    call.proceed()
    try:
        domain.setVcpusFlags(vcpus, LIVE)
    except libvirt.libvirtError as error:
        if error.get_error_code() in _ERRORS or domain.vcpusFlags(LIVE) == before:
            raise
        words = error.get_error_message()
    now = domain.vcpusFlags(LIVE)
    if mask is not None:
        for number in _present(domain, now) - present - pinned:
            domain.pinVcpu(number, mask)
    return Plugged(PlugOutcome.DONE if now >= vcpus else PlugOutcome.PARTIAL, now, words)


def unplug_vcpus(domain: Any, call: Call, vcpus: int) -> Plugged:
    """Unplugs until *vcpus* are left, or says how far it came. ValueError for none."""
    if vcpus < 1:
        raise ValueError(f"domain {domain.name()}: a domain keeps a vCPU at least, not {vcpus}")
    before = domain.vcpusFlags(LIVE)
    if vcpus >= before:
        return Plugged(PlugOutcome.DONE, before)
    call.proceed()
    try:
        domain.setVcpusFlags(vcpus, LIVE)
    except libvirt.libvirtError as error:
        code, words = error.get_error_code(), error.get_error_message()
        if code in _ERRORS:
            raise
        now = domain.vcpusFlags(LIVE)
        if now <= vcpus:  # it was the answer that got lost
            return Plugged(PlugOutcome.DONE, now, words)
        if code == libvirt.VIR_ERR_OPERATION_TIMEOUT:
            return Plugged(PlugOutcome.LATE, now, words)
        if now < before:
            return Plugged(PlugOutcome.PARTIAL, now, words)
        if code in _NEVER:
            raise
        return Plugged(PlugOutcome.REFUSED, now, words)
    now = domain.vcpusFlags(LIVE)
    return Plugged(PlugOutcome.DONE if now <= vcpus else PlugOutcome.LATE, now)


def _present(domain: Any, vcpus: int) -> frozenset[int]:
    return parse_description(domain.XMLDesc()).enabled or frozenset(range(vcpus))


def _pin_absent(domain: Any, call: Call, number: int, mask: tuple[bool, ...]) -> bool:
    """Whether the driver takes a pin of a vCPU that is not plugged."""
    call.proceed()
    try:
        domain.pinVcpu(number, mask)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in {libvirt.VIR_ERR_INVALID_ARG, *NOT_SUPPORTED}:
            raise
        return False
    return True
