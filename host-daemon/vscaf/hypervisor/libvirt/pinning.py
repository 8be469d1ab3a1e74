"""Sets pins of vCPUs, I/O threads and the emulator. Checks what libvirt's drivers may not check, and offline CPUs."""

from collections.abc import Callable, Mapping
from typing import Any

import libvirt

from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.calls import Call
from vscaf.hypervisor.libvirt.connection import is_unreachable
from vscaf.hypervisor.libvirt.masks import cpus_mask, mask_cpus

# Errors of a pin if the domain has ended, and if a call that hangs holds its lock.
ENDED_OR_HELD = {libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_TIMEOUT}
BAD_CPUS = {libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_INVALID_ARG}  # possible errors of a pin to absent CPUs


def set_pins(
    domain: Any,
    call: Call,
    pins: Mapping[int, frozenset[int]],
    apply: Callable[[Any, int, tuple[bool, ...]], object],
) -> None:
    """Sets each of *pins* with *apply* (domain, number, mask). If one fails, the others are still set.

    ValueError for an empty set or a CPU that the host does not have, HypervisorError for a set without an online CPU:
    then no pin is set. libvirtError if libvirt refuses; the first one is raised.
    """
    width, online_map, _online = domain.connect().getCPUMap()
    online = mask_cpus(online_map)
    masks = {number: cpus_mask(cpus, width) for number, cpus in pins.items()}
    for cpus in pins.values():
        if not cpus & online:
            raise HypervisorError(f"domain {domain.name()}: none of the CPUs {sorted(cpus)} is online: pin to others")
    failed: libvirt.libvirtError | None = None
    for number, cpus in pins.items():
        call.proceed()
        try:
            try:
                apply(domain, number, masks[number])
            except libvirt.libvirtError as error:
                if cpus <= online or is_unreachable(error) or error.get_error_code() not in BAD_CPUS:
                    raise
                # The kernel may refuse a set with an offline CPU, for example a found pin whose CPU went offline since.
                apply(domain, number, cpus_mask(cpus & online, width))
        except libvirt.libvirtError as error:
            if is_unreachable(error) or error.get_error_code() in ENDED_OR_HELD:
                raise  # at once, so that the remaining pins are not set on the next run of the domain
            failed = failed or error  # one vCPU with a dead thread must not prevent the pins of the others
    if failed is not None:
        raise failed
