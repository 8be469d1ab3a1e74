"""The daemon plugs vCPUs for a guest that wants more, and unplugs them when the guest may use only a part of them.

Two guests share two cores. The first has one vCPU. It computes alone, then together with the second, then alone again.
So its partition, and with it its number of vCPUs, is all CPUs, one core, and all CPUs again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import libvirt
import msgspec

from vscaf.bench.accept.context import Context, Part
from vscaf.bench.accept.host import Host
from vscaf.bench.accept.part import Outcome, Verdict
from vscaf.cpulist import format_cpu_list, parse_cpu_list
from vscaf.lab import Guest
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.errors import LabError

CORES = 2
UNPLUG_AFTER_S = 1
POLL_S = 0.2
PLUGGED, UNPLUGGED, AGAIN = PHASES = ("plugged", "unplugged", "plugged again")
# Processes that follow each other until they are ended, because each keeps the number of threads that it was told.
PROGRAMS = "while NPB_REPEAT=10 vscaf-run cg.W; do :; done"
TCG = "without KVM QEMU never completes an unplug"


class Look(msgspec.Struct, frozen=True):
    """vcpus: by libvirt. present, online: CPUs by the guest, as the kernel lists them."""

    vcpus: int
    present: str
    online: str

    def shows(self, vcpus: int) -> bool:
        """Whether libvirt and the guest agree on this number of vCPUs, and all are online."""
        return {self.vcpus, len(parse_cpu_list(self.present)), len(parse_cpu_list(self.online))} == {vcpus}


class Phase(msgspec.Struct, frozen=True):
    """A change of the number of vCPUs. look: the last one; it shows `wanted` unless the wait was given up. status: what
    the daemon showed of the guest then; "" if the wait was not given up."""

    name: str
    wanted: int
    look: Look
    took_s: float
    status: str = ""


def judge(phases: Sequence[Phase], *, accelerated: bool) -> Verdict:
    """The verdict from the phases, in the order of PHASES, up to the first that did not come about."""
    figures = {"phases": [msgspec.to_builtins(phase) for phase in phases]}
    for phase in phases:
        if not phase.look.shows(phase.wanted):
            return Verdict(
                Outcome.FAILED,
                f"the guest should have had {phase.wanted} vCPUs ({phase.name}); after {phase.took_s:.0f} s libvirt "
                f"counted {phase.look.vcpus}, and in the guest CPUs {phase.look.present} were present and "
                f"{phase.look.online} online" + (f"; the daemon showed {phase.status}" if phase.status else ""),
                figures,
            )
    counts = " to ".join(str(phase.wanted) for phase in phases)
    if not accelerated:
        return Verdict(
            Outcome.NOT_POSSIBLE, f"{TCG}; only the plug was tried, and the guest got {counts} vCPUs", figures
        )
    if tuple(phase.name for phase in phases) != PHASES:
        missing = ", ".join(name for name in PHASES if name not in {phase.name for phase in phases})
        return Verdict(Outcome.FAILED, f"not tried: {missing}", figures)
    return Verdict(Outcome.PASSED, f"the daemon plugged, unplugged and plugged again: {counts} vCPUs", figures)


def obstacle(host: Host) -> str | None:
    """Why this host cannot show it."""
    if len(host.equal_cores(CORES)) < CORES:
        return f"two guests need {CORES} cores, and this process may use {len(host.cores)}"
    return None


def run(context: Context) -> Verdict:
    """Runs the part."""
    pool = context.host.pool(CORES)
    cpuset = format_cpu_list(pool)
    with (
        context.lab() as lab,
        Guest(lab, "grows", context.image, vcpus=1, max_vcpus=len(pool), cpuset=cpuset) as guest,
        Guest(lab, "other", context.image, vcpus=len(pool), cpuset=cpuset) as other,
        context.daemon(
            lab,
            pool,
            {guest.name: {}, other.name: {}},
            "equipartition",
            {"unplug_after_s": UNPLUG_AFTER_S},
        ) as daemon,
    ):
        context.start(guest, PROGRAMS)
        phases = [wait_for(context, daemon, guest, PLUGGED, len(pool))]
        if context.host.accelerated and phases[-1].look.shows(len(pool)):
            competitor = context.start(other, PROGRAMS)
            phases.append(wait_for(context, daemon, guest, UNPLUGGED, len(pool) // CORES))
            if phases[-1].look.shows(len(pool) // CORES):
                competitor.kill()
                phases.append(wait_for(context, daemon, guest, AGAIN, len(pool)))
    return judge(phases, accelerated=context.host.accelerated)


def wait_for(context: Context, daemon: DaemonProcess, guest: Guest, name: str, vcpus: int) -> Phase:
    """Waits until the guest has so many vCPUs, or until the time of the part is over: on a busy host it takes long."""
    context.print_line(f"waiting until the guest has {vcpus} vCPUs")
    begin_s = time.monotonic()
    while True:
        found = look(guest)
        took_s = round(time.monotonic() - begin_s, 2)
        if found.shows(vcpus):
            return Phase(name, vcpus, found, took_s)
        if not context.deadline.left_s():
            try:
                status = describe(daemon.domain(guest.name))
            except LabError as error:
                status = f"nothing: {error}"
            return Phase(name, vcpus, found, took_s, status)
        time.sleep(POLL_S)


def describe(domain: Mapping[str, Any]) -> str:
    """What a domain's part of the daemon's status says about why it has its number of vCPUs."""
    programs = ", ".join(
        f"{one['name']} ({'' if one['running'] else 'not '}running, team {one['team']}, {one['malleable']})"
        for one in domain["processes"]
    )
    return (
        f"state {domain['state']}, agent {domain['agent']}, demand {domain['demand']}, "
        f"allocation {domain['allocation']}, programs: {programs or 'none'}"
    )


def look(guest: Guest) -> Look:
    """The guest's vCPUs now."""
    present, online = guest.run("cat /sys/devices/system/cpu/present /sys/devices/system/cpu/online").text.split()
    return Look(guest.domain.vcpusFlags(libvirt.VIR_DOMAIN_AFFECT_LIVE), present, online)


PART = Part("unplug", "vCPUs are plugged, unplugged and plugged again", 150.0, obstacle, run)
