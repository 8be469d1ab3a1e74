"""Whether libvirt works on a domain: a migration, a request to its QEMU, or finding it again after a restart."""

from typing import Any

import libvirt

from vscaf.hypervisor.libvirt.connection import NOT_SUPPORTED

HUNG_MS = 1000  # a short job that lasts longer hangs


def blocking_ms(domain: Any) -> int | None:
    """For how long a job has held the domain, in ms, if changes would have to wait for it long. None: they would not.

    libvirtError as raised by libvirt.
    """
    since_ms = job_ms(domain)
    if since_ms is None:
        return long_job_ms(domain)
    return since_ms if since_ms > HUNG_MS else None


def job_ms(domain: Any) -> int | None:
    """For how long a job of libvirt has held the domain, in ms. None: no job holds it, or the driver does not say.

    Does not ask QEMU and waits for nothing. A save, a dump, a snapshot or a migration shows only while it asks QEMU
    something. libvirtError as raised by libvirt.
    """
    try:
        state, _details, since_ms = domain.controlInfo()
    except libvirt.libvirtError as error:
        if error.get_error_code() in NOT_SUPPORTED:
            return None
        raise
    return None if state == libvirt.VIR_DOMAIN_CONTROL_OK else int(since_ms)


def long_job_ms(domain: Any) -> int | None:
    """For how long a job that excludes changes has run: a save, a dump, a migration. None: there is none.

    Waits while job_ms() reports a job, so it must be asked only if that reports none. It also waits while the domain is
    being started or migrated to this host, as a change would.
    """
    try:
        job = domain.jobStats()
    except libvirt.libvirtError as error:
        # libvirt reports an internal error for a job without statistics: a snapshot of disks, which is short.
        if error.get_error_code() in NOT_SUPPORTED | {libvirt.VIR_ERR_INTERNAL_ERROR}:
            return None
        raise
    if job["type"] == libvirt.VIR_DOMAIN_JOB_NONE:
        return None
    if job.get(libvirt.VIR_DOMAIN_JOB_OPERATION) == libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP:
        return None  # it allows changes
    return int(job.get(libvirt.VIR_DOMAIN_JOB_TIME_ELAPSED, 0))
