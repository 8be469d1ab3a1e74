"""The calls that change one domain's pins, weight and vCPUs."""

import logging

from vscaf.core.reconcile.state import Affinity
from vscaf.errors import NotSupported
from vscaf.hypervisor.interface import Hypervisor
from vscaf.values import DomainSeen, Plugged

log = logging.getLogger(__name__)


class Actuator:
    """Changes one domain on *host*. HypervisorError if a call fails. Changes before that call stay in force."""

    def __init__(self, host: Hypervisor) -> None:
        self._host = host
        self._unsupported_weight_logged = False

    async def apply(self, seen: DomainSeen, now: Affinity, wanted: Affinity) -> None:
        """Changes the settings *now* in force to *wanted*, only where they differ.

        The weight is set first if it grows, else last.
        """
        rises = (wanted.shares or 0) > (now.shares or 0)
        if rises:
            await self.set_weight(seen, now.shares, wanted.shares)
        pins = {vcpu: cpus for vcpu, cpus in wanted.vcpus.items() if now.vcpus.get(vcpu) != cpus}
        if pins:
            await self._host.pin_vcpus(seen.key, pins)
        if wanted.emulator != now.emulator:
            await self._host.pin_emulator(seen.key, wanted.emulator)
        threads = {thread: cpus for thread, cpus in wanted.iothreads.items() if now.iothreads.get(thread) != cpus}
        if threads:
            await self._host.pin_iothreads(seen.key, threads)
        if not rises:
            await self.set_weight(seen, now.shares, wanted.shares)

    async def set_weight(self, seen: DomainSeen, now: int | None, wanted: int | None) -> None:
        """Sets the weight if it differs. If the host cannot set weights, this is logged once and is not an error."""
        if wanted is None or now is None or wanted == now:
            return
        try:
            await self._host.set_cpu_shares(seen.key, wanted)
        except NotSupported as error:
            if not self._unsupported_weight_logged:
                self._unsupported_weight_logged = True
                log.warning(
                    "domain %s: its CPU weight cannot be set (%s): it rests at its full weight", seen.name, error
                )

    async def resize(self, seen: DomainSeen, before: int, vcpus: int, claim: frozenset[int]) -> Plugged:
        """Plugs vCPUs or asks for an unplug. New vCPUs run on *claim*. The number must be read again afterwards."""
        if vcpus > before:
            done = await self._host.plug(seen.key, vcpus, claim or None)
        else:
            done = await self._host.unplug(seen.key, vcpus)
        detail = f" ({done.message})" if done.message else ""
        log.info(
            "domain %s: vCPUs %d -> %d: %s, %d there%s", seen.name, before, vcpus, done.outcome, done.vcpus, detail
        )
        return done
