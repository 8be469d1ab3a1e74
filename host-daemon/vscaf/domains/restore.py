"""Puts a domain's pins and number of vCPUs back as they were found. domains/domain.py decides the order."""

import logging

from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable
from vscaf.hypervisor.interface import Hypervisor
from vscaf.values import DomainKey, DomainSeen, DomainSettings

log = logging.getLogger(__name__)


async def put_pins_back(
    host: Hypervisor, key: DomainKey, found: DomainSettings, spared: frozenset[str]
) -> DomainSettings:
    """Puts the pins of all threads back as *found*, except the *spared* parts. Returns the settings before that.

    HypervisorError if the host refuses one. Later ones are then not put back. vCPUs that are not plugged now come last.
    It is not an error if the driver refuses pins for them.
    """
    now = await host.settings(key)
    anywhere = frozenset[int]().union(*found.vcpu_pins.values())
    meant = {**found.unplugged_pins, **found.vcpu_pins}
    pins = {vcpu: meant.get(vcpu, anywhere) for vcpu in now.vcpu_pins}
    changed = {vcpu: cpus for vcpu, cpus in pins.items() if now.vcpu_pins.get(vcpu) != cpus}
    if changed and "vcpus" not in spared:
        await host.pin_vcpus(key, changed)
    if now.emulator_pin != found.emulator_pin and "emulator" not in spared:
        await host.pin_emulator(key, found.emulator_pin)
    threads = {
        thread: cpus
        for thread, cpus in found.iothread_pins.items()
        if thread in now.iothread_pins and now.iothread_pins[thread] != cpus
    }
    if threads and "iothreads" not in spared:
        await host.pin_iothreads(key, threads)
    absent = {vcpu: meant.get(vcpu, now.unpinned or anywhere) for vcpu in now.unplugged_pins}
    absent = {vcpu: cpus for vcpu, cpus in absent.items() if now.unplugged_pins[vcpu] != cpus}
    if absent and "vcpus" not in spared:
        try:
            await host.pin_vcpus(key, absent)
        except (DomainGone, HypervisorUnreachable):
            raise
        except HypervisorError as error:
            log.warning("domain %s: pins of vCPUs that are not plugged stay: %s", key.uuid, error)
    return now


async def unplug_again(host: Hypervisor, seen: DomainSeen, now: int, found: int) -> None:
    """Unplugs the vCPUs that vscaf plugged, if that works. If not, this is logged and is not an error.

    DomainGone if the domain has ended. HypervisorUnreachable if there was no answer: it may work later.
    """
    if not seen.accelerated:
        log.warning(
            "domain %s: keeps %d vCPUs instead of the %d that were found: without KVM an unplug never completes",
            seen.name,
            now,
            found,
        )
        return
    try:
        done = await host.unplug(seen.key, found)
        if done.vcpus > found:
            log.warning("domain %s: has %d vCPUs, %d were found: %s", seen.name, done.vcpus, found, done.message)
    except (DomainGone, HypervisorUnreachable):
        raise
    except HypervisorError as error:
        log.warning("domain %s: keeps %d vCPUs instead of the %d that were found: %s", seen.name, now, found, error)
