"""Pins of vCPUs, I/O threads and the emulator: what libvirt's drivers may forget to refuse, and CPUs that are gone."""

from collections.abc import Callable, Mapping
from typing import Any

import libvirt

from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.calls import Call
from vscaf.hypervisor.libvirt.connection import UNREACHABLE
from vscaf.hypervisor.libvirt.masks import cpus_mask, mask_cpus

ENDED = {libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID}  # as far as a pin is concerned
BAD_CPUS = {libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_INVALID_ARG}  # what a pin to CPUs that are not there may say


def set_pins(
    domain: Any,
    call: Call,
    pins: Mapping[int, frozenset[int]],
    apply: Callable[[Any, int, tuple[bool, ...]], object],
) -> None:
    """Sets each of *pins* by *apply* (domain, number, mask). One that fails does not keep the others from being set.

    ValueError, and none is set, for an empty set or a CPU that the host has not; HypervisorError for a set of which no
    CPU is online; libvirtError, the first, where libvirt refuses.
    """
    width, online_map, _online = domain.connect().getCPUMap()
    online = mask_cpus(online_map)
    masks = {number: cpus_mask(cpus, width) for number, cpus in pins.items()}
    for cpus in pins.values():
        if not cpus & online:
            raise HypervisorError(
                f"domain {domain.name()}: not one of the CPUs {sorted(cpus)} is online: pin to others"
            )
    failed: libvirt.libvirtError | None = None
    for number, cpus in pins.items():
        call.proceed()
        try:
            try:
                apply(domain, number, masks[number])
            except libvirt.libvirtError as error:
                if cpus <= online or error.get_error_code() not in BAD_CPUS:
                    raise
                # The kernel may refuse a set with an offline CPU in it, such as one found before that went.
                apply(domain, number, cpus_mask(cpus & online, width))
        except libvirt.libvirtError as error:
            if error.get_error_code() in UNREACHABLE | ENDED:
                raise  # and what is left does not meet the next run of it
            failed = failed or error  # a vCPU whose thread is dead must not leave the others where they were
    if failed is not None:
        raise failed
