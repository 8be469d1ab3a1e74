"""Whether libvirt works on a domain: a migration, a request to its QEMU, or finding it again after a restart."""

from typing import Any

import libvirt

from vscaf.hypervisor.libvirt.connection import NOT_SUPPORTED


def job_ms(domain: Any) -> int | None:
    """For how long a job of libvirt has held the domain, in ms. None: no job holds it, or the driver does not say.

    libvirtError as raised by libvirt.
    """
    try:
        state, _details, since_ms = domain.controlInfo()
    except libvirt.libvirtError as error:
        if error.get_error_code() in NOT_SUPPORTED:
            return None
        raise
    return None if state == libvirt.VIR_DOMAIN_CONTROL_OK else int(since_ms)
