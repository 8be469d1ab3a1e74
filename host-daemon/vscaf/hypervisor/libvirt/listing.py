"""Lists all active domains, also if the QEMU of one of them hangs.

libvirt asks QEMU for the statistics of vCPUs. It does so even with NOWAIT, unless another call already waits for that
QEMU. So the call hangs if a QEMU was stopped by a signal, and with it the answers for all other domains. NOWAIT skips a
domain only once some call hangs there. libvirt knows the states, and each domain's vCPU list, without asking QEMU: it
reads them from its own data and from /proc.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import libvirt

from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.calls import Call
from vscaf.hypervisor.libvirt.connection import NOT_SUPPORTED
from vscaf.values import DomainKey, RunState

ACTIVE = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
NOWAIT = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE

RUN_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: RunState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: RunState.RUNNING,  # Xen's state for an idle domain
    libvirt.VIR_DOMAIN_PAUSED: RunState.PAUSED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: RunState.PAUSED,
    libvirt.VIR_DOMAIN_CRASHED: RunState.CRASHED,
}

BOOTED = (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED)
STARTING = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP)
PAUSED_BY_REQUEST = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER)


@dataclass(frozen=True, slots=True)
class Row:
    """The data of one domain in a listing."""

    key: DomainKey
    name: str
    state: RunState
    vcpus: int
    vcpus_maximum: int
    plugged: frozenset[int]
    vcpu_time_s: Mapping[int, float] = field(default_factory=dict)
    vcpu_delay_s: Mapping[int, float] = field(default_factory=dict)
    booted: bool = False
    started_ns: int = 0
    paused_by_request: bool = False


def list_domains(
    connection: Any, call: Call, *, ask_qemu: bool, started_ns: Callable[[str], int] = lambda name: 0
) -> tuple[Row, ...]:
    """A row for each active domain. `ask_qemu`: make one call for all domains, which hangs if any QEMU hangs.

    started_ns: returns when the run of the domain with that name began; 0: unknown.

    libvirtError if libvirt fails; HypervisorError if the listing lacks an active domain.
    """
    for _attempt in range(2):  # a domain may have started or ended between the two calls
        rows = _statistics(connection, ask_qemu=ask_qemu)
        named = {domain.ID() for domain, _fields in rows}
        left_out = set(connection.listDomainsID()) - named
        if not left_out:
            break
    else:
        raise HypervisorError(f"libvirt's listing lacks {len(left_out)} active domains: their state is unknown")
    result = []
    for domain, fields in rows:
        call.check()
        began_ns = started_ns(domain.name())
        if domain.ID() >= 0 and (row := _row(domain, fields, began_ns, one_by_one=not ask_qemu)) is not None:
            result.append(row)
    return tuple(sorted(result, key=lambda row: row.name))


def _statistics(connection: Any, *, ask_qemu: bool) -> list[tuple[Any, dict[str, Any]]]:
    kinds = libvirt.VIR_DOMAIN_STATS_STATE | (libvirt.VIR_DOMAIN_STATS_VCPU if ask_qemu else 0)
    try:
        return list(connection.getAllDomainStats(kinds, ACTIVE | NOWAIT))
    except libvirt.libvirtError as error:
        if error.get_error_code() not in NOT_SUPPORTED | {libvirt.VIR_ERR_INVALID_ARG}:
            raise
    return list(connection.getAllDomainStats(kinds, ACTIVE))


def _row(domain: Any, fields: Mapping[str, Any], began_ns: int, *, one_by_one: bool) -> Row | None:
    times, delays = _seconds(fields, ".time"), _seconds(fields, ".delay")
    if "vcpu.current" in fields:
        vcpus, maximum = int(fields["vcpu.current"]), int(fields["vcpu.maximum"])
    else:
        try:
            vcpus, maximum = domain.vcpusFlags(LIVE), domain.vcpusFlags(LIVE | libvirt.VIR_DOMAIN_VCPU_MAXIMUM)
            times = _times(domain) if one_by_one else {0: domain.info()[4] / 1e9}
        except libvirt.libvirtError as error:
            if error.get_error_code() in {libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID}:
                return None  # it has ended since
            raise
    counted = frozenset(range(vcpus))
    state = (fields.get("state.state"), fields.get("state.reason"))
    return Row(
        key=DomainKey(domain.UUIDString(), domain.ID()),
        name=domain.name(),
        state=RunState.STARTING if state == STARTING else RUN_STATES.get(state[0], RunState.OTHER),
        vcpus=vcpus,
        vcpus_maximum=maximum,
        plugged=frozenset(times) if len(times) == vcpus else counted,
        vcpu_time_s=times,
        vcpu_delay_s=delays,
        booted=state == BOOTED,
        started_ns=began_ns,
        paused_by_request=state == PAUSED_BY_REQUEST,
    )


def _seconds(fields: Mapping[str, Any], ending: str) -> dict[int, float]:
    """A statistic in nanoseconds, converted to seconds, by vCPU."""
    return {
        int(name.split(".")[1]): value / 1e9
        for name, value in fields.items()
        if name.startswith("vcpu.") and name.endswith(ending)
    }


def _times(domain: Any) -> dict[int, float]:
    """The CPU time of each plugged vCPU in seconds. Empty if it cannot be read."""
    try:
        return {number: time_ns / 1e9 for number, _state, time_ns, _cpu in domain.vcpus()[0]}
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return {}
