"""Stopping all vCPUs of a domain, and letting it run again."""

from typing import Any

import libvirt

from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.calls import Call

RUNS = {libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED}


def suspend_domain(domain: Any, call: Call) -> bool:
    """Suspends, and sees that the domain is paused. False: it did not run. libvirtError as libvirt says."""
    if domain.state()[0] not in RUNS:
        return False
    call.proceed()
    domain.suspend()
    if domain.state()[0] in RUNS:
        raise HypervisorError(f"domain {domain.name()}: runs although it was suspended: somebody else resumed it")
    return True


def resume_domain(domain: Any, call: Call) -> bool:
    """Resumes what was paused by request, and sees that the domain runs. False: it is paused for another reason.

    libvirtError as libvirt says.
    """
    state, reason = domain.state()
    if state in RUNS:
        return True
    if state != libvirt.VIR_DOMAIN_PAUSED or reason not in {libvirt.VIR_DOMAIN_PAUSED_USER, *_UNTOLD}:
        return False
    call.proceed()
    domain.resume()
    if domain.state()[0] not in RUNS:
        raise HypervisorError(f"domain {domain.name()}: does not run although it was resumed: see `virsh domstate`")
    return True


_UNTOLD = {libvirt.VIR_DOMAIN_PAUSED_UNKNOWN, libvirt.VIR_DOMAIN_PAUSED_FROM_SNAPSHOT}
"""What a driver says that keeps no reasons, and what it says of a domain that was restored as it was saved: paused."""
