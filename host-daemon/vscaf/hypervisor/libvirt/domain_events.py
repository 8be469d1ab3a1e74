"""libvirt's domain events, sorted by their meaning for vscaf."""

import logging
from collections.abc import Callable
from typing import Any

import libvirt

from vscaf.hypervisor.libvirt.connection import NOT_SUPPORTED
from vscaf.values import DomainKey

log = logging.getLogger(__name__)


def register_domain_events(
    connection: Any, on_changed: Callable[[DomainKey], None], on_tuned: Callable[[DomainKey], None]
) -> bool:
    """Registers callbacks for all domains, called in the thread of libvirt's event loop.

    False: the driver lacks some events.

    on_changed: the domain started, ended, or its state, name, devices or metadata changed. on_tuned: its pins, its
    weight or its number of vCPUs changed.
    """

    def changed(_connection: Any, domain: Any, *_details: Any) -> None:
        on_changed(_key(domain))

    def tuned(_connection: Any, domain: Any, *_details: Any) -> None:
        on_tuned(_key(domain))

    def device(_connection: Any, domain: Any, alias: str, *_details: Any) -> None:
        on_changed(_key(domain))
        if alias.startswith("vcpu"):
            on_tuned(_key(domain))

    kinds: dict[int, Callable[..., None]] = {
        libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: changed,  # includes reverted snapshots, migrations and renames
        libvirt.VIR_DOMAIN_EVENT_ID_REBOOT: changed,
        libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE: tuned,
        libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE: changed,
        libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE: changed,
        libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED: device,
        libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED: device,
        libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED: device,
        libvirt.VIR_DOMAIN_EVENT_ID_JOB_COMPLETED: changed,
    }
    complete = True
    for kind, callback in kinds.items():
        try:
            connection.domainEventRegisterAny(None, kind, callback, None)
        except libvirt.libvirtError as error:
            if error.get_error_code() not in NOT_SUPPORTED | {libvirt.VIR_ERR_INVALID_ARG}:
                raise
            complete = False
            log.info("libvirt has no events of kind %d here: vscaf polls for these changes instead", kind)
    return complete


def _key(domain: Any) -> DomainKey:
    return DomainKey(domain.UUIDString(), domain.ID())
