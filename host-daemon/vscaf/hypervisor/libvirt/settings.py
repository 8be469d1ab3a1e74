"""Reads the settings of a domain that vscaf may change, without asking its QEMU."""

from typing import Any

import libvirt

from vscaf.hypervisor.libvirt.connection import NOT_SUPPORTED
from vscaf.hypervisor.libvirt.domain_xml import parse_description
from vscaf.hypervisor.libvirt.jobs import job_ms
from vscaf.hypervisor.libvirt.listing import LIVE
from vscaf.hypervisor.libvirt.masks import mask_cpus
from vscaf.values import DomainSettings


def read_settings(domain: Any) -> DomainSettings:
    """The settings of a running domain. libvirtError as raised by libvirt; HypervisorError for unreadable XML."""
    connection = domain.connect()
    width, before_map, _online = connection.getCPUMap()
    vcpus = domain.vcpusFlags(LIVE)
    described = parse_description(domain.XMLDesc())
    listed = [mask_cpus(mask) for mask in domain.vcpuPinInfo(LIVE)]
    plugged = described.enabled or frozenset(range(vcpus))
    if plugged == frozenset(range(vcpus)):
        pins = dict(enumerate(listed[:vcpus]))
    else:  # the list above is ordered by position and lacks the last ones
        each, masks = domain.vcpus()
        pins = {one[0]: mask_cpus(mask) for one, mask in zip(each, masks, strict=True)}
    emulator_pin = mask_cpus(domain.emulatorPinInfo(LIVE))
    _width, after_map, _online = connection.getCPUMap()  # again: a pCPU may come or go while the pins are read
    everywhere = described.cpuset or frozenset(range(width))
    return DomainSettings(
        vcpus=vcpus,
        vcpu_pins=pins,
        emulator_pin=emulator_pin,
        cpu_shares=_cpu_shares(domain),
        iothread_pins={one: pin or everywhere for one, pin in described.iothread_pins.items()},
        unplugged_pins={vcpu: pin for vcpu, pin in described.vcpu_pins.items() if vcpu not in plugged},
        unpinned=everywhere,
        online=mask_cpus(before_map) & mask_cpus(after_map),
    )


def _cpu_shares(domain: Any) -> int | None:
    """The domain's cgroup CPU weight. None if there is no cgroup CPU controller for it.

    libvirtd reports an invalid operation if there is none, but also after its own restart until it has found the cgroup
    again. A job holds the domain in that time. So the error counts if it comes again after no job was seen.
    """
    for _attempt in range(2):
        try:
            return int(domain.schedulerParametersFlags(LIVE)["cpu_shares"])
        except KeyError:
            return None
        except libvirt.libvirtError as error:
            code = error.get_error_code()
            if code in NOT_SUPPORTED | {libvirt.VIR_ERR_INVALID_ARG}:
                return None
            if code != libvirt.VIR_ERR_OPERATION_INVALID or not domain.isActive() or job_ms(domain) is not None:
                raise
    return None
