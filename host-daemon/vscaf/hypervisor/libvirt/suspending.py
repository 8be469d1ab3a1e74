"""Suspends and resumes a domain."""

from typing import Any

import libvirt

from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.calls import Call

RUNS = {libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED}


def suspend_domain(domain: Any, call: Call) -> bool:
    """Suspends the domain and checks that it is paused. False: it did not run. libvirtError as raised by libvirt.

    HypervisorError if the domain still runs.
    """
    if domain.state()[0] not in RUNS:
        return False
    call.proceed()
    domain.suspend()
    if domain.state()[0] in RUNS:
        raise HypervisorError(f"domain {domain.name()}: runs although it was suspended: somebody else has resumed it")
    return True


def resume_domain(domain: Any, call: Call) -> bool:
    """Resumes a domain that was paused by request, and checks that it runs. False: it is paused for another reason.

    libvirtError as raised by libvirt. HypervisorError if the domain does not run.
    """
    state, reason = domain.state()
    if state in RUNS:
        return True
    if state != libvirt.VIR_DOMAIN_PAUSED or reason not in {libvirt.VIR_DOMAIN_PAUSED_USER, *_UNKNOWN_REASONS}:
        return False
    call.proceed()
    domain.resume()
    if domain.state()[0] not in RUNS:
        raise HypervisorError(f"domain {domain.name()}: does not run although it was resumed: see `virsh domstate`")
    return True


_UNKNOWN_REASONS = {libvirt.VIR_DOMAIN_PAUSED_UNKNOWN, libvirt.VIR_DOMAIN_PAUSED_FROM_SNAPSHOT}
"""Reasons of a pause that may be a request: the driver keeps no reasons, or the domain was restored as paused."""
