"""Plugs and unplugs vCPUs of a running domain: the only calls that wait for its QEMU and for its guest."""

import threading
from types import TracebackType
from typing import Any

import libvirt

from vscaf.errors import HypervisorUnreachable, NotSupported
from vscaf.hypervisor.libvirt.calls import Call
from vscaf.hypervisor.libvirt.connection import NOT_PERMITTED, NOT_SUPPORTED, is_unreachable
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.values import Plugged, PlugOutcome

LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
SLOTS = 4  # libvirtd has 20 threads, and each of these calls may occupy one for as long as a QEMU hangs

# Refusals that later calls will get again: vCPUs that were present at boot, a machine type without hot-plug.
_NEVER = {*NOT_SUPPORTED, libvirt.VIR_ERR_INVALID_ARG}


class MonitorSlots:
    """Limits how many calls wait for QEMUs at once. HypervisorUnreachable if SLOTS calls wait already."""

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
    """Plugs until *vcpus* are plugged. New vCPUs are pinned to *mask*, before the plug if the driver allows it.

    NotSupported above the domain's maximum. libvirtError as raised by libvirt.
    """
    maximum = domain.vcpusFlags(LIVE | libvirt.VIR_DOMAIN_VCPU_MAXIMUM)
    if vcpus > maximum:
        raise NotSupported(f"domain {domain.name()}: {vcpus} vCPUs are more than its maximum of {maximum}")
    before = domain.vcpusFlags(LIVE)
    if vcpus <= before:
        return Plugged(PlugOutcome.DONE, before)
    present = _present(domain, before)
    coming = [number for number in range(maximum) if number not in present][: vcpus - before]
    pinned = set() if mask is None else {number for number in coming if _pin_absent(domain, call, number, mask)}
    message = ""
    call.proceed()
    try:
        domain.setVcpusFlags(vcpus, LIVE)
    except libvirt.libvirtError as error:
        if _is_not_about_vcpus(error) or domain.vcpusFlags(LIVE) == before:
            raise
        message = error.get_error_message()
    now = domain.vcpusFlags(LIVE)
    if mask is not None:
        for number in _present(domain, now) - present - pinned:
            domain.pinVcpu(number, mask)
    return Plugged(PlugOutcome.DONE if now >= vcpus else PlugOutcome.PARTIAL, now, message)


def unplug_vcpus(domain: Any, call: Call, vcpus: int) -> Plugged:
    """Unplugs until *vcpus* are left, or returns how far it came. ValueError if *vcpus* is below 1."""
    if vcpus < 1:
        raise ValueError(f"domain {domain.name()}: a domain keeps at least one vCPU, not {vcpus}")
    before = domain.vcpusFlags(LIVE)
    if vcpus >= before:
        return Plugged(PlugOutcome.DONE, before)
    call.proceed()
    try:
        domain.setVcpusFlags(vcpus, LIVE)
    except libvirt.libvirtError as error:
        code, message = error.get_error_code(), error.get_error_message()
        if _is_not_about_vcpus(error):
            raise
        now = domain.vcpusFlags(LIVE)
        if now <= vcpus:  # the unplug succeeded, only its answer was lost
            return Plugged(PlugOutcome.DONE, now, message)
        if code == libvirt.VIR_ERR_OPERATION_TIMEOUT:
            return Plugged(PlugOutcome.LATE, now, message)
        if now < before:
            return Plugged(PlugOutcome.PARTIAL, now, message)
        if code in _NEVER:
            raise
        return Plugged(PlugOutcome.REFUSED, now, message)
    now = domain.vcpusFlags(LIVE)
    return Plugged(PlugOutcome.DONE if now <= vcpus else PlugOutcome.LATE, now)


def _is_not_about_vcpus(error: libvirt.libvirtError) -> bool:
    """Such errors are raised. After any other error, the new number of vCPUs decides."""
    return is_unreachable(error) or error.get_error_code() in {libvirt.VIR_ERR_NO_DOMAIN, *NOT_PERMITTED}


def _present(domain: Any, vcpus: int) -> frozenset[int]:
    return parse_description(domain.XMLDesc()).enabled or frozenset(range(vcpus))


def _pin_absent(domain: Any, call: Call, number: int, mask: tuple[bool, ...]) -> bool:
    """Pins a vCPU that is not plugged. False: the driver does not accept this."""
    call.proceed()
    try:
        domain.pinVcpu(number, mask)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in {libvirt.VIR_ERR_INVALID_ARG, *NOT_SUPPORTED}:
            raise
        return False
    return True
