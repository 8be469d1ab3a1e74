"""Finds out at the start what a connection cannot do, with calls that change nothing."""

from typing import Any

import libvirt

from vscaf.errors import UsageError
from vscaf.hypervisor.libvirt.connection import NOT_PERMITTED, NOT_SUPPORTED
from vscaf.hypervisor.libvirt.jobs import job_ms, long_job_ms

NO_VCPU = 1_000_000  # the number of a vCPU that no domain has


def refuse_unusable(connection: Any, uri: str) -> None:
    """UsageError, one line, if *connection* may only read, or its driver lacks what vscaf needs.

    The probe uses a format that no driver knows. A connection that may write refuses it for this reason. A connection
    that may only read refuses it because it writes.
    """
    try:
        connection.domainXMLToNative("vscaf-asks-whether-it-may-write", "<domain/>", 0)
    except libvirt.libvirtError as error:
        _refuse(error, uri, "write", NOT_PERMITTED)
    try:
        connection.getCPUMap()
        connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, 0)
        connection.listDomainsID()
    except libvirt.libvirtError as error:
        _refuse(error, uri, "show the host's CPUs and what its domains do", NOT_PERMITTED | NOT_SUPPORTED)
        raise


def refuse_unable_to_pin(connection: Any, uri: str) -> None:
    """UsageError, one line, if vCPUs of an active domain may not be pinned. Not known if no domain can be asked.

    The probe uses a vCPU that no domain has. It waits if libvirt begins a job on the domain at the same time.
    """
    for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        if not _idle(domain):  # a domain that hangs would prevent the daemon from starting
            continue
        try:
            domain.pinVcpu(NO_VCPU, (True,))
        except libvirt.libvirtError as error:
            _refuse(error, uri, "pin vCPUs", NOT_PERMITTED | NOT_SUPPORTED)
        break


def _idle(domain: Any) -> bool:
    """Whether no job holds the domain. False also if the domain cannot be asked."""
    try:
        return job_ms(domain) is None and long_job_ms(domain) is None
    except libvirt.libvirtError:
        return False


def _refuse(error: libvirt.libvirtError, uri: str, operation: str, codes: set[int]) -> None:
    if error.get_error_code() in codes:
        raise UsageError(
            f"libvirt at {uri} does not let vscaf {operation} ({error.get_error_message()}): "
            "set uri to a connection and driver that allow it, such as qemu:///system as root"
        ) from error
